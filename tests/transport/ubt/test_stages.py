"""When stages end: instants worked out by hand, at two ranks whose packets take 10 us."""

from collections.abc import Callable

import pytest

from testbed.transport.endpoint import Burst
from testbed.wire.ubt import FEEDBACK, NOTICE, decode
from tests.transport.ubt.collective import Ranks

DELAY_NS = 10_000
US = 1000
Lose = Callable[[int, int, int], bool]


class Losing:
    """A network of equal delays that loses what `lose(sender, stage, number)` says: packet `number` of that stage."""

    def __init__(self) -> None:
        self.lose: Lose = lambda *_: False
        self.delay_ns: Callable[[int, int], int] = lambda *_: DELAY_NS
        self.seen: dict[tuple[int, int], int] = {}

    def __call__(self, sender: int, burst: Burst, index: int) -> list[int]:
        header = decode(burst.headers[index])
        if header.mark in (NOTICE, FEEDBACK):
            return [DELAY_NS]
        stage = header.bucket % 2
        number = self.seen.get((sender, header.bucket), 0)
        self.seen[sender, header.bucket] = number + 1
        return [] if self.lose(sender, stage, number) else [self.delay_ns(sender, stage)]


def two(**keys: object) -> tuple[Ranks, Losing]:
    """Each has 1 KiB for the other in either stage: four packets."""
    network = Losing()
    ranks = Ranks(2, network, elements=512, warmup=0, keys={"mtu": 256, "congestion": "none", "bound": "1ms", **keys})
    return ranks, network


def test_what_loses_nothing_takes_as_long_as_its_packets() -> None:
    ranks, _ = two()
    for _ in range(3):
        outcome = ranks.run()
        assert outcome.took_ns == [2 * DELAY_NS] * 2
        assert outcome.missing_bytes == [0, 0]


def test_a_stage_ends_early_when_its_end_was_seen_and_nothing_comes_for_a_tenth_of_t_c() -> None:
    """Of rank 0's scatter the second packet is lost. t_C is t_B at first, so rank 1 waits until 10 + 100 us, and tells
    c = 110 x 4/3 us. Rank 0, whose scatter was whole at 10 us, gets the gather at 120 us."""
    ranks, network = two()
    network.lose = lambda sender, stage, number: (sender, stage, number) == (0, 0, 1)
    outcome = ranks.run()
    assert outcome.took_ns == [120 * US, 110 * US]
    assert outcome.missing_bytes == [0, 256]
    assert ranks.ends[1].counters.extra["ended_early"] == 1
    assert ranks.ends[1].counters.timeouts == 0

    # Rank 0 has c = 10 us of its own, and of rank 1 146.7 us in ticks of 5 us, rounded up: t_C = (10 + 150) / 2 us. It
    # lost nothing in two stages: x = 8 %. Rank 1 sends at once, so that rank 0 waits from 10 us on for 6.4 us.
    network.lose = lambda sender, stage, number: (sender, stage, number) == (1, 0, 1)
    outcome = ranks.run()
    assert outcome.missing_bytes == [256, 0]
    assert outcome.took_ns == [20 * US, 26_400]


def test_without_the_end_of_a_message_only_t_b_ends_a_stage() -> None:
    ranks, network = two()
    network.lose = lambda sender, stage, number: (sender, stage, number) == (0, 0, 3)
    outcome = ranks.run()
    assert outcome.took_ns == [1010 * US, 1000 * US]
    assert outcome.missing_bytes == [0, 256]
    assert ranks.ends[1].counters.timeouts == 1


def test_stages_may_be_kept_from_ending_early() -> None:
    ranks, network = two(early="off")
    network.lose = lambda sender, stage, number: (sender, stage, number) == (0, 0, 1)
    assert ranks.run().took_ns == [1010 * US, 1000 * US]


def test_the_clock_of_the_gather_starts_when_the_scatter_has_ended_everywhere() -> None:
    """Rank 1's ends early, at 110 us; rank 0 hears of it at 120 us, when its own clock starts. Rank 1's gather is lost
    but for the notice, so that rank 0 ends at 1.12 ms."""
    ranks, network = two(skip=0)
    network.lose = lambda sender, stage, number: (sender, stage, number) == (0, 0, 1) or (sender, stage) == (1, 1)
    outcome = ranks.run()
    assert outcome.missing_bytes == [1024, 256]
    assert outcome.took_ns == [1120 * US, 110 * US]


