"""The NIC on loopback sockets, under an injected clock, with an endpoint that does as it is told."""

import errno
import itertools
import os
import select
import socket
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address

import pytest

from testbed import netcore
from testbed.transport.endpoint import ALL, Arrival, Burst, Counters, Event, Path
from testbed.transport.framing import ROCE, Framing, plain
from testbed.wire.roce import ACKNOWLEDGE, SEND_FIRST, SEND_LAST, SEND_MIDDLE, Aeth, Header, encode
from testbed.worker.clock import ModelClock
from testbed.worker.frames import frames_of
from testbed.worker.nic import Nic, can_segment, udp_socket

ADDRESSES = (f"127.{os.getpid() % 250 + 1}.1.1", f"127.{os.getpid() % 250 + 1}.1.2")
IPS = [int(IPv4Address(address)) for address in ADDRESSES]
PATH = Path(rate_bps=10**9, base_rtt_ns=1_000_000, mtu_bytes=1500, max_burst_packets=16)
FRAME_AND_GAP_BYTES = 14 + 20 + 8 + 4 + 24  # around the BTH and the payload: Ethernet, IPv4, UDP, ICRC, FCS and gap


class Scripted:
    """Sends what it is given, keeps what arrives."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.bursts: list[Burst] = []
        self.arrivals: list[tuple[int, int, bytes]] = []
        self.wake: int | None = None
        self.woken: list[int] = []

    def post_send(self, id: int, peer: int, tag: int, buffer: object, now: int) -> None: ...

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: object, now: int, completion: object = ALL
    ) -> None: ...

    def receive(self, arrival: Arrival, now: int) -> None:  # noqa: ARG002
        self.arrivals.append((arrival.peer, arrival.ecn, bytes(arrival.payload)))

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:  # noqa: ARG002
        bursts, self.bursts = self.bursts, []
        return bursts

    def deadline(self) -> int | None:
        return 0 if self.bursts else self.wake

    def on_deadline(self, now: int) -> None:
        if self.wake is not None and self.wake <= now:
            self.wake = None
            self.woken.append(now)

    def events(self) -> Sequence[Event]:
        return ()

    def idle(self) -> bool:
        return not self.bursts


class Pair:
    """Two NICs and the time they live in (real nanoseconds)."""

    def __init__(self, dilation: int = 1, framing: Framing = ROCE, *, early: bool = False) -> None:
        self.now_ns = 1_000_000
        clock = ModelClock(0, dilation, lambda: self.now_ns)
        self.endpoints = Scripted(), Scripted()
        self.nics = [
            Nic(
                ADDRESSES[rank],
                {1 - rank: ADDRESSES[1 - rank]},
                endpoint,
                frames_of(framing, IPS[rank]),
                PATH,
                clock,
                early=early,
            )
            for rank, endpoint in enumerate(self.endpoints)
        ]

    def arrivals(self, rank: int) -> list[tuple[int, int, bytes]]:
        """What has come to `rank`."""
        nic = self.nics[rank]
        watched = nic.watched()[0][0]
        nic.receive({watched: select.POLLIN} if select.select([watched], [], [], 0.2)[0] else {})
        arrivals, self.endpoints[rank].arrivals = self.endpoints[rank].arrivals, []
        return arrivals


@pytest.fixture(name="pair")
def _pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    for nic in pair.nics:
        nic.close()


def run(packets: int, size: int = 1024, not_before_ns: int = 0, ecn: int = 2) -> Burst:
    """A SEND of full packets to rank 1."""
    opcodes = [SEND_FIRST, *[SEND_MIDDLE] * (packets - 2), SEND_LAST]
    headers = tuple(encode(Header(opcode, 7, psn)) for psn, opcode in enumerate(opcodes))
    return Burst(1, 0xC001, 26, ecn, not_before_ns, size, headers, bytes(range(256)) * (packets * size // 256))


def test_a_run_arrives_whole_with_its_mark(pair: Pair) -> None:
    burst = run(16)
    pair.endpoints[0].bursts = [burst]
    pair.nics[0].transmit()
    arrivals = pair.arrivals(1)
    assert b"".join(payload for _, _, payload in arrivals) == burst.payload
    assert {(peer, ecn) for peer, ecn, _ in arrivals} == {(0, 2)}
    assert pair.nics[0].counters()["sent_packets"] == pair.nics[1].counters()["received_packets"] == 16
    # Ethernet 14 + IPv4 20 + UDP 8 + BTH 12 + payload 1024 + ICRC 4 + FCS 4
    assert pair.nics[0].counters()["frame_bytes"] == 16 * 1086


def test_runs_leave_at_the_rate_of_the_link(pair: Pair) -> None:
    """Each may be handed over a twentieth of the base RTT before the link is free, and not earlier."""
    pair.endpoints[0].bursts = [run(16) for _ in range(4)]
    pair.nics[0].transmit()
    begun_ns, leave_ns = pair.now_ns, []
    while len(leave_ns) < 3:
        pair.now_ns = pair.nics[0].wake_ns() or pytest.fail("the NIC forgot its runs")
        before = pair.nics[0].counters()["sent_packets"]
        pair.nics[0].transmit()
        if pair.nics[0].counters()["sent_packets"] > before:
            leave_ns.append(pair.now_ns - begun_ns)
    run_ns = 16 * (12 + 1024 + FRAME_AND_GAP_BYTES) * 8
    assert leave_ns == [number * run_ns - PATH.base_rtt_ns // 20 for number in (1, 2, 3)]
    assert pair.nics[0].take_late_ns() == [0, 0, 0, 0]


def test_no_run_leaves_before_its_instant_and_lateness_is_counted_from_it(pair: Pair) -> None:
    pair.endpoints[0].bursts = [run(2, not_before_ns=3_000_000)]
    pair.nics[0].transmit()
    assert pair.nics[0].counters()["sent_packets"] == 0
    assert pair.nics[0].wake_ns() == 3_000_000
    assert not pair.nics[0].idle()
    pair.now_ns = 3_000_070
    pair.nics[0].transmit()
    assert pair.nics[0].counters()["sent_packets"] == 2
    assert pair.nics[0].take_late_ns() == [70]
    assert pair.nics[0].take_late_ns() == []


def test_a_held_run_brings_what_was_there_when_it_was_given_out() -> None:
    """Of an early transport, whose buffers may be written again at once."""
    pair, memory = Pair(early=True), bytearray(b"before" * 256)
    try:
        pair.endpoints[0].bursts = [run(2, size=768, not_before_ns=3_000_000)._replace(payload=memoryview(memory))]
        pair.nics[0].transmit()
        memory[:] = b"behind" * 256
        pair.now_ns = 3_000_000
        pair.nics[0].transmit()
        assert b"".join(payload for _, _, payload in pair.arrivals(1)) == b"before" * 256
    finally:
        for nic in pair.nics:
            nic.close()


def test_a_packet_format_without_an_icrc_crosses() -> None:
    """Nine bytes of header, and a message whose last packet is shorter."""
    pair = Pair(framing=plain(11000, 9))
    try:
        headers = tuple(bytes([number]) * 9 for number in range(3))
        pair.endpoints[0].bursts = [Burst(1, 0xC001, 0, 2, 0, 1000, headers, bytes(range(250)) * 9)]
        pair.nics[0].transmit()
        arrivals = pair.arrivals(1)
        assert b"".join(payload for _, _, payload in arrivals) == bytes(range(250)) * 9
        assert pair.nics[1].counters()["received_packets"] == 3
        # Ethernet 14 + IPv4 20 + UDP 8 + header 9 + FCS 4 around each payload
        assert pair.nics[0].counters()["frame_bytes"] == 2250 + 3 * 55
    finally:
        for nic in pair.nics:
            nic.close()


def test_a_held_run_does_not_hold_up_others(pair: Pair) -> None:
    pair.endpoints[0].bursts = [run(2, not_before_ns=9_000_000), run(3)]
    pair.nics[0].transmit()
    assert pair.nics[0].counters()["sent_packets"] == 3


def test_dilation_stretches_instants_and_the_rate() -> None:
    pair = Pair(dilation=10)
    try:
        pair.endpoints[0].bursts = [run(16, not_before_ns=200_000), run(16, not_before_ns=200_000)]
        pair.nics[0].transmit()
        assert pair.nics[0].wake_ns() == 2_000_000
        pair.now_ns = 2_000_300
        pair.nics[0].transmit()
        assert pair.nics[0].take_late_ns() == [30]
        assert pair.nics[0].wake_ns() == 2_000_300 + 10 * 16 * 1106 * 8 - 10 * PATH.base_rtt_ns // 20
    finally:
        for nic in pair.nics:
            nic.close()


def test_the_endpoint_is_woken_at_its_deadline(pair: Pair) -> None:
    pair.endpoints[0].wake = 2_000_000
    pair.nics[0].transmit()
    assert pair.nics[0].wake_ns() == 2_000_000
    assert pair.endpoints[0].woken == []
    pair.now_ns = 2_000_000
    pair.nics[0].transmit()
    assert pair.endpoints[0].woken == [2_000_000]


def test_wrong_icrcs_short_packets_and_strangers_are_counted_and_go_no_further(pair: Pair) -> None:
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with peer, stranger:
        peer.bind((ADDRESSES[1], 0))
        stranger.bind((ADDRESSES[0].replace(".1.1", ".9.9"), 0))
        header = encode(Header(ACKNOWLEDGE, 7, 1, aeth=Aeth(0x1F, 1)))
        for data in (header + b"\1\2\3\4", b"\0" * 8, b""):
            peer.sendto(data, (ADDRESSES[0], ROCE.port))
        stranger.sendto(header + b"\1\2\3\4", (ADDRESSES[0], ROCE.port))
        assert list(itertools.chain.from_iterable(pair.arrivals(0) for _ in range(2))) == []
    counters = pair.nics[0].counters()
    assert (counters["corrupt_packets"], counters["malformed_packets"], counters["strangers"]) == (1, 2, 1)
    assert counters["received_packets"] == 0


def test_back_pressure_loses_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that takes nothing (the host's queue is full) is waited for; the rest then leaves in order."""
    full, send = [True], netcore.send_segments
    monkeypatch.setattr(netcore, "send_segments", lambda *given: 0 if full[0] else send(*given))
    burst = run(4)
    pair.endpoints[0].bursts = [burst]
    pair.nics[0].transmit()
    assert not pair.nics[0].idle()
    assert [mask for _, mask in pair.nics[0].watched()] == [select.POLLIN, select.POLLOUT]
    pair.endpoints[0].bursts = [burst]
    pair.nics[0].transmit()
    assert pair.nics[0].wake_ns() is None  # nothing but the socket is waited for, and nothing spins
    pair.endpoints[0].bursts = []
    full[0] = False
    pair.nics[0].transmit()
    assert pair.nics[0].idle()
    assert b"".join(payload for _, _, payload in pair.arrivals(1)) == burst.payload
    assert len(pair.nics[0].watched()) == 1


