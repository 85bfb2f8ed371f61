"""A ring of switches, one host on each."""

from collections.abc import Mapping
from typing import Any

from testbed.topology.graph import Graph, GraphBuilder, LinkParameters
from testbed.topology.parameters import Topology, integer


def build(parameters: Mapping[str, Any], default: LinkParameters) -> Graph:
    """Switch s<i> has host h<i> and is joined to s<i+1>, the last to s0."""
    hosts = integer(parameters, "hosts", 3, 1024)
    net = GraphBuilder("ring", default)
    for i in range(hosts):
        net.host(f"h{i}")
    for i in range(hosts):
        net.switch(f"s{i}")
    for i in range(hosts):
        net.cable(f"h{i}", f"s{i}")
    for i in range(hosts):
        net.cable(f"s{i}", f"s{(i + 1) % hosts}")
    return net.graph()


TOPOLOGY = Topology("a ring of switches, one host on each", {"hosts": "how many"}, build)
