"""One emulated run, in order: network up, workers up, probes on the idle network, iterations, counts, all down again.

Whatever happens, what was measured until then is handed over as `Samples` with a status, and everything that was made
is taken down. Of `time_dilation: auto` the plan says only how slow the run has to be by what this machine once carried:
where the warm-up shows that ranks or links are late all the same, because the machine has less to give today or the
endpoints take more than a ring's over RoCE, nothing is measured yet, and `TooFast` asks for a slower one.
"""

import contextlib
import time
from collections.abc import Mapping, Sequence

from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.processes import Child
from testbed.emulation.state import RunState
from testbed.errors import Interrupted, RunFailed, TestbedError
from testbed.fabric.model import interface
from testbed.plan.environment import struck_in_warmup
from testbed.plan.model import JobPlan, Plan
from testbed.results.rundir import RunDirectory
from testbed.results.samples import (
    Evidence,
    FlowRow,
    IterationEvidence,
    JobEvidence,
    JobSamples,
    PacketTotals,
    Samples,
    Status,
)
from testbed.results.verdict import suspicious
from testbed.run.books import Books
from testbed.run.channel import Channel
from testbed.run.conductor import Conductor
from testbed.run.counting import Tally
from testbed.run.faults import FaultTimeline
from testbed.run.interrupts import interruptible, uninterrupted
from testbed.run.iterations import Hooks, Iterations, Measured
from testbed.run.launch import start_generator, start_workers
from testbed.run.probes import Probes, probe
from testbed.run.progress import Progress
from testbed.stress.draws import timeline
from testbed.topology.select import select

_START_LIMIT_S = 60.0
_START_PER_RANK_S = 1.0
_STOP_LIMIT_S = 20.0
SLOWER = 2  # times, whenever a machine cannot keep up
_MOST_WALL = 0.8  # of limits.wall: what a slower attempt may be expected to end within
_NS = 1e9


class TooFast(Exception):
    """The machine cannot keep up with a plan's dilation; all is down again, and nothing was measured."""


