"""NSCC against steps worked out by hand from its four cases, and its quick adapt."""

import pytest

from testbed.transport import Path
from testbed.transport.endpoint import ECN_ECT0

from .controls import LINE, published, scaled

PATH = Path(rate_bps=LINE, base_rtt_ns=12_000, mtu_bytes=1500, max_burst_packets=64)
BASE = 12_000
QUIET = {"eta": 0.0001, "adjust_every": 1}  # gains count at the second packet; 1/10,000 of a packet in a round trip


def control(**keys):
    nscc = published("nscc", PATH, **{"most_window": 100, **QUIET, **keys})
    nscc._window = 50.0
    nscc._clamp()
    return nscc


def ack(nscc, now, packets, delay_ns, marked=False):
    nscc.on_ack(now, packets, BASE + delay_ns, marked)
    return nscc._window


def test_it_begins_with_the_largest_window():
    nscc = published("nscc", PATH, most_window=40)
    assert (nscc.window_packets, nscc.run_packets, nscc.ecn) == (40, 10, ECN_ECT0)


def test_without_marks_below_the_target_it_gains_by_what_is_left_of_it():
    # A whole window: 4 x (1 - 6 / 12) = 2 packets, and the eta of the first adjustment.
    assert ack(control(), BASE, 50, 6_000) == pytest.approx(52, abs=0.001)


def test_without_marks_above_the_target_it_gains_the_fair_step():
    assert ack(control(), BASE, 50, 12_000) == pytest.approx(55, abs=0.001)


def test_marks_below_the_target_change_nothing():
    assert ack(control(), BASE, 50, 6_000, marked=True) == pytest.approx(50, abs=0.001)


def test_marks_above_the_target_cut_by_the_average_excess_once_in_a_round_trip():
    nscc = control(average_gain=1)
    assert ack(nscc, 0, 1, 24_000, marked=True) == pytest.approx(50 * 0.6)  # 1 - 0.8 x 12 / 24
    assert ack(nscc, BASE, 1, 24_000, marked=True) == pytest.approx(30, abs=0.001)
    assert ack(nscc, BASE + 1, 1, 24_000, marked=True) == pytest.approx(18, abs=0.001)


def test_a_cut_is_at_most_a_half():
    assert ack(control(average_gain=1), 0, 1, 10**6, marked=True) == pytest.approx(25)


def test_the_average_moves_by_an_eightieth_a_packet():
    nscc = control()
    ack(nscc, 0, 2, 8_000)
    assert nscc._average_ns == pytest.approx(8_000 * (1 - (1 - 1 / 80) ** 2))


def test_a_draining_queue_pulls_the_average_to_a_quarter_round_trip():
    nscc = control(average_gain=1)
    ack(nscc, 0, 1, 20_000)  # long, but not marked
    assert nscc._average_ns == 3_000


def test_an_empty_queue_for_a_window_raises_it_fast():
    nscc = control()
    window = ack(nscc, 0, 51, 0)
    assert window == pytest.approx(50 + 0.25 * 51)
    assert ack(nscc, 1, 4, 999) == pytest.approx(window + 1, abs=0.001)  # on with it
    ack(nscc, 2, 1, 1_000)
    assert not nscc._fast_mode


def test_what_came_through_becomes_the_window_when_all_is_lost():
    nscc = control()
    ack(nscc, 0, 1, 6_000)  # the period ends at 24 us
    ack(nscc, 10_000, 6, 6_000)
    before = nscc._window
    nscc.on_gap(20_000)
    assert nscc._window == before - 1
    ack(nscc, 24_001, 4, 6_000)  # 10 of 100 packets, less than an eighth
    assert nscc._window == 10
    ack(nscc, 24_002, 20, 24_000, marked=True)  # tells of the time before
    assert nscc._window == 10


def test_a_long_queue_alone_adapts_too_but_not_when_enough_came_through():
    for packets, expected in ((12, 12), (13, 50)):
        nscc = control(proportional_increase=0.0001, fair_increase=0.0001)
        ack(nscc, 0, 1, 6_000)
        assert ack(nscc, 24_001, packets, 4 * 12_000 + 1) == pytest.approx(expected, abs=0.01)


def test_constants_scale_as_the_specification_says():
    reference = scaled("nscc", Path(100 * 10**9, 12_000, 4200, 64))
    assert (reference["target"], reference["fair_increase"], reference["eta"]) == (12_000, 5.0, 0.15)
    assert (reference["proportional_increase"], reference["fast_increase"]) == (4.0, 0.25)
    assert reference["most_window"] == int(1.5 * round(150_000 / 4182))
    slow = scaled("nscc", Path(10**9, 120_000, 1500, 64))  # a tenth of the BDP
    assert (slow["fair_increase"], slow["proportional_increase"]) == pytest.approx((0.5, 0.4))
    assert (slow["target"], slow["fast_delay"]) == (120_000, 10_000)
    assert scaled("nscc", Path(10**9, 120_000, 1500, 64, queueing_ns=100_000))["target"] == 50_000
