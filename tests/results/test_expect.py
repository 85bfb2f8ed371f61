"""Expectations: holding, refuted, undecided, on intervals known by hand."""

from pathlib import Path
from typing import Any

import pytest

from testbed.errors import UsageError
from testbed.results.expect import Judgement, judge_expectations
from testbed.results.reading import RunRecord, read_run
from testbed.results.samples import Evidence
from testbed.spec.model import ExpectSpec

from .synthetic import a_row, write_run

INVALID = Evidence(unmodelled_drops={"h0": 1})


def runs(tmp_path: Path, *settings: tuple[dict[str, Any], list[int]], **changes: Any) -> list[RunRecord]:
    """One run for each (point, CCT of each repeat's only iteration); repeats in order."""
    records = []
    for point, ccts in settings:
        for repeat, cct in enumerate(ccts):
            path = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
            records.append(read_run(write_run(path, [cct], point=point, repeat=repeat, **changes)))
    return records


def judged(records: list[RunRecord], **entry: Any) -> list[Judgement]:
    return judge_expectations([ExpectSpec.model_validate(entry)], records)


def outcome(records: list[RunRecord], **entry: Any) -> str:
    (judgement,) = judged(records, **entry)
    return judgement.outcome


# p50 of 1000, 2000, 3000: mean 2000, 95 % from -484 to 4484 (half width 4.302653 * 1000 / sqrt 3 = 2484.1)
@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ({"at_most": 4485}, "holds"),
        ({"at_most": 4484}, "undecided"),
        ({"at_most": -484}, "undecided"),
        ({"at_most": -485}, "refuted"),
        ({"at_least": -485}, "holds"),
        ({"at_least": -484}, "undecided"),
        ({"at_least": 4485}, "refuted"),
        ({"at_least": -485, "at_most": 4485}, "holds"),
        ({"at_least": -485, "at_most": 2000}, "undecided"),
        ({"at_least": 4485, "at_most": 2000}, "refuted"),
    ],
)
def test_bounds_are_judged_on_the_interval(tmp_path: Path, bound: dict[str, float], expected: str) -> None:
    assert outcome(runs(tmp_path, ({}, [1000, 2000, 3000])), metric="cct_ns.p50", **bound) == expected


@pytest.mark.parametrize(("limit", "expected"), [(2.1, "holds"), (1.9, "refuted")])
def test_a_ratio_of_two_points_is_paired_by_repeat(tmp_path: Path, limit: float, expected: str) -> None:
    records = runs(tmp_path, ({"kind": "tcp"}, [2000, 8000, 4000]), ({"kind": "roce"}, [1000, 4000, 2000]))
    (judgement,) = judged(records, metric="cct_ns.p50", of={"kind": "tcp"}, to={"kind": "roce"}, at_most=limit)
    assert judgement.outcome == expected
    assert str(judgement) == (
        f"cct_ns.p50 of kind=tcp to kind=roce, at most {limit}: {expected} (it is 2, 95 % from 2 to 2 over 3 repeats)"
    )


def test_every_point_that_matches_is_judged_against_its_like(tmp_path: Path) -> None:
    records = runs(
        tmp_path,
        ({"kind": "tcp", "loss": "0%"}, [2000, 2000]),
        ({"kind": "tcp", "loss": "1%"}, [9000, 9000]),
        ({"kind": "roce", "loss": "0%"}, [1000, 1000]),
        ({"kind": "roce", "loss": "1%"}, [3000, 3000]),
        ({"kind": "tcp", "loss": "5%"}, [9000, 9000]),  # has no like
    )
    found = judged(records, metric="cct_ns.mean", of={"kind": "tcp"}, to={"kind": "roce"}, at_most=2.5)
    assert [(j.subject, j.outcome) for j in found] == [
        ("cct_ns.mean of kind=tcp to kind=roce at loss=0%", "holds"),
        ("cct_ns.mean of kind=tcp to kind=roce at loss=1%", "refuted"),
    ]


def test_of_may_name_all_keys_of_a_point_and_values_of_any_kind(tmp_path: Path) -> None:
    records = runs(tmp_path, ({"n": 4, "w": {"kind": "ring"}}, [1000, 1000]), ({"n": 8, "w": None}, [3000, 3000]))
    assert outcome(records, metric="cct_ns.p50", of={"n": 4, "w": {"kind": "ring"}}, at_most=1000) == "holds"
    assert outcome(records, metric="cct_ns.p50", of={"n": 8}, to={"n": 4}, at_least=3) == "undecided"  # w differs
    both = {"of": {"n": 8, "w": None}, "to": {"n": 4, "w": {"kind": "ring"}}}
    assert outcome(records, metric="cct_ns.p50", at_least=2.99, **both) == "holds"


