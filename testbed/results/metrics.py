"""Metrics: paths into `result.json`, their 95 % intervals, and ratios of two sets of runs.

Where a metric has an interval from. Over repeats if there are several: Student's t on the values, or on the logarithms
of ratios of runs paired by repeat. Within one run, metrics of time come from iterations: the run's own `ci95`, or, for
a ratio of two runs, the iterations both have, in pairs (Student's t for means, a bootstrap for percentiles). Everything
else of one run (a count, the status) is exact: it is its own interval.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.errors import UsageError
from testbed.results import statistics
from testbed.results.reading import RunRecord
from testbed.results.statistics import Interval, Ratio
from testbed.suggest import closest

OPEN = "counters"  # whose names are the transport's own: one that a result has not got has no value there


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval. `interval` None: there should be one and the samples are too few (`lack` says)."""

    value: float
    interval: Interval | None
    basis: str
    lack: str = ""


@dataclass(frozen=True, slots=True)
class TimeMetric:
    """A metric made of the iterations of one run: which time, and the percentile of it that it is, or the mean."""

    time: str  # a field of `Timing`
    percent: int | None = None
    inverse: bool = False  # a bandwidth: the larger, the shorter the mean time

    @property
    def fewest(self) -> int:
        return 2 if self.percent is None else statistics.fewest_samples(self.percent)


TIME_METRICS: Mapping[str, TimeMetric] = {
    "cct_ns.mean": TimeMetric("cct_ns"),
    "cct_ns.p50": TimeMetric("cct_ns", 50),
    "cct_ns.p95": TimeMetric("cct_ns", 95),
    "cct_ns.p99": TimeMetric("cct_ns", 99),
    "exposed_ns.p50": TimeMetric("exposed_ns", 50),
    "bound_ratio": TimeMetric("cct_ns"),
    "algbw_bps": TimeMetric("cct_ns", inverse=True),
    "busbw_bps.ring": TimeMetric("cct_ns", inverse=True),
    "busbw_bps.in_network": TimeMetric("cct_ns", inverse=True),
    "nmse": TimeMetric("nmse"),
}


def lookup(result: Mapping[str, Any], metric: str) -> Any:
    """The value of `result.json` at `metric`, a path such as `cct_ns.p50`; UsageError for a path that none has."""
    value: Any = result
    before = ""
    for key in metric.split("."):
        if isinstance(value, Mapping) and key in value:
            value, before = value[key], key
        elif value is None or before == OPEN:
            return None  # e.g. simulation.events of an emulation
        else:
            raise UsageError(f"result.json has no {metric!r}", hint=suggestion(metric, result))
    return value


def suggestion(metric: str, result: Mapping[str, Any]) -> str:
    near = closest(metric, metric_paths(result))
    return f"did you mean {near}?" if near else "e.g. cct_ns.p50, busbw_bps.ring, packets.retransmitted"


def metric_paths(result: Mapping[str, Any]) -> list[str]:
    """All paths of a result that lead to one value."""

    def walk(value: object, path: str) -> list[str]:
        if isinstance(value, Mapping):
            return [leaf for key, part in value.items() for leaf in walk(part, f"{path}.{key}" if path else key)]
        return [] if isinstance(value, list) else [path]

    return walk(result, "")


def of_job(records: Sequence[RunRecord], metric: str) -> tuple[list[RunRecord], str]:
    """A metric `jobs.NAME.…` as one of that job's own records, of the runs that have it; any other as it is."""
    head, _, rest = metric.partition(".")
    name, _, inner = rest.partition(".")
    if head != "jobs" or not inner:
        return [*records], metric
    return [record.by_job[name] for record in records if name in record.by_job], inner


def number(record: RunRecord, metric: str) -> float | None:
    """The metric of one run as a number; None where the run has none."""
    value = lookup(record.data, metric)
    return float(value) if isinstance(value, int | float) else None


