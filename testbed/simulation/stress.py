"""Faults and background traffic of a simulated run: at each one's very instant, by the draws that emulation has."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from testbed.plan.environment import struck_in_warmup
from testbed.results.samples import SwapSample
from testbed.simulation.job import SimulatedJob
from testbed.simulation.network import SimulatedNetwork
from testbed.stress.draws import FIRST_PORT, PORTS, Flow, TimedFault, Upcoming, flows, places, timeline

_NUMBER_BYTES = 8  # a packet's first bytes are its number in its flow, so that no two are alike
_RUN_PACKETS = 64
_HELD_BYTES = 256 << 10  # of a flow that its host holds: the socket's buffer in emulation


class Faults:
    """The spec's timed faults. `record(kind, **details)` is told of each."""

    def __init__(
        self, network: SimulatedNetwork, jobs: Mapping[str, SimulatedJob], record: Callable[..., None]
    ) -> None:
        self.swaps: list[SwapSample] = []
        self._network = network
        self._jobs = jobs
        self._record = record
        self._zero_ns = 0
        self._upcoming: Upcoming | None = None
        self._changed: set[int] = set()  # links

    def warm_up(self, now: int) -> None:
        """Let happen what also does in warm-up, until `pause`."""
        faults, _ = struck_in_warmup(self._network.plan.spec)
        self._zero_ns = now
        self._plan_next(Upcoming(timeline(self._network.plan, faults)))

    def pause(self) -> None:
        """Let nothing more happen, and all links be as the spec has them."""
        self._upcoming = None
        for index in sorted(self._changed):
            self._network.fabric.set_link(index, self._network.plan.graph.links[index].parameters)

    def start(self, zero_ns: int) -> None:
        """`zero_ns`: the instant of model time zero, which is now; what was to be before happens now."""
        self._zero_ns = zero_ns
        self._plan_next(Upcoming(timeline(self._network.plan)))

    def _plan_next(self, upcoming: Upcoming) -> None:
        self._upcoming = upcoming
        if upcoming.at_ns is not None:
            at_ns = self._zero_ns + max(0, upcoming.at_ns)
            self._network.core.call_at(at_ns, lambda now: self._carry_out(upcoming, now))

    def _carry_out(self, upcoming: Upcoming, now: int) -> None:
        """Do what is due, and have what comes next come."""
        if upcoming is not self._upcoming:
            return
        while upcoming.at_ns is not None and self._zero_ns + max(0, upcoming.at_ns) <= now:
            fault = upcoming.pop()
            self._do(fault, now)
            self._record(
                "fault", fault=fault.kind, at_ns=fault.at_ns, late_ns=0, where=places(self._network.plan, fault)
            )
        self._plan_next(upcoming)

    def _do(self, fault: TimedFault, now: int) -> None:
        fabric = self._network.fabric
        if fault.kind == "kill":
            for job in self._jobs.values():
                for number in sorted(set(fault.workers) & set(job.plan.numbers)):
                    job.kill(number - job.plan.first, now)
        elif fault.kind in ("link-down", "link-up"):
            for cable in fault.cables:
                fabric.set_cable(cable, up=fault.kind == "link-up")
        elif fault.kind == "link-set":
            for index, parameters in fault.parameters.items():
                fabric.set_link(index, parameters)
                self._changed.add(index)
        else:
            for switch in fault.switches:
                sample = self._network.swap(switch, fault)
                self.swaps.append(sample)
                self._record("swap", **asdict(sample))


@dataclass(slots=True)
class _Source:
    """A flow's sending end. `number` is that of the next burst."""

    flow: Flow
    socket: int
    port: int  # UDP
    target_ip: int
    holds_ns: int  # how long its host takes to send what it holds of the flow at most
    number: int = 0
    free_ns: int = 0  # when all that was handed over has left
    asked_bytes: int = 0
    sent_bytes: int = 0
    sent_packets: int = 0
    skipped_bursts: int = 0


class Traffic:
    """The background traffic of a run. What it sends is counted where it arrives, and told to nobody."""

    def __init__(self, network: SimulatedNetwork) -> None:
        self._network = network
        self._core = network.core
        self._stopped = False
        self._zero_ns = 0
        plan = network.plan
        self._sources = [
            self._opened(flow, FIRST_PORT + index % PORTS)
            for index, flow in enumerate(flows(plan.spec.traffic, plan.spec.seed))
        ]
        for target in dict.fromkeys(source.flow.target for source in self._sources):
            self._core.sink(network.port(target), FIRST_PORT, FIRST_PORT + PORTS - 1)

    def start(self, zero_ns: int) -> None:
        """`zero_ns`: the instant of model time zero, which is now; what was to be before is sent now."""
        self._zero_ns = zero_ns
        for source in self._sources:
            self._plan_next(source)

    def stop(self) -> dict[str, Any]:
        """Send nothing more; what was sent, flow by flow, and what came."""
        self._stopped = True
        return {
            "flows": [
                {
                    "source": source.flow.source,
                    "target": source.flow.target,
                    "asked_bytes": source.asked_bytes,
                    "sent_bytes": source.sent_bytes,
                    "skipped_bursts": source.skipped_bursts,
                }
                for source in self._sources
            ],
            "late_max_ns": 0,
        }

    def _opened(self, flow: Flow, port: int) -> _Source:
        network = self._network
        rate_bps = network.plan.graph.links_from(flow.source)[0].parameters.rate_bps
        socket = self._core.open_socket(network.port(flow.source), port, lambda _now, _runs: None, framing="plain")
        return _Source(flow, socket, port, network.ip(flow.target), 8 * _HELD_BYTES * 10**9 // rate_bps)

    def _plan_next(self, source: _Source) -> None:
        at_ns = source.flow.burst_ns(source.number)
        if at_ns is not None:
            self._core.call_at(self._zero_ns + max(0, at_ns), lambda now: self._go(source, now))

    def _go(self, source: _Source, now: int) -> None:
        if self._stopped:
            return
        flow = source.flow
        source.number += 1
        source.asked_bytes += flow.burst_bytes
        if source.free_ns > now + source.holds_ns:
            source.skipped_bursts += 1
        else:
            self._send(source)
        self._plan_next(source)

    def _send(self, source: _Source) -> None:
        flow = source.flow
        whole, rest = divmod(flow.burst_bytes, flow.packet_bytes)
        for packets, size in ((whole, flow.packet_bytes), (1, rest)):
            for first in range(0, packets if size else 0, _RUN_PACKETS):
                here = min(_RUN_PACKETS, packets - first)
                numbered = min(size, _NUMBER_BYTES)
                headers = [(source.sent_packets + k).to_bytes(_NUMBER_BYTES, "little")[:numbered] for k in range(here)]
                payload = bytes(here * (size - numbered))
                source.free_ns = self._core.send_run(
                    source.socket, source.target_ip, source.port, 0, headers, payload, size - numbered
                )
                source.sent_packets += here
                source.sent_bytes += here * size
