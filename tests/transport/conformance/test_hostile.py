"""Bytes that are no transport's: refused and counted, no crash, no hang, nothing past a buffer."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.transport.endpoint import Arrival
from tests.transport.conformance.carriage import MTU, Carriage, Parcel
from tests.transport.conformance.subjects import every
from tests.transport.pump import impaired

pytestmark = pytest.mark.slow
some = settings(deadline=None, max_examples=25)
SEEDS = st.integers(0, 2**32)
MESSAGES = tuple(Parcel(i % 2, 1 - i % 2, i, size) for i, size in enumerate((0, 1, MTU, 9 * MTU + 5, 30 * MTU, 700)))


def flipped(random: Random, share: float):
    """Some bits of some headers are others, as no checksum told."""

    def mangle(run: Arrival) -> Arrival:
        if random.random() >= share:
            return run
        headers = [bytearray(header) for header in run.headers]
        header = random.choice(headers)
        for _ in range(random.randint(1, 4)):
            header[random.randrange(len(header))] ^= 1 << random.randrange(8)
        return run._replace(headers=tuple(map(bytes, headers)))

    return mangle


def cut(random: Random, share: float):
    """Some runs say other lengths than they have, or lack some of their bytes."""

    def mangle(run: Arrival) -> Arrival:
        if random.random() >= share:
            return run
        match random.randrange(3):
            case 0:
                return run._replace(segment_bytes=random.choice([0, 1, run.segment_bytes + 1, 1 << 20]))
            case 1:
                return run._replace(payload=bytes(run.payload)[: random.randrange(len(run.payload) + 1)])
            case _:
                return run._replace(headers=tuple(header[: random.randrange(1, 13)] for header in run.headers))

    return mangle


@every
@given(SEEDS, st.sampled_from([flipped, cut]))
@some
def test_packets_that_are_not_as_they_were_sent(subject, seed, way):
    random = Random(seed)
    fate = impaired(random, loss=0.01, reorder=0.02)
    carriage = Carriage(subject, MESSAGES, fate, mangle=way(random, 0.05), forged=True, within_ns=20_000_000)
    carriage.run()
    for each in carriage.carried:
        assert each.arena[:64] == each.arena[-64:] == b"\xa5" * 64
    assert sum(end.counters.received_packets for end in carriage.ends)


@every
@given(st.lists(st.tuples(st.binary(max_size=64), st.integers(0, 3 * MTU), st.integers(-1, 3)), max_size=12), SEEDS)
@some
def test_noise_amid_messages(subject, noise, seed):
    """What is no packet of the transport's changes nothing: random bytes are none but by the rarest chance."""
    carriage = Carriage(subject, MESSAGES, impaired(Random(seed), loss=0.01), seed=seed)
    random = Random(seed)
    for header, size, peer in noise:

        def inject(now: int, header: bytes = header, size: int = size, peer: int = peer) -> None:
            headers = (header,) if size < MTU else (header, header)
            carriage.ends[random.randrange(2)].receive(Arrival(peer, 0, MTU, headers, bytes(size)), now)

        carriage.network.at(random.randrange(100_000), inject)
    carriage.run().check(strangers=True)


@every
@pytest.mark.parametrize("peer", [-1, 0, 5])
def test_a_stranger_is_counted(subject, peer):
    end = subject.ends()[0]
    end.receive(Arrival(peer, 0, 0, (bytes(28),), b""), 0)
    assert end.counters.received_packets == end.counters.malformed == 1
    assert end.events() == () or not end.events()
    assert end.deadline() is None
