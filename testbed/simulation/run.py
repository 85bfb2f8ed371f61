"""One simulated run, in order: network, ranks, warm-up, iterations, counts.

Whatever happens, what was measured until then is handed over as `Samples` with a status. Real time is looked at between
stretches of virtual time only, and decides nothing but when the run's own limit ends it.
"""

import contextlib
import gc
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import Interrupted, RunFailed, TestbedError
from testbed.plan.model import JobPlan, Plan
from testbed.results.model import Simulation
from testbed.results.rundir import RunDirectory
from testbed.results.samples import Evidence, FlowRow, JobEvidence, JobSamples, PacketTotals, Samples
from testbed.run.counting import Tally
from testbed.run.progress import Progress
from testbed.simulation.books import Books
from testbed.simulation.ending import first_of, stall_reached, until_end, wall_reached
from testbed.simulation.flows import FlowTraffic
from testbed.simulation.job import Hooks, SimulatedJob
from testbed.simulation.network import SimulatedNetwork
from testbed.simulation.stress import Faults, Traffic
from testbed.simulation.timeline import FILE as TRACE_FILE
from testbed.simulation.timeline import Timeline
from testbed.topology.select import select
from testbed.worker.clock import ModelClock
from testbed.worker.setup import share

_NS = 1e9
_STRETCH_S = 0.1  # of real time: about how often the run's limit and interrupts are heeded
_FIRST_STRETCH_NS = 100_000
_QUIESCE_NS = 10_000_000_000
_SAMPLES_A_ROUND_TRIP = 8  # of the queues in a timeline


@dataclass(slots=True)
class _Parts:
    """What there is once the network is."""

    network: SimulatedNetwork
    jobs: dict[str, SimulatedJob]
    books: Books
    faults: Faults


