"""Swift against steps worked out by hand from algorithm 1 of its paper."""

from math import sqrt

import pytest

from testbed.transport import Path

from .controls import published, scaled

FLAT = {"fs_range": "0ns"}  # no flow scaling: the target is the base target, 25 us


def test_below_the_target_a_window_of_acknowledgements_adds_one_packet():
    swift = published("swift", initial_window=10, **FLAT)
    swift.on_ack(0, 10, 24_999, marked=False)
    assert swift._window == 11
    swift.on_ack(1, 1, 24_999, marked=False)
    assert swift._window == 11 + 1 / 11


def test_below_one_packet_each_acknowledgement_adds_one():
    swift = published("swift", initial_window=1, **FLAT)
    swift.on_timeout(0)  # x 1/2
    swift.on_ack(1, 1, 20_000, marked=False)
    assert swift._window == 1.5


def test_above_the_target_it_is_cut_by_the_excess_once_in_a_round_trip():
    swift = published("swift", initial_window=100, **FLAT)
    swift.on_ack(0, 1, 50_000, marked=False)
    assert swift._window == pytest.approx(60)  # 1 - 0.8 x (50 - 25) / 50
    swift.on_ack(49_999, 1, 50_000, marked=False)
    assert swift._window == pytest.approx(60)
    swift.on_ack(50_000, 1, 50_000, marked=False)
    assert swift._window == pytest.approx(36)


def test_a_cut_is_at_most_a_half():
    swift = published("swift", initial_window=100, **FLAT)
    swift.on_ack(0, 1, 10**9, marked=False)
    assert swift._window == 50


def test_a_loss_halves_once_in_a_round_trip():
    swift = published("swift", initial_window=100, **FLAT)
    swift.on_ack(0, 0, 20_000, marked=False)
    swift.on_gap(1)
    swift.on_gap(2)
    assert swift._window == 50


def test_timeouts_in_a_row_lead_to_the_least_window_and_progress_ends_the_row():
    swift = published("swift", initial_window=200, **FLAT)
    windows = []
    for number in range(5):
        swift.on_timeout(number * 10**6)
        windows.append(swift._window)
    assert windows == [100, 50, 25, 12.5, 0.01]
    swift.on_ack(10**7, 1, None, marked=False)
    swift.on_timeout(2 * 10**7)
    assert swift._timeouts == 1


def test_flow_scaling_adds_the_range_at_its_least_and_nothing_at_its_most_window():
    # a = 125 us / (1/sqrt(0.1) - 1/sqrt(100)) = 40.8 us, b = -a / 10; at 4 packets a (1/2 - 1/10).
    slope = 125 / (1 / sqrt(0.1) - 0.1)
    for window, extra_us in ((1000, 0), (100, 0), (4, slope * 0.4), (1, slope * 0.9)):
        swift = published("swift", initial_window=window, most_window=1000)
        assert swift.target_ns() == pytest.approx(25_000 + 1000 * extra_us)
    for _ in range(20):
        swift.on_timeout(0)
    assert swift._window == 0.01
    assert swift.target_ns() == pytest.approx(150_000)


def test_below_one_packet_it_paces():
    swift = published("swift", initial_window=1, **FLAT)
    swift.on_sent(0, 1110)
    assert (swift.window_packets, swift.rate_bps(0)) == (1, None)
    swift.on_ack(0, 1, 50_000, marked=False)  # x 0.6
    gap_ns = 1110 * 8 * 10**9 / swift.rate_bps(0)
    assert gap_ns == pytest.approx(50_000 / 0.6, rel=1e-4)
    assert swift.window_packets == 1


def test_an_unknown_round_trip_changes_nothing():
    swift = published("swift", initial_window=10)
    swift.on_ack(0, 5, None, marked=False)
    assert swift._window == 10


def test_the_window_stays_within_its_bounds():
    swift = published("swift", initial_window=4, most_window=6, **FLAT)
    for _ in range(10):
        swift.on_ack(0, 4, 10_000, marked=False)
    assert (swift.window_packets, swift.run_packets) == (6, 1)


def test_constants_scale_with_round_trip_and_queue():
    path = Path(rate_bps=1_000_000_000, base_rtt_ns=200_000, mtu_bytes=1500, max_burst_packets=8)
    found = scaled("swift", path)
    assert (found["base_target"], found["fs_range"]) == (300_000, 1_500_000)
    assert found["initial_window"] == 23  # 200 us x 1 Gb/s / (1106 B)
    short = scaled("swift", Path(1_000_000_000, 200_000, 1500, 8, queueing_ns=200_000))
    assert (short["base_target"], short["fs_range"]) == (250_000, 50_000)
