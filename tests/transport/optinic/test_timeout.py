"""The adaptive timeout against values worked out by hand."""

import pytest

from testbed.transport import Path
from testbed.transport.optinic.timeout import Costs, First, Stopwatch
from testbed.wire.optinic import Timings

from .ends import operation, receive, send

PATH = Path(rate_bps=8 * 10**9, base_rtt_ns=1000, mtu_bytes=1500, max_burst_packets=64, queueing_ns=500)  # 1 B a ns
FIRST = First(PATH, 2, 4.0)
SLACK = 1.25


def ring_like(costs: Costs, number: int = 0) -> Stopwatch:
    """Three steps of 1000 bytes each from peer 1; tags are steps."""
    messages = [receive(1, step, step, 1000, 1000 * step) for step in range(3)]
    return Stopwatch(operation(number, messages), costs, FIRST, SLACK)


def told(*pairs: tuple[int, int], number: int = 1) -> list[Timings]:
    """What ranks tell of a collective of one step over 100 bytes: what it took, and usually takes."""
    return [Timings(number, 100, [(0, *pair)]) for pair in pairs]


def learnt(costs: Costs, *pairs: tuple[int, int], warmup: bool = False) -> float | None:
    """What the first of the ranks makes of it."""
    costs.learn(told(*pairs)[0], told(*pairs)[1:], warmup=warmup)
    return costs.usual_ns(0, 100)


def test_cost_is_the_median_then_a_moving_average() -> None:
    """10, 12 and 50 ns a byte: median 12. Then 22: 0.8 * 12 + 0.2 * 22 = 14."""
    costs = Costs(0.2)
    assert costs.usual_ns(0, 100) is None
    assert learnt(costs, (1000, 0), (1200, 0), (5000, 0)) == 1200
    assert learnt(costs, (2000, 1200), (2200, 1200), (2300, 1200)) == pytest.approx(1400)
    assert costs.usual_ns(0, 200) == pytest.approx(2800)
    assert costs.usual_ns(1, 100) is None


def test_warm_up_sets_the_first_cost_by_its_median() -> None:
    """A collective in which ranks were held up counts no more than the others."""
    costs = Costs(0.2)
    assert learnt(costs, (1000, 0), (1200, 0), (1200, 0), warmup=True) == 1200
    assert learnt(costs, (9000, 1200), (9100, 1200), (9100, 1200), warmup=True) == 5150
    assert learnt(costs, (1300, 5150), (1300, 5150), (1200, 5150), warmup=True) == 1300


def test_a_rank_whose_part_takes_longer_keeps_its_own_cost() -> None:
    """50 ns a byte, of which the others need 12. Held up once, it is as strict as before; twice as slow all, 1.2 times
    as long: 0.8 + 0.2 * 2."""
    costs = Costs(0.2)
    assert learnt(costs, (5000, 0), (1200, 0), (1200, 0)) == 5000
    assert learnt(costs, (20_000, 5000), (1200, 1200), (1200, 1200)) == pytest.approx(5000)
    assert learnt(costs, (10_000, 5000), (2400, 1200), (2400, 1200)) == pytest.approx(6000)


def test_a_rank_for_which_all_is_there_when_it_begins_waits_as_the_others_do() -> None:
    costs = Costs(0.2)
    assert learnt(costs, (0, 0), (1200, 0), (1300, 0)) == 1200
    assert learnt(costs, (0, 1200), (2400, 1200), (2400, 1200)) == pytest.approx(1440)


def test_the_first_timers_are_long_in_proportion_to_steps() -> None:
    """4 * (3 * 1000 ns + 2 ranks * 3000 B at 1 B a ns) + 500 ns = 36,500 ns, in three steps."""
    watch = ring_like(Costs(0.2))
    assert watch.deadline_ns(0) is watch.expires_ns is None
    watch.start_ns = 10_000
    assert [watch.deadline_ns(step) for step in range(3)] == [22_166, 34_333, 46_500]
    assert watch.expires_ns == 46_500


def test_timeouts_count_from_the_start_and_never_fall() -> None:
    """2, 1.9 and 4 ns for each of 3000 bytes, times 1.25."""
    costs = Costs(0.2)
    costs.learn(Timings(0, 3000, [(0, 6000, 0), (1, 5700, 0), (2, 12_000, 0)]), [], warmup=True)
    watch = ring_like(costs, 1)
    watch.start_ns = 100
    assert [watch.deadline_ns(step) for step in range(3)] == [7600, 7600, 15_100]


def test_in_warm_up_they_are_longer() -> None:
    """Four times what is known: 2, 3 and 4 ns for each of 3000 bytes."""
    costs = Costs(0.2)
    costs.learn(Timings(0, 3000, [(0, 6000, 0), (1, 9000, 0), (2, 12_000, 0)]), [], warmup=True)
    watch = ring_like(costs, 0)
    watch.start_ns = 100
    assert [watch.deadline_ns(step) for step in range(3)] == [24_100, 36_100, 48_100]


