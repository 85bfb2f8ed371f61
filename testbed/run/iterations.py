"""The iterations of a run: prepare, release all ranks at one agreed instant, collect, and hold on to what was measured.

Zero of model time is the release of the first measured iteration. Before it the network is let run empty, so that the
counts of the measured part begin and end with nothing under way.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import mean

from testbed.errors import RunFailed
from testbed.results.samples import IterationEvidence, IterationRow
from testbed.results.verdict import suspicious
from testbed.run.channel import Message
from testbed.run.conductor import Conductor, LimitReached
from testbed.spec.model import WorkloadSpec

_RELEASE_MARGIN_NS = 20_000_000  # for the release to reach everyone before its instant
_RELEASE_PER_RANK_NS = 500_000
_PREPARE_LIMIT_S = 120.0
_COUNTERS_LIMIT_S = 20.0

LinkLateness = Callable[[], tuple[int | None, str]]  # since the last call: the worst link's p99 (model ns) and its name


@dataclass(slots=True)
class Measured:
    """What the iterations gave."""

    rows: list[IterationRow] = field(default_factory=list)
    evidence: list[IterationEvidence] = field(default_factory=list)
    zero_ns: int | None = None  # CLOCK_MONOTONIC
    before: dict[int, Message] = field(default_factory=dict)  # each rank's counters at zero
    after: dict[int, Message] = field(default_factory=dict)  # and at the end


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the iterations call on the way."""

    before_zero: Callable[[], None]  # the network is empty, and the measured part comes next
    at_zero: Callable[[int], None]  # the instant (CLOCK_MONOTONIC) of the first measured release, before it has come
    quiesce: Callable[[], None]  # waits until nothing of the job is under way
    link_lateness: LinkLateness
    on_rows: Callable[[list[IterationRow]], None]
    on_metrics: Callable[[int, dict[str, float]], None]  # of training, after a measured iteration
    progress: Callable[[int, int], None]  # iterations done, of how many


