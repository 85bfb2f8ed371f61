"""One emulated run, in order: network up, workers up, probes on the idle network, iterations, counts, all down again.

Whatever happens, what was measured until then is handed over as `Samples` with a status, and everything that was made
is taken down.
"""

import math
import time
from typing import Protocol

from testbed.emulation.drops import CHECKSUM_WRONG, RECEIVE_BUFFER_FULL
from testbed.emulation.links import LinkCounters, interface
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.processes import Child
from testbed.emulation.state import RunState
from testbed.errors import Interrupted, RunFailed, TestbedError
from testbed.plan.model import Plan
from testbed.results.rundir import RunDirectory
from testbed.results.samples import Evidence, Samples, Status, SwitchRow
from testbed.run.channel import Channel
from testbed.run.conductor import Conductor
from testbed.run.counting import Tally, frames_from_hosts, link_rows, packet_totals, peak, risen
from testbed.run.faults import FaultTimeline
from testbed.run.interrupts import interruptible, uninterrupted
from testbed.run.iterations import Hooks, Iterations
from testbed.run.launch import start_generator, start_workers
from testbed.run.probes import Probes, probe
from testbed.stress.draws import timeline
from testbed.topology.select import select

_START_LIMIT_S = 60.0
_START_PER_RANK_S = 1.0
_QUIESCE_LIMIT_S = 10.0
_QUIESCE_POLL_S = 0.02
_COUNTERS_LIMIT_S = 10.0
_NS = 1e9


class Progress(Protocol):
    """Told what the run is doing, for people and for `testbed status`."""

    def stage(self, what: str) -> None: ...

    def iterations(self, done: int, of: int) -> None: ...