class SimulatedRun:
    """Carries out one plan in simulation, once. trace: also write a timeline (`testbed.simulation.timeline`)."""

    def __init__(
        self, plan: Plan, directory: RunDirectory, run_id: str, progress: Progress, *, trace: bool = False
    ) -> None:
        self.simulation: Simulation | None = None  # what it came to, once the network was there
        self._plan = plan
        self._directory = directory
        self._run_id = run_id
        self._progress = progress
        self._parts: _Parts | None = None
        self._trace = trace
        self._timeline: Timeline | None = None
        self._tally = Tally()
        self._learnt: dict[str, dict[str, float]] = {}  # by job: metrics of its training, the latest
        self._flows: tuple[FlowRow, ...] = ()
        self._setup_s = 0.0
        self._done = 0
        self._wall_deadline = 0.0

    def run(self) -> tuple[Samples, TestbedError | None]:
        """What was measured, and the error that ended the run early (None: it ended as planned)."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="testbed-") as folder:
            with _few_collections():
                status, error = until_end(lambda: self._measure(began, Path(folder)))
            if error is not None:
                with contextlib.suppress(RunFailed):
                    self._end_files()
            if self._parts is not None:
                self._close(self._parts, error)
        samples = Samples(
            status=status,
            failure=error.message if error else "",
            jobs=tuple(map(self._job_samples, self._plan.jobs)),
            links=self._tally.links,
            switches=self._tally.switches,
            evidence=Evidence(
                unmodelled_drops=self._tally.unmodelled_drops,
                notes=tuple(self._parts.network.notes) if self._parts else (),
            ),
            wall_s=time.monotonic() - began,
            setup_s=self._setup_s,
            teardown_s=0.0,
            swaps=tuple(self._parts.faults.swaps) if self._parts else (),
            flows=self._flows,
        )
        return samples, error

    def _measure(self, began: float, folder: Path) -> None:
        plan = self._plan
        self._wall_deadline = began + plan.spec.limits.wall_ns / _NS
        self._progress.stage("making the network and the ranks")
        self._parts = parts = self._made(folder)
        network = parts.network
        traffic, flows = Traffic(network), FlowTraffic(network)
        self._start_captures(network)
        gc.freeze()
        self._setup_s = time.monotonic() - began
        self._progress.stage("running")
        parts.faults.warm_up(network.now_ns)
        flows.warm_up(network.now_ns)
        for job in parts.jobs.values():
            job.warm_up(network.now_ns)
        self._play(parts)
        parts.faults.pause()
        flows.pause()
        self._quiesce(parts)
        parts.books.open()
        zero_ns = network.now_ns
        if self._timeline is not None:
            self._timeline.zero(zero_ns)
            self._sample_queues(self._timeline, zero_ns)
        for job in parts.jobs.values():
            job.measure(zero_ns)
        parts.faults.start(zero_ns)
        traffic.start(zero_ns)
        flows.start(zero_ns)
        self._play(parts)
        self._flows = flows.stop()
        if plan.spec.traffic:
            self._directory.event("traffic", **traffic.stop())
        self._quiesce(parts)
        self._end_files()
        self._tally = parts.books.close()

    def _made(self, folder: Path) -> _Parts:
        plan = self._plan
        network = SimulatedNetwork(plan, self._directory.path / "plan.json", folder)
        hooks = Hooks(
            rested=network.core.stop_playing,
            on_rows=self._directory.add_iterations,
            on_gaps=self._directory.add_gaps,
            on_metrics=self._training,
            progress=self._count,
        )
        if self._trace:
            self._timeline = Timeline(self._directory.path / TRACE_FILE, plan)
        clock = ModelClock(0, 1)
        jobs = {
            job.name: SimulatedJob(network, share(plan, job, self._run_id, clock), hooks, self._timeline)
            for job in plan.jobs
        }
        return _Parts(network, jobs, Books(network, jobs), Faults(network, jobs, self._directory.event))

    def _play(self, parts: _Parts) -> None:
        """Let time pass until all jobs rest; raises RunFailed with who waits for what."""
        left_s = min(max(0.0, self._wall_deadline - time.monotonic()), threading.TIMEOUT_MAX)
        timer = threading.Timer(left_s, parts.network.core.stop_playing)  # a stretch may hold more than was thought
        timer.daemon = True
        timer.start()
        try:
            self._play_on(parts)
        finally:
            timer.cancel()

    def _play_on(self, parts: _Parts) -> None:
        network, jobs = parts.network, parts.jobs.values()
        stall_ns = self._plan.spec.limits.stall_ns
        stretch_ns = _FIRST_STRETCH_NS
        while busy := [job for job in jobs if not job.resting]:
            first = min(busy, key=lambda job: job.released_ns)
            limit_ns = first.released_ns + stall_ns
            before = time.monotonic()
            now = network.play(min(network.now_ns + stretch_ns, limit_ns))
            took_s = time.monotonic() - before
            stretch_ns = max(1, stretch_ns * 2 if took_s < _STRETCH_S else stretch_ns // 2)
            if now >= limit_ns and not first.resting and first.released_ns + stall_ns == limit_ns:
                raise stall_reached(self._plan.spec.limits, first.plan, self._unfinished(parts))
            self._heed_limit(parts)

    def _heed_limit(self, parts: _Parts) -> None:
        if time.monotonic() >= self._wall_deadline:
            raise wall_reached(self._plan.spec.limits, parts.network.now_ns, self._unfinished(parts))

    def _unfinished(self, parts: _Parts) -> str:
        """Which rank waits for what from whom since when: some in words, all into events.jsonl."""
        now = parts.network.now_ns
        waiting = {name: what for job in parts.jobs.values() for name, what in job.waiting(now).items()}
        self._directory.event("unfinished", at_ns=now, waiting=waiting)
        return first_of([f"{name}: {what}" for name, what in waiting.items()], "ranks")

    def _quiesce(self, parts: _Parts) -> None:
        """Let pass what is still under way of any job: twice nothing is, and nothing was delivered in between."""
        network = parts.network
        step_ns = max(1, self._plan.prediction.base_rtt_ns)
        last, longest_ns = (-1, -1), network.now_ns + _QUIESCE_NS + 4 * step_ns
        while True:
            delivered = sum(counters.job_packets for counters in network.link_counters().values())
            before, last = last, (network.in_flight(), delivered)
            if last[0] == 0 and last == before and all(job.idle() for job in parts.jobs.values()):
                return
            if network.now_ns > longest_ns:
                raise RunFailed(f"{last[0]} packets stay in the network: {self._unfinished(parts)}")
            network.play(network.now_ns + step_ns)
            self._heed_limit(parts)

    def _sample_queues(self, timeline: Timeline, now: int) -> None:
        """Write how long the queues are, now and a number of times a round trip from now on."""
        assert self._parts is not None
        core = self._parts.network.core
        every_ns = max(1, self._plan.prediction.base_rtt_ns // _SAMPLES_A_ROUND_TRIP)

        def sample(now: int) -> None:
            timeline.queues(now, core.queued())
            if self._parts is not None and not all(job.resting for job in self._parts.jobs.values()):
                core.call_at(now + every_ns, sample)

        core.call_at(now, sample)

    def _start_captures(self, network: SimulatedNetwork) -> None:
        """One file a selected cable, of what crosses its first selected end both ways, from the warm-up on."""
        capture, graph = self._plan.spec.capture, self._plan.graph
        if capture is None:
            return
        cables = {graph.links[i].cable: graph.links[i] for i in reversed(select(graph, capture.select))}
        for link in cables.values():
            network.capture(link.source, link.source_port, self._directory.pcap.absolute(), capture.snap_bytes)

    def _end_files(self) -> None:
        """Complete the captures and the timeline; raises RunFailed where one could not be written."""
        timeline, self._timeline = self._timeline, None
        try:
            if self._parts is not None:
                self._parts.network.end_captures(self._directory.pcap)
        finally:
            if timeline is not None:
                timeline.close()

    def _close(self, parts: _Parts, error: TestbedError | None) -> None:
        """Tell what the simulation came to, and after a failure what may be its reason."""
        told = parts.network.core.statistics()
        self.simulation = Simulation(events=told["events"], hops=told["hops"], virtual_ns=told["now_ns"])
        if error is None:
            return
        self._tally, known = parts.books.close_early()
        if known and not isinstance(error, Interrupted):
            error.message += f" [{known}]"
            error.args = (error.message,)

    def _count(self) -> None:
        self._done += 1
        total = sum(job.warmup + job.iterations for job in self._parts.jobs.values()) if self._parts else 0
        self._progress.iterations(self._done, total)

    def _training(self, job: str, number: int, metrics: dict[str, float]) -> None:
        self._learnt[job] = metrics
        self._directory.event("training", iteration=number, **({"job": job} if job else {}), **metrics)

    def _job_samples(self, plan: JobPlan) -> JobSamples:
        job, tally = self._parts.jobs[plan.name] if self._parts else None, self._tally.jobs.get(plan.name)
        evidence = JobEvidence(plan.prediction.base_rtt_ns, iterations=tuple(job.evidence) if job else ())
        return JobSamples(
            plan.name,
            evidence,
            iterations=tuple(job.rows) if job else (),
            packets=tally.packets if tally else PacketTotals(),
            bytes_on_wire=tally.bytes_on_wire if tally else 0,
            payload_bytes=tally.payload_bytes if tally else 0,
            counters=tally.counters if tally else {},
            training=self._learnt.get(plan.name, {}),
        )


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    """Without the collector of cycles, which would look through millions of posted receives again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