def test_only_an_announced_instant_can_be_missed(pair: Pair) -> None:
    """A run may be owed an instant of the past; late is only what comes after a deadline that was known before."""
    pair.endpoints[0].bursts = [run(2, not_before_ns=400_000)]
    pair.nics[0].transmit()
    assert pair.nics[0].take_late_ns() == [0]
    pair.endpoints[0].wake = 2_000_000
    pair.nics[0].transmit()
    assert pair.nics[0].wake_ns() == 2_000_000
    pair.now_ns = 2_000_500
    pair.endpoints[0].bursts = [run(2, not_before_ns=1_999_900)]
    pair.nics[0].transmit()
    assert pair.nics[0].take_late_ns() == [500]


def test_a_device_that_cannot_segment_gets_packet_by_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.worker.nic.can_segment", lambda *_: False)
    pair = Pair()
    try:
        burst = run(16)
        pair.endpoints[0].bursts = [burst]
        pair.nics[0].transmit()
        arrivals: list[tuple[int, int, bytes]] = []
        while more := pair.arrivals(1):
            arrivals += more
        assert b"".join(payload for _, _, payload in arrivals) == burst.payload
    finally:
        for nic in pair.nics:
            nic.close()


@pytest.mark.parametrize(("error", "can"), [(errno.EIO, False), (errno.EINVAL, False), (errno.ENETUNREACH, True)])
def test_whether_a_device_can_segment_is_asked_of_the_kernel(
    error: int, can: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(*_: object) -> int:
        raise OSError(error, "")

    with udp_socket(ADDRESSES[0], 0) as sock:
        assert can_segment(sock, 0x7F000001)
        monkeypatch.setattr(netcore, "send_segments", send)
        assert can_segment(sock, 0x7F000001) is can


def test_what_is_sent_while_the_link_is_down_never_was_on_a_wire(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def send(*_: object) -> int:
        raise OSError(errno.ENETDOWN, "")

    monkeypatch.setattr(netcore, "send_segments", send)
    pair.endpoints[0].bursts = [run(4)]
    pair.nics[0].transmit()
    counters = pair.nics[0].counters()
    assert (counters["sent_packets"], counters["frame_bytes"], counters["unsent_packets"]) == (0, 0, 4)
    assert pair.nics[0].idle()
