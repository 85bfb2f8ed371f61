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


def test_a_ratio_of_means_by_hand() -> None:
    # a / 2 - b / 4 of (1, 2, 3) and (4, 4, 4): -1/2, 0, 1/2; standard deviation 1/2, half width 4.302653 / (2 sqrt 3)
    ratio = statistics.ratio_of_means([1, 2, 3], [4, 4, 4])
    half = 4.302653 / (2 * math.sqrt(3))
    assert ratio is not None
    assert ratio.value == pytest.approx(0.5)
    assert ratio.interval == pytest.approx((0.5 * math.exp(-half), 0.5 * math.exp(half)), rel=1e-5)
    assert ratio.pairs == 3


@pytest.mark.parametrize("count", [3, 5, 10, 40])
def test_a_ratio_of_means_covers_what_it_promises_of_few_and_many(count: int) -> None:
    rng, hits = np.random.default_rng(7), 0
    for _ in range(1000):
        ours, common = rng.normal(0, 10, (2, count)), rng.normal(0, 10, count)  # the same draws befall both
        ratio = statistics.ratio_of_means(list(120 + 1.2 * common + ours[0]), list(100 + common + ours[1]))
        assert ratio is not None
        assert ratio.interval is not None
        hits += ratio.interval[0] <= 1.2 <= ratio.interval[1]
    assert 0.93 <= hits / 1000 <= 0.97


@pytest.mark.parametrize(("percent", "count"), [(50, 6), (50, 20), (50, 101), (95, 72), (95, 200), (99, 368)])
def test_a_ratio_to_what_does_not_vary_has_no_less_than_the_percentile_s_interval(percent: int, count: int) -> None:
    samples = [float(x) for x in range(1000, 1000 + count)]
    ratio = statistics.ratio_of_percentiles(samples, [10.0] * count, percent, seed=1)
    interval = statistics.percentile_interval(samples, percent)
    assert ratio is not None
    assert interval is not None
    assert ratio.value == statistics.nearest_rank(samples, percent) / 10
    assert ratio.interval is not None
    wider = interval[0] / 10 - ratio.interval[0], ratio.interval[1] - interval[1] / 10  # a tenth is one rank
    assert min(wider) >= 0
    assert max(wider) <= (0.1 if percent == 50 else 1.0)


@pytest.mark.parametrize(("percent", "count", "runs"), [(50, 6, 300), (50, 20, 300), (95, 72, 150)])
def test_a_ratio_of_percentiles_covers_what_it_promises_of_few_and_many(percent: int, count: int, runs: int) -> None:
    rng, hits = np.random.default_rng(7), 0
    for _ in range(runs):
        a, b = rng.exponential(12, count), rng.exponential(10, count)
        ratio = statistics.ratio_of_percentiles(list(a), list(b), percent, seed=3)
        assert ratio is not None
        assert ratio.interval is not None
        hits += ratio.interval[0] <= 1.2 <= ratio.interval[1]
    assert hits / runs >= 0.93


def test_ratios_over_iterations_are_exact_where_iterations_go_together() -> None:
    b = [10.0, 20.0, 40.0, 15.0, 12.0, 11.0]
    a = [2 * x for x in b]
    for ratio in (statistics.ratio_of_means(a, b), statistics.ratio_of_percentiles(a, b, 50, seed=1)):
        assert ratio is not None
        assert ratio.value == pytest.approx(2)
        assert ratio.interval == pytest.approx((2, 2))


def test_a_ratio_of_percentiles_is_reproducible() -> None:
    a, b = np.random.default_rng(7).normal(100, 10, (2, 40)).tolist()
    first, again = (statistics.ratio_of_percentiles(a, b, 50, seed=3) for _ in range(2))
    assert first is not None
    assert first == again


def test_ratios_over_iterations_need_enough_of_them_and_no_zero() -> None:
    assert statistics.ratio_of_means([1.0], [1.0]) is None
    assert statistics.ratio_of_means([1.0, 2.0], [0.0, 0.0]) is None
    assert statistics.ratio_of_percentiles([1.0] * 5, [1.0] * 5, 50, seed=1) is None
    assert statistics.ratio_of_percentiles([1.0] * 6, [0.0] * 6, 50, seed=1) is None
