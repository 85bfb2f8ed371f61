"""What summing in the network costs at the least: the round trip of a chunk, and the bound of a whole buffer.

With a server the way up ends there, and the way down begins there.

A chunk's packets cross a link of the tree as often as contributions come over it: once above a switch that sums, and
once for each contribution below one that only routes. The bound is the largest, over all links, of three times: until
the first packet can be there, all packets over it, and from there home; a sum is there only with its last contribution,
and the reduction ends only with its last result (Carlier's one-machine bound, as in `testbed.plan.bound`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from testbed.plan.model import Aggregation
from testbed.plan.timing import NS_PER_BYTE_BPS
from testbed.topology.graph import Graph, Link

_ROUNDING_NS = 1e-3  # floating point must not cost the last whole nanosecond


@dataclass(frozen=True, slots=True)
class Packets:
    """What each worker sends, and gets back: chunks, and before the first of them rounds of exponents alone."""

    chunks: int
    chunk_bytes: int  # on the wire, as a link's rate counts them
    exponents: int = 0
    exponent_bytes: int = 0

    @property
    def count(self) -> int:
        return self.chunks + self.exponents


class SumPaths:
    """The ways up and down a job's tree; `placement` are its workers' hosts."""

    def __init__(self, graph: Graph, tree: Aggregation, placement: Sequence[str]) -> None:
        self._graph = graph
        out = {(link.source, link.source_port): link for link in graph.links}
        self._next = {name: out[name, port] for name, port in tree.ways.items()}
        server = self._way(tree.server.host) if tree.server else []
        self._up = [self._way(host) + self._back(server) for host in placement]
        self._down = [server + self._back(self._way(host)) for host in placement]
        self._contributions = Counter(
            link.cable
            for name, summing in tree.switches.items()
            for child in summing.children
            for link in self._way(child.node, name)
        )
        self._contributions.update(link.cable for link in server)  # at the best one packet a chunk

    @property
    def hops(self) -> int:
        """The links that the contributions to one chunk cross on their way to the root, all together."""
        return self._contributions.total()

    def round_trip_ns(self, wire_bytes: int) -> int:
        """From the first bit of a packet that leaves the furthest worker to the last bit of its result there."""
        return int(self._up_ns(wire_bytes) + self._down_ns(wire_bytes) + 1 - _ROUNDING_NS)

    def bound_ns(self, packets: Packets) -> int:
        """Exponents go first, and the first chunk waits for the result of its exponent."""
        first_ns = self.round_trip_ns(packets.exponent_bytes) if packets.exponents else 0
        first_bytes = packets.exponent_bytes if packets.exponents else packets.chunk_bytes
        in_turn = first_ns + self._busiest_ns(replace(packets, exponents=0), packets.chunk_bytes)
        return int(max(in_turn, self._busiest_ns(packets, first_bytes)) + _ROUNDING_NS)

    def _busiest_ns(self, packets: Packets, first_bytes: int) -> float:
        """The bound by links: `first_bytes` is the size of the first packet that comes to each."""
        last_bytes, bound = packets.chunk_bytes, 0.0
        for ways, before, after in (
            (self._up, 0.0, self._down_ns(last_bytes)),
            (self._down, self._up_ns(first_bytes), 0.0),
        ):
            heads: dict[Link, list[float]] = {}
            tails: dict[Link, list[float]] = {}
            for way in ways:
                for i, link in enumerate(way):
                    heads.setdefault(link, []).append(before + _alone_ns(way[:i], first_bytes))
                    rest = link.parameters.delay_ns + _alone_ns(way[i + 1 :], last_bytes)
                    tails.setdefault(link, []).append(after + rest)
            for link, head in heads.items():
                crossings = self._contributions[link.cable]
                work = packets.chunks * _packet_ns(link, packets.chunk_bytes)
                work += packets.exponents * _packet_ns(link, packets.exponent_bytes)
                # All that meet below are waited for; of those that pass one by one the nearest may be first, or last.
                pick = max if crossings == 1 else min
                bound = max(bound, pick(head) + crossings * work + pick(tails[link]))
        return bound

    def _back(self, way: Sequence[Link]) -> list[Link]:
        return [self._graph.reverse(link) for link in reversed(way)]

    def _up_ns(self, wire_bytes: int) -> float:
        return max(_alone_ns(way, wire_bytes) for way in self._up)

    def _down_ns(self, wire_bytes: int) -> float:
        return max(_alone_ns(way, wire_bytes) for way in self._down)

    def _way(self, node: str, end: str | None = None) -> list[Link]:
        """The links from a host or switch up to `end`; None: the root."""
        way = [self._graph.links_from(node)[0]] if self._graph.nodes[node].kind == "host" else []
        here = way[-1].target if way else node
        while here != end and here in self._next:
            way.append(self._next[here])
            here = way[-1].target
        return way


def _alone_ns(way: Sequence[Link], wire_bytes: int) -> float:
    return sum(link.parameters.delay_ns + _packet_ns(link, wire_bytes) for link in way)


def _packet_ns(link: Link, wire_bytes: int) -> float:
    return wire_bytes * NS_PER_BYTE_BPS / link.parameters.rate_bps
