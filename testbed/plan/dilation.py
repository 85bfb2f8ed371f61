"""How much slower than model time an emulation runs, and why."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.errors import UsageError
from testbed.plan.model import Capabilities, Carried, Prediction, SwitchingKind
from testbed.spec.model import MOST_DILATION, FaultSpec, Spec, TrafficSpec, WorkloadSpec
from testbed.topology.graph import Graph
from testbed.units import format_duration

MOST_LOAD = 0.5  # of the packet-hops a second that the machine carries
MOST_ERROR = 0.1  # of the base round trip


@dataclass(frozen=True, slots=True)
class Dilation:
    """The factor that runs, and the least that each of the limits asks for."""

    value: int
    by_load: int
    by_timing: int
    by_switches: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Journey:
    """The longest way among the ranks of a job.

    hops: the links that a packet and its acknowledgement cross together.
    """

    base_rtt_ns: int
    hops: int

    @property
    def switches(self) -> int:
        """Those passed there and back."""
        return max(self.hops - 2, 0)

    @property
    def hidden_ns(self) -> float:
        """The delays after switches, which may hide what those take."""
        return self.base_rtt_ns * self.switches / max(self.hops, 1)

    @property
    def allowed_ns(self) -> float:
        """How much later than modelled packets may come."""
        return MOST_ERROR * self.base_rtt_ns


def dilate(
    spec: Spec, hops_per_s: float, journeys: Sequence[Journey], capabilities: Capabilities, switching: SwitchingKind
) -> Dilation:
    """`time_dilation` of the spec, or for `auto` the least that keeps load and timing within their limits.

    Raises MachineLacks for switches that this machine cannot run.

    hops_per_s: packet-hops a second at dilation 1. journeys: one a job, each of which has to be on time.
    """
    if spec.engine == "simulation":
        return Dilation(1, 1, 1, 1, ("a simulation has a clock of its own",))
    machine = capabilities.through(switching)
    carries = MOST_LOAD * machine.packet_hops_per_s
    by_load = max(1, math.ceil(hops_per_s / carries))
    shortest = min(journeys, key=lambda journey: journey.base_rtt_ns)
    by_timing = _least(2 * machine.path_excess_ns, shortest.allowed_ns)

    def asked(journey: Journey) -> int:
        return _least(journey.switches * machine.switch_ns, journey.hidden_ns + journey.allowed_ns)

    slowest = max(journeys, key=asked)
    by_switches = asked(slowest)
    load = (
        f"load asks for {by_load}: {hops_per_s:,.0f} packet-hops/s predicted, "
        f"{carries:,.0f} allowed (half of what this machine carries)"
    )
    timing = (
        f"timing asks for {by_timing}: packets there and back come {2 * machine.path_excess_ns / 1000:,.0f} us "
        f"late, {shortest.allowed_ns / 1000:,.1f} us allowed (a tenth of the base RTT)"
    )
    transit = (
        f"switches ask for {by_switches}: {slowest.switches} there and back take {machine.switch_ns / 1000:,.0f} us "
        f"each, which the delays of the links after them have to hide ({slowest.hidden_ns / 1000:,.1f} us)"
    )
    reasons = (load, timing) if switching == "native" else (load, timing, transit)
    if spec.time_dilation != "auto":
        said = f"the spec says {spec.time_dilation}"
        return Dilation(spec.time_dilation, by_load, by_timing, by_switches, (said, *reasons))
    least = max(by_load, by_timing, by_switches)
    return Dilation(least, by_load, by_timing, by_switches, reasons)


def check_ceiling(prediction: Prediction, carried: Carried, dilation: int) -> None:
    """Raise UsageError if bmv2, which loses what it cannot carry, is to carry more at the dilation of the spec."""
    asked, ceiling = prediction.packet_hops_per_s / dilation, carried.packet_hops_per_s
    if asked > ceiling:
        least = math.ceil(prediction.packet_hops_per_s / (MOST_LOAD * ceiling))
        raise UsageError(
            f"bmv2 carries {ceiling:,.0f} packet-hops/s on this machine (measured), and these rates are {asked:,.0f}",
            hint=f"time_dilation: auto, or {least} or more",
        )


def check_range(spec: Spec, graph: Graph, prediction: Prediction, dilation: int) -> None:
    """Raise UsageError if a time of the spec, slowed down, is more than 63 bits of nanoseconds hold."""
    if dilation > MOST_DILATION:
        told = f"these links ask for a time dilation of {dilation}: a second would take {dilation / 86400:,.0f} days"
        raise UsageError(told, hint="slower links or longer delays ask for less; or set time_dilation")
    times = [(link.parameters.delay_ns + link.parameters.jitter_ns, f"delay of {link.name}") for link in graph.links]
    entries: tuple[TrafficSpec | FaultSpec | WorkloadSpec, ...] = (*spec.traffic, *spec.faults)
    jobs = spec.all_jobs.values()
    for entry in (*entries, *(job.workload for job in jobs if job.workload)):
        named = type(entry).model_fields
        given = {name: getattr(entry, name) for name in named if name.endswith("_ns")}
        times += [(value, f"{entry.kind}: {named[name].alias}") for name, value in given.items() if value]
    factor = min(2.0**63, math.prod(fault.factor or 1 for fault in spec.faults))
    computed_ns = max(job.workload.compute_ns if job.workload else 0 for job in jobs)
    times += [
        *((job.start_ns, f"jobs: {name}: start") for name, job in spec.all_jobs.items()),
        (spec.limits.stall_ns, "limits: stall"),
        (math.ceil(factor * (prediction.bound_ns + computed_ns)), "an iteration with its faults"),
    ]
    for time_ns, name in times:
        if time_ns * dilation >= 2**63:
            told = f"{name}: {format_duration(time_ns)} at a time dilation of {dilation} is more than 292 years"
            raise UsageError(told, hint="make it shorter, or set a smaller time_dilation")


def _least(real_ns: float, model_ns: float) -> int:
    """The least factor at which a model time covers a real one."""
    return max(1, math.ceil(real_ns / model_ns)) if model_ns else 1
