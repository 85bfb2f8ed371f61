"""Whole collectives: exact where nothing is lost or warm-up sees to it, and never wrong but by what is missing."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.transport.endpoint import Arrival, Burst
from testbed.wire.ubt import Header, decode, encode
from tests.transport.pump import PATH, impaired
from tests.transport.ubt.collective import Ranks

few = settings(deadline=None, max_examples=25)
ALGORITHMS = [
    ("tar", {"incast": 3}),
    ("tar", {}),
    ("tar-2d", {}),
    ("ring", {}),
    ("parameter-server", {}),
    ("halving-doubling", {}),
    ("recursive-doubling", {}),
    ("double-tree", {"chunks": 3}),
    ("binomial", {}),
]
KEYS = {"mtu": 256, "skip": 0}


@pytest.mark.parametrize(("algorithm", "parameters"), ALGORITHMS)
def test_without_loss_every_algorithm_is_exact(algorithm: str, parameters: dict[str, int]) -> None:
    ranks = Ranks(4, impaired(Random(1)), algorithm, parameters, 1000, 2, KEYS)
    for _ in range(4):
        outcome = ranks.run()
        assert outcome.missing_bytes == [0] * 4
        for result in outcome.results:
            np.testing.assert_allclose(result, outcome.exact, atol=1e-5)
    assert ranks.network.totals()["malformed"] == 0
    assert all(end.idle() and end.deadline() is None for end in ranks.ends)


@few
@given(
    st.integers(0, 2**32),
    st.sampled_from(ALGORITHMS),
    st.floats(0, 0.2),
    st.floats(0, 0.2),
    st.floats(0, 0.2),
    st.integers(1, 2000),
)
def test_warm_up_is_exact_whatever_happens_to_packets(seed, algorithm, loss, duplicate, reorder, elements):
    fate = impaired(Random(seed), loss=loss, duplicate=duplicate, reorder=reorder)
    ranks = Ranks(4, fate, *algorithm, elements, 2, KEYS)
    for _ in range(2):
        outcome = ranks.run()
        assert outcome.failures == [None] * 4
        assert outcome.missing_bytes == [0] * 4
        for result in outcome.results:
            np.testing.assert_allclose(result, outcome.exact, atol=1e-5)


@few
@given(
    st.integers(0, 2**32),
    st.sampled_from(ALGORITHMS),
    st.floats(0, 0.2),
    st.floats(0, 0.2),
    st.floats(0, 0.2),
    st.integers(1, 2000),
)
def test_afterwards_all_ends_in_bounded_time(seed, algorithm, loss, duplicate, reorder, elements):
    fate = impaired(Random(seed), loss=loss, duplicate=duplicate, reorder=reorder)
    ranks = Ranks(4, fate, *algorithm, elements, 0, {**KEYS, "bound": "300us"})
    stages = 1 + max(int(program.step.max(initial=0)) for program in ranks.programs)
    for _ in range(3):
        outcome = ranks.run()
        assert max(outcome.took_ns) <= stages * (300_000 + 50_000)
        assert outcome.failures == [None] * 4
    totals = ranks.network.totals()
    assert totals["retransmitted_packets"] == totals["malformed"] == 0
    assert totals["sent_packets"] - ranks.network.lost + ranks.network.doubled == totals["received_packets"]
    assert all(end.idle() and end.deadline() is None for end in ranks.ends)


def test_what_is_missing_of_a_scatter_is_missing_in_the_sum_of_all_and_of_a_gather_stays_ones_own() -> None:
    """Rank 0's contribution to shard 1, elements [512, 1024), lacks its second packet; of rank 1's gather of it the
    third does not come to rank 2."""

    def fate(sender: int, burst: Burst, index: int) -> list[int]:
        header = decode(burst.headers[index])
        lost = {(0, 1, 0, 256), (1, 2, 1, 512)}
        return [] if (sender, burst.peer, header.bucket % 2, header.offset) in lost and header.mark < 14 else [10_000]

    ranks = Ranks(4, fate, "tar", {"incast": 3}, 2048, 0, {**KEYS, "bound": "300us"})
    outcome = ranks.run()
    assert outcome.missing_bytes == [0, 256, 256, 0]
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(2048).astype(np.float32) for _ in range(4)]
    expected = outcome.exact.copy()
    expected[512 + 64 : 512 + 128] -= inputs[0][512 + 64 : 512 + 128]
    for rank, result in enumerate(outcome.results):
        own = expected.copy()
        if rank == 2:
            own[512 + 128 : 512 + 192] = inputs[2][512 + 128 : 512 + 192]
        np.testing.assert_allclose(result, own, atol=1e-5)


def test_a_peer_that_is_gone_in_warm_up_is_given_up() -> None:
    ranks = Ranks(2, lambda *_: [], elements=64, keys=KEYS)
    outcome = ranks.run()
    assert outcome.missing_bytes == [256] * 2  # of 64 elements half to add and half to copy
    assert all("acknowledges nothing, after 15 retransmissions" in event.reason for event in ranks.network.events[0])
    assert all(end.idle() and end.deadline() is None for end in ranks.ends)


@pytest.mark.parametrize("algorithm", ["tar", "binomial"])
def test_too_much_loss_ends_the_run_after_three_updates(algorithm: str) -> None:
    """With the binomial tree rank 0 has nothing to wait for in its last stage, which ends with the one before."""
    ranks = Ranks(2, lambda *_: [], algorithm, elements=64, warmup=0, keys={"mtu": 256, "bound": "300us"})
    assert [ranks.run().failures[0] for _ in range(2)] == [None, None]
    assert ranks.ends[0].skips()
    assert "3 updates in a row" in str(ranks.run().failures[0])
    assert ranks.ends[0].counters.extra["skipped"] == 3


@few
@given(st.integers(0, 2**32))
def test_hostile_packets_are_never_written_beyond_a_message(seed):
    """Random headers, some near those that are right, some of them of the peer that is asked."""
    random = Random(seed)
    ranks = Ranks(
        2, impaired(random, loss=0.1), elements=1024, warmup=random.randrange(2), keys={**KEYS, "bound": "300us"}
    )
    victim = ranks.ends[1]

    def forge(now: int) -> None:
        for _ in range(20):
            header = encode(
                Header(
                    random.choice([0, 1, 2, random.randrange(1 << 16)]),
                    random.choice([0, 256, 2048, 2047, random.randrange(1 << 32)]),
                    random.randrange(1 << 16),
                    random.choice([0, 1, 14, 15]),
                    random.randrange(16),
                )
            )
            header = random.choice([header, header, header[:8], random.randbytes(9)])
            payload = random.randbytes(random.choice([0, 1, 256, 256, 255, 4000]))
            victim.receive(
                Arrival(random.choice([0, 0, 1, 7]), random.randrange(4), len(payload), (header,), payload), now
            )

    for _ in range(10):
        ranks.network.at(random.randrange(1, 300_000), forge)
    with np.errstate(all="ignore"):  # of values that somebody else made
        outcome = ranks.run()
    assert outcome.failures == [None, None]
    assert max(outcome.took_ns) <= 2 * 350_000


def test_what_was_not_announced_is_refused() -> None:
    ranks = Ranks(2, impaired(Random(1)), elements=64)
    with pytest.raises(ValueError, match="announced"):
        ranks.ends[0].post_send(7, 1, 7, b"1234", 0)
    with pytest.raises(ValueError, match="announced"):
        ranks.ends[0].post_receive(7, 1, 7, memoryview(bytearray(4)), 0)


def test_receivers_that_lose_nothing_come_to_ask_for_all_senders_at_once() -> None:
    """A round each, then two senders at a time, three: bursts go to so many peers by turns."""
    ranks = Ranks(4, impaired(Random(1)), "tar", {"incast": 3}, 16 * 1024, 0, {**KEYS, "bound": "1ms", "burst": 6})
    turns = []
    for _ in range(3):
        begun = len(ranks.network.log)
        ranks.run()
        sent = [burst for _, sender, burst in ranks.network.log[begun:] if sender == 0 and burst.payload]
        turns.append(len({burst.peer for burst in sent[:6]}))
    assert turns[0] == 1
    assert turns[-1] == 3
    assert PATH.max_burst_packets >= 6
