"""Faults and background traffic as data: what happens when, drawn from the run's seed and known before the run.

Every draw is keyed by its stream (which fault, rank, iteration, step), never taken from a shared generator, so that it
is the same for every transport and engine and in whatever order it is asked for. Times are model time.
"""

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, count
from statistics import NormalDist
from typing import Literal

from testbed.plan.model import Plan
from testbed.spec.model import FaultSpec, TrafficSpec
from testbed.streams import DRAWS, derive
from testbed.topology.graph import Graph, LinkParameters
from testbed.topology.links import changes
from testbed.topology.select import select, select_cables, select_switches
from testbed.wire.ethernet import UDP_WIRE_BYTES

FIRST_PORT, PORTS = 9000, 1000  # UDP, of background traffic; never the job's


@dataclass(frozen=True, slots=True)
class TimedFault:
    """Something that happens once, `at_ns` after the release of the first measured iteration."""

    at_ns: int
    kind: Literal["kill", "link-down", "link-up", "link-set", "swap-program"]
    workers: tuple[int, ...] = ()  # kill; the jobs' ranks numbered through
    cables: tuple[int, ...] = ()  # link-down, link-up
    parameters: Mapping[int, LinkParameters] = field(default_factory=dict)  # link-set: by directed link, all of them
    switches: tuple[str, ...] = ()  # swap-program
    program: str = ""
    entries: str | None = None
    keep_registers: bool = False


@dataclass(frozen=True, slots=True)
class Flow:
    """Background traffic from one host to another: a burst of `burst_bytes` of payload every `period_ns`.

    A burst leaves back to back in UDP packets of `packet_bytes` of payload, the last of them shorter if need be.
    """

    source: str
    target: str
    start_ns: int
    stop_ns: int | None
    period_ns: Fraction
    burst_bytes: int
    packet_bytes: int

    def burst_ns(self, number: int) -> int | None:
        """When the burst `number` (from 0) leaves; None from `stop_ns` on."""
        at_ns = self.start_ns + int(number * self.period_ns)
        return at_ns if self.stop_ns is None or at_ns < self.stop_ns else None


def stall_ns(
    faults: Sequence[FaultSpec],
    seed: int,
    *,
    job: str = "",
    rank: int,
    iteration: int,
    step: int | None,
    uncongested_ns: int,
) -> int:
    """How long a rank stalls before a step, or (step None) before the iteration; 0 mostly.

    seed: its job's. uncongested_ns: what that step or iteration takes alone on the network, of which a stall by
    `factor` is a multiple.
    """
    of, total_ns = "iteration" if step is None else "step", 0
    stalls = [fault for fault in faults if fault.kind == "stall"]
    for number, fault in enumerate(stalls):
        if (fault.of or "iteration") == of and fault.strikes(job, rank):
            key = (number, rank, iteration, *(() if step is None else (step,)))
            if Fraction(derive(seed, "stall", *key), DRAWS) < (fault.probability or 0):
                usual_ns = fault.for_ns if fault.for_ns is not None else (fault.factor or 0) * uncongested_ns
                total_ns += round(usual_ns * _relative(fault, (derive(seed, "stall length", *key) + 0.5) / DRAWS))
    return total_ns


def _relative(fault: FaultSpec, share: float) -> float:
    """How many times its median a stall lasts that `share` of all do not outlast.

    The p99 of a lognormal is exp(2.326 sigma) times its median, that of a Pareto 50^(1/a) times: so sigma and a come
    from the ratio (derived; `statistics.NormalDist` has the 2.326).
    """
    if fault.distribution is None or fault.tail_ratio is None:
        return 1.0
    share = min(share, 1 - 2**-53)  # which a float may round up
    if fault.distribution == "lognormal":
        normal = NormalDist()
        return math.exp(math.log(fault.tail_ratio) / normal.inv_cdf(0.99) * normal.inv_cdf(share))
    exponent = math.log(50) / math.log(fault.tail_ratio)
    return math.pow(2 * (1 - share), -1 / exponent)


def slow_factor(faults: Sequence[FaultSpec], rank: int, job: str = "") -> float:
    """How many times longer a rank computes than the others."""
    factor = 1.0
    for fault in faults:
        if fault.kind == "slow" and fault.strikes(job, rank):
            factor *= fault.factor or 1.0
    return factor


def timeline(plan: Plan, only: Sequence[FaultSpec] | None = None) -> Iterator[TimedFault]:
    """The spec's faults that happen at an instant, in order of time; without end where one comes again and again.

    only: some of them.
    """
    faults = plan.spec.faults if only is None else only
    kills = [
        TimedFault(fault.at_ns or 0, "kill", workers=_struck(fault, plan)) for fault in faults if fault.kind == "kill"
    ]
    before, after = [*kills, *_downs(faults, plan.graph)], _swaps(faults, plan.graph)
    for timed in (before, after):
        timed.sort(key=lambda fault: fault.at_ns)
    return heapq.merge(before, _sets(faults, plan.graph), after, key=lambda fault: fault.at_ns)


class Upcoming:
    """Faults in order of time, of which the next one is known before it happens."""

    def __init__(self, faults: Iterable[TimedFault]) -> None:
        self._faults = iter(faults)
        self._next = next(self._faults, None)

    @property
    def at_ns(self) -> int | None:
        """When the next one happens; None: there is none."""
        return self._next.at_ns if self._next else None

    def pop(self) -> TimedFault:
        """The next one, which happens now."""
        assert self._next is not None
        fault, self._next = self._next, next(self._faults, None)
        return fault


