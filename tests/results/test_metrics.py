"""Metrics, their intervals and their ratios, by hand."""

import math
from pathlib import Path
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.results import metrics
from testbed.results.reading import RunRecord, read_run

from .synthetic import a_result, a_spec, write_run

T3, T2 = 3.182446, 4.302653  # Student's t, 97.5 %, 3 and 2 degrees of freedom (NIST)


def record(tmp_path: Path, cct_ns: list[int], **changes: Any) -> RunRecord:
    return read_run(write_run(tmp_path / f"run{len(list(tmp_path.iterdir()))}", cct_ns, **changes))


def test_lookup() -> None:
    result = a_result().to_data()
    assert metrics.lookup(result, "cct_ns.p50") == 1_100_000
    assert metrics.lookup(result, "verdict.value") == "valid"
    assert metrics.lookup(result, "schema") == 1
    assert metrics.lookup(result, "simulation.events") is None


@pytest.mark.parametrize("path", ["cct_ns.p51", "cct.p50", "cct_ns.p50.value", "wrong.0"])
def test_an_unknown_path_is_an_error_with_a_suggestion(path: str) -> None:
    with pytest.raises(UsageError, match=r"result.json has no") as refusal:
        metrics.lookup(a_result().to_data(), path)
    assert refusal.value.hint


def test_a_suggestion_is_near() -> None:
    assert metrics.suggestion("cct.p50", a_result().to_data()) == "did you mean cct_ns.p50?"


def test_one_run_s_times_have_the_run_s_own_interval(tmp_path: Path) -> None:
    run = [record(tmp_path, [1_000_000, 1_200_000, 1_100_000, 1_300_000])]
    mean = metrics.estimate(run, "cct_ns.mean")
    assert mean is not None
    half = T3 * math.sqrt(5e10 / 3) / 2
    assert mean.interval == pytest.approx((1_150_000 - half, 1_150_000 + half), rel=1e-6)
    over = metrics.estimate(run, "bound_ratio")  # the bound is 800 us
    assert over is not None
    assert over.value == pytest.approx(1.4375)
    assert over.interval == pytest.approx(((1_150_000 - half) / 8e5, (1_150_000 + half) / 8e5), rel=1e-6)
    bandwidth = metrics.estimate(run, "algbw_bps")
    assert bandwidth is not None
    assert bandwidth.interval == pytest.approx(
        (8e9 * 2**20 / (1_150_000 + half), 8e9 * 2**20 / (1_150_000 - half)), rel=1e-6
    )


def test_a_percentile_of_too_few_iterations_has_no_interval(tmp_path: Path) -> None:
    estimate = metrics.estimate([record(tmp_path, [1000] * 71)], "cct_ns.p95")
    assert estimate is not None
    assert (estimate.value, estimate.interval) == (1000, None)
    assert estimate.lack == "cct_ns.p95 needs 72 iterations or 2 repeats for an interval"
    enough = metrics.estimate([record(tmp_path, [1000] * 72)], "cct_ns.p95")
    assert enough is not None
    assert enough.interval == (1000, 1000)


def test_a_count_of_one_run_is_exact(tmp_path: Path) -> None:
    estimate = metrics.estimate([record(tmp_path, [1000])], "packets.dropped_queue")
    assert estimate == metrics.Estimate(12, (12, 12), "exact")


def test_over_repeats_the_interval_is_student_s(tmp_path: Path) -> None:
    runs = [record(tmp_path, [cct] * 2, repeat=r) for r, cct in enumerate((1000, 2000, 3000))]
    estimate = metrics.estimate(runs, "cct_ns.p50")
    assert estimate is not None
    half = T2 * 1000 / math.sqrt(3)
    assert estimate.interval == pytest.approx((2000 - half, 2000 + half), rel=1e-6)
    assert estimate.basis == "over 3 repeats"


def test_runs_without_the_metric_are_passed_over(tmp_path: Path) -> None:
    empty = record(tmp_path, [], iterations=())
    assert metrics.estimate([empty], "cct_ns.p50") is None
    both = metrics.estimate([empty, record(tmp_path, [1000])], "cct_ns.p50")
    assert both is not None
    assert both.value == 1000


def test_ratios_pair_repeats_whatever_their_order(tmp_path: Path) -> None:
    of = [record(tmp_path, [2000 * (r + 1)], repeat=r) for r in (1, 0, 2)]
    to = [record(tmp_path, [1000 * (r + 1)], repeat=r) for r in (0, 1, 3)]
    pairs = metrics.pair_by_repeat(of, to)
    assert [(a.result.repeat, b.result.repeat) for a, b in pairs] == [(1, 1), (0, 0)]
    estimate = metrics.ratio(pairs, "cct_ns.mean")
    assert estimate is not None
    assert (estimate.value, estimate.basis) == (pytest.approx(2), "over 2 repeats")
    assert estimate.interval == pytest.approx((2, 2))


def test_two_single_runs_are_compared_iteration_by_iteration(tmp_path: Path) -> None:
    ccts = [1000, 3000, 1500, 8000, 900, 1000]
    slow, fast = record(tmp_path, [3 * cct for cct in ccts]), record(tmp_path, ccts)
    for metric, expected in (("cct_ns.p50", 3), ("cct_ns.mean", 3), ("busbw_bps.ring", 1 / 3)):
        estimate = metrics.ratio([(slow, fast)], metric)
        assert estimate is not None
        assert estimate.value == pytest.approx(expected, rel=1e-3)
        assert estimate.interval == pytest.approx((expected, expected), rel=1e-3)
        assert estimate.basis == "over 6 iterations"


def test_a_ratio_of_percentiles_needs_the_iterations_for_one(tmp_path: Path) -> None:
    estimate = metrics.ratio([(record(tmp_path, [1000] * 10), record(tmp_path, [2000] * 10))], "cct_ns.p95")
    assert estimate is not None
    assert (estimate.value, estimate.interval) == (0.5, None)
    assert "72 iterations" in estimate.lack


def test_a_ratio_of_bandwidths_takes_the_sizes_in(tmp_path: Path) -> None:
    small = a_spec(workload={"algorithm": "ring", "size": "512KiB", "iterations": 3})
    pair = (record(tmp_path, [1000, 2000, 3000], spec=small), record(tmp_path, [1000, 2000, 3000]))
    estimate = metrics.ratio([pair], "algbw_bps")
    assert estimate is not None
    assert estimate.interval == pytest.approx((0.5, 0.5), rel=1e-6)


def test_a_ratio_to_zero_is_none(tmp_path: Path) -> None:
    pair = (record(tmp_path, [1000]), record(tmp_path, [1000]))
    assert metrics.ratio([pair], "packets.retransmitted") is None
    assert metrics.ratio([], "cct_ns.p50") is None
    exact = metrics.ratio([pair], "packets.sent")
    assert exact == metrics.Estimate(1.0, (1.0, 1.0), "exact")


def test_all_paths_of_a_result_lead_somewhere() -> None:
    result = a_result().to_data()
    paths = metrics.metric_paths(result)
    assert {"cct_ns.ci95.p95", "packets.sent", "status", "verdict.value"} <= set(paths)
    for path in paths:
        metrics.lookup(result, path)
    assert set(metrics.TIME_METRICS) <= set(paths)
