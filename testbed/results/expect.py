"""Judges the `expect` entries of a spec: each holds, is refuted, or is undecided.

An entry is judged on the 95 % interval of its metric (see `testbed.results.metrics`): it holds if the whole interval is
within the bound, is refuted if the whole interval is beyond it, and is undecided in between, or where the samples are
too few for an interval. Undecided is said but refutes nothing, unless the judgement is strict. `equals` is exact: every
run's value, or every paired ratio, must be that. Invalid and failed runs are left out, except where the entry is about
`status` or `verdict` itself. With `of` (and `to`) matching several points of a sweep, each is judged, paired with the
point that is the same in all other keys.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from testbed.results import metrics
from testbed.results.metrics import Estimate
from testbed.results.reading import RunRecord, plain, point_text
from testbed.spec.model import ExpectSpec

Outcome = Literal["holds", "undecided", "refuted"]
_WORST: tuple[Outcome, ...] = ("holds", "undecided", "refuted")
_ABOUT_THE_RUN = ("status", "failure", "verdict")


@dataclass(frozen=True, slots=True)
class Judgement:
    """One entry at one point, and why."""

    subject: str  # `cct_ns.p50 of transport.kind=roce to transport.kind=tcp`
    bound: str  # `at most 1.5`
    outcome: Outcome
    finding: str  # the value with its interval, or what is lacking

    def __str__(self) -> str:
        return f"{self.subject}, {self.bound}: {self.outcome} ({self.finding})"


def judge_expectations(expectations: Sequence[ExpectSpec], records: Sequence[RunRecord]) -> list[Judgement]:
    """Every entry at every point it selects; raises UsageError for a metric that no result has."""
    return [judgement for entry in expectations for judgement in _judge(entry, records)]


def _judge(entry: ExpectSpec, records: Sequence[RunRecord]) -> Iterator[Judgement]:
    about_the_run = entry.metric.split(".")[0] in _ABOUT_THE_RUN
    usable = [r for r in records if about_the_run or (r.result.status == "ok" and r.result.verdict.value != "invalid")]
    for record in records[:1]:
        metrics.lookup(record.data, entry.metric)
    keys = {*entry.of, *(entry.to or {})}
    of = _by_other_keys(usable, entry.of, keys)
    if entry.to is None:
        for others, runs in of.items():
            yield _absolute(entry, others, runs)
    else:
        to = _by_other_keys(usable, entry.to, keys)
        for others, runs in of.items():
            if others in to:
                yield _relative(entry, others, runs, to[others])
        of = {others: runs for others, runs in of.items() if others in to}
    if not of:
        left_out = len(records) - len(usable)
        because = f"no runs to judge; {left_out} invalid or failed" if left_out else "no runs match"
        yield Judgement(_subject(entry, ""), _bound(entry), "undecided", because)


def _by_other_keys(records: Sequence[RunRecord], wanted: dict[str, Any], keys: set[str]) -> dict[str, list[RunRecord]]:
    """The runs that match `wanted`, by what their point says of all keys but `keys`."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        point = record.result.point
        if all(key in point and plain(point[key]) == plain(value) for key, value in wanted.items()):
            others = point_text({key: value for key, value in point.items() if key not in keys})
            groups.setdefault(others, []).append(record)
    return groups


def _absolute(entry: ExpectSpec, others: str, runs: Sequence[RunRecord]) -> Judgement:
    if entry.equals is not None:
        values = [metrics.lookup(run.data, entry.metric) for run in runs]
        return _exact(entry, others, values)
    return _bounded(entry, others, metrics.estimate(runs, entry.metric))


def _relative(entry: ExpectSpec, others: str, of: Sequence[RunRecord], to: Sequence[RunRecord]) -> Judgement:
    pairs = metrics.pair_by_repeat(of, to)
    if entry.equals is not None:
        ratios = [metrics.ratio([pair], entry.metric) for pair in pairs]
        return _exact(entry, others, [r and r.value for r in ratios])
    return _bounded(entry, others, metrics.ratio(pairs, entry.metric))


def _exact(entry: ExpectSpec, others: str, values: Sequence[Any]) -> Judgement:
    outcome: Outcome = "holds" if values and all(_same(value, entry.equals) for value in values) else "refuted"
    found = ", ".join(dict.fromkeys(plain(value) for value in values)) or "no value"
    return Judgement(_subject(entry, others), _bound(entry), outcome, f"it is {found}")


def _same(value: Any, wanted: float | str | None) -> bool:
    if isinstance(value, int | float) and isinstance(wanted, int | float):
        return math.isclose(value, wanted, rel_tol=1e-9, abs_tol=1e-12)
    return bool(value == wanted)


def _bounded(entry: ExpectSpec, others: str, estimate: Estimate | None) -> Judgement:
    subject, bound = _subject(entry, others), _bound(entry)
    if estimate is None:
        return Judgement(subject, bound, "undecided", "there is no such value, or it is 0")
    if estimate.interval is None:
        return Judgement(subject, bound, "undecided", f"it is {_figure(estimate.value)}; {estimate.lack}")
    low, high = estimate.interval
    outcomes: list[Outcome] = []
    if entry.at_most is not None:
        outcomes.append("holds" if high <= entry.at_most else "refuted" if low > entry.at_most else "undecided")
    if entry.at_least is not None:
        outcomes.append("holds" if low >= entry.at_least else "refuted" if high < entry.at_least else "undecided")
    spread = "" if estimate.basis == "exact" else f", 95 % from {_figure(low)} to {_figure(high)} {estimate.basis}"
    return Judgement(
        subject, bound, max(outcomes, key=_WORST.index, default="holds"), f"it is {_figure(estimate.value)}{spread}"
    )


def _subject(entry: ExpectSpec, others: str) -> str:
    words = [entry.metric]
    if entry.of:
        words.append(f"of {point_text(entry.of)}")
    if entry.to is not None:
        words.append(f"to {point_text(entry.to)}")
    if others:
        words.append(f"at {others}")
    return " ".join(words)


def _bound(entry: ExpectSpec) -> str:
    bounds = {"at most": entry.at_most, "at least": entry.at_least, "equals": entry.equals}
    return " and ".join(f"{name} {value}" for name, value in bounds.items() if value is not None)


def _figure(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