def cut_for_good(plan: Plan, at_ns: int) -> frozenset[int]:
    """The cables that are down at an instant and that no fault brings up again."""
    downs = [fault for fault in plan.spec.faults if fault.kind == "link-down" and fault.for_ns is None]
    begun = [fault for fault in downs if (fault.at_ns or 0) <= at_ns]
    return frozenset(chain.from_iterable(select_cables(plan.graph, fault.select or ()) for fault in begun))


def places(plan: Plan, fault: TimedFault) -> list[str]:
    """What a fault befalls, by name."""
    links = plan.graph.links
    return [
        *(plan.called(number) for number in fault.workers),
        *(links[2 * cable].name.replace(">", "-") for cable in fault.cables),
        *(links[index].name for index in fault.parameters),
        *fault.switches,
    ]


def flows(traffic: Sequence[TrafficSpec], seed: int) -> tuple[Flow, ...]:
    """The background traffic that goes by a clock, in UDP packets.

    A constant flow sends single packets so that it takes `rate` on the wire, overhead included, from a drawn instant
    in its first period on, or equal flows would keep step. The sources of an incast send their bursts all at once.
    """
    made = []
    for number, entry in enumerate(traffic):
        if entry.kind == "flows":  # testbed.stress.arrivals
            continue
        (target,) = entry.targets
        for source in entry.sources:
            start_ns, burst_bytes = entry.start_ns, entry.packet_bytes
            if entry.kind == "constant":
                assert entry.rate_bps  # testbed.spec.network_checks
                period = Fraction(8 * (entry.packet_bytes + UDP_WIRE_BYTES) * 10**9, entry.rate_bps)
                start_ns += int(period * derive(seed, "traffic", number, source)) // DRAWS
            else:
                assert entry.every_ns
                assert entry.size_bytes
                period, burst_bytes = Fraction(entry.every_ns), entry.size_bytes
            made.append(Flow(source, target, start_ns, entry.stop_ns, period, burst_bytes, entry.packet_bytes))
    return tuple(made)


def _struck(fault: FaultSpec, plan: Plan) -> tuple[int, ...]:
    return tuple(
        number for job in plan.jobs for rank, number in enumerate(job.numbers) if fault.strikes(job.name, rank)
    )


def _downs(faults: Sequence[FaultSpec], graph: Graph) -> list[TimedFault]:
    """A cable that several faults take down comes up when the last of them ends."""
    changes_of: dict[int, list[tuple[int, int]]] = {}  # cable -> (instant, +1 down or -1 up)
    for fault in faults:
        if fault.kind == "link-down":
            for cable in select_cables(graph, fault.select or ()):
                edges = changes_of.setdefault(cable, [])
                edges.append((fault.at_ns or 0, 1))
                if fault.for_ns is not None:
                    edges.append(((fault.at_ns or 0) + fault.for_ns, -1))
    together: dict[tuple[int, Literal["link-down", "link-up"]], list[int]] = {}
    for cable, edges in changes_of.items():
        down = 0
        for at_ns, change in sorted(edges, key=lambda edge: (edge[0], -edge[1])):
            if down + change == 0 or (down == 0 and change == 1):
                together.setdefault((at_ns, "link-down" if change == 1 else "link-up"), []).append(cable)
            down += change
    return [TimedFault(at_ns, kind, cables=tuple(sorted(cables))) for (at_ns, kind), cables in together.items()]


def _swaps(faults: Sequence[FaultSpec], graph: Graph) -> list[TimedFault]:
    return [
        TimedFault(
            fault.at_ns or 0,
            "swap-program",
            switches=select_switches(graph, fault.select or ()),
            program=fault.program or "",
            entries=fault.entries,
            keep_registers=fault.registers == "keep",
        )
        for fault in faults
        if fault.kind == "swap-program"
    ]


def _sets(faults: Sequence[FaultSpec], graph: Graph) -> Iterator[TimedFault]:
    """At each instant at which a `link-set` begins or ends: its links, with all that hold then, in the spec's order."""
    chosen = [(fault, set(select(graph, fault.select or ()))) for fault in faults if fault.kind == "link-set"]
    edges = heapq.merge(*(_edges(fault, number) for number, (fault, _) in enumerate(chosen)))
    at_ns, number = next(edges, (None, 0))
    while at_ns is not None:
        now_ns, touched = at_ns, set[int]()
        while at_ns == now_ns:
            touched |= chosen[number][1]
            at_ns, number = next(edges, (None, 0))
        parameters = {index: graph.links[index].parameters for index in sorted(touched)}
        for fault, links in chosen:
            if _holds(fault, now_ns):
                for index in links & touched:
                    parameters[index] = replace(parameters[index], **changes(fault))
        yield TimedFault(now_ns, "link-set", parameters=parameters)


def _edges(fault: FaultSpec, number: int) -> Iterator[tuple[int, int]]:
    """When a `link-set` begins and ends, each with its number."""
    first_ns = fault.at_ns or 0
    begins: Iterable[int] = count(first_ns, fault.every_ns) if fault.every_ns else (first_ns,)
    for begin_ns in begins:
        yield begin_ns, number
        if fault.for_ns is not None:
            yield begin_ns + fault.for_ns, number


def _holds(fault: FaultSpec, at_ns: int) -> bool:
    """Whether a `link-set` is in force at an instant, its beginning included and its end not."""
    since_ns = at_ns - (fault.at_ns or 0)
    if since_ns < 0 or fault.for_ns is None:
        return since_ns >= 0
    return (since_ns % fault.every_ns if fault.every_ns else since_ns) < fault.for_ns
