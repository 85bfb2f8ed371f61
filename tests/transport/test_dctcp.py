"""DCTCP against windows worked out by hand from RFC 8257 and RFC 5681."""

import pytest

from testbed.transport.endpoint import ECN_ECT0

from .controls import PATH, published, scaled


def acknowledged(control, packets, marked=False):
    control.on_ack(0, packets, 20_000, marked)
    return control._window


def test_it_begins_with_ten_packets_and_doubles_in_each_round():
    dctcp = published("dctcp")
    assert (dctcp.ecn, dctcp.window_packets) == (ECN_ECT0, 10)
    assert [acknowledged(dctcp, packets) for packets in (10, 20, 40)] == [20, 40, 80]


def test_the_first_mark_halves_and_ends_slow_start():
    dctcp = published("dctcp")
    # alpha begins at 1 and all of the first window was marked: (1 - g) 1 + g = 1.
    assert acknowledged(dctcp, 10, marked=True) == 5
    acknowledged(dctcp, 10)  # the window that was cut passes
    assert acknowledged(dctcp, 5) == 6  # then one packet a window


def test_alpha_follows_the_share_of_marked_packets():
    dctcp = published("dctcp", initial_alpha=0, g=0.25, initial_window=8)
    acknowledged(dctcp, 6)  # not yet a window; the window grows to 14
    acknowledged(dctcp, 2, marked=True)
    assert dctcp.alpha == pytest.approx(0.25 * 2 / 8)
    # The mark cut by alpha / 2: 14 (1 - 1/32).
    assert dctcp._window == pytest.approx(14 * (1 - 0.0625 / 2))


def test_alpha_decays_without_marks():
    dctcp = published("dctcp", initial_window=4, most_window=4)
    for rounds in range(1, 5):
        acknowledged(dctcp, 4)
        assert dctcp.alpha == pytest.approx((15 / 16) ** rounds)


def test_one_cut_in_a_window():
    dctcp = published("dctcp", initial_window=16)
    acknowledged(dctcp, 1, marked=True)
    assert dctcp._window == 8
    for _ in range(16):
        acknowledged(dctcp, 1, marked=True)
    assert dctcp._window == 8
    assert acknowledged(dctcp, 1, marked=True) < 8


def test_a_loss_halves_and_a_timeout_begins_with_one():
    dctcp = published("dctcp", initial_window=20)
    dctcp.on_gap(0)
    dctcp.on_gap(1)
    assert dctcp.window_packets == 10
    dctcp.on_timeout(2)
    assert (dctcp.window_packets, dctcp.run_packets) == (1, 1)
    assert [acknowledged(dctcp, packets) for packets in (1, 2, 2)] == [2, 4, 5]  # slow start up to half of ten
    assert acknowledged(dctcp, 5) == 6


def test_it_is_never_cut_below_two_nor_grows_above_the_most():
    dctcp = published("dctcp", initial_window=3, most_window=6)
    for _ in range(20):
        acknowledged(dctcp, 3, marked=True)
    assert dctcp.window_packets == 2
    for _ in range(60):
        acknowledged(dctcp, 3)
    assert dctcp.window_packets == 6


def test_the_largest_window_scales():
    assert scaled("dctcp", PATH)["most_window"] == 4 * round(20_000 * 10 / (8 * 1106))
