"""An experiment's runs without a network: where they go, in what order of importance they fail, and what is left."""

import csv
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.emulation.state import RunState, runs
from testbed.errors import Interrupted, MachineLacks, RunFailed, TestbedError, UsageError
from testbed.plan.model import Plan
from testbed.plan.planner import DEFAULT_CAPABILITIES
from testbed.results.rundir import RunDirectory
from testbed.results.samples import PacketTotals, Samples
from testbed.run import emulated, experiment
from testbed.run.experiment import Outcome, run_experiment
from testbed.spec.reader import read_experiment
from testbed.spec.sweep import Point
from tests.results.synthetic import a_samples

SPEC = """\
name: tried
topology: {kind: star, hosts: 2}
workers: {count: 2}
workload: {size: 1MiB, iterations: 4, warmup: 1}
"""
SWEEP = SPEC + "sweep: {transport.kind: [roce, tcp], workload.size: [1MiB, 2MiB]}\nrepeat: 2\n"
UNBALANCED = PacketTotals(sent=10)  # which makes a run invalid

Ending = tuple[Samples, TestbedError | None]


class Silent:
    """Nobody looks on."""

    def __init__(self) -> None:
        self.points: list[tuple[int, int, Point]] = []

    def stage(self, what: str) -> None: ...

    def iterations(self, done: int, of: int) -> None: ...

    def point(self, number: int, of: int, point: Point) -> None:
        self.points.append((number, of, point))


TOO_FAST: Any = object()


