"""Shortest paths by hops between switches, and what becomes of them when cables are down.

Every switch sends a packet to a neighbour that is one hop nearer to the destination's edge switch. Since the distance
falls with each hop, whichever of the equal choices is taken, no packet can loop.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

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
        self.port = [{cable: port for _, port, cable in neighbours} for neighbours in self._neighbours]
        self._distance = {target: self._distances(target) for target in self.targets}
        self._ports = {target: self._nearer(self._distance[target]) for target in self.targets}
        self._alike: list[dict[Ports, list[int]]] = [{} for _ in self.names]  # ports -> the targets they lead to
        for target, chosen in self._ports.items():
            for switch, ports in enumerate(chosen):
                self._alike[switch].setdefault(ports, []).append(target)

    def ports(self, target: int) -> list[Ports]:
        """For every switch the ports that lead to `target` by a shortest path (none at itself)."""
        return self._ports[target]

    def without(self, cables: frozenset[int]) -> Iterator[tuple[int, Sequence[int], Ports]]:
        """(switch, targets, ports) for all choices that change when `cables` are down; no ports: unreachable."""
        shrunk: list[tuple[int, list[int], Ports]] = []
        stranded: set[int] = set()  # targets to which a switch has no next hop left
        for switch in {switch for cable in cables for switch in self.ends[cable]}:
            gone = {port for cable, port in self.port[switch].items() if cable in cables}
            for ports, targets in self._alike[switch].items():
                left = tuple(port for port in ports if port not in gone)
                if ports and not left:
                    stranded.update(targets)
                elif left != ports:
                    shrunk.append((switch, targets, left))
        for switch, targets, left in shrunk:
            yield switch, [target for target in targets if target not in stranded], left
        for target in stranded:
            for switch, chosen in self._repair(target, cables):
                yield switch, (target,), chosen

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

    def _repair(self, target: int, down: frozenset[int]) -> Iterator[tuple[int, Ports]]:
        """The new choices of all switches that lose a next hop (Ramalingam and Reps, J. Algorithms 1996, deletions).

        A switch with no next hop left moves away from the target, and with that its neighbours further out lose one;
        in the order of the old distances each is looked at once.
        """
        old, ports = self._distance[target], self._ports[target]
        lost: dict[int, list[int]] = {}  # switch -> its ports that lead nearer no more
        for cable in down:
            one, other = self.ends[cable]
            if old[one] != old[other]:
                further = one if old[one] > old[other] else other
                lost.setdefault(further, []).append(self.port[further][cable])
        moved = set[int]()
        queue = [(old[switch], switch) for switch in lost]
        heapq.heapify(queue)
        while queue:
            distance, here = heapq.heappop(queue)
            if len(lost[here]) < len(ports[here]):
                continue
            moved.add(here)
            for other, _, cable in self._neighbours[here]:
                if old[other] > distance and cable not in down:
                    if other not in lost:
                        lost[other] = []
                        heapq.heappush(queue, (old[other], other))
                    lost[other].append(self.port[other][cable])
        new = self._settle(old, moved, down)
        for here, gone in lost.items():
            if here in moved:
                yield (
                    here,
                    tuple(
                        port
                        for other, port, cable in self._neighbours[here]
                        if new.get(other, old[other]) < new[here] and cable not in down
                    ),
                )
            else:
                yield here, tuple([port for port in ports[here] if port not in gone])

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
