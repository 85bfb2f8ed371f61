"""One job of a simulated run: its ranks, and how it goes from one iteration to the next.

An iteration is released when nobody waits for anybody of the one before any more. Zero of model time is the release of
the first measured one of jobs that start at 0. Instants here are those of the simulation; rows count from zero.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from testbed.errors import RunFailed
from testbed.results.samples import GapRow, IterationEvidence, IterationRow
from testbed.results.verdict import suspicious
from testbed.simulation.network import SimulatedNetwork
from testbed.simulation.rank import SimulatedRank
from testbed.simulation.setup import ranks
from testbed.simulation.timeline import Timeline
from testbed.transport import loses
from testbed.worker.setup import Shared
from testbed.worker.workload import Workload, check_all


@dataclass(frozen=True, slots=True)
class Hooks:
    """What jobs call on the way."""

    rested: Callable[[], None]  # a job has come to the end of its warm-up, or of all
    on_rows: Callable[[list[IterationRow]], None]
    on_gaps: Callable[[list[GapRow]], None]  # of a measured iteration in which something was missing
    on_metrics: Callable[[str, int, dict[str, float]], None]  # of a job's training, after a measured iteration
    progress: Callable[[], None]  # one more iteration is done


class SimulatedJob:
    """One job's ranks on `network`, and their iterations, counted from the first warm-up."""

    def __init__(
        self, network: SimulatedNetwork, shared: Shared, hooks: Hooks, timeline: Timeline | None = None
    ) -> None:
        workload = shared.job.spec.workload
        assert workload is not None  # testbed.worker.setup
        self.plan = shared.job
        self.warmup, self.iterations = workload.warmup, workload.iterations
        self.rows: list[IterationRow] = []
        self.evidence: list[IterationEvidence] = []
        self.resting = True  # no iteration is under way
        self.released_ns = 0
        self.ranks = [*ranks(network, shared, self._finished, self._replaced, timeline)]
        self._core = network.core
        self._hooks = hooks
        self._timeline = timeline
        self._shared = shared
        self._workload = workload
        self._index = -1
        self._zero_ns = 0
        self._done: set[int] = set()
        self._warm: list[list[IterationRow]] = []
        self._reported = [{"retransmitted_packets": 0, "timeouts": 0} for _ in self.ranks]
        steps = shared.schedule.steps if shared.schedule is not None else 1
        faults = network.plan.spec.faults
        self._work = [
            Workload(faults, shared.job, workload, shared.sources[rank], steps, rank, coding=shared.coding)
            for rank in range(len(self.ranks))
        ]

    @property
    def some_dead(self) -> bool:
        return any(rank.dead for rank in self.ranks)

    def warm_up(self, now: int) -> None:
        """Begin the warm-up, at the end of which it rests."""
        if self.warmup:
            self._release(0, now, now)

    def measure(self, zero_ns: int) -> None:
        """Begin the measured part, whose zero is now; at its end it rests."""
        self._zero_ns = zero_ns
        for rows in self._warm:
            self._emit([self._since_zero(row) for row in rows])
        self._warm.clear()
        self._release(self.warmup, zero_ns, zero_ns + self.plan.spec.start_ns)

    def kill(self, rank: int, now: int) -> None:
        """As if a rank's process died."""
        awaited = not (self.resting or self.ranks[rank].dead or rank in self._done)
        self.ranks[rank].kill()
        if awaited:
            self._look(now)

    def counters(self) -> dict[int, dict[str, dict[str, int]]]:
        """Every living rank's cumulative counters, by its number, as `testbed.run.counting` takes them."""
        return {
            number: {"counters": rank.counters()}
            for number, rank in zip(self.plan.numbers, self.ranks, strict=True)
            if not rank.dead
        }

    def idle(self) -> bool:
        """Nobody waits for anybody any more."""
        return all(rank.dead or rank.idle() for rank in self.ranks)

    def waiting(self, now: int) -> dict[str, str]:
        """Of the living ranks that are not done, what each waits for, in words."""
        told = {
            f"{rank.called} on {host}": rank.waiting_for(now)
            for rank, host in zip(self.ranks, self.plan.placement, strict=True)
            if not rank.dead
        }
        return {called: what for called, what in told.items() if what}

    def _release(self, index: int, now: int, at_ns: int) -> None:
        """Have all ranks prepare an iteration now, and begin at an instant, each once it has computed."""
        self._index, self.resting, self.released_ns = index, False, at_ns
        self._done.clear()
        inputs = self._shared.inputs
        living = [(number, rank) for number, rank in enumerate(self.ranks) if not rank.dead]
        for number, rank in living:
            work = self._work[number]
            work.fill(index, inputs[number], rank.buffer)
            rank.prepare(index, work.step_delays(index), at_ns + work.compute_ns(index), now)
        for _, rank in living:
            rank.wake(now)
        for _, rank in living:
            self._core.call_at(rank.begins_ns, rank.start)

    def _replaced(self, rank: int, by: SimulatedRank[Any]) -> None:
        self.ranks[rank] = by

    def _finished(self, rank: int, now: int) -> None:
        self._done.add(rank)
        self._look(now)

    def _look(self, now: int) -> None:
        """Go on if nobody living is left in this iteration."""
        if all(rank.dead or number in self._done for number, rank in enumerate(self.ranks)):
            self._core.call_at(now, self._complete)

    def _complete(self, now: int) -> None:
        if not self._done:
            of = f" of job {self.plan.name}" if self.plan.name else ""
            raise RunFailed(f"no rank{of} is left: faults of the spec have killed all of them")
        self._report()
        self._hooks.progress()
        following = self._index + 1
        if following not in (self.warmup, self.warmup + self.iterations):
            self._release(following, now, now)
            return
        self.resting = True
        self._hooks.rested()

    def _report(self) -> None:
        """Check the results, learn from them, and keep the rows."""
        inputs, done = self._shared.inputs, sorted(self._done)
        results = {rank: self._work[rank].result(self._index, self.ranks[rank].buffer) for rank in done}
        if self._timeline is not None:
            name = f"iteration {self._index - self.warmup}" if self._index >= self.warmup else f"warm-up {self._index}"
            for rank in done:
                state = self.ranks[rank]
                self._timeline.iteration(self.plan.numbers[rank], name, state.start_ns, state.end_ns)
        everyone = [inputs[rank] for rank in range(len(inputs))]
        checked = check_all(self.plan, self._workload, everyone, results, self._shared.coding)
        for rank in done:
            if not self.ranks[rank].skipped:
                self._work[rank].apply(self._index, results[rank])
        if self._index < self.warmup:
            self._warm.append([self._row(self._index, rank, checked[rank], valid=True) for rank in done])
            return
        number = self._index - self.warmup
        self._check_weights(number, done)
        cct_ns = max(self.ranks[rank].end_ns for rank in done) - min(self.ranks[rank].start_ns for rank in done)
        evidence = IterationEvidence(number, cct_ns, None, 0)  # nothing is late by this clock
        self.evidence.append(evidence)
        valid = not suspicious(evidence, self.plan.prediction.base_rtt_ns)
        self._emit([self._since_zero(self._row(number, rank, checked[rank], valid=valid)) for rank in done])
        gaps = [GapRow(number, rank, *gap, self.plan.name) for rank in done for gap in sorted(self.ranks[rank].gaps)]
        if gaps:
            self._hooks.on_gaps(gaps)

    def _check_weights(self, number: int, done: list[int]) -> None:
        """Training: all ranks must have the same weights to the bit, but over a lossy transport; tells its metrics (the
        mean over ranks)."""
        of = f" of job {self.plan.name}" if self.plan.name else ""
        lossy = loses(self.plan.spec.transport)
        if not lossy and len({self._work[rank].digest() for rank in done}) > 1:
            raise RunFailed(
                f"the ranks' weights{of} differ after iteration {number}", hint="the collective is not exact"
            )
        told = [metrics for rank in done if (metrics := self._work[rank].metrics())]
        if told:
            means = {name: mean(each[name] for each in told) for name in told[0]}
            self._hooks.on_metrics(self.plan.name, number, means)

    def _row(self, number: int, rank: int, checked: tuple[int | None, float | None], *, valid: bool) -> IterationRow:
        """An iteration of a rank, by the simulation's instants."""
        state, counters, reported = self.ranks[rank], self.ranks[rank].counters(), self._reported[rank]
        since = {name: counters[name] - before for name, before in reported.items()}
        reported |= {name: counters[name] for name in reported}
        return IterationRow(
            iteration=number,
            rank=rank,
            warmup=self._index < self.warmup,
            valid=valid,
            start_ns=state.start_ns,
            end_ns=state.end_ns,
            received_bytes=state.received_bytes,
            missing_bytes=state.missing_bytes,
            wrong=checked[0],
            nmse=checked[1],
            retransmitted=since["retransmitted_packets"],
            timeouts=since["timeouts"],
            cpu_ns=0,  # real time is no part of a simulation
            job=self.plan.name,
        )

    def _since_zero(self, row: IterationRow) -> IterationRow:
        return replace(row, start_ns=row.start_ns - self._zero_ns, end_ns=row.end_ns - self._zero_ns)

    def _emit(self, rows: list[IterationRow]) -> None:
        self.rows.extend(rows)
        self._hooks.on_rows(rows)
