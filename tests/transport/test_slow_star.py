"""What losses cost a job whose cables take their time, and that nothing is sent again in vain."""

from random import Random

import numpy as np
import pytest

from testbed.transport import Path
from testbed.wire.ethernet import UDP_WIRE_BYTES

from .aggregation import Switch, members
from .slow_star import SlowStar

RATE_BPS, DELAY_NS = 10**9, 10_000
PACKET_NS = (16 + 1024 + UDP_WIRE_BYTES) * 8
MEMBERS, CHUNKS = 8, 512


def summed(*, loss: float = 0.0, jitter_ns: int = 0, seed: int = 1, chunks: int = CHUNKS) -> SlowStar:
    """Ones of all members, 256 values a packet, over a gigabit."""
    path = Path(RATE_BPS, 2 * (DELAY_NS + PACKET_NS), mtu_bytes=1500, max_burst_packets=39)
    ends = members(MEMBERS, path, values=256)
    buffers = [np.ones(256 * chunks, np.int32) for _ in ends]
    for end, buffer in zip(ends, buffers, strict=True):
        end.post_reduce(0, buffer, 0)
    star = SlowStar(ends, Switch(MEMBERS), path, DELAY_NS, loss, Random(seed), jitter_ns=jitter_ns)
    star.run()
    assert all((buffer == MEMBERS).all() for buffer in buffers)
    return star


def bound_ns(chunks: int = CHUNKS) -> int:
    """All packets leave one after another; the last one's result comes a round trip later."""
    return (chunks + 1) * PACKET_NS + 2 * DELAY_NS


def share_again(star: SlowStar) -> float:
    again = sum(end.counters.retransmitted_packets for end in star.ends)
    return again / sum(end.counters.sent_packets for end in star.ends)


def test_without_losses_the_cable_is_always_busy() -> None:
    star = summed()
    assert max(star.ended_ns) < 1.01 * bound_ns()
    assert sum(end.counters.retransmitted_packets for end in star.ends) == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_loss_costs_little_more_than_its_packets(seed: int) -> None:
    """1 % up for each of 8 members, for each of whose losses all send again, and 1 % down: some 9 % more packets, and
    at the end a timeout or two, of 512 packets' time here.
    """
    star = summed(loss=0.01, seed=seed)
    assert 0.01 * star.sent / 2 < star.lost < 0.01 * star.sent * 2
    assert max(star.ended_ns) < 1.3 * bound_ns()
    assert 0.04 < share_again(star) < 0.15


@pytest.mark.parametrize("jitter_ns", [5_000, 20_000])
def test_packets_that_overtake_each_other_are_not_lost(jitter_ns: int) -> None:
    """Up to as much as the base round trip takes; what is sent again for it shows how far, and no more is."""
    star = summed(jitter_ns=jitter_ns, chunks=4 * CHUNKS)
    assert share_again(star) < 0.02
    assert max(star.ended_ns) < 1.05 * bound_ns(4 * CHUNKS)