class Iterations:
    """Runs warm-up and measured iterations of `workload` over the ranks of a `Conductor`."""

    def __init__(
        self,
        conductor: Conductor,
        workload: WorkloadSpec,
        hooks: Hooks,
        *,
        dilation: int,
        base_rtt_ns: int,
        stall_limit_s: float,
    ) -> None:
        self.measured = Measured()
        self._conductor = conductor
        self._warmup = workload.warmup
        self._total = workload.warmup + workload.iterations
        self._hooks = hooks
        self._dilation = dilation
        self._base_rtt_ns = base_rtt_ns
        self._stall_limit_s = stall_limit_s

    def run(self) -> Measured:
        """All of them; raises RunFailed with who waits for what. What was measured until then is in `measured`."""
        warm = [self._round(index) for index in range(self._warmup)]
        self._begin_measuring()
        for index in range(self._warmup, self._total):
            done = self._round(index)
            if index == self._warmup:
                for number, rows in enumerate(warm):
                    self._emit(self._row(number, message, warm=True, valid=True) for message in rows.values())
            self._keep(index - self._warmup, done)
        self._hooks.quiesce()
        self.measured.after = self.counters()
        return self.measured

    def run_command(self) -> Measured:
        """The user's own program, once a rank; its rows are those that it printed, or one from its start to its end."""
        self._warmup, self._total = 0, 1
        self._begin_measuring()
        done = self._round(0)
        for rank, message in sorted(done.items()):
            whole = {"iteration": 0, "start_ns": message["start_ns"], "end_ns": message["end_ns"]}
            self._emit(self._program_row(rank, row) for row in message["rows"] or [whole])
        self._hooks.quiesce()
        self.measured.after = self.counters()
        return self.measured

    def _begin_measuring(self) -> None:
        self._hooks.quiesce()
        self.measured.before = self.counters()
        self._hooks.before_zero()

    def counters(self) -> dict[int, Message]:
        """Every living rank's cumulative counters."""
        ask = self._conductor.ask
        return {rank: ask(channel, {"op": "counters"}, _COUNTERS_LIMIT_S) for rank, channel in self._conductor.living()}

    def _round(self, index: int) -> dict[int, Message]:
        """One iteration, counted from the first warm-up; rank -> what it reports."""
        conductor = self._conductor
        conductor.tell_ranks({"op": "prepare", "iteration": index})
        conductor.gather("ready", "ranks that are not ready", _PREPARE_LIMIT_S, iteration=index)
        at_ns = time.monotonic_ns() + _RELEASE_MARGIN_NS + _RELEASE_PER_RANK_NS * len(conductor.ranks)
        if index == self._warmup:
            self.measured.zero_ns = at_ns
            self._hooks.at_zero(at_ns)
        conductor.tell_ranks({"op": "release", "iteration": index, "at_ns": at_ns})
        try:
            done = conductor.gather("done", "ranks that are not done", self._stall_limit_s, iteration=index)
        except LimitReached as failure:
            raise RunFailed(f"{failure.message} [{conductor.waiting_for()}]", hint=failure.hint) from failure
        if not done:
            raise RunFailed("no rank is left: faults of the spec have killed all of them")
        self._hooks.progress(index + 1, self._total)
        return done

    def _keep(self, number: int, done: dict[int, Message]) -> None:
        starts = [message["start_ns"] for message in done.values()]
        ends = [message["end_ns"] for message in done.values()]
        late_ns, where = self._hooks.link_lateness()
        for rank, message in done.items():
            if message["late_p99_ns"] is not None and (late_ns is None or message["late_p99_ns"] > late_ns):
                late_ns, where = message["late_p99_ns"], f"rank {rank}"
        cct_ns = self._model(max(ends) - min(starts))
        late_starts = [message["start_late_ns"] for message in done.values()]  # not computing nor stalls
        skew_ns = max(late_starts) - min(late_starts)
        self._check_weights(number, done)
        evidence = IterationEvidence(number, cct_ns, late_ns, skew_ns, where)
        self.measured.evidence.append(evidence)
        valid = not suspicious(evidence, self._base_rtt_ns)
        self._emit(self._row(number, message, warm=False, valid=valid) for message in done.values())

    def _check_weights(self, number: int, done: dict[int, Message]) -> None:
        """Training: all ranks must have the same weights to the bit; tells its metrics (the mean over ranks)."""
        if len({message["digest"] for message in done.values()}) > 1:
            raise RunFailed(f"the ranks' weights differ after iteration {number}", hint="the collective is not exact")
        metrics = [message["metrics"] for message in done.values() if message["metrics"]]
        if metrics:
            self._hooks.on_metrics(number, {name: mean(m[name] for m in metrics) for name in metrics[0]})

    def _program_row(self, rank: int, row: dict[str, int]) -> IterationRow:
        assert self.measured.zero_ns is not None
        start_ns, end_ns = (self._model(row[key] - self.measured.zero_ns) for key in ("start_ns", "end_ns"))
        return IterationRow(row["iteration"], rank, False, True, start_ns, end_ns, 0, 0, 0, 0.0, 0, None, 0)

    def _emit(self, rows: Iterable[IterationRow]) -> None:
        ordered = sorted(rows, key=lambda row: row.rank)
        self.measured.rows.extend(ordered)
        self._hooks.on_rows(ordered)

    def _row(self, number: int, message: Message, *, warm: bool, valid: bool) -> IterationRow:
        assert self.measured.zero_ns is not None
        return IterationRow(
            iteration=number,
            rank=message["rank"],
            warmup=warm,
            valid=valid,
            start_ns=self._model(message["start_ns"] - self.measured.zero_ns),
            end_ns=self._model(message["end_ns"] - self.measured.zero_ns),
            received_bytes=message["received_bytes"],
            missing_bytes=message["missing_bytes"],
            wrong=message["wrong"],
            nmse=message["nmse"],
            retransmitted=message["retransmitted"],
            timeouts=message["timeouts"],
            cpu_ns=self._model(message["cpu_ns"]),
        )

    def _model(self, real_ns: int) -> int:
        return real_ns // self._dilation
