"""A topology of one's own: a hypercube of switches with a host on each. In a spec: `kind: topology.py:HYPERCUBE`."""

from collections.abc import Mapping
from typing import Any

from testbed.topology.graph import Graph, GraphBuilder, LinkParameters
from testbed.topology.parameters import Topology, integer


def build(parameters: Mapping[str, Any], default: LinkParameters) -> Graph:
    """Switch s<i> is joined to those whose number differs from i in one bit; host h<i> hangs on it."""
    dims = integer(parameters, "dims", 1, 6)
    net = GraphBuilder("hypercube", default)
    for i in range(1 << dims):
        net.cable(net.switch(f"s{i}"), net.host(f"h{i}"))
    for i in range(1 << dims):
        for bit in range(dims):
            if i < (j := i ^ 1 << bit):
                net.cable(f"s{i}", f"s{j}")
    return net.graph()


HYPERCUBE = Topology("a hypercube of switches, one host on each", {"dims": "how many dimensions"}, build)
