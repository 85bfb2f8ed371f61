"""Statistics of completion times: nearest-rank percentiles and 95 % intervals, each without a distribution library.

All intervals are two-sided with 2.5 % in each tail and take the samples as independent. An interval that the samples
are too few for is None, never a guess.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

TAIL = 0.025
BOOTSTRAP_DRAWS = 4000
_MOST_DRAWN = 1 << 20  # samples at once: what memory they take

Interval = tuple[float, float]
Number = TypeVar("Number", int, float)


def nearest_rank(ordered: Sequence[Number], percent: int) -> Number:
    """The smallest sample such that at least `percent` % of all are no larger; `ordered` ascends and is not empty."""
    return ordered[_rank(len(ordered), percent) - 1]


def _rank(count: int, percent: int) -> int:
    return -(-percent * count // 100)


def mean(samples: Sequence[float]) -> float:
    return math.fsum(samples) / len(samples)


def stdev(samples: Sequence[float]) -> float | None:
    """The sample standard deviation (divisor n - 1); None for fewer than two samples."""
    if len(samples) < 2:
        return None
    centre = mean(samples)
    return math.sqrt(math.fsum((x - centre) ** 2 for x in samples) / (len(samples) - 1))


def mean_interval(samples: Sequence[float]) -> Interval | None:
    """Student's t interval of the mean; None for fewer than two samples."""
    spread = stdev(samples)
    if spread is None:
        return None
    centre = mean(samples)
    half = student_t_quantile(len(samples) - 1) * spread / math.sqrt(len(samples))
    return centre - half, centre + half


def percentile_interval(ordered: Sequence[Number], percent: int) -> tuple[Number, Number] | None:
    """Interval of a percentile by order statistics: of n samples, Binomial(n, percent) lie below the true one.

    None below `fewest_samples(percent)`: 6 for the median, 72 for p95, 368 for p99.
    """
    if len(ordered) < fewest_samples(percent):
        return None
    lower, upper = _ranks(len(ordered), percent)
    return ordered[lower - 1], ordered[upper - 1]


def _ranks(count: int, percent: int) -> tuple[int, int]:
    """Of the order statistics, counted from 1, between which the percentile is."""
    cdf = _binomial_cdf(count, percent / 100)
    lower = next(k for k, p in enumerate(cdf) if p > TAIL)
    return lower, next(k for k, p in enumerate(cdf) if p >= 1 - TAIL) + 1


def fewest_samples(percent: int) -> int:
    """How many samples an interval of this percentile needs: the largest of them must lie above it often enough."""
    rarer = max(percent, 100 - percent) / 100
    return math.ceil(math.log(TAIL) / math.log(rarer))


@lru_cache(maxsize=256)
def student_t_quantile(degrees: int) -> float:
    """t with 97.5 % below it, by bisection of the closed form for whole degrees of freedom."""
    low, high = 0.0, 16.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < 1 - 2 * TAIL else (low, middle)
    return high


def _within(t: float, degrees: int) -> float:
    """P(|T| <= t) (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    theta = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = degrees % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(1 + odd, degrees, 2):  # term k holds cos^(k-1)
        total += term
        term *= cosine * cosine * k / (k + 1)
    return 2 / math.pi * (theta + sine * total) if odd else sine * total


def _binomial_cdf(n: int, p: float) -> list[float]:
    """P(B <= k) for k = 0..n of a Binomial(n, p)."""
    logs = [
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p) + (n - k) * math.log1p(-p)
        for k in range(n + 1)
    ]
    total, cdf = 0.0, []
    for value in logs:
        total += math.exp(value)
        cdf.append(total)
    return cdf


@dataclass(frozen=True, slots=True)
class Ratio:
    """a / b with its 95 % interval (None: a single pair), over `pairs` pairs of repeats or iterations."""

    value: float
    interval: Interval | None
    pairs: int


def ratio_over_repeats(a: Sequence[float], b: Sequence[float]) -> Ratio | None:
    """Geometric mean of a[i] / b[i] with the t interval of the logarithms; None where a value is not positive.

    Ratios are skewed and multiply, so their logarithms are what is averaged.
    """
    if not a or min(a) <= 0 or min(b) <= 0:
        return None
    logs = [math.log(x / y) for x, y in zip(a, b, strict=True)]
    interval = mean_interval(logs)
    bounds = None if interval is None else (math.exp(interval[0]), math.exp(interval[1]))
    return Ratio(math.exp(mean(logs)), bounds, len(logs))


def ratio_of_means(a: Sequence[float], b: Sequence[float]) -> Ratio | None:
    """mean(a) / mean(b) of two runs, where a[i] and b[i] are the same iteration: the same draws befall them.

    The logarithm of the ratio is taken as linear in the two means, so its t interval is that of the mean of
    a[i] / mean(a) - b[i] / mean(b) (the delta method, for paired samples). None for fewer than two pairs or a mean
    that is not positive.
    """
    if len(a) < 2 or (top := mean(a)) <= 0 or (bottom := mean(b)) <= 0:
        return None
    value, around = top / bottom, mean_interval([x / top - y / bottom for x, y in zip(a, b, strict=True)])
    assert around is not None
    return Ratio(value, (value * math.exp(around[0]), value * math.exp(around[1])), len(a))


def ratio_of_percentiles(a: Sequence[float], b: Sequence[float], percent: int, *, seed: int) -> Ratio | None:
    """The percentile of a over that of b of two runs, of whose same iterations are a[i] and b[i].

    The interval is a bootstrap's, of iterations drawn in pairs, with such tails that where one of the two does not vary
    it is no narrower than `percentile_interval` of the other: the usual 2.5 % leave out extremes that a small sample
    needs (our reading; the tests count how often it covers). None below `fewest_samples`, or where a percentile of b
    is 0.
    """
    count, rank = len(a), _rank(len(a), percent)
    if count < fewest_samples(percent):
        return None
    both, draws = np.array([a, b], float), np.random.default_rng(seed)
    found: list[npt.NDArray[np.float64]] = []  # each of shape (2, draws)
    at_once = max(1, _MOST_DRAWN // count)
    for first in range(0, BOOTSTRAP_DRAWS, at_once):
        drawn = draws.integers(0, count, (min(at_once, BOOTSTRAP_DRAWS - first), count))
        found.append(np.partition(both[:, drawn], rank - 1, axis=2)[:, :, rank - 1])
    tops, bottoms = np.concatenate(found, axis=1)
    top, bottom = np.sort(both)[:, rank - 1]
    if not (bottom and bottoms.all()):
        return None
    tail = _bootstrap_tail(count, percent)
    low, high = np.quantile(tops / bottoms, (tail, 1 - tail))
    return Ratio(float(top / bottom), (float(low), float(high)), count)


def _bootstrap_tail(count: int, percent: int) -> float:
    """How much a bootstrap leaves out at each side so that it gives `percentile_interval`; the lesser of both sides.

    Of `count` samples drawn again the percentile is at most the k-th if as many as its rank are.
    """
    lower, upper = _ranks(count, percent)
    rank = _rank(count, percent)

    def at_most(k: int) -> float:
        return float(k == count) if k in (0, count) else 1 - _binomial_cdf(count, k / count)[rank - 1]

    return min(at_most(lower - 1) + at_most(lower), 2 - at_most(upper - 1) - at_most(upper)) / 2
