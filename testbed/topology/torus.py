"""A torus of any number of dimensions: a grid of switches that wraps around, one host on each."""

import itertools
import math
from collections.abc import Mapping
from typing import Any

from testbed.topology.graph import Graph, GraphBuilder, LinkParameters
from testbed.topology.parameters import Topology, TopologyError

MAX_HOSTS = 1024


def build(parameters: Mapping[str, Any], default: LinkParameters) -> Graph:
    """Switch s<i> has host h<i>; i counts the grid's points with the last dimension fastest.

    Along a dimension of 2 both ways round lead to the same neighbour, so one cable joins them.
    """
    dims = _dims(parameters["dims"])
    net = GraphBuilder("torus", default)
    points = list(itertools.product(*(range(size) for size in dims)))
    number = {point: i for i, point in enumerate(points)}
    for i in range(len(points)):
        net.host(f"h{i}")
    for i in range(len(points)):
        net.switch(f"s{i}")
    for i in range(len(points)):
        net.cable(f"h{i}", f"s{i}")
    for i, point in enumerate(points):
        for axis, size in enumerate(dims):
            if size > 2 or point[axis] == 0:
                neighbour = (*point[:axis], (point[axis] + 1) % size, *point[axis + 1 :])
                net.cable(f"s{i}", f"s{number[neighbour]}")
    return net.graph()


def _dims(value: Any) -> list[int]:
    if not isinstance(value, list | tuple) or not value or not all(type(size) is int and size >= 2 for size in value):
        raise TopologyError("dims", f"dims is {value!r}", hint="a list of sizes of at least 2, e.g. dims: [4, 4]")
    if math.prod(value) > MAX_HOSTS:
        raise TopologyError(
            "dims", f"dims is {value!r}, which makes {math.prod(value)} hosts", hint=f"up to {MAX_HOSTS}"
        )
    return list(value)


TOPOLOGY = Topology(
    "a grid of switches that wraps around, one host on each", {"dims": "the size along each dimension"}, build
)
