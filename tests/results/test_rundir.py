"""The run directory on a real file system."""

import csv
import json
from datetime import datetime
from pathlib import Path

import pytest

from testbed.errors import RunFailed, UsageError
from testbed.results import rundir
from testbed.results.rundir import RunDirectory
from testbed.results.samples import SwitchRow

from .synthetic import a_link, a_result, iterations

NOW = datetime(2026, 11, 30, 8, 43, 40)


def create(out: Path) -> RunDirectory:
    return RunDirectory.create("tour", out, "abc123", now=NOW)


def test_the_default_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert RunDirectory.create("tour", None, "abc123", now=NOW).path == Path("runs/tour/20261130-084340-abc123")
    assert RunDirectory.create("../a b/c", None, "x", now=NOW).path.parent.parent == Path("runs")


def test_all_its_files(tmp_path: Path) -> None:
    with create(tmp_path / "run") as run:
        run.write_spec("name: tour\n")
        run.write_plan({"nodes": {}})
        run.write_environment({"python": "3.11"})
        run.add_iterations(iterations([1000])[:2])
        run.add_iterations(iterations([1000])[2:])
        run.write_links([a_link("h0>s0", packets=7)])
        run.write_switches([SwitchRow("s0", "port", "s0-eth1", 1, 2, 3)])
        run.event("fault", at_ns=5, fault="stall")
        run.write_result(a_result())
    assert sorted(p.name for p in run.path.iterdir()) == [
        *("environment.json", "events.jsonl", "iterations.csv", "links.csv", "logs", "pcap", "plan.json"),
        *("result.json", "spec.yaml", "switches.csv"),
    ]
    with (run.path / "iterations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["iteration"], r["rank"], r["warmup"], r["start_ns"]) for r in rows] == [
        *(("0", "0", "1", "-2000000"), ("0", "1", "1", "-2000000")),
        *(("0", "0", "0", "0"), ("0", "1", "0", "0")),
    ]
    header = (
        "iteration,rank,warmup,valid,start_ns,end_ns,received_bytes,missing_bytes,wrong,nmse,retransmitted,timeouts"
    )
    assert (run.path / "iterations.csv").read_text().startswith(header + ",cpu_ns\n")
    assert (run.path / "switches.csv").read_text() == (
        "switch,kind,name,packets,bytes,dropped\ns0,port,s0-eth1,1,2,3\n"
    )
    with (run.path / "links.csv").open(newline="") as file:
        (link,) = csv.DictReader(file)
    assert (link["packets"], link["measured_rate_bps"]) == ("7", "")
    assert json.loads((run.path / "events.jsonl").read_text()) == {"kind": "fault", "at_ns": 5, "fault": "stall"}


def test_rows_and_events_are_on_disk_before_it_is_closed(tmp_path: Path) -> None:
    run = create(tmp_path / "run")
    run.add_iterations(iterations([1000, 1000]))
    run.event("started")
    assert len((run.path / "iterations.csv").read_text().splitlines()) == 7
    assert (run.path / "events.jsonl").read_text() == '{"kind": "started"}\n'
    run.close()


def test_the_result_is_replaced_whole(tmp_path: Path) -> None:
    run = create(tmp_path / "run")
    run.write_result(a_result(status="interrupted", failure="killed"))
    run.write_result(a_result())
    assert json.loads((run.path / "result.json").read_text())["status"] == "ok"
    assert not [p for p in run.path.iterdir() if p.name.startswith(".")]


def test_an_empty_directory_is_taken_and_a_used_one_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    create(tmp_path / "empty")
    with pytest.raises(UsageError, match="is not empty") as refusal:
        create(tmp_path / "empty")
    assert "--out" in refusal.value.hint


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_place_that_is_no_directory(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot make the run directory"):
        create(tmp_path / place)
    assert (tmp_path / "file").read_text() == ""


def test_a_folder_that_cannot_be_written() -> None:
    with pytest.raises(UsageError, match="cannot make the run directory /proc/testbed"):
        create(Path("/proc/testbed"))


def test_a_full_disk_is_said_and_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    target.write_text("old")
    with pytest.raises(RunFailed, match=r"cannot write .*result.json: No space left on device"):
        rundir.write_whole(target, lambda _: Path("/dev/full").write_text("new"))
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_directory_taken_away_while_running(tmp_path: Path) -> None:
    run = create(tmp_path / "run")
    for part in (run.logs, run.pcap, run.path):
        part.rmdir()
    for write in (lambda: run.event("late"), lambda: run.add_iterations([]), lambda: run.write_spec("")):
        with pytest.raises(RunFailed, match="No such file or directory"):
            write()