class EmulatedRun:
    """Carries out one plan in emulation, once."""

    def __init__(self, plan: Plan, directory: RunDirectory, state: RunState, progress: Progress) -> None:
        self._plan = plan
        self._directory = directory
        self._state = state
        self._progress = progress
        self._network = EmulatedNetwork(plan, state, directory.logs)
        self._children: list[Child] = []
        self._conductor: Conductor | None = None
        self._iterations: Iterations | None = None
        self._generator: Channel | None = None
        self._probes = Probes()
        self._tally = Tally()
        self._links_before: dict[int, LinkCounters] = {}
        self._peaks: dict[int, LinkCounters] = {}  # each link's gauges, the highest of all iterations
        self._drops_before: dict[str, int] = {}
        self._setup_s = 0.0

    def run(self) -> tuple[Samples, TestbedError | None]:
        """What was measured, and the error that ended the run early (None: it ended as planned)."""
        began = time.monotonic()
        status: Status = "ok"
        error: TestbedError | None = None
        try:
            with interruptible():
                self._measure(began)
        except Interrupted as interrupt:
            status, error = "interrupted", interrupt
        except TestbedError as failure:
            status, error = "failed", failure
        except BaseException:
            with uninterrupted():
                self._take_down()
            raise
        with uninterrupted():
            self._stage("taking the network down")
            down = time.monotonic()
            if error is not None:
                self._salvage()
            problems = self._take_down()
            ended = time.monotonic()
        if problems:
            self._directory.event("teardown", problems=problems)
        measured = self._iterations.measured if self._iterations else None
        samples = Samples(
            status=status,
            failure=error.message if error else "",
            iterations=tuple(measured.rows) if measured else (),
            links=self._tally.links,
            switches=self._tally.switches,
            packets=self._tally.packets,
            bytes_on_wire=self._tally.bytes_on_wire,
            payload_bytes=self._tally.payload_bytes,
            evidence=self._evidence(),
            wall_s=ended - began,
            setup_s=self._setup_s,
            teardown_s=ended - down,
        )
        return samples, error

    def _measure(self, began: float) -> None:
        plan = self._plan
        self._stage("bringing the network up")
        times = self._network.start()
        self._directory.event("network-up", seconds=times.total_s)
        conductor = self._conductor = Conductor(self._network.hub, wall_limit_s=plan.spec.limits.wall_ns / _NS)
        self._stage("starting the workers")
        self._start_processes(conductor)
        self._setup_s = time.monotonic() - began
        self._stage("measuring the idle network")
        probe(plan, conductor.ranks, self._probes)
        self._start_captures()
        workload = plan.spec.workload
        assert workload is not None
        faults = FaultTimeline(timeline(plan), self._network, conductor, self._directory.event)
        self._iterations = Iterations(
            conductor,
            workload,
            Hooks(
                before_zero=self._before_zero,
                at_zero=lambda zero_ns: self._at_zero(faults, zero_ns),
                quiesce=self._quiesce,
                link_lateness=self._link_lateness,
                on_rows=self._directory.add_iterations,
                on_metrics=lambda number, metrics: self._directory.event("training", iteration=number, **metrics),
                progress=self._progress.iterations,
            ),
            dilation=plan.dilation,
            base_rtt_ns=plan.prediction.base_rtt_ns,
            stall_limit_s=math.inf
            if workload.kind == "command"  # what it waits for is its own affair
            else plan.spec.limits.stall_ns * plan.dilation / _NS,
        )
        self._stage("running")
        if workload.kind == "command":
            self._iterations.run_command()
        else:
            self._iterations.run()
        self._count()

    def _start_processes(self, conductor: Conductor) -> None:
        plan = self._plan
        limit_s = _START_LIMIT_S + _START_PER_RANK_S * len(plan.placement)
        workers = start_workers(self._network, self._directory.logs)
        self._children.append(workers)
        conductor.welcome_ranks(len(plan.placement), limit_s, workers.check)
        for rank, channel in conductor.ranks.items():
            self._state.add_child(f"rank {rank}", channel.hello["pid"])
        if plan.spec.traffic:
            generator = start_generator(self._network, self._directory.logs)
            self._children.append(generator)
            self._generator = conductor.welcome("generator", limit_s, generator.check)

    def _start_captures(self) -> None:
        """One file a selected cable, of what crosses its first selected end both ways, from the warm-up on."""
        capture, graph = self._plan.spec.capture, self._plan.graph
        cables = (
            {graph.links[i].cable: graph.links[i] for i in reversed(select(graph, capture.select))} if capture else {}
        )
        for link in cables.values():
            path = self._directory.pcap / f"{interface(link.source, link.source_port)}.pcap"
            self._network.capture(link.source, link.source_port, path.absolute(), capture.snap_bytes if capture else 0)

    def _before_zero(self) -> None:
        """The network is empty: what is counted from here on is the measured part."""
        self._links_before = dict(self._network.link_counters())
        self._drops_before = self._network.host_drops()
        self._network.mark()

    def _at_zero(self, faults: FaultTimeline, zero_ns: int) -> None:
        if self._generator is not None:
            self._generator.send({"op": "start", "at_ns": zero_ns})
        faults.start(zero_ns)

    def _link_lateness(self) -> tuple[int | None, str]:
        """The worst p99 since the last call, in model time, of the links that end at hosts, and the link's name.

        What comes late out of a link into a switch counts only as far as the links after it do not make up for it.
        """
        links, hosts = self._plan.graph.links, set(self._plan.graph.hosts)
        now = self._network.link_counters()
        self._peaks = {index: peak(self._peaks.get(index), counters) for index, counters in now.items()}
        late = [
            (counters.late_p99_ns, index)
            for index, counters in now.items()
            if counters.late_p99_ns is not None and links[index].target in hosts
        ]
        self._network.mark()
        if not late:
            return None, ""
        worst_ns, index = max(late)
        return worst_ns // self._plan.dilation, links[index].name

    def _quiesce(self) -> None:
        """Let the job's packets that are under way arrive; background traffic is stopped at the end only."""
        assert self._conductor is not None

        def empty() -> bool:
            time.sleep(_QUIESCE_POLL_S)
            return self._in_flight() == 0

        longest_s = _QUIESCE_LIMIT_S + 4 * self._plan.prediction.base_rtt_ns * self._plan.dilation / _NS
        self._conductor.until(empty, lambda: f"{self._in_flight()} packets stay in the network", longest_s)

    def _in_flight(self) -> int:
        return self._network.in_flight()

    def _count(self) -> None:
        """Read all counters at the end of the measured part."""
        assert self._iterations is not None
        assert self._conductor is not None
        plan, measured, tally = self._plan, self._iterations.measured, self._tally
        if self._generator is not None:
            achieved = self._generator.request({"op": "stop"})
            self._directory.event("traffic", **{k: v for k, v in achieved.items() if k != "id"})
        ranks = risen(measured.before, measured.after)
        tally.links = link_rows(plan, self._links_before, self._network.link_counters(), self._peaks)
        drops = {k: v - self._drops_before.get(k, 0) for k, v in self._network.host_drops().items()}
        tally.unmodelled_drops = {where: n for where, n in drops.items() if n and CHECKSUM_WRONG not in where}
        buffers = sum(n for where, n in drops.items() if RECEIVE_BUFFER_FULL in where)
        tally.packets = packet_totals(plan, tally.links, ranks, in_flight=self._in_flight(), buffer_drops=buffers)
        tally.bytes_on_wire = frames_from_hosts(plan, tally.links, ranks)
        tally.payload_bytes = sum(row.received_bytes for row in measured.rows if not row.warmup)
        tally.switches = self._switch_rows()
        missed = sum(row.dropped for row in tally.switches if row.kind == "flow")
        if missed:
            tally.unmodelled_drops["switches without a matching flow"] = missed

    def _switch_rows(self) -> tuple[SwitchRow, ...]:
        assert self._conductor is not None
        controller = next((c for c in self._network.hub.channels if c.hello["hello"] == "controller"), None)
        if controller is None:
            return ()
        try:
            rows = controller.request({"op": "counters"}, _COUNTERS_LIMIT_S)["rows"]
        except RunFailed as error:
            self._conductor.lost.append(f"controller ({error.message})")
            return ()
        return tuple(sorted((SwitchRow(**row) for row in rows), key=lambda row: (row.switch, row.kind, row.name)))

    def _salvage(self) -> None:
        """After a failure: keep what the links say, if they still do."""
        try:
            if self._links_before:
                self._tally.links = link_rows(
                    self._plan, self._links_before, self._network.link_counters(), self._peaks
                )
        except (TestbedError, OSError, AssertionError):
            return

    def _take_down(self) -> list[str]:
        problems = []
        for child in reversed(self._children):
            try:
                child.stop()
            except (TestbedError, OSError) as error:
                problems.append(str(error))
        problems += self._network.stop()
        if not problems:
            self._state.remove()
        return problems

    def _evidence(self) -> Evidence:
        return Evidence(
            base_rtt_ns=self._plan.prediction.base_rtt_ns,
            iterations=tuple(self._iterations.measured.evidence) if self._iterations else (),
            rtt=tuple(self._probes.rtt),
            rates=tuple(self._probes.rates),
            unmodelled_drops=self._tally.unmodelled_drops,
            shaping_mismatches=tuple(self._network.mismatches),
            lost=tuple(self._conductor.lost) if self._conductor else (),
            undilated=undilated(self._plan),
        )

    def _stage(self, what: str) -> None:
        self._progress.stage(what)
        self._state.set_progress(what)


def undilated(plan: Plan) -> tuple[str, ...]:
    """What runs at its own speed although the network is slowed down."""
    if plan.dilation == 1:
        return ()
    found = []
    if plan.spec.transport.kind == "tcp":
        found.append("kernel TCP's timers other than its minimum RTO (delayed acknowledgements, probes)")
    if plan.spec.workload is not None and plan.spec.workload.kind == "command":
        found.append("the command's own computing and timers")
    return tuple(found)
