"""One run without packets, in order: routes, warm-up, iterations.

An iteration is released when nobody waits for anybody of the one before any more, as with packets. No numbers move, so
nothing is added up or checked; nothing is lost, so no packet is counted.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from testbed.errors import TestbedError
from testbed.plan.framing import framing
from testbed.plan.message_level import routes_of
from testbed.plan.model import JobPlan, Plan
from testbed.plan.network import endpoint_path
from testbed.results.model import Simulation
from testbed.results.rundir import RunDirectory
from testbed.results.samples import (
    Evidence,
    IterationEvidence,
    IterationRow,
    JobEvidence,
    JobSamples,
    Samples,
)
from testbed.run.progress import Progress
from testbed.simulation.ending import first_of, stall_reached, until_end, wall_reached
from testbed.simulation.messages.flows import Flows
from testbed.simulation.messages.job import JobMessages, job_messages
from testbed.simulation.messages.network import Network
from testbed.simulation.messages.routes import Routes, one_below_another
from testbed.spec.model import WorkloadSpec
from testbed.stress.draws import TimedFault, Upcoming, timeline
from testbed.training import gradient_source
from testbed.worker.workload import Workload

_NS = 1e9
NOTE = (
    "fidelity: message: no packets, so nothing is queued, marked, lost or counted, and no values are added up or "
    "checked; links are shared max-min fairly, whatever queue, ecn and congestion say"
)


@dataclass(slots=True)
class _Job:
    """A job, and how far it is. Instants are those of the simulation; rows count from zero."""

    plan: JobPlan
    workload: WorkloadSpec
    made: JobMessages
    paths: npt.NDArray[np.int64]
    received_bytes: list[int]
    work: list[Workload]
    flows: Flows | None = None
    index: int = -1
    released_ns: float = 0.0
    start_ns: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    warm: list[list[IterationRow]] = field(default_factory=list)
    rows: list[IterationRow] = field(default_factory=list)
    evidence: list[IterationEvidence] = field(default_factory=list)


class MessageRun:
    """Carries out one plan, once."""

    def __init__(self, plan: Plan, directory: RunDirectory, progress: Progress) -> None:
        self.simulation: Simulation | None = None
        self._plan = plan
        self._directory = directory
        self._progress = progress
        self._network = Network([link.parameters for link in plan.graph.links])
        self._jobs: list[_Job] = []
        self._faults = Upcoming(())
        self._routes: Routes | None = None
        self._down: set[int] = set()
        self._zero_ns = 0.0
        self._deadline = 0.0
        self._setup_s = 0.0
        self._done = self._total = 0

    def run(self) -> tuple[Samples, TestbedError | None]:
        """What was measured, and the error that ended the run early (None: it ended as planned)."""
        began = time.monotonic()
        status, error = until_end(lambda: self._measure(began))
        network = self._network
        self.simulation = Simulation(
            events=network.instants, hops=0, virtual_ns=round(network.now_ns), fidelity="message"
        )
        samples = Samples(
            status=status,
            failure=error.message if error else "",
            jobs=tuple(self._samples(plan) for plan in self._plan.jobs),
            links=(),
            switches=(),
            evidence=Evidence(notes=(NOTE,)),
            wall_s=time.monotonic() - began,
            setup_s=self._setup_s,
            teardown_s=0.0,
        )
        return samples, error

    def _measure(self, began: float) -> None:
        plan = self._plan
        self._deadline = began + plan.spec.limits.wall_ns / _NS
        self._progress.stage("making the messages and their ways")
        self._routes = routes_of(plan.spec, plan.graph)
        self._jobs = [self._job(job) for job in plan.jobs]
        self._total = sum(job.workload.warmup + job.workload.iterations for job in self._jobs)
        self._setup_s = time.monotonic() - began
        self._progress.stage("running")
        for job in self._jobs:
            if job.workload.warmup:
                self._release(job, 0, 0.0)
        self._play()
        self._zero_ns = self._network.now_ns
        self._faults = Upcoming(timeline(plan))
        for job in self._jobs:
            for rows in job.warm:
                self._emit(job, [_since(row, round(self._zero_ns)) for row in rows])
            self._release(job, job.workload.warmup, self._zero_ns + job.plan.spec.start_ns)
        self._play()

    def _job(self, plan: JobPlan) -> _Job:
        spec, workload = self._plan.spec, plan.spec.workload
        assert workload is not None
        assert self._routes is not None
        number = {host: i for i, host in enumerate(self._plan.graph.hosts)}
        path = endpoint_path(self._plan, plan)
        hosts = [number[host] for host in plan.placement]
        made = job_messages(plan.spec, hosts, plan.seed, framing(plan.spec.transport, path))
        source = gradient_source("none", rank=0, ranks=1, seed=0, dtype=workload.dtype, size_bytes=1)
        ranks = range(len(hosts))
        work = [Workload(spec.faults, plan, workload, source, made.steps, rank) for rank in ranks]
        received = np.bincount(made.messages.destination, made.messages.size_bytes, len(hosts)).astype(np.int64)
        return _Job(plan, workload, made, made.paths(self._routes), received.tolist(), work)

    def _release(self, job: _Job, index: int, at_ns: float) -> None:
        """Let an iteration begin at an instant, each rank once it has computed."""
        job.index, job.released_ns = index, at_ns
        job.start_ns = at_ns + np.array([work.compute_ns(index) for work in job.work], float)
        held = {
            (rank, step): delay for rank, work in enumerate(job.work) for step, delay in work.step_delays(index).items()
        }
        made = job.made
        job.flows = Flows(made.messages, made.frames, made.pair, job.paths, job.start_ns, held)
        self._network.add(job.flows)

    def _play(self) -> None:
        """Let time pass until all jobs rest; raises RunFailed with who waits for what."""
        network = self._network
        while busy := [job for job in self._jobs if job.flows is not None]:
            done = [(job, job.flows) for job in busy if job.flows is not None and job.flows.done]
            for job, flows in done:
                self._complete(job, flows)
            if done:
                continue
            fault_ns = np.inf if self._faults.at_ns is None else self._faults.at_ns + self._zero_ns
            next_ns = network.next_ns
            self._heed_limits(busy, min(next_ns, fault_ns))
            if fault_ns <= next_ns:
                self._carry_out(self._faults.pop(), fault_ns)
            else:
                network.turn(fault_ns)

    def _heed_limits(self, busy: Sequence[_Job], next_ns: float) -> None:
        limits = self._plan.spec.limits
        if time.monotonic() >= self._deadline:
            raise wall_reached(limits, self._network.now_ns, self._unfinished(busy))
        late = [job for job in busy if job.flows is not None and next_ns > job.released_ns + limits.stall_ns]
        if late:
            raise stall_reached(limits, late[0].plan, self._unfinished(busy))

    def _unfinished(self, busy: Sequence[_Job]) -> str:
        """The messages that are under way: some in words, all into events.jsonl."""
        told = [
            f"{job.plan.called(source)}: {left:,.0f} bytes of its message to {job.plan.called(target)} in step {step}"
            for job in busy
            if job.flows is not None
            for source, target, step, left in job.flows.under_way(self._network.now_ns)
        ]
        self._directory.event("unfinished", at_ns=round(self._network.now_ns), waiting=told)
        return first_of(told, "messages") or "nothing is under way"

    def _carry_out(self, fault: TimedFault, at_ns: float) -> None:
        """A link changes, or carries nothing any more: then what is under way goes another way at once, if there is
        one."""
        links, network = self._plan.graph.links, self._network
        if fault.kind == "link-set":
            network.change(at_ns, fault.parameters)
        else:
            down = fault.kind == "link-down"
            self._down = self._down | set(fault.cables) if down else self._down - set(fault.cables)
            self._routes = routes_of(self._plan.spec, self._plan.graph, sorted(self._down))
            for job in self._jobs:
                job.paths = _where_there_is_one(job.made.paths(self._routes), job.paths, self._routes.nothing)
                if job.flows is not None:
                    job.flows.paths = job.paths
            network.set_down(at_ns, [2 * cable + way for cable in fault.cables for way in (0, 1)], down=down)
        places = [links[2 * cable].name.replace(">", "-") for cable in fault.cables]
        places += [links[index].name for index in fault.parameters]
        self._directory.event("fault", fault=fault.kind, at_ns=fault.at_ns, where=places)

    def _complete(self, job: _Job, flows: Flows) -> None:
        """Keep the rows, and release what follows."""
        self._network.remove(flows)
        warmup, iterations = job.workload.warmup, job.workload.iterations
        warm = job.index < warmup
        number = job.index if warm else job.index - warmup
        zero_ns = 0.0 if warm else self._zero_ns  # of warm-up it is not known yet
        start, end = (np.rint(each - zero_ns).astype(np.int64).tolist() for each in (job.start_ns, flows.received_ns))
        received = job.received_bytes
        rows = [
            IterationRow(
                number, rank, warm, True, start[rank], end[rank], received[rank], 0, None, None, 0, 0, 0, job.plan.name
            )
            for rank in range(len(start))
        ]
        if warm:
            job.warm.append(rows)
        else:
            job.evidence.append(IterationEvidence(number, max(end) - min(start), None, 0))
            self._emit(job, rows)
        job.flows = None
        self._done += 1
        self._progress.iterations(self._done, self._total)
        if job.index + 1 not in (warmup, warmup + iterations):
            self._release(job, job.index + 1, flows.done_ns)

    def _emit(self, job: _Job, rows: list[IterationRow]) -> None:
        job.rows.extend(rows)
        self._directory.add_iterations(rows)

    def _samples(self, plan: JobPlan) -> JobSamples:
        job = next((job for job in self._jobs if job.plan is plan), None)
        evidence = JobEvidence(plan.prediction.base_rtt_ns, iterations=tuple(job.evidence) if job else ())
        payload = sum(job.received_bytes) * len(job.evidence) if job else 0
        return JobSamples(plan.name, evidence, iterations=tuple(job.rows) if job else (), payload_bytes=payload)


def _since(row: IterationRow, zero_ns: int) -> IterationRow:
    return replace(row, start_ns=row.start_ns - zero_ns, end_ns=row.end_ns - zero_ns)


def _where_there_is_one(
    paths: npt.NDArray[np.int64], before: npt.NDArray[np.int64], nothing: int
) -> npt.NDArray[np.int64]:
    """The new paths, but the old ones, which are cut, where nothing leads to the target any more."""
    new, old = np.split(one_below_another([paths, before], nothing), 2)
    return np.where((new >= 0).all(axis=1, keepdims=True), new, old)
