"""Which links a packet may cross from host to host, found by walking the plan's entries as a switch would.

A *stage* is the set of links that the packets may cross as their n-th: one link where there is no choice, several under
ECMP or spraying. The walk proves on the way that nothing loops or ends elsewhere (RoutingError).
"""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from testbed.errors import TestbedError
from testbed.plan.model import Address, Alternate, SwitchPlan
from testbed.routing.lookup import Lookup
from testbed.topology.graph import Graph, Link

Stages: TypeAlias = tuple[tuple[int, ...], ...]


class RoutingError(TestbedError):
    """The entries loop, or lead elsewhere."""


class UnreachableError(RoutingError):
    """The entries say on purpose that a destination cannot be reached (no ports)."""


class Paths:
    """The walks over one set of entries; `alternate` is what is installed while its cables are down."""

    def __init__(
        self,
        graph: Graph,
        addresses: Mapping[str, Address],
        switches: Mapping[str, SwitchPlan],
        alternate: Alternate | None = None,
    ) -> None:
        self._graph = graph
        self._ip = {host: int(ipaddress.IPv4Address(address.ip)) for host, address in addresses.items()}
        self._tables = {
            name: Lookup((*plan.entries, *(alternate.entries.get(name, ()) if alternate else ())))
            for name, plan in switches.items()
        }
        self._links = {(link.source, link.source_port): link for link in graph.links}
        self._between: dict[tuple[str, str], Stages] = {}  # by edge switches
        self._hops: dict[tuple[str, str], list[Link]] = {}  # by switch and edge switch
        # The links from some switches towards an edge switch, and where they lead; the walks of a pod share most.
        self._stage: dict[tuple[frozenset[str], str], tuple[tuple[int, ...], frozenset[str]]] = {}

    def stages(self, source: str, target: str) -> Stages:
        """The links from one host to another, stage by stage (indices, ascending); none from a host to itself."""
        if source == target:
            return ()
        first, last = self._graph.links_from(source)[0], self._graph.reverse(self._graph.links_from(target)[0])
        key = first.target, last.source
        if key not in self._between:
            self._between[key] = self._walk(first.target, last.source, target)
        return ((first.index,), *self._between[key], (last.index,))

    def _walk(self, start: str, edge: str, target: str) -> Stages:
        """Between two edge switches; hosts of the same two share it, since entries are by subnet."""
        stages: list[tuple[int, ...]] = []
        here = frozenset({start})
        while here != {edge}:
            if edge in here or len(stages) >= len(self._tables):
                raise RoutingError(f"the routes from {start} to {target} loop or differ in length at {sorted(here)}")
            if (here, edge) not in self._stage:
                links = [link for switch in here for link in self._toward(switch, edge, target)]
                stage = tuple(sorted(link.index for link in links))
                self._stage[here, edge] = stage, frozenset(link.target for link in links)
            stage, here = self._stage[here, edge]
            stages.append(stage)
        if [link.target for link in self._next(edge, target)] != [target]:
            raise RoutingError(f"{edge} does not hand packets for {target} to it")
        return tuple(stages)

    def _toward(self, switch: str, edge: str, target: str) -> list[Link]:
        key = switch, edge
        if key not in self._hops:
            self._hops[key] = self._next(switch, target)
        return self._hops[key]

    def _next(self, switch: str, target: str) -> list[Link]:
        table = self._tables.get(switch)
        if table is None:
            raise RoutingError(f"packets for {target} end at {switch}, which is no switch")
        entry = table.of(self._ip[target])
        if entry is None:
            raise RoutingError(f"{switch} has no entry for {target}")
        if not entry.ports:
            raise UnreachableError(f"{switch} cannot reach {target}")
        return [self._links[switch, port] for port in entry.ports]


@dataclass(frozen=True, slots=True)
class RankPaths:
    """The paths between ranks that are placed on hosts."""

    graph: Graph
    paths: Paths
    placement: Sequence[str]

    def stages(self, source: int, target: int) -> Stages:
        """From one rank to another."""
        return self.paths.stages(self.placement[source], self.placement[target])
