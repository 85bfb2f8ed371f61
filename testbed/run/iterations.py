"""The iterations of a run's jobs: prepare, release all ranks at one agreed instant, collect, keep what was measured.

Each job goes from one iteration to the next on its own, beside the others. Zero of model time is one instant for all:
the release of the first measured iteration of those that start at 0; another's is released at its `start`. Before zero
all jobs warm up and the network is let run empty, so that the counts of the measured part begin and end with nothing
under way. A job that has done its iterations is silent until the last of the others has.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean

from testbed.collective.executor import Gap
from testbed.errors import RunFailed
from testbed.plan.model import JobPlan
from testbed.results.samples import GapRow, IterationEvidence, IterationRow
from testbed.results.verdict import suspicious
from testbed.run.channel import Message
from testbed.run.conductor import Conductor, LimitReached, Procedure
from testbed.transport import loses

_RELEASE_MARGIN_NS = 20_000_000  # for the release to reach everyone before its instant
_RELEASE_PER_RANK_NS = 500_000
_PREPARE_LIMIT_S = 120.0
_COUNTERS_LIMIT_S = 20.0
_NS = 1e9

LinkLateness = Callable[[str], tuple[int | None, str]]
"""Of a job, since it last asked: the p99 (model ns) of the link that was worst, and its name."""


@dataclass(slots=True)
class Measured:
    """What the iterations of a job gave."""

    rows: list[IterationRow] = field(default_factory=list)
    evidence: list[IterationEvidence] = field(default_factory=list)
    before: dict[int, Message] = field(default_factory=dict)  # each rank's counters at zero, by its number
    after: dict[int, Message] = field(default_factory=dict)  # and at the end


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the iterations call on the way."""

    warmed_up: Callable[[Mapping[str, Sequence[IterationEvidence]]], None]  # by job, of its warm-up iterations
    before_zero: Callable[[], None]  # the network is empty, and the measured part comes next
    at_zero: Callable[[int], None]  # the instant (CLOCK_MONOTONIC) of model time zero, before it has come
    quiesce: Callable[[], None]  # waits until nothing of any job is under way
    link_lateness: LinkLateness
    on_rows: Callable[[list[IterationRow]], None]
    on_gaps: Callable[[list[GapRow]], None]  # of a measured iteration in which something was missing
    on_metrics: Callable[[str, int, dict[str, float]], None]  # of a job's training, after a measured iteration
    progress: Callable[[int, int], None]  # iterations done, of how many, of all jobs


class Iterations:
    """Runs warm-up and measured iterations of jobs over the ranks of a `Conductor`."""

    def __init__(
        self, conductor: Conductor, jobs: Sequence[JobPlan], hooks: Hooks, *, dilation: int, stall_limit_s: float
    ) -> None:
        self.zero_ns: int | None = None  # CLOCK_MONOTONIC
        self._conductor = conductor
        self._hooks = hooks
        self._done = 0
        self._jobs = [_Job(conductor, job, hooks, self._count, dilation, stall_limit_s) for job in jobs]
        self._total = sum(job.warmup + job.iterations for job in self._jobs)

    @property
    def measured(self) -> dict[str, Measured]:
        """By job; what was measured until now."""
        return {job.plan.name: job.measured for job in self._jobs}

    def run(self) -> dict[str, Measured]:
        """All of them; raises RunFailed with who waits for what. What was measured until then is in `measured`."""
        warm = self._conductor.together([job.warm_up() for job in self._jobs])
        self._hooks.warmed_up({job.plan.name: evidence for job, evidence in zip(self._jobs, warm, strict=True)})
        self._hooks.quiesce()
        for job in self._jobs:
            job.measured.before = job.counters()
        self._hooks.before_zero()
        self._conductor.together([job.prepare(job.warmup) for job in self._jobs])
        self.zero_ns = _release_ns(len(self._conductor.ranks))
        self._hooks.at_zero(self.zero_ns)
        self._conductor.together([job.measure(self.zero_ns) for job in self._jobs])
        self._hooks.quiesce()
        for job in self._jobs:
            job.measured.after = job.counters()
        return self.measured

    def _count(self) -> None:
        self._done += 1
        self._hooks.progress(self._done, self._total)


