"""The iterations of a run: prepare, release all ranks at one agreed instant, collect, and hold on to what was measured.

Zero of model time is the release of the first measured iteration. Before it the network is let run empty, so that the
counts of the measured part begin and end with nothing under way.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from testbed.errors import RunFailed
from testbed.results.samples import IterationEvidence, IterationRow
from testbed.results.verdict import suspicious
from testbed.run.channel import Message
from testbed.run.conductor import Conductor, LimitReached

_RELEASE_MARGIN_NS = 20_000_000  # for the release to reach everyone before its instant
_RELEASE_PER_RANK_NS = 500_000
_PREPARE_LIMIT_S = 120.0

LinkLateness = Callable[[], tuple[int | None, str]]  # since the last call: the worst link's p99 (model ns) and its name


@dataclass(slots=True)
class Measured:
    """What the iterations gave."""

    rows: list[IterationRow] = field(default_factory=list)
    evidence: list[IterationEvidence] = field(default_factory=list)
    zero_ns: int | None = None  # CLOCK_MONOTONIC
    before: dict[int, Message] = field(default_factory=dict)  # each rank's counters at zero
    after: dict[int, Message] = field(default_factory=dict)  # and at the end


class Iterations:
    """Runs warm-up and measured iterations over the ranks of a `Conductor`."""

    def __init__(
        self,
        conductor: Conductor,
        *,
        warmup: int,
        iterations: int,
        dilation: int,
        base_rtt_ns: int,
        stall_limit_s: float,
        link_lateness: LinkLateness,
        before_zero: Callable[[], None],
        at_zero: Callable[[int], None],
        quiesce: Callable[[], None],
        on_rows: Callable[[list[IterationRow]], None],
        progress: Callable[[int, int], None],
    ) -> None:
        self.measured = Measured()
        self._conductor = conductor
        self._warmup = warmup
        self._iterations = iterations
        self._dilation = dilation
        self._base_rtt_ns = base_rtt_ns
        self._stall_limit_s = stall_limit_s
        self._link_lateness = link_lateness
        self._before_zero = before_zero
        self._at_zero = at_zero
        self._quiesce = quiesce
        self._on_rows = on_rows
        self._progress = progress

    def run(self) -> Measured:
        """All of them; raises RunFailed with who waits for what. What was measured until then is in `measured`."""
        warm = [self._round(index) for index in range(self._warmup)]
        self._quiesce()
        self.measured.before = self.counters()
        self._before_zero()
        for index in range(self._warmup, self._warmup + self._iterations):
            done = self._round(index)
            if index == self._warmup:
                for number, rows in enumerate(warm):
                    self._emit(self._row(number, message, warm=True, valid=True) for message in rows.values())
            self._keep(index - self._warmup, done)
        self._quiesce()
        self.measured.after = self.counters()
        return self.measured

    def counters(self) -> dict[int, Message]:
        """Every living rank's cumulative counters."""
        return {rank: channel.request({"op": "counters"}) for rank, channel in self._conductor.living()}

    def _round(self, index: int) -> dict[int, Message]:
        """One iteration, counted from the first warm-up; rank -> what it reports."""
        conductor = self._conductor
        conductor.tell_ranks({"op": "prepare", "iteration": index})
        conductor.gather("ready", "ranks that are not ready", _PREPARE_LIMIT_S, iteration=index)
        at_ns = time.monotonic_ns() + _RELEASE_MARGIN_NS + _RELEASE_PER_RANK_NS * len(conductor.ranks)
        if index == self._warmup:
            self.measured.zero_ns = at_ns
            self._at_zero(at_ns)
        conductor.tell_ranks({"op": "release", "iteration": index, "at_ns": at_ns})
        try:
            done = conductor.gather("done", "ranks that are not done", self._stall_limit_s, iteration=index)
        except LimitReached as failure:
            raise RunFailed(f"{failure.message} [{conductor.waiting_for()}]", hint=failure.hint) from failure
        self._progress(index + 1, self._warmup + self._iterations)
        return done

    def _keep(self, number: int, done: dict[int, Message]) -> None:
        starts = [message["start_ns"] for message in done.values()]
        ends = [message["end_ns"] for message in done.values()]
        late_ns, where = self._link_lateness()
        for rank, message in done.items():
            if message["late_p99_ns"] is not None and (late_ns is None or message["late_p99_ns"] > late_ns):
                late_ns, where = message["late_p99_ns"], f"rank {rank}"
        cct_ns, skew_ns = self._model(max(ends) - min(starts)), self._model(max(starts) - min(starts))
        evidence = IterationEvidence(number, cct_ns, late_ns, skew_ns, where)
        self.measured.evidence.append(evidence)
        valid = not suspicious(evidence, self._base_rtt_ns)
        self._emit(self._row(number, message, warm=False, valid=valid) for message in done.values())

    def _emit(self, rows: Iterable[IterationRow]) -> None:
        ordered = sorted(rows, key=lambda row: row.rank)
        self.measured.rows.extend(ordered)
        self._on_rows(ordered)

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
            cpu_ns=message["cpu_ns"],
        )

    def _model(self, real_ns: int) -> int:
        return real_ns // self._dilation