def test_but_no_later_than_t_b_and_a_round_trip_after_the_clock_before() -> None:
    """Rank 1 begins 50 ms late: rank 0's scatter ends at 1 ms, its next clock starts 20 us later, until 2.02 ms."""
    ranks, _ = two(skip=0)
    assert ranks.run(starts_ns={1: 50_000 * US}).took_ns == [2020 * US, 0]


@pytest.mark.parametrize("by", [{"idle": 0, "idle_least": 0, "idle_most": 0}, {"bound": "1ns"}])
def test_a_clock_never_ends_a_stage_at_the_instant_at_which_it_begins(by: dict[str, object]) -> None:
    """Who finds the next stage due at once is asked again at the same instant, without end."""
    ranks, network = two(**by)
    network.lose = lambda _sender, _stage, number: number == 1
    outcome = ranks.run()
    assert all(missing >= 256 for missing in outcome.missing_bytes)
    assert all(end.deadline() is None for end in ranks.ends)


def test_t_b_is_what_warm_up_took() -> None:
    """Warm-up with packets of 10 and then of 40 us: by nearest rank t_B of four stages is the longest. That is the
    scatter, as the gather's clock starts with the notice, which takes 10 us."""
    network = Losing()
    ranks = Ranks(2, network, elements=512, warmup=2, keys={"mtu": 256, "congestion": "none"})
    ranks.run()
    network.delay_ns = lambda *_: 40 * US
    ranks.run()
    network.delay_ns = lambda sender, _: 100 * US if sender == 0 else 5 * US
    outcome = ranks.run()
    assert outcome.missing_bytes == [0, 2048], "all of rank 0 comes too late"
    assert outcome.took_ns[1] <= 2 * 40 * US + 2 * DELAY_NS


def test_warm_up_which_loses_nothing_does_not_make_the_share_of_silence_less() -> None:
    """After five warm-ups with packets of 40 us t_C is that too. Rank 1's scatter, whose end was seen at 10 us, waits a
    tenth of it (one hundredth, had x fallen ten times), and its gather is there 10 us later."""
    network = Losing()
    network.delay_ns = lambda *_: 40 * US
    ranks = Ranks(2, network, elements=512, warmup=5, keys={"mtu": 256, "congestion": "none"})
    for _ in range(5):
        ranks.run()
    network.delay_ns = lambda *_: DELAY_NS
    network.lose = lambda sender, stage, number: (sender, stage, number) == (0, 0, 1)
    assert ranks.run().took_ns[0] == 24 * US


@pytest.mark.parametrize("algorithm", ["tar", "ring"])
def test_a_rank_that_stalls_keeps_nobody_waiting_for_longer_than_t_b_a_stage(algorithm: str) -> None:
    parameters = {"incast": 3} if algorithm == "tar" else {}
    network = Losing()
    keys = {"mtu": 256, "congestion": "none", "bound": "1ms", "skip": 0}
    ranks = Ranks(4, network, algorithm, parameters, 2048, 0, keys)
    stages = max(program.step.max() for program in ranks.programs) + 1
    for step in range(stages):
        outcome = ranks.run(stalls_ns={0: {step: 50_000 * US}})
        assert sum(outcome.missing_bytes) > 0
        assert max(outcome.took_ns) <= stages * (1000 * US + 2 * DELAY_NS)


def test_a_rank_that_begins_late_is_waited_for_as_long_as_t_b_in_both_stages() -> None:
    """Rank 0 comes 50 ms late: the others' stages end at 1 and 2.02 ms. It has all of theirs at once."""
    network = Losing()
    keys = {"mtu": 256, "congestion": "none", "bound": "1ms", "skip": 0}
    ranks = Ranks(4, network, "tar", {"incast": 3}, 2048, 0, keys)
    outcome = ranks.run(starts_ns={0: 50_000 * US})
    assert outcome.took_ns == [0, 2020 * US, 2020 * US, 2020 * US]
    assert outcome.missing_bytes == [0, 4096, 4096, 4096]
