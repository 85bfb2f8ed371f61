"""Hostile packets are counted and dropped: no crash, nothing past a posted buffer, no change to a complete message."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.transport.endpoint import Arrival, Received
from testbed.wire import roce
from testbed.wire.roce import Aeth, Header, Reth, decode, encode

from .pump import PATH, Network, arrival, endpoints, impaired

unhurried = settings(deadline=None)  # the machine may be busy with something else

MTU = 256
GUARD = b"\xa5" * 300


class Victim:
    """Rank 1 of two: one message of rank 0 complete, and a receive of 1000 bytes (tag 2) amid guard bytes posted."""

    def __init__(self, verb: str = "write") -> None:
        self.peer, self.end = endpoints(2, PATH, kind="roce", mtu=MTU, verb=verb)
        self.complete = bytearray(500)
        self.arena = bytearray(GUARD + bytes(1000) + GUARD)
        self.end.post_receive(1, 0, 1, memoryview(self.complete), 0)
        self.end.post_receive(2, 0, 2, memoryview(self.arena)[300:1300], 0)
        self.peer.post_send(1, 1, 1, b"\x5a" * 500, 0)
        [burst] = self.peer.transmit(0, 100)
        self.end.receive(arrival(0, burst), 0)
        self.end.transmit(0, 100)
        assert self.end.events() == (Received(1),)
        first = decode(burst.headers[0])
        self.queue_pair, self.psn = first.destination_qp, (first.psn + 2) % 2**24

    def receive(self, header: Header | bytes, payload: bytes = b"", segment: int = MTU) -> str:
        """Take a packet in; the kind of bad packet that was counted, or an empty string."""
        before = dict(self.end.counters.extra)
        encoded = header if isinstance(header, bytes) else encode(header)
        self.end.receive(Arrival(0, 2, segment, (encoded,), payload), 1)
        self.check()
        return next((key for key, value in self.end.counters.extra.items() if value != before.get(key, 0)), "")

    def check(self) -> None:
        assert self.complete == b"\x5a" * 500
        assert self.arena[:300] == self.arena[1300:] == GUARD

    def answers(self) -> list[tuple[int, int]]:
        """(PSN relative to the expected one, syndrome) of the acknowledgements that are due."""
        found = [decode(header) for burst in self.end.transmit(1, 100) for header in burst.headers]
        return [(roce.psn_difference(header.psn, self.psn), header.aeth.syndrome) for header in found if header.aeth]


def first(victim: Victim, **fields: object) -> Header:
    """What rank 0 would send next, but for `fields`."""
    plain = {
        "opcode": roce.WRITE_FIRST,
        "destination_qp": victim.queue_pair,
        "psn": victim.psn,
        "reth": Reth(0, 2, 1000),
    }
    return Header(**(plain | fields))  # type: ignore[arg-type]


def only(victim: Victim, **fields: object) -> Header:
    plain = {"opcode": roce.WRITE_ONLY_IMMEDIATE, "reth": Reth(0, 2, 4), "immediate": 2}
    return first(victim, **(plain | fields))


NAK = "refused"
CASES = {
    "wrong queue pair": (lambda v: (first(v, destination_qp=v.queue_pair + 1), bytes(MTU)), "bad_queue_pair", None),
    "wrong partition": (lambda v: (first(v, pkey=0x7FFE), bytes(MTU)), "bad_queue_pair", None),
    "unknown opcode": (lambda _: (bytes([0xFE]) + bytes(11), b""), "bad_header", None),
    "short header": (lambda _: (b"\x06\x00\xff", b""), "bad_header", None),
    "no header": (lambda _: (b"", b""), "bad_header", None),
    "wrong padding": (lambda v: (only(v, pad=1), bytes(4)), "bad_padding", None),
    "half the PSN space ahead": (lambda v: (first(v, psn=(v.psn + 2**23 - 1) % 2**24), bytes(MTU)), "", 0x60),
    "half the PSN space behind": (lambda v: (first(v, psn=(v.psn - 2**23) % 2**24), bytes(MTU)), "", 0x1F),
    "late duplicate": (lambda v: (first(v, psn=(v.psn - 2) % 2**24, reth=Reth(0, 1, 500)), bytes(MTU)), "", 0x1F),
    "write beyond the buffer": (lambda v: (first(v, reth=Reth(1, 2, 1000)), bytes(MTU)), "bad_access", 0x62),
    "write far beyond": (lambda v: (first(v, reth=Reth(2**64 - 1, 2, 1000)), bytes(MTU)), "bad_access", 0x62),
    "huge length": (lambda v: (first(v, reth=Reth(0, 2, 2**32 - 1)), bytes(MTU)), "bad_access", 0x62),
    "no such receive": (lambda v: (first(v, reth=Reth(0, 77, 1000)), bytes(MTU)), "", 0x20),
    "a complete receive": (lambda v: (first(v, reth=Reth(0, 1, 500)), bytes(MTU)), "", 0x20),
    "first packet too short": (lambda v: (first(v), bytes(MTU - 4)), "bad_length", 0x61),
    "first packet too long": (lambda v: (first(v), bytes(MTU + 4)), "bad_length", 0x61),
    "first packet is the whole message": (lambda v: (first(v, reth=Reth(0, 2, MTU)), bytes(MTU)), "bad_length", 0x61),
    "only packet shorter than it says": (lambda v: (only(v, reth=Reth(0, 2, 8)), bytes(4)), "bad_length", 0x61),
    "only packet longer than it says": (lambda v: (only(v), bytes(8)), "bad_length", 0x61),
    "only packet longer than the MTU": (lambda v: (only(v, reth=Reth(0, 2, 512)), bytes(512)), "bad_length", 0x61),
    "immediate is not the tag": (lambda v: (only(v, immediate=3), bytes(4)), "bad_tag", 0x61),
    "middle without first": (
        lambda v: (first(v, opcode=roce.WRITE_MIDDLE, reth=None), bytes(MTU)), "bad_sequence", 0x61,
    ),
    "the other verb": (lambda v: (first(v, opcode=roce.SEND_FIRST, reth=None), bytes(MTU)), "bad_sequence", 0x61),
    "message without immediate": (
        lambda v: (only(v, opcode=roce.WRITE_ONLY, immediate=None), bytes(4)), "bad_sequence", 0x61,
    ),
    "acknowledges what was not sent": (
        lambda v: (Header(roce.ACKNOWLEDGE, v.queue_pair, 5, aeth=Aeth(0x1F, 1)), b""), "bad_acknowledgement", None,
    ),
    "refuses what was not sent": (
        lambda v: (Header(roce.ACKNOWLEDGE, v.queue_pair, 5, aeth=Aeth(0x60, 1)), b""), "bad_acknowledgement", None,
    ),
    "unknown syndrome": (
        lambda v: (Header(roce.ACKNOWLEDGE, v.queue_pair, 5, aeth=Aeth(0xE0, 1)), b""), "bad_syndrome", None,
    ),
    "NAK of an unknown kind": (
        lambda v: (Header(roce.ACKNOWLEDGE, v.queue_pair, 5, aeth=Aeth(0x7F, 1)), b""), "bad_syndrome", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bad_packets(name):
    make, counted, syndrome = CASES[name]
    victim = Victim()
    if "acknowledg" in counted:  # so that its own sequence numbers are not near 5
        victim.psn = 5
    header, payload = make(victim)
    before = victim.end.counters.malformed
    assert victim.receive(header, payload) == counted
    assert victim.end.counters.malformed == before + counted.startswith("bad_")
    found = [answer & 0xE0 if syndrome == 0x20 else answer for _, answer in victim.answers()]
    assert found == ([] if syndrome is None else [syndrome])
    assert victim.end.events() == ()
    assert bytes(victim.arena[300:1300]) == bytes(1000)


def test_after_all_of_them_the_right_packets_still_arrive():
    victim = Victim()
    for make, *_ in CASES.values():
        header, payload = make(victim)
        victim.receive(header, payload)
    data = Random(1).randbytes(1000)
    headers = (
        encode(first(victim)),
        *roce.middle_headers(roce.WRITE_MIDDLE, victim.queue_pair, victim.psn + 1, 2, False),
        encode(Header(roce.WRITE_LAST_IMMEDIATE, victim.queue_pair, (victim.psn + 3) % 2**24, pad=0, immediate=2)),
    )
    victim.end.receive(Arrival(0, 2, MTU, headers, data), 2)
    assert victim.end.events() == (Received(2),)
    assert victim.arena[300:1300] == data
    victim.check()


def test_a_message_that_ends_early_or_late_is_not_completed():
    for middles in (0, 1, 3):  # 1000 bytes are first, two middle ones and 232 more
        victim = Victim()
        victim.receive(first(victim), bytes(MTU))
        for step in range(middles):
            victim.receive(Header(roce.WRITE_MIDDLE, victim.queue_pair, (victim.psn + 1 + step) % 2**24), bytes(MTU))
        last = Header(
            roce.WRITE_LAST_IMMEDIATE, victim.queue_pair, (victim.psn + 1 + min(middles, 2)) % 2**24, immediate=2
        )
        assert victim.receive(last, bytes(232 if middles == 3 else 4)) == ("" if middles == 3 else "bad_length")
        assert victim.end.events() == ((Received(2),) if middles == 3 else ())


def test_a_send_cannot_end_in_an_empty_packet():
    victim = Victim("send")
    victim.receive(first(victim, opcode=roce.SEND_FIRST, reth=None), bytes(MTU))
    last = Header(roce.SEND_LAST_IMMEDIATE, victim.queue_pair, (victim.psn + 1) % 2**24, immediate=2)
    assert victim.receive(last) == "bad_length"
    assert victim.end.events() == ()


def test_a_run_whose_lengths_lie():
    victim = Victim()
    headers = (
        encode(first(victim)),
        *roce.middle_headers(roce.WRITE_MIDDLE, victim.queue_pair, victim.psn + 1, 3, True),
    )
    for segment, size in ((MTU, 10), (0, MTU), (1, 4 * MTU), (10**6, 4 * MTU), (MTU, 40 * MTU)):
        victim.end.receive(Arrival(0, 2, segment, headers, bytes(size)), 1)
        victim.check()
    assert victim.end.events() == ()


def test_a_stranger_is_counted():
    victim = Victim()
    for peer in (1, 2, -1):
        victim.end.receive(Arrival(peer, 2, MTU, (encode(first(victim)),), bytes(MTU)), 1)
    assert victim.end.counters.extra["bad_peer"] == 3


HEADER = st.binary(max_size=40) | st.builds(
    lambda opcode, flags, rest: bytes([opcode, flags]) + b"\xff\xff" + rest,
    st.sampled_from(sorted(roce.OPERATIONS)),
    st.sampled_from([0, 0x10, 0x30, 0x80, 0x01]),
    st.binary(min_size=8, max_size=36),
)


@unhurried
@given(st.lists(st.tuples(HEADER, st.integers(0, 3 * MTU)), max_size=10), st.sampled_from(["write", "send"]))
def test_random_packets(junk, verb):
    victim = Victim(verb)
    for header, size in junk:
        victim.end.receive(Arrival(0, 3, MTU, (header,), bytes(size)), 1)
        victim.end.transmit(1, 10)
    victim.check()
    assert victim.end.events() == ()


@unhurried
@given(st.integers(0, 2**32), st.sampled_from(["write", "send"]))
def test_mutated_packets_on_a_live_connection(seed, verb):
    """Bits of right headers flipped, with the right queue pair: data may be forged then, but never past a buffer."""
    random = Random(seed)
    victim = Victim(verb)
    victim.peer.post_send(2, 1, 2, bytes(1000), 0)
    [burst] = victim.peer.transmit(1, 100)
    for _ in range(30):
        index = random.randrange(burst.packets)
        header = bytearray(burst.headers[index])
        for _ in range(random.randrange(1, 4)):
            at = random.choice([0, 1, *range(9, len(header))])
            header[at] ^= 1 << random.randrange(8)
        payload = random.randbytes(random.choice([0, 4, MTU, MTU, 2 * MTU]))
        victim.end.receive(Arrival(0, 2, MTU, (bytes(header),), payload), 1)
        victim.peer.receive(Arrival(1, 2, MTU, (bytes(header),), payload), 1)
        for answer in victim.end.transmit(1, 100):
            victim.peer.receive(arrival(1, answer), 1)
        victim.peer.transmit(1, 100)
        victim.check()
    assert len(victim.end.events()) <= 1


@unhurried
@given(st.integers(0, 2**32))
def test_forged_packets_outside_the_sequence_change_nothing(seed):
    """An attacker who knows the queue pair but not the PSN within the window."""
    random = Random(seed)
    ends = endpoints(2, PATH, kind="roce", mtu=MTU, timeout=6)
    data, buffer = random.randbytes(20_000), bytearray(20_000)
    ends[1].post_receive(1, 0, 9, memoryview(buffer), 0)
    ends[0].post_send(1, 1, 9, data, 0)
    network = Network(ends, impaired(random, loss=0.02))

    def forge(now: int) -> None:
        sent = network.log[0][2]
        own = decode(sent.headers[0])
        psn = (own.psn + random.choice([-1, 1]) * random.randrange(200, 2**22)) % 2**24
        header = Header(roce.WRITE_ONLY_IMMEDIATE, own.destination_qp, psn, reth=Reth(0, 9, 4), immediate=9)
        ends[1].receive(Arrival(0, 2, MTU, (encode(header),), b"evil"), now)

    for _ in range(20):
        network.at(random.randrange(1, 500_000), forge)
    network.run()
    assert buffer == data
    assert network.events[1] == [Received(1)]
