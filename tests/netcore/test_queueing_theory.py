"""A link's queue under Poisson arrivals of equal packets is the M/D/1 queue of the books.

Pollaczek and Khinchine: the mean wait is load / (2 (1 - load)) services, and a share of 1 - load does not wait at all.
"""

import random
from itertools import pairwise

import pytest

from tests.netcore.row import DELAY_NS, ONLY, Row, bth, ways, wire_ns

PACKETS = 300_000
PAYLOAD_BYTES = 1000
NARROW_BPS = 10**9
WIDE_NS = wire_ns(PAYLOAD_BYTES)  # at the sender's link, a hundred times as fast
SERVICE_NS = wire_ns(PAYLOAD_BYTES, rate_bps=NARROW_BPS)


def waits_ns(load: float, seed: int) -> list[float]:
    """How long each packet waited before the narrow link."""
    row = Row(ways(), coalesce=False)
    row.set_link(row.out_of[1], rate_bps=NARROW_BPS, queue_bytes=1 << 40)
    draw = random.Random(seed)
    sent: list[int] = []
    payload = bytes(PAYLOAD_BYTES)

    def arrive(now_ns: int) -> None:
        sent.append(now_ns)
        row.send(0, 1, [bth(ONLY, len(sent) % 2**24)], payload, PAYLOAD_BYTES)
        if len(sent) < PACKETS:
            row.fabric.call_at(now_ns + round(draw.expovariate(load / SERVICE_NS)), arrive)

    row.fabric.call_at(0, arrive)
    row.fabric.play(10**15)
    assert len(row.told[1]) == PACKETS
    arrivals = [told.at_ns for told in row.told[1]]
    assert min(after - before for before, after in pairwise(arrivals)) >= int(SERVICE_NS)
    empty_ns = WIDE_NS + SERVICE_NS + 2 * DELAY_NS
    return [told.at_ns - at_ns - empty_ns for told, at_ns in zip(row.told[1], sent, strict=True)]


@pytest.mark.parametrize("load", [0.3, 0.5, 0.7])
def test_waits_are_those_of_the_m_d_1_queue(load: float) -> None:
    waits = waits_ns(load, seed=7)
    assert sum(waits) / PACKETS == pytest.approx(SERVICE_NS * load / (2 * (1 - load)), rel=0.02)
    at_once = sum(wait < 2 * WIDE_NS for wait in waits) / PACKETS  # but for who met another at the sender's link
    assert at_once == pytest.approx(1 - load, abs=0.01)
