"""A switch as a sceptic would write it: tries all entries, follows every branch, and remembers where it was."""

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import networkx as nx

from testbed.routing import Addressing, Alternate, Router, SwitchPlan, assign
from testbed.routing.model import RoutingKind
from testbed.spec.model import TopologySpec
from testbed.topology import build
from testbed.topology.graph import Graph, Link


@dataclass(frozen=True)
class Net:
    """A graph with its addresses, its router and what that made."""

    graph: Graph
    addressing: Addressing
    router: Router
    switches: Mapping[str, SwitchPlan]


def routed(kind: str, routing: RoutingKind = "ecmp", seed: int = 1, **parameters: Any) -> Net:
    graph = build(TopologySpec(kind=kind, **parameters))
    addressing = assign(graph)
    router = Router(graph, addressing, routing, seed)
    return Net(graph, addressing, router, router.switches())


class Tables:
    """All switches' entries, an alternate's in place; finds what leaves a switch for a host by trying every entry."""

    def __init__(self, net: Net, alternate: Alternate | None = None) -> None:
        changed = alternate.entries if alternate else {}
        self._entries = {
            name: [
                (ipaddress.ip_network(prefix), entry)
                for prefix, entry in {e.prefix: e for e in (*plan.entries, *changed.get(name, ()))}.items()
            ]
            for name, plan in net.switches.items()
        }
        self._addresses = {host: ipaddress.ip_address(ip) for host, ip in net.addressing.hosts.items()}
        self._links = {(k.source, k.source_port): k for k in net.graph.links}

    def next(self, switch: str, target: str) -> list[Link]:
        """The links by which `switch` may send a packet for `target` on; none: it drops it."""
        address = self._addresses[target]
        matching = [(network.prefixlen, e) for network, e in self._entries[switch] if address in network]
        return [self._links[switch, port] for port in max(matching, key=itemgetter(0))[1].ports]


def walks(net: Net, tables: Tables, source: str, target: str) -> Iterator[list[int]]:
    """The cables of every way from host to host."""
    first = net.graph.links_from(source)[0]
    pending = [(first.target, [first.cable])]
    while pending:
        here, cables = pending.pop()
        for link in tables.next(here, target):
            if link.target == target:
                yield [*cables, link.cable]
            else:
                pending.append((link.target, [*cables, link.cable]))


def check_all(net: Net, alternate: Alternate | None = None) -> None:
    """From every switch each choice for each host is one hop nearer over a living cable, or there is none and no way.

    So whichever way a packet takes, it cannot loop, and it arrives after the fewest possible hops.
    """
    down = set(alternate.cables) if alternate else set()
    left: nx.Graph[str] = nx.Graph()
    left.add_nodes_from(net.graph.nodes)
    left.add_edges_from((k.source, k.target) for k in net.graph.links if k.cable not in down)
    tables = Tables(net, alternate)
    for target in net.graph.hosts:
        distance = nx.single_source_shortest_path_length(left, target)
        for switch in net.graph.switches:
            links = tables.next(switch, target)
            assert bool(links) == (switch in distance), f"{switch} for {target}"
            for link in links:
                assert link.cable not in down, f"{switch} sends packets for {target} over a dead cable"
                assert distance[link.target] == distance[switch] - 1, f"{switch} for {target}: {link.name}"
