"""Statistics against printed tables and closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.results import statistics


@pytest.mark.parametrize(
    ("percent", "expected"), [(5, 15), (30, 20), (40, 20), (50, 35), (100, 50)]
)  # the worked example of nearest-rank percentiles in common textbooks
def test_nearest_rank(percent: int, expected: int) -> None:
    assert statistics.nearest_rank([15, 20, 35, 40, 50], percent) == expected


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=300), st.sampled_from([50, 95, 99]))
def test_nearest_rank_is_the_smallest_sample_with_enough_below(samples: list[int], percent: int) -> None:
    ordered = sorted(samples)
    value = statistics.nearest_rank(ordered, percent)
    assert 100 * sum(s <= value for s in samples) >= percent * len(samples)
    assert 100 * sum(s < value for s in samples) < percent * len(samples)


@pytest.mark.parametrize(
    ("degrees", "expected"),  # NIST/SEMATECH e-Handbook, 1.3.6.7.2, column 0.975
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (19, 2.093), (30, 2.042), (100, 1.984)],
)
def test_student_t_quantile(degrees: int, expected: float) -> None:
    assert statistics.student_t_quantile(degrees) == pytest.approx(expected, abs=5e-4)


def test_student_t_tends_to_the_normal_quantile() -> None:
    assert statistics.student_t_quantile(100_000) == pytest.approx(1.959964, abs=5e-5)


def test_mean_interval_by_hand() -> None:
    # mean 3, variance 2.5, half width 2.776445 * sqrt(2.5 / 5)
    assert statistics.mean_interval([1, 2, 3, 4, 5]) == pytest.approx((3 - 1.963243, 3 + 1.963243), abs=1e-5)
    assert statistics.mean_interval([7]) is None
    assert statistics.stdev([7]) is None
    assert statistics.stdev([2, 4]) == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(("percent", "fewest"), [(50, 6), (95, 72), (99, 368)])
def test_a_percentile_needs_enough_samples_for_its_interval(percent: int, fewest: int) -> None:
    assert statistics.fewest_samples(percent) == fewest
    assert statistics.percentile_interval(range(fewest - 1), percent) is None
    interval = statistics.percentile_interval(range(fewest), percent)
    assert interval is not None
    assert interval[1] == fewest - 1  # it can only just be had: up to the largest sample


@pytest.mark.parametrize(
    ("n", "ranks"),  # Conover, Practical Nonparametric Statistics: 95 % ranks for the median
    [(6, (1, 6)), (10, (2, 9)), (20, (6, 15)), (100, (40, 61))],
)
def test_ranks_of_the_median_interval(n: int, ranks: tuple[int, int]) -> None:
    assert statistics.percentile_interval(range(1, n + 1), 50) == ranks


def test_percentile_interval_covers_what_it_promises() -> None:
    draws = np.sort(np.random.default_rng(1).random((4000, 100)), axis=1)
    covered = [low <= 0.95 <= high for low, high in (statistics.percentile_interval(row, 95) for row in draws)]
    assert np.mean(covered) >= 0.94


def test_ratio_over_repeats_by_hand() -> None:
    # logs of 2, 4 and 8 are 1, 2 and 3 times ln 2: mean 2 ln 2, half width 4.302653 * ln 2 / sqrt 3
    ratio = statistics.ratio_over_repeats([2, 4, 8], [1, 1, 1])
    half = 4.302653 / math.sqrt(3)
    assert ratio is not None
    assert ratio.value == pytest.approx(4)
    assert ratio.interval == pytest.approx((2 ** (2 - half), 2 ** (2 + half)), rel=1e-5)
    assert ratio.pairs == 3


def test_ratio_without_an_interval() -> None:
    ratio = statistics.ratio_over_repeats([3], [2])
    assert ratio == statistics.Ratio(1.5, None, 1)
    assert statistics.ratio_over_repeats([1, 2], [0, 1]) is None
    assert statistics.ratio_over_repeats([], []) is None


def _mean(samples: np.ndarray) -> np.ndarray:
    return samples.mean(axis=-1)


def test_ratio_over_iterations_is_exact_where_iterations_go_together() -> None:
    b = [10.0, 20.0, 40.0, 15.0]
    ratio = statistics.ratio_over_iterations([2 * x for x in b], b, _mean, seed=1)
    assert ratio is not None
    assert ratio.value == pytest.approx(2)
    assert ratio.interval == pytest.approx((2, 2))


def test_ratio_over_iterations_is_reproducible_and_covers() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(200):
        a, b = rng.normal(120, 10, 40), rng.normal(100, 10, 40)
        ratio = statistics.ratio_over_iterations(list(a), list(b), _mean, seed=3)
        assert ratio == statistics.ratio_over_iterations(list(a), list(b), _mean, seed=3)
        assert ratio is not None
        assert ratio.interval is not None
        hits += ratio.interval[0] <= 1.2 <= ratio.interval[1]
    assert 0.89 <= hits / 200 <= 0.99


def test_ratio_over_iterations_needs_two_and_no_zero() -> None:
    assert statistics.ratio_over_iterations([1.0], [1.0], _mean, seed=1) is None
    assert statistics.ratio_over_iterations([1.0, 2.0], [0.0, 0.0], _mean, seed=1) is None
