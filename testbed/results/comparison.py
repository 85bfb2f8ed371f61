"""Compares runs: every metric of each set of runs, and its ratio to the first set's with a 95 % interval.

A set is the repeats of one point. Runs are paired by repeat. Failed runs have nothing to compare and are left out;
invalid ones are left out unless forced; both are named.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed.errors import UsageError
from testbed.results import metrics
from testbed.results.metrics import Estimate
from testbed.results.reading import RunRecord, point_text

METRICS = (
    *("cct_ns.mean", "cct_ns.p50", "cct_ns.p95", "cct_ns.p99", "exposed_ns.p50", "algbw_bps", "busbw_bps.ring"),
    *("busbw_bps.in_network", "nmse", "wrong", "missing_bytes", "missing_share", "training.accuracy"),
    *("training.loss", "packets.sent", "packets.dropped_queue"),
    *("packets.dropped_loss", "packets.retransmitted", "packets.ecn_marked", "timeouts", "bytes_on_wire"),
)


@dataclass(frozen=True, slots=True)
class Line:
    """One metric: a value for each set (None: it has none) and the ratios of the second and later to the first."""

    metric: str
    values: tuple[Estimate | None, ...]
    ratios: tuple[Estimate | None, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sets side by side. `point` is what they have in common where whole sweeps are compared."""

    point: str
    labels: tuple[str, ...]
    runs: tuple[int, ...]
    lines: tuple[Line, ...]

    def to_json(self) -> dict[str, Any]:
        def figures(estimate: Estimate | None) -> dict[str, Any] | None:
            if estimate is None:
                return None
            return {"value": estimate.value, "ci95": estimate.interval, "basis": estimate.basis}

        return {
            "point": self.point,
            "sets": [{"label": label, "runs": runs} for label, runs in zip(self.labels, self.runs, strict=True)],
            "metrics": {
                line.metric: {
                    "values": [figures(value) for value in line.values],
                    "ratios_to_first": [figures(ratio) for ratio in line.ratios],
                }
                for line in self.lines
            },
        }


@dataclass(frozen=True, slots=True)
class Comparisons:
    """All that `testbed compare` says; `left_out` names runs and why."""

    tables: tuple[Comparison, ...]
    left_out: tuple[str, ...] = field(default=())


def compare(directories: Sequence[tuple[Path, Sequence[RunRecord]]], *, force: bool = False) -> Comparisons:
    """Compare the runs of each directory.

    One directory: its points with each other. Several: where whole sweeps are given, point by point as far as they
    share points; else each set of runs with the first. Raises UsageError where fewer than two sets are left.
    """
    left_out: list[str] = []
    sets: list[tuple[str, dict[str, list[RunRecord]]]] = []
    for (path, records), name in zip(directories, _names([path for path, _ in directories]), strict=True):
        points: dict[str, list[RunRecord]] = {}
        for record in records:
            if why := _unfit(record, force=force):
                left_out.append(f"{record.path}: {why}")
            else:
                points.setdefault(point_text(record.result.point), []).append(record)
        if points:
            sets.append((name, points))
        elif not sets:  # all ratios are to the first, so that none may silently take its place
            raise UsageError(
                f"{path} has no run to compare with", hint="; ".join(left_out) + " (--force takes in what was measured)"
            )
    tables = _tables(sets)
    if not tables:
        why = "; ".join(left_out) or "all runs are repeats of one point"
        hint = "--force takes in what was measured" if left_out else "name two directories, or one sweep"
        raise UsageError(f"there is nothing to compare: {why}", hint=hint)
    return Comparisons(tuple(tables), tuple(left_out))


def _tables(sets: Sequence[tuple[str, dict[str, list[RunRecord]]]]) -> list[Comparison]:
    _, first = sets[0]
    common = [point for point in first if all(point in points for _, points in sets)]
    if len(sets) > 1 and common and max(len(points) for _, points in sets) > 1:
        return [_compare(point, [(name, points[point]) for name, points in sets]) for point in common]
    flat = [
        (" ".join(filter(None, (name if len(sets) > 1 else "", point if len(points) > 1 else ""))), runs)
        for name, points in sets
        for point, runs in points.items()
    ]
    return [_compare("", flat)] if len(flat) > 1 else []


def _compare(point: str, sets: Sequence[tuple[str, list[RunRecord]]]) -> Comparison:
    _, first = sets[0]
    lines = []
    jobs = dict.fromkeys(name for _, runs in sets for record in runs for name in record.by_job if name)
    for metric in [*METRICS, *(f"jobs.{name}.{metric}" for name in jobs for metric in METRICS)]:
        values = tuple(metrics.estimate(runs, metric) for _, runs in sets)
        ratios = tuple(metrics.ratio(metrics.pair_by_repeat(runs, first), metric) for _, runs in sets[1:])
        if any(value and value.value for value in values):
            lines.append(Line(metric, values, ratios))
    return Comparison(point, tuple(name for name, _ in sets), tuple(len(runs) for _, runs in sets), tuple(lines))


def _unfit(record: RunRecord, *, force: bool) -> str:
    result = record.result
    if not any(job.cct_ns.n for job in result.by_job().values()):
        return f"{result.status}: {result.failure or 'nothing was measured'}"
    if result.status != "ok" and not force:
        return f"{result.status}: {result.failure}"
    if result.verdict.value == "invalid" and not force:
        return "invalid: " + ", ".join(reason.code for reason in result.verdict.reasons)
    return ""


def _names(paths: Sequence[Path]) -> list[str]:
    """The shortest endings of the paths that differ."""
    parts = [path.resolve().parts for path in paths]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(p[-depth:]) for p in parts]
        if len(set(names)) == len(names):
            return names
    raise UsageError("a directory is named twice", hint="each can be compared with the others only once")