def test_who_sends_gives_up_when_the_collective_is_over_for_all() -> None:
    """Another rank usually takes 7 ns for each of 3000 bytes."""
    costs = Costs(0.2)
    steps = [(step, 1000 * (step + 1), 1000 * (step + 1)) for step in range(3)]
    costs.learn(Timings(0, 3000, [(step, took, 0) for step, took, _ in steps]), [], warmup=True)
    costs.learn(Timings(1, 3000, steps), [Timings(1, 3000, [(2, 3000, 21_000)])], warmup=False)
    watch = ring_like(costs, 2)
    watch.start_ns = 100
    assert watch.expires_ns == 100 + 26_250


def test_without_loss_what_is_told_is_when_each_step_was_there() -> None:
    watch = ring_like(Costs(0.2))
    watch.start_ns = 100
    for step, now in enumerate((1300, 2500, 3900)):
        watch.came(step, 1000, now)
        assert not watch.over
        watch.ended(step, now, cut=False)
    assert watch.over
    assert watch.timings() == Timings(0, 3000, [(0, 1200, 0), (1, 2400, 0), (2, 3800, 0)])


def test_what_was_waited_for_in_vain_is_not_told_and_what_was_cut_off_is_scaled_up() -> None:
    """Step 0: after 400 ns 500 of 1000 bytes in 400 ns, cut at 2000: 400 and twice 400. Step 1 begins there: 1100 more.
    Step 2 was pre-empted after 1000 ns, which tells nothing of its rate."""
    watch = ring_like(Costs(0.2))
    watch.start_ns = 0
    watch.came(0, 250, 400)
    watch.came(0, 250, 800)
    watch.ended(0, 2000, cut=True)
    watch.came(1, 1000, 3100)
    watch.ended(1, 3100, cut=False)
    watch.came(2, 900, 4100)
    watch.ended(2, 9000, cut=False)
    assert watch.timings().steps == [(0, 1200, 0), (1, 2300, 0), (2, 3300, 0)]


def test_what_came_of_a_step_while_an_earlier_one_was_waited_for_took_no_time() -> None:
    """All that came of step 1 was there before the timer ended step 0: the rest of it is not scaled down from that."""
    watch = ring_like(Costs(0.2))
    watch.start_ns = 0
    watch.came(0, 100, 300)
    watch.came(1, 100, 400)
    watch.came(0, 100, 400)
    watch.ended(0, 2000, cut=True)
    watch.ended(1, 4000, cut=True)
    watch.ended(2, 6000, cut=True)
    assert watch.timings().steps == [(0, 800, 0), (1, 800, 0), (2, 2800, 0)]


def test_a_step_of_which_nothing_came_tells_how_long_it_was_waited_for() -> None:
    watch = ring_like(Costs(0.2))
    watch.start_ns = 0
    for step, now in enumerate((2000, 4000, 6000)):
        watch.ended(step, now, cut=True)
    assert watch.timings().steps == [(0, 2000, 0), (1, 4000, 0), (2, 6000, 0)]


def test_what_came_before_the_rank_began_took_no_time() -> None:
    watch = ring_like(Costs(0.2))
    for step, now in enumerate((1000, 2000)):
        watch.came(step, 1000, now)
        watch.ended(step, now, cut=False)
    watch.start_ns = 5000
    watch.came(2, 1000, 5500)
    watch.ended(2, 5500, cut=False)
    assert watch.timings().steps == [(0, 0, 0), (1, 0, 0), (2, 500, 0)]


def test_timeouts_do_not_grow_though_every_step_is_ended_by_its_timer() -> None:
    """Each step takes 1000 ns from when the one before was ended, and brings 990 of 1000 bytes in 990 ns: after 50
    collectives the timeouts are still slack times what it takes, within a per cent."""
    costs = Costs(0.2)
    costs.learn(Timings(0, 3000, [(step, 1000 * (step + 1), 0) for step in range(3)]), [], warmup=True)
    for number in range(1, 51):
        watch = ring_like(costs, number)
        watch.start_ns = now = 0
        for step in range(3):
            watch.came(step, 495, now + 10)
            watch.came(step, 495, now + 990)
            ends_ns = watch.deadline_ns(step)
            assert ends_ns is not None
            watch.ended(step, ends_ns, cut=True)
            now = ends_ns
        costs.learn(watch.timings(), [], warmup=False)
    assert [costs.usual_ns(step, 3000) for step in range(3)] == pytest.approx([1000, 2000, 3000], rel=1e-2)


def test_a_rank_that_only_sends_has_nothing_to_tell() -> None:
    watch = Stopwatch(operation(0, [send(1, 0, 0, 500)]), Costs(0.2), FIRST, SLACK)
    watch.start_ns = 100
    assert watch.over
    assert watch.timings().steps == []
    assert watch.expires_ns == 100 + 4 * (1000 + 2 * 500) + 500
