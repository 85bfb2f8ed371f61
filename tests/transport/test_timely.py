"""TIMELY against steps worked out by hand from the equations of both papers, and against the patch's fixed point."""

import pytest

from testbed.transport import Path

from .controls import LINE, PATH, published, scaled

GAP_NS = 20_000  # of samples: the least round trip


def rates(control, samples_ns):
    """The rate after each sample, one in each least round trip."""
    found = []
    for index, rtt_ns in enumerate(samples_ns):
        control.on_ack(index * GAP_NS, 16, rtt_ns, marked=False)
        found.append(control._rate_bps)
    return found


@pytest.mark.parametrize("kind", ["timely", "timely-original"])
class TestBoth:
    def test_it_starts_at_half_the_line(self, kind):
        assert published(kind).rate_bps(0) == LINE // 2

    def test_below_t_low_the_rate_rises_by_delta(self, kind):
        assert rates(published(kind), [30_000, 49_999]) == [5_010_000_000, 5_020_000_000]

    def test_above_t_high_it_falls_by_the_excess(self, kind):
        # beta (1 - 500 / 1000) = beta / 2
        [rate] = rates(published(kind), [1_000_000])
        assert rate == pytest.approx(5e9 * (1 - {"timely": 0.008, "timely-original": 0.8}[kind] / 2))

    def test_it_never_passes_the_line(self, kind):
        control = published(kind, initial_rate="9.995Gbps")
        rates(control, [30_000])
        assert control.rate_bps(0) is None

    def test_it_is_never_cut_below_the_least(self, kind):
        control = published(kind, beta=1, least_rate="4Gbps")
        assert rates(control, [50_000_000] * 5)[-1] == 4_000_000_000

    def test_a_sample_that_comes_soon_counts_less(self, kind):
        control = published(kind)
        control.on_ack(0, 1, 30_000, marked=False)
        control.on_ack(5_000, 1, 30_000, marked=False)  # a quarter of the least round trip
        assert control.rate_bps(0) == 5_012_500_000
        control.on_ack(65_000, 1, 30_000, marked=False)  # never more than once
        assert control.rate_bps(0) == 5_022_500_000

    def test_an_unknown_round_trip_changes_nothing(self, kind):
        control = published(kind)
        control.on_ack(0, 1, None, marked=True)
        assert control.rate_bps(0) == LINE // 2


class TestOriginal:
    def test_a_rise_cuts_by_beta_times_the_gradient(self):
        # The second sample is 4 us longer: d = 0.875 x 4 = 3.5 us, g = 3.5 / 20 = 0.175, R x (1 - 0.8 x 0.175 = 0.14).
        assert rates(published("timely-original"), [100_000, 104_000]) == pytest.approx([5.01e9, 5.01e9 * 0.86])

    def test_the_difference_is_smoothed(self):
        # Then the same again: d = 0.125 x 3.5 = 0.4375 us, g = 0.021875, R x (1 - 0.0175).
        found = rates(published("timely-original"), [100_000, 104_000, 104_000])
        assert found[2] == pytest.approx(found[1] * 0.9825)

    def test_no_rise_steps_and_the_fifth_in_a_row_steps_fivefold(self):
        found = rates(published("timely-original"), [100_000] * 7)
        assert found == pytest.approx([5.01e9, 5.02e9, 5.03e9, 5.04e9, 5.09e9, 5.14e9, 5.19e9])

    def test_a_cut_is_at_most_a_half(self):
        # g = 0.875 x 300 / 20 = 13: the formula alone would be below zero.
        assert rates(published("timely-original"), [100_000, 400_000])[1] == pytest.approx(5.01e9 / 2)


class TestPatched:
    def test_a_level_queue_weighs_both_ways_by_half(self):
        # g = 0: w = 1/2; error = (100 - 50) / 50 = 1: R (1 - 0.008 x 0.5) + 10 Mb/s x 0.5.
        assert rates(published("timely"), [100_000]) == pytest.approx([5e9 * 0.996 + 5e6])

    def test_the_weight_follows_the_gradient(self):
        # 1 us longer: g = 0.875 / 20 = 0.04375, w = 0.5875; error = (101 - 50) / 50 = 1.02.
        first, second = rates(published("timely"), [100_000, 101_000])
        assert second == pytest.approx(first * (1 - 0.008 * 0.5875 * 1.02) + 10e6 * 0.4125)

    def test_a_steep_rise_only_cuts_and_a_steep_fall_only_steps(self):
        up, down = (rates(published("timely"), [200_000, rtt_ns]) for rtt_ns in (240_000, 160_000))
        assert up[1] == pytest.approx(up[0] * (1 - 0.008 * 190 / 50))
        assert down[1] == pytest.approx(down[0] + 10e6)

    def test_the_fixed_point_is_that_of_the_theorem(self):
        """N flows of C / N stay where they wait T_low (1 + N delta / (beta C)): 62.5 us with two at 10 Gb/s."""
        control = published("timely", initial_rate="5Gbps")
        assert rates(control, [62_500] * 50) == pytest.approx([5e9] * 50)


def test_constants_scale_with_rate_round_trip_and_queue():
    path = Path(rate_bps=1_000_000_000, base_rtt_ns=200_000, mtu_bytes=1500, max_burst_packets=8)
    found = scaled("timely", path)
    assert (found["min_rtt"], found["t_low"], found["t_high"]) == (200_000, 500_000, 5_000_000)
    assert (found["additive_increase"], found["initial_rate"]) == (1_000_000, 500_000_000)
    assert found["least_rate"] == 8 * 1106 * 10**9 // (10 * 200_000)
    short = scaled("timely", Path(1_000_000_000, 200_000, 1500, 8, queueing_ns=400_000))
    assert (short["t_low"], short["t_high"]) == (300_000, 500_000)  # RTT + 1/4 and 3/4 of the queue
    assert scaled("timely", PATH, scale="none")["t_low"] == 50_000
