"""Faults and background traffic as data: what happens when, drawn from the run's seed and known before the run.

Every draw is keyed by its stream (which fault, rank, iteration, step), never taken from a shared generator, so that it
is the same for every transport and engine and in whatever order it is asked for. Times are model time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from testbed.plan.model import Plan
from testbed.spec.model import FaultSpec, TrafficSpec
from testbed.streams import derive
from testbed.topology.graph import Graph, LinkParameters
from testbed.topology.links import changes
from testbed.topology.select import select, select_cables, select_switches
from testbed.wire.ethernet import UDP_WIRE_BYTES

FIRST_PORT, PORTS = 9000, 1000  # UDP, of background traffic; never the job's
_DRAWS = 1 << 64  # derive() gives 64 bits


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
            draw = derive(seed, "stall", number, rank, iteration, *(() if step is None else (step,)))
            if Fraction(draw, _DRAWS) < (fault.probability or 0):
                total_ns += fault.for_ns if fault.for_ns is not None else round((fault.factor or 0) * uncongested_ns)
    return total_ns


def slow_factor(faults: Sequence[FaultSpec], rank: int, job: str = "") -> float:
    """How many times longer a rank computes than the others."""
    factor = 1.0
    for fault in faults:
        if fault.kind == "slow" and fault.strikes(job, rank):
            factor *= fault.factor or 1.0
    return factor


def timeline(plan: Plan) -> tuple[TimedFault, ...]:
    """The spec's faults that happen at an instant, in order of time."""
    faults = plan.spec.faults
    kills = [
        TimedFault(fault.at_ns or 0, "kill", workers=_struck(fault, plan)) for fault in faults if fault.kind == "kill"
    ]
    timed = [*kills, *_downs(faults, plan.graph), *_sets(faults, plan.graph), *_swaps(faults, plan.graph)]
    return tuple(sorted(timed, key=lambda fault: fault.at_ns))


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
    """The flows of the background traffic.

    A constant flow sends single packets so that it takes `rate` on the wire, overhead included, from a drawn instant
    in its first period on, or equal flows would keep step. The sources of an incast send their bursts all at once.
    """
    made = []
    for number, entry in enumerate(traffic):
        sources = (entry.source,) if isinstance(entry.source, str) else entry.source
        for source in sources:
            start_ns, burst_bytes = entry.start_ns, entry.packet_bytes
            if entry.kind == "constant":
                assert entry.rate_bps  # testbed.spec.network_checks
                period = Fraction(8 * (entry.packet_bytes + UDP_WIRE_BYTES) * 10**9, entry.rate_bps)
                start_ns += int(period * derive(seed, "traffic", number, source)) // _DRAWS
            else:
                assert entry.every_ns
                assert entry.size_bytes
                period, burst_bytes = Fraction(entry.every_ns), entry.size_bytes
            made.append(Flow(source, entry.target, start_ns, entry.stop_ns, period, burst_bytes, entry.packet_bytes))
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


def _sets(faults: Sequence[FaultSpec], graph: Graph) -> list[TimedFault]:
    """At each instant at which a `link-set` begins or ends: its links, with all that hold then, in the spec's order."""
    chosen = [(fault, set(select(graph, fault.select or ()))) for fault in faults if fault.kind == "link-set"]
    touched: dict[int, set[int]] = {}
    for fault, links in chosen:
        begin_ns = fault.at_ns or 0
        for at_ns in (begin_ns,) if fault.for_ns is None else (begin_ns, begin_ns + fault.for_ns):
            touched.setdefault(at_ns, set()).update(links)
    timed = []
    for at_ns, now in touched.items():
        parameters = {index: graph.links[index].parameters for index in sorted(now)}
        for fault, links in chosen:
            begin_ns = fault.at_ns or 0
            if begin_ns <= at_ns and (fault.for_ns is None or at_ns < begin_ns + fault.for_ns):
                for index in links & now:
                    parameters[index] = replace(parameters[index], **changes(fault))
        timed.append(TimedFault(at_ns, "link-set", parameters=parameters))
    return timed
