"""Comparisons of runs and of sweeps."""

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.results.comparison import Comparisons, compare
from testbed.results.metrics import Estimate
from testbed.results.reading import read_runs
from testbed.results.samples import Evidence

from .synthetic import write_run

INVALID = Evidence(unmodelled_drops={"h0": 1})


def compared(*paths: Path, **options: Any) -> Comparisons:
    return compare([(path, read_runs(path)) for path in paths], **options)


def ratio(found: Comparisons, metric: str, table: int = 0) -> Estimate | None:
    (line,) = [line for line in found.tables[table].lines if line.metric == metric]
    return line.ratios[0]


def test_two_runs(tmp_path: Path) -> None:
    found = compared(write_run(tmp_path / "a", [1000, 1000]), write_run(tmp_path / "b", [1500, 1500]))
    (table,) = found.tables
    assert (table.point, table.labels, table.runs) == ("", ("a", "b"), (1, 1))
    mean = ratio(found, "cct_ns.mean")
    assert mean is not None
    assert mean.value == pytest.approx(1.5)
    assert "nmse" not in [line.metric for line in table.lines]  # 0 in both


def test_repeats_are_paired_and_labels_tell_directories_apart(tmp_path: Path) -> None:
    for r, cct in enumerate((1000, 2000, 4000)):
        write_run(tmp_path / "a" / "runs" / f"r{r}", [cct], repeat=r)
        write_run(tmp_path / "b" / "runs" / f"r{r}", [2 * cct], repeat=r)
    found = compared(tmp_path / "a" / "runs", tmp_path / "b" / "runs")
    assert (found.tables[0].labels, found.tables[0].runs) == (("a/runs", "b/runs"), (3, 3))
    mean = ratio(found, "cct_ns.mean")
    assert mean is not None
    assert (mean.value, mean.interval) == (pytest.approx(2), pytest.approx((2, 2)))


def test_invalid_runs_are_left_out_and_named_unless_forced(tmp_path: Path) -> None:
    for r in range(3):
        write_run(tmp_path / "a" / f"r{r}", [1000], repeat=r)
        write_run(tmp_path / "b" / f"r{r}", [2000 + r], repeat=r, evidence=INVALID if r == 1 else Evidence())
    found = compared(tmp_path / "a", tmp_path / "b")
    assert found.tables[0].runs == (3, 2)
    assert found.left_out == (f"{tmp_path / 'b' / 'r1'}: invalid: unmodelled-drops",)
    forced = compared(tmp_path / "a", tmp_path / "b", force=True)
    assert (forced.tables[0].runs, forced.left_out) == ((3, 3), ())


def test_a_failed_run_has_nothing_to_compare_even_by_force(tmp_path: Path) -> None:
    good = write_run(tmp_path / "a", [1000])
    failed = write_run(tmp_path / "b", [], iterations=(), status="failed", failure="worker 3 lost")
    with pytest.raises(UsageError, match=r"nothing to compare: .*b: failed: worker 3 lost"):
        compared(good, failed, force=True)
    with pytest.raises(UsageError, match="b has no run to compare with"):
        compared(failed, good)


def test_a_sweep_is_compared_with_itself_point_by_point(tmp_path: Path) -> None:
    write_run(tmp_path / "p0", [1000], point={"kind": "roce"})
    write_run(tmp_path / "p1", [3000], point={"kind": "tcp"})
    (table,) = compared(tmp_path).tables
    assert table.labels == ("kind=roce", "kind=tcp")


def test_two_sweeps_are_compared_at_the_points_they_share(tmp_path: Path) -> None:
    for sweep, factor in (("before", 1), ("after", 2)):
        for place, kind in enumerate(("roce", "tcp", sweep)):
            write_run(tmp_path / sweep / f"p{place}", [1000 * factor], point={"kind": kind})
    found = compared(tmp_path / "before", tmp_path / "after")
    assert [(table.point, table.labels) for table in found.tables] == [
        ("kind=roce", ("before", "after")),
        ("kind=tcp", ("before", "after")),
    ]
    assert json.loads(json.dumps([table.to_json() for table in found.tables]))[1]["point"] == "kind=tcp"


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", [1000])
    with pytest.raises(UsageError, match="all runs are repeats of one point"):
        compared(a)
    with pytest.raises(UsageError, match="named twice"):
        compared(a, a)
