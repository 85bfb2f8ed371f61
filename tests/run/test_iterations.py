"""Iterations over ranks that are threads: the order of things, model time, and what is held on to."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from testbed.errors import RunFailed
from testbed.plan.model import JobPlan, Prediction
from testbed.results.samples import IterationRow
from testbed.run.channel import Message
from testbed.run.iterations import Hooks, Iterations, Measured
from testbed.spec.model import JobSpec
from tests.run.ranks import DIE, FakeRanks, Script, done, obedient, ready

DILATION = 10
BASE_RTT_NS = 100_000
MARGIN_NS = 20_000_000  # the least time from the last `ready` to the release


def job(ranks: int, name: str = "", first: int = 0, start: str = "0ms", **workload: Any) -> JobPlan:
    """A job of some ranks, numbered from `first` on."""
    given = {"size": "4KiB", "iterations": 2, "warmup": 1, **workload}
    spec = JobSpec.model_validate({"workers": {"count": ranks}, "workload": given, "start": start})
    prediction = Prediction(BASE_RTT_NS, 0, 0, 0, 0.0)
    return JobPlan(name, spec, 1, first, tuple(f"h{first + rank}" for rank in range(ranks)), prediction)


class Course:
    """Iterations of jobs (of one, over all the ranks, if none is given), and what they called on the way."""

    def __init__(
        self,
        ranks: FakeRanks,
        *jobs: JobPlan,
        stall_limit_s: float = 20,
        iterations: int = 2,
        warmup: int = 1,
        **hooks: Any,
    ) -> None:
        self.called: list[tuple[str, Any]] = []
        self.rows: list[list[IterationRow]] = []
        lateness: Callable[[str], tuple[int | None, str]] = lambda _: (None, "")  # noqa: E731
        made = Hooks(
            **{
                "warmed_up": lambda evidence: self.note("warmed_up", evidence),
                "before_zero": lambda: self.note("before_zero"),
                "at_zero": lambda zero_ns: self.note("at_zero", zero_ns),
                "quiesce": lambda: self.note("quiesce"),
                "link_lateness": lateness,
                "on_rows": self.take,
                "on_gaps": lambda rows: self.note("gaps", rows),
                "on_metrics": lambda _, number, metrics: self.note("metrics", (number, metrics)),
                "progress": lambda number, of: self.note("progress", (number, of)),
                **hooks,
            }
        )
        alone = job(len(ranks.conductor.ranks), iterations=iterations, warmup=warmup)
        self.ranks = ranks
        self.iterations = Iterations(
            ranks.conductor, jobs or [alone], made, dilation=DILATION, stall_limit_s=stall_limit_s
        )

    def note(self, what: str, value: Any = None) -> None:
        self.called.append((what, value))

    def take(self, rows: list[IterationRow]) -> None:
        self.note("rows", len(rows))
        self.rows.append(rows)

    def names(self) -> list[str]:
        return [name for name, _ in self.called]


def reporting(**changes: Any) -> Script:
    """Ranks whose `done` has these fields; a callable is asked with (rank, iteration)."""

    def script(rank: int, order: Message) -> Iterable[Message]:
        if order["op"] != "release":
            return obedient(rank, order)
        number = order["iteration"]
        return [done(rank, order, **{k: v(rank, number) if callable(v) else v for k, v in changes.items()})]

    return script


def run(folder: Path, count: int, script: Script = obedient, **options: Any) -> tuple[Course, Measured]:
    with FakeRanks(folder, count, script) as ranks:
        course = Course(ranks, **options)
        return course, course.iterations.run()[""]


def test_all_are_ready_before_any_is_released_and_done_before_the_next_is_prepared(tmp_path: Path) -> None:
    course, _ = run(tmp_path, 3)
    history = [
        (message.get("op") or message["event"], message["iteration"])
        for _, _, message in course.ranks.history
        if message.get("op") in ("prepare", "release") or "event" in message
    ]
    for iteration in range(3):
        places = {what: [i for i, entry in enumerate(history) if entry == (what, iteration)] for what, _ in history}
        assert {what: len(found) for what, found in places.items()} == dict.fromkeys(places, 3)
        assert max(places["ready"]) < min(places["release"])
        assert max(places["done"]) < min(
            (i for i, entry in enumerate(history) if entry == ("prepare", iteration + 1)), default=len(history)
        )


def test_all_are_released_at_one_instant_that_is_still_to_come(tmp_path: Path) -> None:
    said: list[int] = []

    def script(rank: int, order: Message) -> Iterable[Message]:
        if order["op"] == "prepare":
            said.append(time.monotonic_ns())
        return obedient(rank, order)

    course, _ = run(tmp_path, 3, script, iterations=1, warmup=0)
    instants = {message["at_ns"] for _, _, message in course.ranks.history if message.get("op") == "release"}
    assert len(instants) == 1
    assert instants.pop() >= max(said) + MARGIN_NS


def test_rows_are_in_model_time_from_the_first_measured_release_on(tmp_path: Path) -> None:
    course, measured = run(
        tmp_path, 2, reporting(start_ns=lambda rank, _: 500 * rank, end_ns=10_000, wrong=3), iterations=2, warmup=2
    )
    zero_ns = course.iterations.zero_ns
    assert zero_ns is not None
    releases = sorted({(m["iteration"], m["at_ns"]) for _, _, m in course.ranks.history if m.get("op") == "release"})
    expected = [
        (iteration - 2 if iteration >= 2 else iteration, rank, iteration < 2, (at_ns - zero_ns) // DILATION)
        for iteration, at_ns in releases
        for rank in (0, 1)
    ]
    assert [row.iteration for row in measured.rows] == [0, 0, 1, 1, 0, 0, 1, 1]
    for row, (number, rank, warm, released_ns) in zip(measured.rows, expected, strict=True):
        assert (row.iteration, row.rank, row.warmup) == (number, rank, warm)
        assert 0 <= row.start_ns - released_ns - 50 * rank <= 1  # rounding
        assert 0 <= row.end_ns - released_ns - 1000 <= 1
        assert (row.received_bytes, row.wrong, row.cpu_ns) == (64, 3, 5)
    assert all(row.end_ns < 0 for row in measured.rows if row.warmup)
    assert [row.start_ns for row in measured.rows if not row.warmup][:2] == [0, 50]
    assert [row for rows in course.rows for row in rows] == measured.rows


def test_counts_begin_on_an_empty_network_after_the_warm_up_and_end_on_one(tmp_path: Path) -> None:
    course, measured = run(tmp_path, 2, iterations=2, warmup=1)
    names = course.names()
    assert names[:5] == ["progress", "warmed_up", "quiesce", "before_zero", "at_zero"]
    assert names[-1] == "quiesce"
    assert [value for name, value in course.called if name == "at_zero"] == [course.iterations.zero_ns]
    assert [value for name, value in course.called if name == "progress"] == [(1, 3), (2, 3), (3, 3)]
    for counted in (measured.before, measured.after):
        assert {rank: answer["counters"]["sent_packets"] for rank, answer in counted.items()} == {0: 0, 1: 10}
    orders = [
        (message["op"], message.get("iteration"))
        for who, rank, message in course.ranks.history
        if who == "run" and rank == 0
    ]
    assert orders == [
        *(("prepare", 0), ("release", 0)),
        ("counters", None),
        *(("prepare", 1), ("release", 1), ("prepare", 2), ("release", 2)),
        ("counters", None),
    ]


def test_evidence_of_an_iteration(tmp_path: Path) -> None:
    script = reporting(
        start_ns=lambda rank, _: 1000 * rank,
        end_ns=lambda rank, _: 50_000 - 10_000 * rank,
        start_late_ns=lambda rank, number: 40 if (rank, number) == (1, 2) else 7,
        late_p99_ns=lambda rank, number: 9000 if (rank, number) == (2, 1) else None,
    )
    late = iter([(4000, "s0>h1"), (20_000, "s0>h2"), (None, "")])
    _, measured = run(tmp_path, 3, script, iterations=3, warmup=0, link_lateness=lambda _: next(late))
    first, second, third = measured.evidence
    assert [e.iteration for e in measured.evidence] == [0, 1, 2]
    assert {e.cct_ns for e in measured.evidence} == {5000}  # rank 0: from the first start to the last end
    assert (first.late_p99_ns, first.where, first.start_skew_ns) == (4000, "s0>h1", 0)
    assert (second.late_p99_ns, second.where) == (20_000, "s0>h2"), "the link is worse than rank 2"
    assert (third.late_p99_ns, third.where, third.start_skew_ns) == (None, "", 33)
    # Limits: a tenth of the base RTT late, a hundredth of the completion time apart.
    assert [row.valid for row in measured.rows] == [True] * 3 + [False] * 3 + [True] * 3


def test_a_rank_that_sends_late_or_starts_late_makes_its_iteration_suspect(tmp_path: Path) -> None:
    script = reporting(
        end_ns=100_000,
        late_p99_ns=lambda rank, number: 10_001 if (rank, number) == (1, 0) else 10_000,
        start_late_ns=lambda rank, number: {(0, 1): 101, (0, 2): 100}.get((rank, number), 0),
    )
    _, measured = run(tmp_path, 2, script, iterations=3, warmup=0)
    assert [row.valid for row in measured.rows] == [False, False, False, False, True, True]
    assert measured.evidence[0].where == "rank 1"


def test_a_sum_that_is_not_the_same_everywhere_ends_a_training(tmp_path: Path) -> None:
    script = reporting(digest=lambda rank, number: "other" if (rank, number) == (1, 2) else "same")
    with pytest.raises(RunFailed, match="the ranks' weights differ after iteration 1"):
        run(tmp_path, 2, script, iterations=3, warmup=1)


def test_metrics_of_a_training_are_the_ranks_mean(tmp_path: Path) -> None:
    script = reporting(metrics=lambda rank, number: {"loss": 1.0 + rank, "accuracy": 0.25 * number})
    course, _ = run(tmp_path, 3, script, iterations=2, warmup=1)
    assert [value for name, value in course.called if name == "metrics"] == [
        (0, {"loss": 2.0, "accuracy": 0.25}),
        (1, {"loss": 2.0, "accuracy": 0.5}),
    ]


def test_rows_of_a_command_are_those_it_printed_or_its_whole_time(tmp_path: Path) -> None:
    def script(rank: int, order: Message) -> Iterable[Message]:
        if order["op"] != "release":
            return obedient(rank, order)
        at_ns = order["at_ns"]
        printed = [{"iteration": n, "start_ns": at_ns + n * 100, "end_ns": at_ns + n * 100 + 50} for n in (1, 2)]
        return [done(rank, order, end_ns=7000, rows=printed if rank else [])]

    with FakeRanks(tmp_path, 2, script) as ranks:
        course = Course(ranks, job(2, kind="command", command="true"))
        measured = course.iterations.run()[""]
    assert [(row.iteration, row.rank, row.start_ns, row.end_ns) for row in measured.rows] == [
        (0, 0, 0, 700),
        (1, 1, 10, 15),
        (2, 1, 20, 25),
    ]
    assert all((row.warmup, row.valid, row.received_bytes) == (False, True, 0) for row in measured.rows)
    assert course.names()[:4] == ["warmed_up", "quiesce", "before_zero", "at_zero"]
    assert [value for name, value in course.called if name == "progress"] == [(1, 1)]


def test_a_stall_says_who_waits_for_what(tmp_path: Path) -> None:
    def script(rank: int, order: Message) -> Iterable[Message]:
        return [] if order["op"] == "release" and rank == 1 else obedient(rank, order)

    with FakeRanks(tmp_path, 2, script) as ranks:
        course = Course(ranks, stall_limit_s=0.05)
        with pytest.raises(RunFailed) as caught:
            course.iterations.run()
    assert caught.value.message.startswith("nothing came within 0.05 s: ranks that are not done: rank ")
    assert caught.value.message.endswith("rank 1 on h1 [rank 0 on h0: rank 1; rank 1 on h1: rank 0]")


def test_what_was_measured_before_a_rank_was_lost_stays(tmp_path: Path) -> None:
    def script(rank: int, order: Message) -> Iterable[Message]:
        if (order["op"], order.get("iteration"), rank) == ("release", 2, 1):
            return [DIE]
        return obedient(rank, order)

    with FakeRanks(tmp_path, 2, script) as ranks:
        course = Course(ranks, iterations=5, warmup=1)
        with pytest.raises(RunFailed, match="rank 1 on h1 is gone"):
            course.iterations.run()
    assert [(row.iteration, row.warmup) for row in course.iterations.measured[""].rows] == [(0, True)] * 2 + [
        (0, False)
    ] * 2


def dying(victims: set[int]) -> Script:
    """Ranks that go in the second iteration, as a fault of the spec has it."""

    def script(rank: int, order: Message) -> Iterable[Message]:
        if (order["op"], order.get("iteration")) == ("release", 1) and rank in victims:
            return [DIE]
        return obedient(rank, order)

    return script


def test_the_others_go_on_after_a_planned_death(tmp_path: Path) -> None:
    with FakeRanks(tmp_path, 3, dying({1})) as ranks:
        course = Course(ranks, iterations=3, warmup=0)
        ranks.conductor.due = lambda: -1.0 if len(course.rows) == 1 and not ranks.conductor.planned_deaths else 60.0
        ranks.conductor.on_due = lambda: ranks.conductor.planned_deaths.add(1)
        measured = course.iterations.run()[""]
    assert [row.rank for row in measured.rows] == [0, 1, 2, 0, 2, 0, 2]
    assert set(measured.after) == {0, 2}


def test_when_all_are_dead_as_planned_the_run_has_failed(tmp_path: Path) -> None:
    with FakeRanks(tmp_path, 2, dying({0, 1})) as ranks:
        course = Course(ranks, iterations=3, warmup=0)
        ranks.conductor.due = lambda: -1.0 if len(course.rows) == 1 and not ranks.conductor.planned_deaths else 60.0
        ranks.conductor.on_due = lambda: ranks.conductor.planned_deaths.update((0, 1))
        with pytest.raises(RunFailed, match="no rank is left"):
            course.iterations.run()


def of_two_jobs(rank: int, order: Message) -> Iterable[Message]:
    """Two ranks a job, which know their own numbers."""
    if order["op"] == "release":
        return [done(rank % 2, order, end_ns=10_000 * (1 + rank // 2))]
    return [ready(rank % 2, order)] if order["op"] == "prepare" else obedient(rank, order)


def test_a_job_goes_on_while_another_is_in_its_first_iteration(tmp_path: Path) -> None:
    last = Event()

    def script(rank: int, order: Message) -> Iterable[Message]:
        if (order["op"], order.get("iteration"), rank) == ("release", 3, 0):
            last.set()  # the last of job a
        if (order["op"], order.get("iteration")) == ("release", 0) and rank >= 2:
            assert last.wait(20)
        return of_two_jobs(rank, order)

    with FakeRanks(tmp_path, 4, script) as ranks:
        course = Course(
            ranks,
            job(2, "a", iterations=3, warmup=1),
            job(2, "b", first=2, start="5ms", iterations=2, warmup=0),
        )
        measured = course.iterations.run()
    assert {name: [(row.iteration, row.rank, row.job) for row in each.rows] for name, each in measured.items()} == {
        "a": [(n, rank, "a") for n in (0, 0, 1, 2) for rank in (0, 1)],  # one to warm up
        "b": [(n, rank, "b") for n in (0, 1) for rank in (0, 1)],
    }
    assert [e.cct_ns for e in measured["b"].evidence] == [2000, 2000]
    assert {name: set(each.before) for name, each in measured.items()} == {"a": {0, 1}, "b": {2, 3}}
    assert [value for name, value in course.called if name == "progress"] == [(n, 6) for n in range(1, 7)]
    assert course.names().count("quiesce") == 2
    assert course.names().count("at_zero") == 1


def test_zero_is_the_release_of_the_job_that_starts_at_0_and_others_follow(tmp_path: Path) -> None:
    with FakeRanks(tmp_path, 4, of_two_jobs) as ranks:
        course = Course(ranks, job(2, "late", start="5ms"), job(2, "first", first=2))
        measured = course.iterations.run()
    zero_ns = course.iterations.zero_ns
    assert zero_ns is not None
    released = {
        (rank, message["iteration"]): message["at_ns"]
        for _, rank, message in course.ranks.history
        if message.get("op") == "release"
    }
    assert [released[rank, 1] - zero_ns for rank in range(4)] == [5_000_000 * DILATION] * 2 + [0] * 2
    assert {row.start_ns for row in measured["late"].rows if (row.warmup, row.iteration) == (False, 0)} == {5_000_000}
    assert all(at_ns < zero_ns for (_, iteration), at_ns in released.items() if iteration == 0), "all warm up before"


def test_a_job_that_stalls_is_told_of_by_its_own_ranks(tmp_path: Path) -> None:
    def script(rank: int, order: Message) -> Iterable[Message]:
        return [] if order["op"] == "release" and rank == 3 else of_two_jobs(rank, order)

    with FakeRanks(tmp_path, 4, script) as ranks:
        course = Course(ranks, job(2, "a"), job(2, "b", first=2), stall_limit_s=0.2)
        with pytest.raises(RunFailed) as caught:
            course.iterations.run()
    assert caught.value.message.startswith(
        "nothing came within 0.2 s: ranks that are not done: rank 3 on h3 [rank 2 on"
    )
    assert "rank 0" not in caught.value.message


def test_a_job_all_of_whose_ranks_are_dead_is_named(tmp_path: Path) -> None:
    with FakeRanks(tmp_path, 4, of_two_jobs) as ranks:
        course = Course(ranks, job(2, "a", warmup=0), job(2, "b", first=2, warmup=0))
        ranks.conductor.planned_deaths = {2, 3}
        with pytest.raises(RunFailed, match="no rank of job b is left"):
            course.iterations.run()