def _release_ns(ranks: int) -> int:
    """When ranks that are told now can all be released."""
    return time.monotonic_ns() + _RELEASE_MARGIN_NS + _RELEASE_PER_RANK_NS * ranks


def _gaps(done: dict[int, Message]) -> list[tuple[int, list[int]]]:
    """The ranks' gaps, each with the rank, in order of ranks."""
    return sorted((message["rank"], gap) for message in done.values() for gap in message["gaps"])


class _Job:
    """One job's iterations, counted from its first warm-up; of a command there is one, the whole of the program."""

    def __init__(
        self,
        conductor: Conductor,
        plan: JobPlan,
        hooks: Hooks,
        count: Callable[[], None],
        dilation: int,
        stall_limit_s: float,
    ) -> None:
        workload = plan.spec.workload
        assert workload is not None  # testbed.run.experiment
        self._command = workload.kind == "command"
        self.plan = plan
        self.warmup, self.iterations = (0, 1) if self._command else (workload.warmup, workload.iterations)
        self.measured = Measured()
        self._conductor = conductor
        self._hooks = hooks
        self._count = count
        self._dilation = dilation
        self._stall_limit_s = math.inf if self._command else stall_limit_s  # what a program waits for is its own affair
        self._warm: list[dict[int, Message]] = []
        self._zero_ns = 0

    def warm_up(self) -> Procedure[list[IterationEvidence]]:
        """What is evident of each."""
        evidence = []
        for index in range(self.warmup):
            yield from self.prepare(index)
            self._warm.append((yield from self._round(index, self._soon())))
            evidence.append(self._evidence(index - self.warmup, self._warm[-1]))
        return evidence

    def measure(self, zero_ns: int) -> Procedure[None]:
        """The first, which is prepared, is released at the job's start."""
        self._zero_ns = zero_ns
        for index in range(self.warmup, self.warmup + self.iterations):
            if index == self.warmup:
                start_ns = self.plan.spec.start_ns * self._dilation
                done = yield from self._round(index, zero_ns + start_ns, start_ns / _NS)
            else:
                yield from self.prepare(index)
                done = yield from self._round(index, self._soon())
            for number, rows in enumerate(self._warm):
                self._emit(self._row(number, message, warm=True, valid=True) for message in rows.values())
            self._warm.clear()
            if self._command:
                self._keep_program(done)
            else:
                self._keep(index - self.warmup, done)

    def counters(self) -> dict[int, Message]:
        """Every living rank's cumulative counters, by its number."""
        living = self._conductor.living(self.plan.numbers)
        return {rank: self._conductor.ask(channel, {"op": "counters"}, _COUNTERS_LIMIT_S) for rank, channel in living}

    def prepare(self, index: int) -> Procedure[None]:
        """Have all ranks ready for an iteration."""
        numbers = self.plan.numbers
        self._conductor.tell_ranks({"op": "prepare", "iteration": index}, numbers)
        yield from self._conductor.gathering(
            "ready", "ranks that are not ready", _PREPARE_LIMIT_S, numbers, iteration=index
        )

    @property
    def _of(self) -> str:
        return f" of job {self.plan.name}" if self.plan.name else ""

    def _soon(self) -> int:
        return _release_ns(len(self.plan.numbers))

    def _round(self, index: int, at_ns: int, until_then_s: float = 0.0) -> Procedure[dict[int, Message]]:
        """Release the ranks, which are ready; what each reports, by its number."""
        conductor, numbers = self._conductor, self.plan.numbers
        conductor.tell_ranks({"op": "release", "iteration": index, "at_ns": at_ns}, numbers)
        limit_s = until_then_s + self._stall_limit_s
        try:
            done = yield from conductor.gathering("done", "ranks that are not done", limit_s, numbers, iteration=index)
        except LimitReached as failure:
            raise RunFailed(f"{failure.message} [{conductor.waiting_for(numbers)}]", hint=failure.hint) from failure
        if not done:
            raise RunFailed(f"no rank{self._of} is left: faults of the spec have killed all of them")
        self._count()
        return done

    def _evidence(self, number: int, done: dict[int, Message]) -> IterationEvidence:
        starts = [message["start_ns"] for message in done.values()]
        ends = [message["end_ns"] for message in done.values()]
        late_ns, where = self._hooks.link_lateness(self.plan.name)
        for message in done.values():
            if message["late_p99_ns"] is not None and (late_ns is None or message["late_p99_ns"] > late_ns):
                late_ns, where = message["late_p99_ns"], self.plan.called(message["rank"])
        cct_ns = self._model(max(ends) - min(starts))
        late_starts = [message["start_late_ns"] for message in done.values()]  # not computing nor stalls
        return IterationEvidence(number, cct_ns, late_ns, max(late_starts) - min(late_starts), where)

    def _keep(self, number: int, done: dict[int, Message]) -> None:
        evidence = self._evidence(number, done)
        self._check_weights(number, done)
        self.measured.evidence.append(evidence)
        valid = not suspicious(evidence, self.plan.prediction.base_rtt_ns)
        self._emit(self._row(number, message, warm=False, valid=valid) for message in done.values())
        gaps = [GapRow(number, rank, *Gap(*gap), self.plan.name) for rank, gap in _gaps(done)]
        if gaps:
            self._hooks.on_gaps(gaps)

    def _keep_program(self, done: dict[int, Message]) -> None:
        """The rows of the user's own program: those that it printed, or one from its start to its end."""
        for _, message in sorted(done.items()):
            whole = {"iteration": 0, "start_ns": message["start_ns"], "end_ns": message["end_ns"]}
            self._emit(self._program_row(message["rank"], row) for row in message["rows"] or [whole])

    def _check_weights(self, number: int, done: dict[int, Message]) -> None:
        """Training: all ranks must have the same weights to the bit, but over a lossy transport; tells its metrics (the
        mean over ranks)."""
        if not loses(self.plan.spec.transport) and len({message["digest"] for message in done.values()}) > 1:
            raise RunFailed(
                f"the ranks' weights{self._of} differ after iteration {number}", hint="the collective is not exact"
            )
        metrics = [message["metrics"] for message in done.values() if message["metrics"]]
        if metrics:
            self._hooks.on_metrics(
                self.plan.name, number, {name: mean(m[name] for m in metrics) for name in metrics[0]}
            )

    def _program_row(self, rank: int, row: dict[str, int]) -> IterationRow:
        start_ns, end_ns = (self._model(row[key] - self._zero_ns) for key in ("start_ns", "end_ns"))
        job = self.plan.name
        return IterationRow(row["iteration"], rank, False, True, start_ns, end_ns, 0, 0, 0, 0.0, 0, None, 0, job)

    def _emit(self, rows: Iterable[IterationRow]) -> None:
        ordered = sorted(rows, key=lambda row: row.rank)
        self.measured.rows.extend(ordered)
        self._hooks.on_rows(ordered)

    def _row(self, number: int, message: Message, *, warm: bool, valid: bool) -> IterationRow:
        return IterationRow(
            iteration=number,
            rank=message["rank"],
            warmup=warm,
            valid=valid,
            start_ns=self._model(message["start_ns"] - self._zero_ns),
            end_ns=self._model(message["end_ns"] - self._zero_ns),
            received_bytes=message["received_bytes"],
            missing_bytes=message["missing_bytes"],
            wrong=message["wrong"],
            nmse=message["nmse"],
            retransmitted=message["retransmitted"],
            timeouts=message["timeouts"],
            cpu_ns=self._model(message["cpu_ns"]),
            job=self.plan.name,
        )

    def _model(self, real_ns: int) -> int:
        return real_ns // self._dilation
