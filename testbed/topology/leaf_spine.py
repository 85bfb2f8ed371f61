"""Two tiers: every leaf joined to every spine, hosts on the leaves."""

from collections.abc import Mapping
from typing import Any

from testbed.topology.graph import Graph, GraphBuilder, LinkParameters
from testbed.topology.parameters import Topology, integer


def build(parameters: Mapping[str, Any], default: LinkParameters) -> Graph:
    """A leaf's ports: its hosts from 1, then the spines in order."""
    spines = integer(parameters, "spines", 1, 256)
    leaves = integer(parameters, "leaves", 1, 256)
    hosts = integer(parameters, "hosts", 1, 1024)
    net = GraphBuilder("leaf-spine", default)
    for host in range(leaves * hosts):
        net.host(f"h{host}")
    for leaf in range(leaves):
        net.switch(f"leaf{leaf}", tier="leaf")
    for spine in range(spines):
        net.switch(f"spine{spine}", tier="spine")
    for leaf in range(leaves):
        for host in range(hosts):
            net.cable(f"h{leaf * hosts + host}", f"leaf{leaf}")
        for spine in range(spines):
            net.cable(f"leaf{leaf}", f"spine{spine}")
    return net.graph()


TOPOLOGY = Topology(
    "two tiers: every leaf joined to every spine",
    {"spines": "spine switches", "leaves": "leaf switches", "hosts": "hosts of each leaf"},
    build,
)