def ends(error: TestbedError | None = None, **changes: Any) -> Ending:
    if error is not None:
        changes |= {"status": "interrupted" if isinstance(error, Interrupted) else "failed", "failure": error.message}
    return a_samples(**changes), error


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs are registered here, so that the tests need no root."""
    root, create = tmp_path / "registry", RunState.create
    monkeypatch.setattr(experiment, "describe_environment", lambda _variables: {})  # some programs are asked: slow
    monkeypatch.setattr(RunState, "create", lambda *what, **id: create(*what, **id, root=root))
    return root


@pytest.fixture
def go(
    registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Outcome, list[Plan], Silent]]:
    """Run a spec whose runs end as told (the last way for all further ones)."""

    def go_on(text: str, *endings: Ending | TestbedError, out: Path | None = None, strict: bool = False) -> Any:
        plans: list[Plan] = []

        class FakeRun:
            def __init__(
                self,
                plan: Plan,
                directory: RunDirectory,
                state: RunState,
                progress: Silent,
                *,
                began: float,
                last: bool,
            ) -> None:
                assert began <= time.monotonic()
                assert [each.run_id for each in runs(registry)] == [state.run_id]
                self.state, self.last = state, last
                first = json.loads((directory.path / "result.json").read_text())
                assert (first["status"], first["run_id"]) == ("failed", state.run_id), "if it were killed now"
                plans.append(plan)
                progress.stage("running")

            def run(self) -> Ending:
                ending = endings[min(len(plans), len(endings)) - 1]
                if isinstance(ending, TestbedError):
                    raise ending
                if ending is not TOO_FAST:
                    return ending
                assert not self.last, "which makes do"
                self.state.remove()
                raise emulated.TooFast

        monkeypatch.setattr(emulated, "EmulatedRun", FakeRun)
        path, progress = tmp_path / "spec.yaml", Silent()
        path.write_text(text)
        outcome = run_experiment(
            read_experiment(path), DEFAULT_CAPABILITIES, out or tmp_path / "out", progress, strict=strict
        )
        assert list(runs(registry)) == [], "nothing stays registered"
        return outcome, plans, progress

    return go_on


def test_a_run_that_is_too_fast_begins_again_at_twice_the_dilation(go: Any, tmp_path: Path) -> None:
    outcome, plans, _ = go(SPEC, TOO_FAST, TOO_FAST, ends())
    first, second, third = (plan.dilation for plan in plans)
    assert second == pytest.approx(2 * first, abs=1), "whole numbers that were rounded up"
    assert third == pytest.approx(4 * first, abs=3)
    assert [result.time_dilation for result in outcome.results] == [third]
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["dilation"] == third
    events = [json.loads(line) for line in (tmp_path / "out" / "events.jsonl").read_text().splitlines()]
    raised = [{"from": first, "to": second}, {"from": second, "to": third}]
    assert events == [{"kind": "dilation-raised", **each} for each in raised]


def test_a_dilation_of_one_is_raised_too(go: Any) -> None:
    plans = go(SPEC + "links: [{rate: 100Kbps, delay: 1s}]\n", TOO_FAST, TOO_FAST, ends())[1]
    first, second, third = (plan.dilation for plan in plans)
    assert (first, second) == (1, 2), "however much of the machine was left"
    assert third in (3, 4)


def test_who_interrupts_while_it_begins_again_is_heeded(go: Any) -> None:
    outcome = go(SPEC, Interrupted("interrupted while the network was taken down, to begin again slower"))[0]
    assert (outcome.exit_status, [result.status for result in outcome.results]) == (130, ["interrupted"])


def test_the_last_attempt_makes_do(go: Any) -> None:
    outcome, plans, _ = go(SPEC, TOO_FAST, TOO_FAST, TOO_FAST, ends())
    assert len(plans) == 4
    assert outcome.exit_status == 0


def expecting(metric: str, bound: str) -> str:
    return SPEC + f"expect: [{{metric: {metric}, {bound}}}]\n"


HOLDS, REFUTED = expecting("wrong", "equals: 0"), expecting("wrong", "equals: 1")
UNDECIDED = expecting("cct_ns.p50", "at_most: 1150000")


@pytest.mark.parametrize(
    ("text", "ending", "status"),
    [
        (SPEC, ends(), 0),
        (SPEC, ends(RunFailed("rank 1 on h1 is gone")), 1),
        (SPEC, ends(MachineLacks("no tc")), 3),
        (SPEC, ends(packets=UNBALANCED), 4),
        (SPEC, ends(Interrupted("interrupted by SIGINT")), 130),
        (REFUTED, ends(), 5),
        (REFUTED, ends(packets=UNBALANCED), 4),
        (REFUTED, ends(RunFailed("lost"), packets=UNBALANCED), 1),
        (HOLDS, ends(), 0),
    ],
)
def test_exit_status(text: str, ending: Ending, status: int, go: Any) -> None:
    assert go(text, ending)[0].exit_status == status


def test_what_cannot_be_decided_refutes_only_where_asked(go: Any, tmp_path: Path) -> None:
    outcome = go(UNDECIDED, ends())[0]
    assert [judgement.outcome for judgement in outcome.judgements] == ["undecided"]
    assert outcome.exit_status == 0
    assert go(UNDECIDED, ends(), strict=True, out=tmp_path / "strict")[0].exit_status == 5


def test_one_run_goes_straight_into_the_directory(go: Any, tmp_path: Path) -> None:
    outcome, (plan,), progress = go(SPEC, ends())
    assert outcome.directory == tmp_path / "out"
    assert {path.name for path in outcome.directory.iterdir()} == {
        *("spec.yaml", "plan.json", "environment.json", "result.json", "links.csv", "switches.csv", "logs", "pcap")
    }
    (result,) = outcome.results
    assert (result.status, result.ranks, result.time_dilation) == ("ok", 2, plan.dilation)
    assert [(number, of) for number, of, _ in progress.points] == [(0, 1)]


def test_a_sweep_has_a_directory_a_run_and_a_table(go: Any) -> None:
    outcome, plans, progress = go(SWEEP, ends())
    assert len(plans) == len(outcome.results) == 8
    assert [(number, of) for number, of, _ in progress.points] == [(n, 8) for n in range(8)]
    directories = {path.name for path in outcome.directory.iterdir() if path.is_dir()}
    assert directories == {f"{point:03d}-repeat{repeat}" for point in range(4) for repeat in range(2)}
    with (outcome.directory / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == sorted(directories)
    values = [(row["transport.kind"], row["workload.size"], row["repeat"]) for row in rows]
    assert values == [(kind, size, str(r)) for kind in ("roce", "tcp") for size in ("1MiB", "2MiB") for r in (0, 1)]
    assert {row["status"] for row in rows} == {"ok"}
    for row, result in zip(rows, outcome.results, strict=True):
        assert (row["transport.kind"], row["size_bytes"]) == (result.transport, str(result.size_bytes))
        assert row["cct_ns.p50"] == "1100000", "the second of 1.0, 1.1, 1.2 and 1.3 ms, by nearest rank"


def test_a_repeat_has_one_seed_at_every_point_and_the_next_another(go: Any) -> None:
    outcome, plans, _ = go(SWEEP, ends())
    seeds = {repeat: {r.seed for r in outcome.results if r.repeat == repeat} for repeat in (0, 1)}
    assert [len(found) for found in seeds.values()] == [1, 1]
    assert seeds[0] != seeds[1]
    assert {plan.spec.seed for plan in plans} == seeds[0] | seeds[1]


def test_all_of_a_repeat_comes_before_the_next(go: Any) -> None:
    _, _, progress = go(SWEEP, ends())
    assert [point.repeat for _, _, point in progress.points] == [0] * 4 + [1] * 4
    assert {point.index for _, _, point in progress.points[:4]} == set(range(4))


def test_a_run_that_fails_does_not_keep_the_others_from_running(go: Any) -> None:
    outcome, plans, _ = go(SWEEP, ends(), ends(RunFailed("the fabric is gone")), ends())
    assert len(plans) == 8
    assert sorted(result.status for result in outcome.results) == ["failed"] + ["ok"] * 7
    assert outcome.exit_status == 1
    assert outcome.error is not None
    assert outcome.error.message == "the fabric is gone"


def test_an_interrupt_stops_the_sweep_and_what_there_is_stays(go: Any) -> None:
    outcome, plans, _ = go(SWEEP, ends(), ends(Interrupted("interrupted by SIGTERM")))
    assert len(plans) == 2
    assert sorted(result.status for result in outcome.results) == ["interrupted", "ok"]
    assert outcome.exit_status == 130
    assert (outcome.directory / "sweep.csv").read_text().count("\n") == 3


def test_an_interrupt_after_a_failure_is_one_all_the_same(go: Any) -> None:
    outcome, _, _ = go(SWEEP, ends(RunFailed("lost")), ends(Interrupted("interrupted by SIGINT")))
    assert outcome.exit_status == 130


def test_a_point_that_cannot_be_planned_fails_by_itself(go: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = experiment.make_plan

    def no_tcp(spec: Any, capabilities: Any) -> Plan:
        if spec.transport.kind == "tcp":
            raise MachineLacks("no kernel")
        return plan(spec, capabilities)

    monkeypatch.setattr(experiment, "make_plan", no_tcp)
    outcome, plans, _ = go(SWEEP, ends())
    assert len(plans) == 4
    assert [result.failure for result in outcome.results if result.status == "failed"] == ["no kernel"] * 4
    assert outcome.exit_status == 3


@pytest.mark.parametrize("text", [SPEC, SWEEP])
def test_nothing_is_overwritten(text: str, go: Any, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert go(text, ends())[0].exit_status == 0, "an empty directory is as good as none"
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="is not an empty directory, and nothing is ever overwritten"):
        go(text, ends())
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before
    taken = tmp_path / "file"
    taken.write_text("mine")
    with pytest.raises(UsageError, match="nothing is ever overwritten"):
        go(text, ends(), out=taken)


def test_without_a_name_it_goes_below_runs(go: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    experiment_read = read_experiment(_written(tmp_path))
    go(SPEC, ends())
    first, second = (run_experiment(experiment_read, DEFAULT_CAPABILITIES, None, Silent()) for _ in range(2))
    assert first.directory.parent == second.directory.parent == Path("runs/tried")
    assert first.directory != second.directory


def test_a_defect_leaves_a_result_and_no_registration(
    registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self, *_: object, **__: object) -> None: ...

        def run(self) -> Ending:
            raise ZeroDivisionError

    monkeypatch.setattr(emulated, "EmulatedRun", Broken)
    with pytest.raises(ZeroDivisionError):
        run_experiment(read_experiment(_written(tmp_path)), DEFAULT_CAPABILITIES, tmp_path / "out", Silent())
    assert json.loads((tmp_path / "out" / "result.json").read_text())["status"] == "failed"
    assert list(runs(registry)) == []


@pytest.mark.parametrize("place", ["write_links", "write_result"])
def test_a_full_disk_is_in_the_result(place: str, go: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write = getattr(RunDirectory, place)

    def full(directory: RunDirectory, what: Any) -> None:
        if place == "write_result" and what.status == "failed":  # the first, while there is space
            write(directory, what)
        else:
            raise RunFailed("No space left on device")

    monkeypatch.setattr(RunDirectory, place, full)
    outcome = go(SPEC, ends())[0]
    assert outcome.exit_status == 1
    assert [(result.status, result.failure) for result in outcome.results] == [("failed", "No space left on device")]


def test_a_disk_that_has_no_room_for_any_result_is_told(
    go: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RunFailed("cannot write result.json: No space left on device")

    monkeypatch.setattr(RunDirectory, "write_result", full)
    with pytest.raises(RunFailed, match="No space left on device"):
        go(SPEC)
    assert not (tmp_path / "out" / "result.json").exists()


def test_what_does_not_fit_the_memory_is_refused_before_it_runs(go: Any, tmp_path: Path) -> None:
    with pytest.raises(MachineLacks, match=r"need 4,398,046,511,104 bytes of memory and [\d,]+ are available"):
        go(SPEC.replace("1MiB", "1024GiB"), ends())
    assert not (tmp_path / "out").exists()


def test_ranks_without_numbers_share_what_they_hold(go: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "_available_bytes", lambda: 3 << 20)
    with pytest.raises(MachineLacks, match="need 4,194,304 bytes"):
        go(SPEC, ends())
    outcome, _, _ = go(SPEC.replace("1MiB", "1MiB, gradients: none"), ends())
    assert outcome.exit_status == 0


def _written(folder: Path) -> Path:
    path = folder / "spec.yaml"
    path.write_text(SPEC)
    return path