def test_without_of_every_point_is_judged(tmp_path: Path) -> None:
    records = runs(tmp_path, ({"n": 4}, [1000]), ({"n": 8}, [1000]))
    assert [j.outcome for j in judged(records, metric="wrong", equals=0)] == ["holds", "holds"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"metric": "wrong", "equals": 0}, "holds"),
        ({"metric": "wrong", "equals": 1}, "refuted"),
        ({"metric": "status", "equals": "ok"}, "holds"),
        ({"metric": "verdict.value", "equals": "invalid"}, "refuted"),
        ({"metric": "packets.dropped_queue", "at_least": 12}, "holds"),  # one run: a count is exact
        ({"metric": "packets.dropped_queue", "at_least": 13}, "refuted"),
        ({"metric": "busbw_factor.ring", "equals": 1}, "holds"),
        ({"metric": "cct_ns.p95", "at_most": 1_000_000}, "undecided"),  # one iteration has no interval
    ],
)
def test_one_run(tmp_path: Path, entry: dict[str, Any], expected: str) -> None:
    assert outcome(runs(tmp_path, ({}, [1000])), **entry) == expected


def test_what_was_learnt_and_what_was_missing_is_judged_over_repeats(tmp_path: Path) -> None:
    records = []
    for kind, accuracies in (("roce", [0.90, 0.92]), ("ubt", [0.891, 0.911])):
        for repeat, accuracy in enumerate(accuracies):
            missing = 100 if kind == "ubt" else 0
            rows = [a_row(0, rank, 0, 1000, received_bytes=1000 - missing, missing_bytes=missing) for rank in range(2)]
            learnt, counted = {"accuracy": accuracy, "loss": 0.1}, {"skipped": 2} if kind == "ubt" else {}
            changes = {"iterations": tuple(rows), "training": learnt, "counters": counted}
            path = write_run(tmp_path / f"{kind}{repeat}", point={"kind": kind}, repeat=repeat, **changes)
            records.append(read_run(path))
    of, to = {"kind": "ubt"}, {"kind": "roce"}
    assert outcome(records, metric="training.accuracy", of=of, to=to, at_least=0.98) == "holds"
    assert outcome(records, metric="training.accuracy", of=of, to=to, at_least=0.995) == "refuted"
    assert outcome(records, metric="missing_share", of=of, at_most=0.1) == "holds"
    assert outcome(records, metric="missing_share", of=of, at_least=0.11) == "refuted"
    assert outcome(records, metric="counters.skipped", of=of, equals=2) == "holds"
    assert outcome(records, metric="counters.skipped", of=to, at_most=2) == "undecided", "it has no such counter"


def test_equals_of_a_ratio(tmp_path: Path) -> None:
    records = runs(tmp_path, ({"n": 4}, [3000]), ({"n": 2}, [1000]))
    assert outcome(records, metric="cct_ns.p50", of={"n": 4}, to={"n": 2}, equals=3) == "holds"
    assert outcome(records, metric="cct_ns.p50", of={"n": 2}, to={"n": 4}, equals=3) == "refuted"


def test_invalid_and_failed_runs_are_left_out_but_for_what_is_said_of_them(tmp_path: Path) -> None:
    invalid = runs(tmp_path, ({}, [5000]), evidence=INVALID)
    failed = runs(tmp_path, ({}, [5000]), status="failed", failure="worker 3 lost")
    (judgement,) = judged(invalid + failed, metric="cct_ns.mean", at_most=1)
    assert (judgement.outcome, judgement.finding) == ("undecided", "no runs to judge; 2 invalid or failed")
    assert outcome(invalid, metric="verdict.value", equals="invalid") == "holds"
    assert outcome(failed, metric="status", equals="failed") == "holds"


def test_a_point_that_no_run_has_is_undecided(tmp_path: Path) -> None:
    (judgement,) = judged(runs(tmp_path, ({"n": 4}, [1])), metric="wrong", of={"n": 5}, equals=0)
    assert (judgement.outcome, judgement.finding) == ("undecided", "no runs match")


def test_a_metric_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"result.json has no 'cct_ns.p90'"):
        judged(runs(tmp_path, ({}, [1])), metric="cct_ns.p90", at_most=1)
