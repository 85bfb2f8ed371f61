"""How far one engine's completion times are from another's at the same points, and the smallest effect they resolve.

A run resolves an effect if two sets of such runs that differ by it would show it: the difference of two means has a
95 % interval that is the square root of 2 times as wide as that of each (independent samples of equal spread).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.results import metrics
from testbed.results.metrics import Estimate
from testbed.results.reading import RunRecord, point_text

MEDIAN, MEAN = "cct_ns.p50", "cct_ns.mean"


@dataclass(frozen=True, slots=True)
class Gap:
    """One point, or one job of it. `ratio` is that of the medians, repeat by repeat where there are several.

    resolves: the least relative difference of mean times that two such sets show; None: too few samples to tell.
    """

    label: str
    measured_ns: float
    reference_ns: float
    ratio: Estimate
    resolves: float | None


def gaps(measured: Sequence[RunRecord], reference: Sequence[RunRecord]) -> list[Gap]:
    """Of the points that both have completion times of; each needs as many results as the other had repeats."""
    found = []
    for point, of in _by_point(measured).items():
        pairs = metrics.pair_by_repeat(of, _by_point(reference).get(point, []))
        for job in dict.fromkeys(name for record in of for name in record.by_job):
            prefix = f"jobs.{job}." if job else ""
            mine, other = (metrics.estimate([pair[i] for pair in pairs], prefix + MEDIAN) for i in (0, 1))
            ratio = metrics.ratio(pairs, prefix + MEDIAN)
            if mine and other and ratio:
                label = " ".join(filter(None, (point, f"job {job}" if job else "")))
                mean = metrics.estimate([a for a, _ in pairs], prefix + MEAN)
                found.append(Gap(label, mine.value, other.value, ratio, _resolves(mean)))
    return found


def _by_point(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    points: dict[str, list[RunRecord]] = {}
    for record in records:
        if any(job.cct_ns.n for job in record.result.by_job().values()):
            points.setdefault(point_text(record.result.point), []).append(record)
    return points


def _resolves(mean: Estimate | None) -> float | None:
    if mean is None or mean.interval is None or not mean.value:
        return None
    low, high = mean.interval
    return math.sqrt(2) * (high - low) / 2 / mean.value
