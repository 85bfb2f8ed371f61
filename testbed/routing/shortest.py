"""Shortest paths by hops between switches, and what becomes of them when cables are down.

Every switch sends a packet to a neighbour that is one hop nearer to the destination's edge switch. Since the distance
falls with each hop, whichever of the equal choices is taken, no packet can loop.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator

from testbed.topology.graph import Graph

Ports = tuple[int, ...]
_FAR = 1 << 30


class ShortestPaths:
    """Distances and next ports from every switch to some of them. Switches are numbers here, as in `graph.switches`."""

    def __init__(self, graph: Graph, targets: Iterable[str]) -> None:
        self.names = graph.switches
        self.number = {name: i for i, name in enumerate(self.names)}
        self.targets = tuple(self.number[name] for name in targets)
        self.ends: dict[int, tuple[int, int]] = {}  # cable -> its two switches
        self._neighbours: list[list[tuple[int, int, int]]] = [[] for _ in self.names]  # (switch, port, cable)
        for link in graph.links:
            if link.source in self.number and link.target in self.number:
                source, target = self.number[link.source], self.number[link.target]
                self._neighbours[source].append((target, link.source_port, link.cable))
                self.ends[link.cable] = source, target
        self._cable = [{port: cable for _, port, cable in neighbours} for neighbours in self._neighbours]
        self._distance = {target: self._distances(target) for target in self.targets}
        self._ports = {target: self._nearer(self._distance[target]) for target in self.targets}

    def ports(self, target: int) -> list[Ports]:
        """For every switch the ports that lead to `target` by a shortest path (none at itself)."""
        return self._ports[target]

    def without(self, cables: frozenset[int]) -> Iterator[tuple[int, int, Ports]]:
        """(switch, target, ports) for every choice that changes when `cables` are down; no ports: unreachable."""
        ends = [self.ends[cable] for cable in sorted(cables)]
        left: dict[tuple[int, Ports], Ports] = {}
        for target in self.targets:
            distance, ports = self._distance[target], self._ports[target]
            upstream = {u if distance[u] > distance[v] else v for u, v in ends if distance[u] != distance[v]}
            for switch in upstream:
                key = switch, ports[switch]
                if key not in left:
                    left[key] = tuple(port for port in ports[switch] if self._cable[switch][port] not in cables)
            if all(left[switch, ports[switch]] for switch in upstream):
                for switch in upstream:
                    yield switch, target, left[switch, ports[switch]]
            else:
                for switch, chosen in self._repair(distance, upstream, cables):
                    yield switch, target, chosen

    def _nearer(self, distance: list[int]) -> list[Ports]:
        return [
            tuple(port for other, port, _ in neighbours if distance[other] < distance[switch])
            for switch, neighbours in enumerate(self._neighbours)
        ]

    def _distances(self, target: int) -> list[int]:
        distance = [_FAR] * len(self.names)
        distance[target] = 0
        pending = deque([target])
        while pending:
            here = pending.popleft()
            for other, _, _ in self._neighbours[here]:
                if distance[other] == _FAR:
                    distance[other] = distance[here] + 1
                    pending.append(other)
        return distance

    def _repair(self, old: list[int], upstream: set[int], down: frozenset[int]) -> Iterator[tuple[int, Ports]]:
        """The new choices of all switches that lose a next hop (Ramalingam and Reps, J. Algorithms 1996, deletions).

        A switch with no next hop left moves away from the target, and with that its neighbours further out lose one;
        in the order of the old distances each is looked at once.
        """
        touched, moved = set(upstream), set[int]()
        queue = [(old[switch], switch) for switch in upstream]
        heapq.heapify(queue)
        while queue:
            distance, here = heapq.heappop(queue)
            if any(
                old[other] < distance and other not in moved and cable not in down
                for other, _, cable in self._neighbours[here]
            ):
                continue
            moved.add(here)
            for other, _, _ in self._neighbours[here]:
                if old[other] > distance and other not in touched:
                    touched.add(other)
                    heapq.heappush(queue, (old[other], other))
        new = self._settle(old, moved, down)
        now = old.copy()
        for here, distance in new.items():
            now[here] = distance
        for here in sorted(touched):
            distance = now[here]
            ports = [p for other, p, cable in self._neighbours[here] if now[other] < distance and cable not in down]
            yield here, tuple(ports)

    def _settle(self, old: list[int], moved: set[int], down: frozenset[int]) -> dict[int, int]:
        """The new distances of the switches that moved (Dijkstra from those that did not)."""
        new = dict.fromkeys(moved, _FAR)
        for here in moved:
            for other, _, cable in self._neighbours[here]:
                if other not in moved and cable not in down:
                    new[here] = min(new[here], old[other] + 1)
        queue = [(distance, here) for here, distance in new.items()]
        heapq.heapify(queue)
        while queue:
            distance, here = heapq.heappop(queue)
            if distance > new[here] or distance == _FAR:
                continue
            for other, _, cable in self._neighbours[here]:
                if other in moved and cable not in down and distance + 1 < new[other]:
                    new[other] = distance + 1
                    heapq.heappush(queue, (distance + 1, other))
        return new
