"""The k-ary fat-tree of Al-Fares, Loukissas and Vahdat (SIGCOMM 2008): k pods of k/2 edge and k/2 aggregation switches.

It has (k/2)^2 cores, k^3/4 hosts and 3k^3/4 cables. Core `c<i>` joins `a<pod>_<i div k/2>` of every pod.
"""

from collections.abc import Mapping
from typing import Any

from testbed.topology.graph import Graph, GraphBuilder, LinkParameters
from testbed.topology.parameters import Topology, TopologyError, integer

MAX_K = 128  # ports of the largest switch; a pod and a host still fit one octet of an address each


def build(parameters: Mapping[str, Any], default: LinkParameters) -> Graph:
    """Ports count from 1: an edge switch's hosts, then its aggregation switches; these: edges, then cores."""
    k = integer(parameters, "k", 2, MAX_K)
    if k % 2:
        raise TopologyError("k", f"k is {k}; a fat-tree's k is even", hint=f"k: {k - 1} or k: {k + 1}")
    half = k // 2
    tree = GraphBuilder("fat-tree", default)
    for host in range(k * half * half):
        tree.host(f"h{host}", pod=host // (half * half))
    for pod in range(k):
        for i in range(half):
            tree.switch(f"e{pod}_{i}", tier="edge", pod=pod)
        for i in range(half):
            tree.switch(f"a{pod}_{i}", tier="aggregation", pod=pod)
    for core in range(half * half):
        tree.switch(f"c{core}", tier="core")
    for pod in range(k):
        for edge in range(half):
            for host in range(half):
                tree.cable(f"h{(pod * half + edge) * half + host}", f"e{pod}_{edge}")
        for edge in range(half):
            for aggregation in range(half):
                tree.cable(f"e{pod}_{edge}", f"a{pod}_{aggregation}")
        for core in range(half * half):
            tree.cable(f"a{pod}_{core // half}", f"c{core}")
    return tree.graph()


TOPOLOGY = Topology(
    "k-ary fat-tree: k pods, k^3/4 hosts, full bisection, (k/2)^2 paths between pods",
    {"k": "ports of every switch, even"},
    build,
)