def estimate(records: Sequence[RunRecord], metric: str) -> Estimate | None:
    """The metric over the repeats of one point; None where no run has it."""
    records, metric = of_job(records, metric)
    known = [(record, value) for record in records if (value := number(record, metric)) is not None]
    values = [value for _, value in known]
    if len(values) > 1:
        interval = statistics.mean_interval(values)
        return Estimate(statistics.mean(values), interval, f"over {len(values)} repeats")
    if not values:
        return None
    if metric not in TIME_METRICS:
        return Estimate(values[0], (values[0], values[0]), "exact")
    samples, what = _times(known[0][0], metric), TIME_METRICS[metric]
    if what.percent is None:
        interval = statistics.mean_interval(samples)
    else:
        interval = statistics.percentile_interval(sorted(samples), what.percent)
    average = statistics.mean(samples) if samples else 0.0
    if interval is not None and what.inverse:
        interval = values[0] * average / interval[1], values[0] * average / max(interval[0], 1.0)
    elif interval is not None and what.percent is None and average:  # a metric may be in another unit than its times
        interval = interval[0] * values[0] / average, interval[1] * values[0] / average
    lack = "" if interval else f"{metric} needs {what.fewest} iterations or 2 repeats for an interval"
    return Estimate(values[0], interval, f"over {len(samples)} iterations", lack)


def pair_by_repeat(of: Sequence[RunRecord], to: Sequence[RunRecord]) -> list[tuple[RunRecord, RunRecord]]:
    """Runs of the same repeat; where a set has several of one repeat, they are paired in order."""
    pairs, left = [], list(to)
    for record in of:
        partner = next((other for other in left if other.result.repeat == record.result.repeat), None)
        if partner is not None:
            left.remove(partner)
            pairs.append((record, partner))
    return pairs


def ratio(pairs: Sequence[tuple[RunRecord, RunRecord]], metric: str) -> Estimate | None:
    """The metric of the first over that of the second; None where there is no such ratio (no runs, a zero)."""
    firsts, inner = of_job([a for a, _ in pairs], metric)
    seconds, _ = of_job([b for _, b in pairs], metric)
    if len(firsts) != len(pairs) or len(seconds) != len(pairs):
        return None  # one lacks the job
    pairs, metric = list(zip(firsts, seconds, strict=True)), inner
    known = [
        (a, b, x, y) for a, b in pairs if (x := number(a, metric)) is not None and (y := number(b, metric)) is not None
    ]
    over = statistics.ratio_over_repeats([x for *_, x, _ in known], [y for *_, y in known])
    if over is None:
        return None
    if over.pairs > 1:
        return Estimate(over.value, over.interval, f"over {over.pairs} repeats")
    if metric not in TIME_METRICS:
        return Estimate(over.value, (over.value, over.value), "exact")
    of, to, what = known[0][0], known[0][1], TIME_METRICS[metric]
    within = _ratio_within(of, to, metric)
    if within is None or within.interval is None:
        lack = f"the ratio of {metric} needs {what.fewest} iterations or 2 repeats for an interval"
        return Estimate(over.value, None, "one run each", lack)
    # The iterations give the relative spread; the value is that of the results (another size scales a bandwidth).
    low, high = (bound * over.value / within.value for bound in within.interval)
    return Estimate(over.value, (low, high), f"over {within.pairs} iterations")


def _ratio_within(of: RunRecord, to: RunRecord, metric: str) -> Ratio | None:
    what = TIME_METRICS[metric]
    left = {t.iteration: float(getattr(t, what.time)) for t in of.timings}
    right = {t.iteration: float(getattr(t, what.time)) for t in to.timings}
    both = [i for i in left if i in right]
    a, b = [left[i] for i in both], [right[i] for i in both]
    if what.percent is not None:
        return statistics.ratio_of_percentiles(a, b, what.percent, seed=of.result.seed)
    return statistics.ratio_of_means(*((b, a) if what.inverse else (a, b)))


def _times(record: RunRecord, metric: str) -> list[float]:
    return [float(getattr(t, TIME_METRICS[metric].time)) for t in record.timings]
