"""One switch with all hosts on it."""

from collections.abc import Mapping
from typing import Any

from testbed.topology.graph import Graph, GraphBuilder, LinkParameters
from testbed.topology.parameters import Topology, integer


def build(parameters: Mapping[str, Any], default: LinkParameters) -> Graph:
    """Host h<i> is on port i + 1 of s0."""
    net = GraphBuilder("star", default)
    hosts = [net.host(f"h{i}") for i in range(integer(parameters, "hosts", 1, 65_536))]
    net.switch("s0")
    for host in hosts:
        net.cable(host, "s0")
    return net.graph()


TOPOLOGY = Topology("one switch with all hosts on it", {"hosts": "how many"}, build)
