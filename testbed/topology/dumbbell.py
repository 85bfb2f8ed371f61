"""Two switches joined by one cable, hosts on both: the shared bottleneck of congestion studies."""

from collections.abc import Mapping
from typing import Any

from testbed.topology.graph import Graph, GraphBuilder, LinkParameters
from testbed.topology.parameters import Topology, integer


def build(parameters: Mapping[str, Any], default: LinkParameters) -> Graph:
    """Hosts h0 ... h<left-1> are on s0, the others on s1; the cable between the switches is each one's last port."""
    left, right = integer(parameters, "left", 1, 2048), integer(parameters, "right", 1, 2048)
    net = GraphBuilder("dumbbell", default)
    hosts = [net.host(f"h{i}") for i in range(left + right)]
    net.switch("s0")
    net.switch("s1")
    for i, host in enumerate(hosts):
        net.cable(host, "s0" if i < left else "s1")
    net.cable("s0", "s1")
    return net.graph()


TOPOLOGY = Topology(
    "two switches joined by one cable, hosts on both",
    {"left": "hosts on s0", "right": "hosts on s1"},
    build,
)
