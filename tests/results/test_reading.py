"""Run directories read back, whole and damaged."""

import json
from pathlib import Path

import pytest

from testbed.errors import UsageError
from testbed.results.reading import RunRecord, read_run, read_runs

from .synthetic import a_link, a_result, a_row, a_samples, iterations, write_run


def test_what_was_written_is_what_is_read(tmp_path: Path) -> None:
    links = (a_link("h0>s0", packets=3, measured_rate_bps=17, late_p99_ns=4),)
    record = read_run(write_run(tmp_path / "run", links=links))
    assert record.result == a_result(links=links)
    assert record.iterations == a_samples().jobs[0].iterations
    assert record.links == links
    assert [t.cct_ns for t in record.timings] == [1_000_000, 1_200_000, 1_100_000, 1_300_000]
    assert record.text("spec.yaml") == "name: tour\n"
    assert record.text("plan.json") is None


def test_iterations_that_do_not_count_in_the_result_do_not_count_when_read(tmp_path: Path) -> None:
    rows = (*iterations([1000, 2000]), a_row(2, 0, 9000, 9500))  # rank 1 never ended
    record = read_run(write_run(tmp_path / "run", iterations=rows))
    assert [t.iteration for t in record.timings] == [0, 1]


def test_a_run_that_wrote_no_tables(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    for table in ("iterations.csv", "links.csv"):
        (run / table).unlink()
    record = read_run(run)
    assert (record.iterations, record.links, record.timings) == ((), (), ())


def test_a_last_line_cut_in_two_is_dropped(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    table = run / "iterations.csv"
    table.write_text(table.read_text()[:-20])
    assert len(read_run(run).iterations) == len(a_samples().jobs[0].iterations) - 1
    table.write_text("")
    assert read_run(run).iterations == ()


def test_runs_below_a_sweep_or_a_folder_of_sweeps(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_run(tmp_path / "tour" / "sweep" / name)
    (tmp_path / "tour" / "sweep" / "sweep.csv").write_text("")
    (tmp_path / "tour" / "sweep" / "c").mkdir()  # killed before it wrote a result
    for place in (tmp_path / "tour" / "sweep", tmp_path / "tour"):
        assert [record.path.name for record in read_runs(place)] == ["a", "b"]


def _damaged(run: Path, text: str) -> RunRecord:
    (run / "result.json").write_text(text)
    return read_run(run)


def test_damaged_results_are_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    whole = (run / "result.json").read_text()
    with pytest.raises(UsageError, match=r"result.json is not whole JSON"):
        _damaged(run, whole[:300])
    with pytest.raises(UsageError, match=r"is not whole JSON"):
        _damaged(run, "")
    with pytest.raises(UsageError, match=r"has schema 7, and this Testbed reads schema 1"):
        _damaged(run, json.dumps(json.loads(whole) | {"schema": 7}))
    with pytest.raises(UsageError, match=r"has schema None"):
        _damaged(run, "[]")
    with pytest.raises(UsageError, match=r"result.json: status: Input should be 'ok', 'failed' or 'interrupted'"):
        _damaged(run, json.dumps(json.loads(whole) | {"status": "fine"}))
    with pytest.raises(UsageError, match=r"result.json: wrong: Field required"):
        _damaged(run, json.dumps({k: v for k, v in json.loads(whole).items() if k != "wrong"}))


def test_damaged_tables_are_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    table = run / "iterations.csv"
    whole = table.read_text()
    table.write_text(whole.replace("end_ns", "stop_ns"))
    with pytest.raises(UsageError, match=r"iterations.csv has no column end_ns"):
        _ = read_run(run).iterations
    table.write_text(whole + "1,2,three\n")
    with pytest.raises(UsageError, match=r"iterations.csv: line 12 is not a row of it"):
        _ = read_run(run).iterations


def test_places_that_are_no_runs(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with pytest.raises(UsageError, match="there is no directory"):
        read_runs(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is a file, not a run directory") as refusal:
        read_runs(run / "result.json")
    assert refusal.value.hint.endswith(str(run))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="is not a run directory"):
        read_runs(tmp_path / "empty")
