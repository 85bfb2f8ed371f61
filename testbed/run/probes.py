"""Measures the idle network before anything else runs on it: round trips against the model, rates by timed messages.

Pairs of ranks of each job are chosen so that the longest path is timed and links of every kind are crossed. A 16-packet
message shows a shaper that lets bursts through, a 1,000-packet one its lasting rate.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from testbed.plan.model import JobPlan, Plan, Switching
from testbed.plan.network import longest_queue_bytes
from testbed.plan.paths import Paths
from testbed.results.samples import RateProbe, RttProbe
from testbed.run.conductor import Conductor
from testbed.topology.graph import Link
from testbed.wire.ethernet import UDP_HEADERS_BYTES, UDP_WIRE_BYTES
from testbed.worker.probe import most_waits

ROUND_TRIPS = 21
TRAINS = (16, 1000)
ANSWER_BYTES = 20  # what an echo answer carries above UDP, as long as a RoCE acknowledgement
_PAIRS = 4
_PATIENCE_RTTS = 4
_PATIENCE_NS = 1_000_000_000  # real time, for the machine
_NS = 10**9


@dataclass(slots=True)
class Probes:
    """What was measured between the ranks of one job."""

    rtt: list[RttProbe] = field(default_factory=list)
    rates: list[RateProbe] = field(default_factory=list)
    lost: int = 0
    notes: list[str] = field(default_factory=list)


def probe(plan: Plan, job: JobPlan, conductor: Conductor, probes: Probes, trains: Sequence[int] = TRAINS) -> None:
    """Measure; fills `probes` as it goes. The network must be idle and the ranks waiting."""
    paths = Paths(plan.graph, plan.addresses, plan.switches)
    payload_bytes = min(link.parameters.mtu_bytes for link in plan.graph.links) - 28  # IP and UDP headers
    for source, target in pairs(plan, job, paths):
        names = job.placement[source], job.placement[target]
        there, back = _path(plan, paths, *names), _path(plan, paths, *reversed(names))
        rank = conductor.ranks[job.numbers[source]]
        modelled_ns = one_way_ns(there, payload_bytes) + one_way_ns(back, ANSWER_BYTES)
        patience_ns = _PATIENCE_RTTS * modelled_ns * plan.dilation + _PATIENCE_NS
        request = {"peer": target, "bytes": payload_bytes, "patience_ns": patience_ns}
        limit_s = (ROUND_TRIPS * patience_ns + _PATIENCE_NS) / _NS
        answer = conductor.ask(rank, {"op": "rtt", "count": ROUND_TRIPS, **request}, limit_s)
        probes.lost += answer["lost"]
        if answer["round_trips_ns"]:
            probes.rtt.append(RttProbe(*names, round(statistics.median(answer["round_trips_ns"])), modelled_ns))
        else:
            probes.notes.append(f"no round trip of {names[0]}-{names[1]} could be timed: all {ROUND_TRIPS} were lost")
            continue
        if any(link.parameters.jitter_ns for link in there):
            continue  # it spreads a train as much as a wrong rate would
        held = _most_without_drops(there, payload_bytes, plan.switching)
        rate_bps = min(link.parameters.rate_bps for link in there)
        for packets in sorted({min(train, held) for train in trains}):
            takes_ns = 8 * packets * (payload_bytes + UDP_WIRE_BYTES) * _NS // rate_bps
            request["patience_ns"] = patience_ns + takes_ns * plan.dilation
            limit_s = (most_waits(packets) * request["patience_ns"] + _PATIENCE_NS) / _NS
            answer = conductor.ask(rank, {"op": "train", "packets": packets, **request}, limit_s)
            if answer["measured_bps"] is not None:
                probes.rates.append(RateProbe(*names, packets, answer["measured_bps"], rate_bps))


def pairs(plan: Plan, job: JobPlan, paths: Paths) -> Iterator[tuple[int, int]]:
    """Ranks to probe between: the longest path, then those that cross kinds of links not crossed yet."""
    ranks = range(len(job.placement))
    if len(ranks) < 2:
        return
    candidates = [(0, other) for other in ranks if other] + [(other, 0) for other in ranks if other]
    ways = {(a, b): _path(plan, paths, job.placement[a], job.placement[b]) for a, b in candidates}
    longest = {pair: one_way_ns(way, UDP_HEADERS_BYTES) for pair, way in ways.items()}
    kinds = {pair: {link.parameters for link in way} for pair, way in ways.items()}
    seen: set[object] = set()
    chosen = 0
    for pair in sorted(candidates, key=lambda pair: -longest[pair]):
        if chosen < _PAIRS and not kinds[pair] <= seen:
            yield pair
            seen |= kinds[pair]
            chosen += 1


def one_way_ns(links: list[Link], payload_bytes: int) -> int:
    """Model time of a UDP payload over empty, store-and-forward links."""
    wire_bits = 8 * (payload_bytes + UDP_WIRE_BYTES)
    return sum(-(-wire_bits * _NS // k.parameters.rate_bps) + k.parameters.delay_ns for k in links)


def _path(plan: Plan, paths: Paths, source: str, target: str) -> list[Link]:
    """The slowest way between two hosts, link by link."""
    stages = paths.stages(source, target)
    return [
        max(
            (plan.graph.links[index] for index in stage),
            key=lambda link: (-link.parameters.rate_bps, link.parameters.delay_ns),
        )
        for stage in stages
    ]


def _most_without_drops(links: list[Link], payload_bytes: int, switching: Switching) -> int:
    """How many packets sent at once the path holds: where a link is slower than the one before, its queue must."""
    narrow = [
        longest_queue_bytes(after, switching) // (payload_bytes + UDP_HEADERS_BYTES)
        for before, after in pairwise(links)
        if after.parameters.rate_bps < before.parameters.rate_bps
    ]
    return max(1, min(narrow, default=max(TRAINS)))
