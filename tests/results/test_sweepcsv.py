"""`sweep.csv`, tidy."""

import csv
from pathlib import Path

from testbed.results.reading import read_runs
from testbed.results.sweepcsv import write_sweep_csv

from .synthetic import write_run


def test_one_row_a_run(tmp_path: Path) -> None:
    write_run(tmp_path / "p0-r0", [1000, 3000], point={"transport.kind": "roce", "w": {"kind": "ring"}})
    write_run(tmp_path / "p0-r1", [5000], point={"transport.kind": "tcp"}, repeat=1, status="interrupted")
    write_run(tmp_path / "p1-r0", [], iterations=(), point={"loss": "1%"}, status="failed")
    for _ in range(2):  # it is written again after every run
        write_sweep_csv(tmp_path / "sweep.csv", read_runs(tmp_path))
    with (tmp_path / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:8] == ["transport.kind", "w", "loss", "repeat", "seed", "run", "status", "verdict"]
    assert [
        (r["transport.kind"], r["w"], r["loss"], r["repeat"], r["run"], r["status"], r["verdict"]) for r in rows
    ] == [
        ("roce", '{"kind": "ring"}', "", "0", "p0-r0", "ok", "valid"),
        ("tcp", "", "", "1", "p0-r1", "interrupted", "invalid"),
        ("", "", "1%", "0", "p1-r0", "failed", "invalid"),
    ]
    assert [(r["cct_ns.n"], r["cct_ns.mean"], r["packets.sent"]) for r in rows] == [
        ("2", "2000", "1000"),
        ("1", "5000", ""),
        ("0", "", ""),
    ]


def test_no_two_columns_have_one_name(tmp_path: Path) -> None:
    write_run(tmp_path / "p0-r0", [1000], point={"seed": 7, "time_dilation": 2})
    write_sweep_csv(tmp_path / "sweep.csv", read_runs(tmp_path))
    with (tmp_path / "sweep.csv").open(newline="") as file:
        names, values = csv.reader(file)
    assert len(set(names)) == len(names)
    assert dict(zip(names, values, strict=True))["sweep.seed"] == "7"
    assert names[:3] == ["sweep.seed", "sweep.time_dilation", "repeat"]


def test_what_endpoints_count_by_their_own_names_has_columns(tmp_path: Path) -> None:
    write_run(tmp_path / "p0-r0", counters={"naks": 3}, point={"n": 0})
    write_run(tmp_path / "p1-r0", counters={"skipped": 1}, training={"accuracy": 0.9, "loss": 0.2}, point={"n": 1})
    write_sweep_csv(tmp_path / "sweep.csv", read_runs(tmp_path))
    with (tmp_path / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["counters.naks"], row["counters.skipped"]) for row in rows] == [("3", ""), ("", "1")]
    assert [row["training.accuracy"] for row in rows] == ["", "0.9"]
