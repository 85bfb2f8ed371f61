"""How long packets take over a path when nothing else is on it: serialisation at each link, and its delay."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.plan.paths import RankPaths, Stages
from testbed.topology.graph import Graph

BITS_NS = 8 * 10**9  # times bytes, divided by bits a second: ns
NS_PER_BYTE_BPS = float(BITS_NS)


@dataclass(frozen=True, slots=True)
class Route:
    """A path as times: per stage the rate of one link and of all that share the load, and the sum of the delays."""

    rates_bps: tuple[int, ...]
    total_bps: tuple[int, ...]
    delay_ns: int

    def packet_ns(self, wire_bytes: int) -> int:
        """One packet, stored and forwarded at each hop, from its first bit out to its last bit in (rounded up)."""
        return self.delay_ns + sum(-(-wire_bytes * BITS_NS // rate) for rate in self.rates_bps)


def fastest(graph: Graph, stages: Stages) -> Route:
    """The best that a packet may meet, if links of a stage differ."""
    links = [[graph.links[i].parameters for i in stage] for stage in stages]
    return Route(
        tuple(max(p.rate_bps for p in stage) for stage in links),
        tuple(sum(p.rate_bps for p in stage) for stage in links),
        sum(min(p.delay_ns for p in stage) for stage in links),
    )


def slowest(graph: Graph, stages: Stages) -> Route:
    """The worst that a packet may meet."""
    links = [[graph.links[i].parameters for i in stage] for stage in stages]
    return Route(
        tuple(min(p.rate_bps for p in stage) for stage in links),
        tuple(sum(p.rate_bps for p in stage) for stage in links),
        sum(max(p.delay_ns for p in stage) for stage in links),
    )


def base_rtt_ns(ranks: RankPaths, data_bytes: int, ack_bytes: int) -> int:
    """The longest round trip of a data packet and its acknowledgement (bytes on the wire) between ranks, all idle."""

    def one_way_ns(source: str, target: str, wire_bytes: int) -> int:
        return slowest(ranks.graph, ranks.paths.stages(source, target)).packet_ns(wire_bytes)

    return max((one_way_ns(a, b, data_bytes) + one_way_ns(b, a, ack_bytes) for a, b in _pairs(ranks)), default=0)


def longest_hops(ranks: RankPaths) -> int:
    """The most links that a packet and its acknowledgement cross together between ranks."""
    stages = ranks.paths.stages
    return max((len(stages(a, b)) + len(stages(b, a)) for a, b in _pairs(ranks)), default=0)


def _pairs(ranks: RankPaths) -> Iterator[tuple[str, str]]:
    """A pair of hosts of each kind: those on one edge switch with links of the same parameters are alike."""
    alike: dict[tuple[object, ...], list[str]] = {}
    for host in ranks.placement:
        up = ranks.graph.links_from(host)[0]
        alike.setdefault((up.target, up.parameters, ranks.graph.reverse(up).parameters), []).append(host)
    return itertools.permutations([host for group in alike.values() for host in group[:2]], 2)