class EmulatedRun:
    """Carries out one plan in emulation, once.

    began: time.monotonic() when the first attempt at it did. last: another one, slower, is out of the question.
    """

    def __init__(
        self,
        plan: Plan,
        directory: RunDirectory,
        state: RunState,
        progress: Progress,
        *,
        began: float,
        last: bool,
    ) -> None:
        self._plan = plan
        self._began = began
        self._last = last
        self._directory = directory
        self._state = state
        self._progress = progress
        self._network = EmulatedNetwork(plan, state, directory.logs)
        self._children: list[Child] = []
        self._conductor: Conductor | None = None
        self._iterations: Iterations | None = None
        self._generator: Channel | None = None
        self._probes = {job.name: Probes() for job in plan.jobs}
        self._faults: FaultTimeline | None = None
        self._tally = Tally()
        self._flows: tuple[FlowRow, ...] = ()
        self._learnt: dict[str, dict[str, float]] = {}  # by job: metrics of its training, the latest
        self._books: Books | None = None
        self._setup_s = 0.0
        self._warming_since = 0.0  # time.monotonic()
        self._notes: list[str] = []

    def run(self) -> tuple[Samples, TestbedError | None]:
        """What was measured, and the error that ended the run early (None: it ended as planned). Raises TooFast."""
        status: Status = "ok"
        error: TestbedError | None = None
        with uninterrupted() as came:
            try:
                with interruptible():
                    self._measure()
            except Interrupted as interrupt:
                status, error = "interrupted", interrupt
            except TestbedError as failure:
                status, error = "failed", self._network.cause(failure)
            except TooFast:
                self._stage("taking the network down, to begin again slower")
                if problems := self._take_down():
                    raise RunFailed(f"the network did not go down: {problems[0]}", hint="run `testbed clean`") from None
                if came:
                    raise Interrupted("interrupted while the network was taken down, to begin again slower") from None
                for capture in self._directory.pcap.iterdir():
                    capture.unlink()
                raise
            except BaseException:
                self._take_down()
                raise
            self._stage("taking the network down")
            down = time.monotonic()
            if error is not None:
                self._salvage(error)
            problems = self._take_down()
            ended = time.monotonic()
            if came and error is None:
                error = Interrupted("interrupted while the network was taken down, when all was measured")
        if problems:
            self._directory.event("teardown", problems=problems)
        samples = Samples(
            status=status,
            failure=error.message if error else "",
            jobs=tuple(map(self._job_samples, self._plan.jobs)),
            links=self._tally.links,
            switches=self._tally.switches,
            evidence=self._evidence(),
            wall_s=ended - self._began,
            setup_s=self._setup_s,
            teardown_s=ended - down,
            swaps=tuple(self._faults.swaps) if self._faults else (),
            flows=self._flows,
        )
        return samples, error

    def _measure(self) -> None:
        plan, began = self._plan, time.monotonic()
        self._stage("bringing the network up")
        times = self._network.start()
        self._directory.event("network-up", seconds=times.total_s)
        conductor = Conductor(self._network.hub, wall_limit_s=plan.spec.limits.wall_ns / _NS, began=self._began)
        self._conductor, books = conductor, Books(self._network, conductor)
        self._books = books
        self._stage("starting the workers")
        self._start_processes(conductor)
        self._setup_s = time.monotonic() - began
        self._stage("measuring the idle network")
        for job in plan.jobs:
            probe(plan, job, conductor, self._probes[job.name])
        self._start_captures()
        warm = timeline(plan, struck_in_warmup(plan.spec)[0])
        faults = FaultTimeline(timeline(plan), self._network, conductor, self._directory.event, warm)
        self._faults = faults
        self._iterations = Iterations(
            conductor,
            plan.jobs,
            Hooks(
                warmed_up=self._warmed_up,
                before_zero=books.open,
                at_zero=lambda zero_ns: self._at_zero(faults, zero_ns),
                quiesce=books.quiesce,
                link_lateness=books.link_lateness,
                on_rows=self._directory.add_iterations,
                on_gaps=self._directory.add_gaps,
                on_metrics=self._training,
                progress=self._progress.iterations,
            ),
            dilation=plan.dilation,
            stall_limit_s=plan.spec.limits.stall_ns * plan.dilation / _NS,
        )
        self._stage("running")
        self._warming_since = time.monotonic()
        self._warm_up(faults, time.monotonic_ns())
        self._count(conductor, self._iterations.run())

    def _start_processes(self, conductor: Conductor) -> None:
        plan = self._plan
        limit_s = _START_LIMIT_S + _START_PER_RANK_S * len(plan.placement)
        workers = start_workers(self._network, self._directory.logs)
        self._children.append(workers)
        conductor.check = self._check_processes
        conductor.welcome_ranks(len(plan.placement), limit_s, workers.check)
        for number, channel in conductor.ranks.items():
            self._state.add_child(plan.called(number), channel.hello["pid"])
        for channel in self._network.hub.channels:
            if channel.hello["hello"] == "server":
                self._state.add_child(channel.name, channel.hello["pid"])
        if plan.spec.traffic:
            generator = start_generator(self._network, self._directory.logs)
            self._children.append(generator)
            self._generator = conductor.welcome("generator", limit_s, generator.check)

    def _check_processes(self) -> None:
        """Raise RunFailed if one has died that has no channel of its own."""
        self._network.check()

    def _start_captures(self) -> None:
        """One file a selected cable, of what crosses its first selected end both ways, from the warm-up on."""
        capture, graph = self._plan.spec.capture, self._plan.graph
        cables = (
            {graph.links[i].cable: graph.links[i] for i in reversed(select(graph, capture.select))} if capture else {}
        )
        for link in cables.values():
            path = self._directory.pcap / f"{interface(link.source, link.source_port)}.pcapng"
            self._network.capture(link.source, link.source_port, path.absolute(), capture.snap_bytes if capture else 0)

    def _warm_up(self, faults: FaultTimeline, now_ns: int) -> None:
        if self._generator is not None:
            self._generator.send({"op": "warm-up", "at_ns": now_ns})
        faults.warm_up(now_ns)

    def _warmed_up(self, evidence: Mapping[str, Sequence[IterationEvidence]]) -> None:
        """Raises TooFast if most of a job's warm-up iterations would be suspect, and `auto` leaves a choice."""
        base_rtt_ns = {job.name: job.prediction.base_rtt_ns for job in self._plan.jobs}
        doubted = any(
            2 * sum(suspicious(each, base_rtt_ns[job]) for each in iterations) > len(iterations)
            for job, iterations in evidence.items()
        )
        if self._plan.spec.time_dilation != "auto" or not doubted:
            return
        if self._last:
            told = "it was raised as often as it may be"
        elif (
            self._wall_s_when_slower(max(map(len, evidence.values())))
            > _MOST_WALL * self._plan.spec.limits.wall_ns / _NS
        ):
            told = "limits.wall leaves no time for more"
        else:
            raise TooFast
        self._notes.append(f"warm-up was late at a time dilation of {self._plan.dilation}, and {told}")

    def _wall_s_when_slower(self, warm: int) -> float:
        """How long all will have taken if it begins again now, by what as many warm-up iterations took."""
        now = time.monotonic()
        work = [job.spec.workload for job in self._plan.jobs if job.spec.workload]
        again = SLOWER * (now - self._warming_since) * max(1 + each.iterations / warm for each in work)
        return now - self._began + again

    def _at_zero(self, faults: FaultTimeline, zero_ns: int) -> None:
        if self._generator is not None:
            self._generator.send({"op": "start", "at_ns": zero_ns})
        faults.start(zero_ns)

    def _training(self, job: str, number: int, metrics: dict[str, float]) -> None:
        self._learnt[job] = metrics
        self._directory.event("training", iteration=number, **({"job": job} if job else {}), **metrics)

    def _count(self, conductor: Conductor, measured: Mapping[str, Measured]) -> None:
        """End what was started for the measured part, and close the books."""
        assert self._books is not None
        if self._generator is not None:
            achieved = conductor.ask(self._generator, {"op": "stop"}, _STOP_LIMIT_S)
            self._flows = tuple(FlowRow(**row) for row in achieved["over_tcp"])
            self._directory.event("traffic", **{k: v for k, v in achieved.items() if k not in ("id", "over_tcp")})
        if self._plan.spec.capture is not None:
            self._network.end_captures()
        self._tally = self._books.close(measured)

    def _salvage(self, error: TestbedError) -> None:
        """After a failure: keep what links and switches say, if they still do, and have the error tell what of it may
        be its reason."""
        with contextlib.suppress(TestbedError, OSError, AssertionError):
            if self._books is not None:
                self._tally, known = self._books.close_early()
                if known and not isinstance(error, Interrupted):
                    error.message += f" [{known}]"
                    error.args = (error.message,)

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

    def _job_samples(self, job: JobPlan) -> JobSamples:
        measured = self._iterations.measured[job.name] if self._iterations else Measured()
        probes, tally = self._probes[job.name], self._tally.jobs.get(job.name)
        return JobSamples(
            job.name,
            JobEvidence(
                base_rtt_ns=job.prediction.base_rtt_ns,
                iterations=tuple(measured.evidence),
                rtt=tuple(probes.rtt),
                rates=tuple(probes.rates),
            ),
            iterations=tuple(measured.rows),
            packets=tally.packets if tally else PacketTotals(),
            bytes_on_wire=tally.bytes_on_wire if tally else 0,
            payload_bytes=tally.payload_bytes if tally else 0,
            counters=tally.counters if tally else {},
            training=self._learnt.get(job.name, {}),
        )

    def _evidence(self) -> Evidence:
        return Evidence(
            unmodelled_drops=self._tally.unmodelled_drops,
            shaping_mismatches=tuple(self._network.mismatches),
            lost=tuple(self._conductor.lost) if self._conductor else (),
            undilated=undilated(self._plan),
            notes=(
                *(note for probes in self._probes.values() for note in probes.notes),
                *(self._conductor.notes if self._conductor else ()),
                *self._notes,
            ),
        )

    def _stage(self, what: str) -> None:
        self._progress.stage(what)
        self._state.set_progress(what)


def undilated(plan: Plan) -> tuple[str, ...]:
    """What runs at its own speed although the network is slowed down."""
    if plan.dilation == 1:
        return ()
    found = []
    flows = any(entry.kind == "flows" for entry in plan.spec.traffic)
    if flows or any(job.spec.transport.kind == "tcp" for job in plan.jobs):
        found.append("kernel TCP's timers other than its minimum RTO (delayed acknowledgements, probes)")
    if any(job.spec.workload is not None and job.spec.workload.kind == "command" for job in plan.jobs):
        found.append("the command's own computing and timers")
    return tuple(found)
