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


@dataclass(frozen=True, slots=True)
class _Stage:
    least_bps: int
    most_bps: int
    total_bps: int
    least_delay_ns: int
    most_delay_ns: int


class StageTimes:
    """Routes from stages; what the links of a stage have in common is worked out once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._stages: dict[tuple[int, ...], _Stage] = {}

    def fastest(self, stages: Stages) -> Route:
        """The best that a packet may meet, if links of a stage differ."""
        each = [self._stage(stage) for stage in stages]
        return Route(
            tuple(s.most_bps for s in each), tuple(s.total_bps for s in each), sum(s.least_delay_ns for s in each)
        )

    def slowest(self, stages: Stages) -> Route:
        """The worst that a packet may meet."""
        each = [self._stage(stage) for stage in stages]
        return Route(
            tuple(s.least_bps for s in each), tuple(s.total_bps for s in each), sum(s.most_delay_ns for s in each)
        )

    def _stage(self, links: tuple[int, ...]) -> _Stage:
        if links not in self._stages:
            parameters = [self._graph.links[i].parameters for i in links]
            rates, delays = [p.rate_bps for p in parameters], [p.delay_ns for p in parameters]
            self._stages[links] = _Stage(min(rates), max(rates), sum(rates), min(delays), max(delays))
        return self._stages[links]


def base_rtt_ns(ranks: RankPaths, data_bytes: int, ack_bytes: int) -> int:
    """The longest round trip of a data packet and its acknowledgement (bytes on the wire) between ranks, all idle."""
    times = StageTimes(ranks.graph)

    def one_way_ns(source: str, target: str, wire_bytes: int) -> int:
        return times.slowest(ranks.paths.stages(source, target)).packet_ns(wire_bytes)

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
    yield from itertools.permutations([group[0] for group in alike.values()], 2)
    yield from ((group[i], group[1 - i]) for group in alike.values() if len(group) > 1 for i in (0, 1))
