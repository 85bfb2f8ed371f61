"""The adaptive timeout against values worked out by hand."""

from testbed.transport import Path
from testbed.transport.optinic.timeout import Costs, First, Stopwatch
from testbed.wire.optinic import Timings

from .ends import operation, receive, send

PATH = Path(rate_bps=8 * 10**9, base_rtt_ns=1000, mtu_bytes=1500, max_burst_packets=64, queueing_ns=500)  # 1 B a ns
FIRST = First(PATH, 2, 4.0)


def ring_like(costs: Costs, number: int = 0) -> Stopwatch:
    """Three steps of 1000 bytes each from peer 1; tags are steps."""
    messages = [receive(1, step, step, 1000, 1000 * step) for step in range(3)]
    return Stopwatch(operation(number, messages), costs, FIRST)


def told(*elapsed_ns: int, size: int = 100) -> list[Timings]:
    """What ranks tell of a collective of one step."""
    return [Timings(0, size, [(0, each)]) for each in elapsed_ns]


def test_cost_is_the_median_then_a_moving_average_and_the_timeout_has_slack() -> None:
    """10, 12 and 50 ns a byte: median 12. Then 22: 0.8 * 12 + 0.2 * 22 = 14. Timeout of 100 bytes: 1.25 * 14 * 100."""
    costs = Costs(weight=0.2, slack=1.25)
    assert costs.timeout_ns(0, 100) is None
    costs.learn(told(1000)[0], told(1200, 5000))
    assert costs.timeout_ns(0, 100) == 1500
    costs.learn(told(2000)[0], told(2200, 2200))
    assert costs.timeout_ns(0, 100) == 1750
    assert costs.timeout_ns(0, 200) == 3500
    assert costs.timeout_ns(1, 100) is None


def test_a_rank_that_needs_longer_takes_its_own_cost_but_not_more_than_it_waited_for() -> None:
    """50 ns a byte, of which the others need 12. Held up for 200 it takes 1.25 * 50: 0.8 * 50 + 0.2 * 62.5 = 52.5."""
    costs = Costs(weight=0.2, slack=1.25)
    costs.learn(told(5000)[0], told(1200, 1200))
    assert costs.timeout_ns(0, 100) == 6250
    costs.learn(told(20_000)[0], told(1200, 1200))
    assert costs.timeout_ns(0, 100) == round(1.25 * 5250)
    costs.learn(told(1000)[0], told(1200, 1200))
    assert costs.timeout_ns(0, 100) == round(1.25 * (0.8 * 5250 + 0.2 * 1200))


def test_a_collective_is_over_for_all_after_the_longest_that_any_rank_told() -> None:
    """50 ns a byte, then 10: 0.8 * 50 + 0.2 * 10 = 42."""
    costs = Costs(weight=0.2, slack=1.25)
    assert costs.end_ns(100) is None
    costs.learn(told(1000)[0], told(1200, 5000))
    assert costs.end_ns(100) == 6250
    costs.learn(told(1000)[0], told(900, 1000))
    assert costs.end_ns(100) == 5250


def test_the_first_timers_are_long_in_proportion_to_steps() -> None:
    """4 * (3 * 1000 ns + 2 ranks * 3000 B at 1 B a ns) + 500 ns = 36,500 ns, in three steps."""
    watch = ring_like(Costs(0.2, 1.25))
    assert watch.deadline_ns(0) is watch.expires_ns is None
    watch.start_ns = 10_000
    assert [watch.deadline_ns(step) for step in range(3)] == [22_166, 34_333, 46_500]
    assert watch.expires_ns == 46_500


def test_timeouts_count_from_the_start_and_never_fall() -> None:
    """2, 1.9 and 4 ns for each of 3000 bytes, times 1.5."""
    costs = Costs(0.2, 1.5)
    costs.learn(Timings(0, 3000, [(0, 6000), (1, 5700), (2, 12_000)]), [])
    watch = ring_like(costs, 1)
    watch.start_ns = 100
    assert [watch.deadline_ns(step) for step in range(3)] == [9100, 9100, 18_100]


def test_without_loss_what_is_told_is_when_each_step_was_there() -> None:
    watch = ring_like(Costs(0.2, 1.25))
    watch.start_ns = 100
    for step, now in enumerate((1300, 2500, 3900)):
        watch.came(step, 1000, now)
        assert not watch.over
        watch.ended(step, now, cut=False)
    assert watch.over
    assert watch.timings() == Timings(0, 3000, [(0, 1200), (1, 2400), (2, 3800)])


def test_what_was_waited_for_in_vain_is_not_told_and_what_was_cut_off_is_scaled_up() -> None:
    """Step 0: 500 of 1000 bytes in 800 ns, cut at 2000: twice 800. Step 1 begins there: 1100 more. Step 2 was
    pre-empted after 1000 ns, which tells nothing of its rate."""
    watch = ring_like(Costs(0.2, 1.25))
    watch.start_ns = 0
    watch.came(0, 500, 800)
    watch.ended(0, 2000, cut=True)
    watch.came(1, 1000, 3100)
    watch.ended(1, 3100, cut=False)
    watch.came(2, 900, 4100)
    watch.ended(2, 9000, cut=False)
    assert watch.timings().steps == [(0, 1600), (1, 2700), (2, 3700)]


def test_a_step_of_which_nothing_came_tells_how_long_it_was_waited_for() -> None:
    watch = ring_like(Costs(0.2, 1.25))
    watch.start_ns = 0
    for step, now in enumerate((2000, 4000, 6000)):
        watch.ended(step, now, cut=True)
    assert watch.timings().steps == [(0, 2000), (1, 4000), (2, 6000)]


def test_what_came_before_the_rank_began_took_no_time() -> None:
    watch = ring_like(Costs(0.2, 1.25))
    for step, now in enumerate((1000, 2000)):
        watch.came(step, 1000, now)
        watch.ended(step, now, cut=False)
    watch.start_ns = 5000
    watch.came(2, 1000, 5500)
    watch.ended(2, 5500, cut=False)
    assert watch.timings().steps == [(0, 0), (1, 0), (2, 500)]


def test_timeouts_do_not_grow_though_every_step_is_ended_by_its_timer() -> None:
    """Each step takes 1000 ns from when the one before was ended, and brings 990 of 1000 bytes in 990 ns: after 50
    collectives the timeouts are still slack times what it takes."""
    costs = Costs(0.2, 1.25)
    costs.learn(Timings(0, 3000, [(step, 1000 * (step + 1)) for step in range(3)]), [])
    for number in range(1, 51):
        watch = ring_like(costs, number)
        watch.start_ns = now = 0
        for step in range(3):
            watch.came(step, 990, now + 990)
            ends_ns = watch.deadline_ns(step)
            assert ends_ns is not None
            watch.ended(step, ends_ns, cut=True)
            now = ends_ns
        costs.learn(watch.timings(), [])
    assert [costs.timeout_ns(step, 3000) for step in range(3)] == [1250, 2500, 3750]


def test_a_rank_that_only_sends_has_nothing_to_tell() -> None:
    watch = Stopwatch(operation(0, [send(1, 0, 0, 500)]), Costs(0.2, 1.25), FIRST)
    watch.start_ns = 100
    assert watch.over
    assert watch.timings().steps == []
    assert watch.expires_ns == 100 + 4 * (1000 + 2 * 500) + 500
