"""What `testbed run` says, without a network: results on stdout, errors and progress on stderr."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import execute
from testbed.cli import run as verb
from testbed.errors import RunFailed, TestbedError
from testbed.plan.planner import DEFAULT_CAPABILITIES
from testbed.results.expect import Judgement
from testbed.run.experiment import Outcome
from testbed.spec.reader import read_experiment
from tests.results.synthetic import a_result

SPEC = "name: small\ntopology: {kind: star, hosts: 2}\nworkers: {count: 2}\nworkload: {size: 4KiB}\n"
LOST = RunFailed("rank 1 on h1 is gone", hint="see logs/worker.log")


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a spec whose outcome is known: (exit status, stdout, stderr)."""

    def outcome_of(error: TestbedError | None, judgements: tuple[Judgement, ...]) -> Callable[..., Outcome]:
        def run_experiment(
            experiment: Any, _machine: Any, out: Path, progress: Any, *, strict: bool, trace: bool
        ) -> Outcome:
            assert not trace
            progress.point(0, len(experiment.points), experiment.points[0])
            progress.stage("running")
            progress.iterations(1, 4)
            result = a_result(status="failed" if error else "ok", failure=error.message if error else "")
            return Outcome(out, (result,), judgements, error, strict)

        return run_experiment

    def go_on(
        *arguments: str, error: TestbedError | None = None, judgements: tuple[Judgement, ...] = (), out: str = "out"
    ) -> tuple[int, str, str]:
        monkeypatch.setattr("testbed.doctor.capacity.capabilities", lambda _say: DEFAULT_CAPABILITIES)
        monkeypatch.setattr("testbed.run.experiment.run_experiment", outcome_of(error, judgements))
        path = tmp_path / "small.yaml"
        path.write_text(SPEC)
        status = execute(["run", str(path), "--out", str(tmp_path / out), *arguments])
        return (status, *capsys.readouterr())

    return go_on


def test_a_table_and_where_it_is_written(go: Callable[..., Any], tmp_path: Path) -> None:
    status, out, err = go(out="run [bold]1")
    assert status == 0
    assert "#wrong" in out
    assert out.endswith(f"written to {tmp_path / 'run [bold]1'}\n"), "a name is no markup"
    assert err == "running\n", "a line a stage where nobody looks at a terminal"


def test_json_alone_on_stdout_and_a_failure_on_stderr(go: Callable[..., Any]) -> None:
    status, out, err = go("--json", error=LOST)
    assert status == 1
    assert [result["status"] for result in json.loads(out)] == ["failed"]
    assert err == "testbed: rank 1 on h1 is gone\n  see logs/worker.log\n"


def test_a_failure_comes_after_the_table_of_what_was_measured(go: Callable[..., Any]) -> None:
    status, out, err = go("-q", error=LOST)
    assert status == 1
    assert "failed: rank 1 on h1 is gone" in out
    assert err == "testbed: rank 1 on h1 is gone\n  see logs/worker.log\n"


def test_expectations_are_told_as_they_are(go: Callable[..., Any]) -> None:
    refuted = Judgement("cct_ns.p50 of size=[1, 2]", "at most 1.5", "refuted", "it is 2")
    status, out, _ = go(judgements=(refuted,))
    assert status == 5
    assert "expect: cct_ns.p50 of size=[1, 2], at most 1.5: refuted (it is 2)\n" in out


def test_a_terminal_sees_one_line_with_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 100.0, 130.0])
    monkeypatch.setattr(verb.time, "monotonic", lambda: next(now))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with verb._Progress(quiet=False) as progress:
        progress.stage("running")
        progress.iterations(1, 4)
    assert capsys.readouterr().err == (
        "\r\033[Krunning" + "\r\033[Kiteration 1 of 4, about 1 min 30 s left" + "\r\033[K"
    )


def test_a_log_has_a_line_a_run_of_a_sweep_and_with_v_a_line_a_stage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(SPEC + "sweep: {transport.kind: [roce, tcp]}\n")
    points = read_experiment(path, []).points

    def told(**options: bool) -> list[str]:
        now = iter([0.0, 0.0, 1.0, 5.0, 9.0, 10.0, 11.0, 12.0, 13.0])
        monkeypatch.setattr(verb.time, "monotonic", lambda: next(now))
        with verb._Progress(quiet=False, **options) as progress:
            for number, point in enumerate(points):
                progress.point(number, len(points), point)
                progress.stage("running")
                progress.iterations(1, 4)
        return capsys.readouterr().err.splitlines()

    first, second = (f"transport.kind={point.values['transport.kind']}, repeat 0" for point in points)
    assert told() == [f"run 1 of 2 ({first})", f"run 2 of 2, about 9 s left ({second})"]
    lines = told(all_stages=True)
    assert lines == [f"run 1 of 2 ({first}): running", f"run 2 of 2, about 9 s left ({second}): running"]


def test_durations() -> None:
    assert [verb._duration(seconds) for seconds in (0.2, 59.4, 60, 3661)] == ["0 s", "59 s", "1 min 0 s", "61 min 1 s"]
