"""t_B, t_C and the share of silence, worked out by hand."""

import pytest

from testbed.transport import TRANSPORTS
from testbed.transport.parameters import resolve
from testbed.transport.ubt.bounds import Bounds, Ending, Silence, cost_ns
from testbed.transport.ubt.incast import Incast
from testbed.transport.ubt.parameters import Constants
from testbed.transport.ubt.safeguard import Safeguard
from tests.transport.pump import PATH


def constants(**keys: object) -> Constants:
    return Constants.of(PATH, resolve(TRANSPORTS["ubt"].parameters, keys, PATH, "auto"))


def test_t_b_is_the_95th_percentile_of_stages_in_warm_up_by_nearest_rank() -> None:
    bounds = Bounds(constants())
    assert bounds.bound_ns(0) is None
    for number in range(20, 0, -1):
        bounds.measured(number % 2, 100 * number)
    assert [bounds.bound_ns(stage) for stage in range(2)] == [1900, 1900]
    bounds.measured(0, 2100)
    assert bounds.bound_ns(0) == 2000  # of 21 the 20th


def test_a_stage_that_usually_takes_longer_than_that_has_a_t_b_of_its_own() -> None:
    bounds = Bounds(constants())
    for number in range(20):
        for stage in range(30):
            bounds.measured(stage, 100 + number)
        bounds.measured(30, 5000 + number)
    assert [bounds.bound_ns(stage) for stage in (0, 29, 30)] == [119, 119, 5018]


def test_t_b_may_be_given() -> None:
    bounds = Bounds(constants(bound="5ms"))
    bounds.measured(0, 1)
    assert bounds.bound_ns(0) == 5_000_000


def test_t_c_is_the_median_of_all_ranks_this_one_among_them_and_at_most_t_b() -> None:
    bounds = Bounds(constants(bound="1ms", smoothing=0.5))
    assert bounds.early_ns(0) == 1_000_000, "nobody knows better"
    bounds.ended(0, 100_000)
    for peer, cost in enumerate((300_000, 20_000, 40_000)):
        bounds.stamped(0, peer, cost)
    assert bounds.early_ns(0) == 70_000  # of 20, 40, 100 and 300
    bounds.stamped(0, 0, 50_000)
    assert bounds.early_ns(0) == 57_500  # 70 halfway to 45
    for peer in range(3):
        bounds.stamped(0, peer, 9_000_000)
    assert bounds.early_ns(0) == 1_000_000


@pytest.mark.parametrize(("ending", "cost"), [(Ending.WHOLE, 30_000), (Ending.BOUND, 100_000), (Ending.EARLY, 40_000)])
def test_what_a_rank_tells_its_peers(ending: Ending, cost: int) -> None:
    """Of a stage that took 30 us, with three quarters of its bytes where it ended early."""
    assert cost_ns(ending, 30_000, 100_000, 4000, 3000) == cost


def test_the_share_of_silence_doubles_with_loss_and_falls_without() -> None:
    silence = Silence(constants())
    shares = []
    for lost in (0.002, 0.002, 0.002, 0.0005, 0.0, 0.0):
        silence.ended(lost)
        shares.append(silence.share)
    assert shares == pytest.approx([0.2, 0.4, 0.5, 0.5, 0.49, 0.48])
    for _ in range(100):
        silence.ended(0.0)
    assert silence.share == 0.01


def test_incast_grows_by_one_and_is_halved_and_senders_take_the_least() -> None:
    incast = Incast(constants(), 7)
    asked = []
    for lost in (0, 0, 0, 0, 1, 0, 1, 1):
        incast.ended(lost)
        asked.append(incast.asked)
    assert asked == [2, 3, 4, 5, 2, 3, 1, 1]
    for _ in range(20):
        incast.ended(0)
    assert incast.asked == 7, "there are no more senders"
    assert incast.receivers == 7, "as no peer has said anything"
    incast.heard(3, 5)
    incast.heard(1, 4)
    incast.heard(2, 0)
    assert incast.receivers == 4


def test_an_update_that_lost_a_tenth_is_left_out_and_three_in_a_row_halt() -> None:
    guard = Safeguard(constants())
    assert [(guard.ended(1000, lost), guard.skips) for lost in (100, 101, 500, 0, 101, 500)] == [
        (None, False), (None, True), (None, True), (None, False), (None, True), (None, True),
    ]  # fmt: skip
    reason = guard.ended(1000, 250)
    assert reason is not None
    assert "3 updates in a row" in reason
    assert "0.25" in reason


def test_no_safeguards_if_they_are_off() -> None:
    guard = Safeguard(constants(skip=0))
    assert [guard.ended(1000, 1000) for _ in range(9)] == [None] * 9
    assert not guard.skips
    guard = Safeguard(constants(halt=0))
    assert [guard.ended(1000, 1000) for _ in range(9)] == [None] * 9
    assert guard.skips
