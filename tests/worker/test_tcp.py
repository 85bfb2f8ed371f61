"""Kernel TCP behind the transport seam, on loopback."""

import os
import select
import time
from collections.abc import Callable, Iterator

import pytest

from testbed.transport.endpoint import Event, Failed, Received, Sent
from testbed.worker import tcp
from testbed.worker.tcp import TcpCarrier

ADDRESSES = tuple(f"127.{os.getpid() % 250 + 1}.2.{rank + 1}" for rank in range(3))
BIG = 3 << 20  # more than the kernel takes at once


class Ring:
    """Three ranks, all connected with each other, and what happened to each."""

    def __init__(self) -> None:
        self.carriers = [TcpCarrier(rank, ADDRESSES, {0, 1, 2} - {rank}, "reno") for rank in range(3)]
        self.events: list[list[Event]] = [[], [], []]

    def connect(self) -> None:
        for carrier in self.carriers:
            carrier.connect()
        self.until(lambda: all(carrier.connected for carrier in self.carriers))

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 5
        while not true():
            assert time.monotonic() < deadline
            poll = select.poll()
            for carrier in self.carriers:
                carrier.transmit()
                for entry in carrier.watched():
                    poll.register(*entry)
            ready = dict(poll.poll(100))
            for rank, carrier in enumerate(self.carriers):
                carrier.receive(ready)
                self.events[rank] += carrier.events()


@pytest.fixture(name="ring")
def _ring() -> Iterator[Ring]:
    ring = Ring()
    yield ring
    for carrier in ring.carriers:
        carrier.close()


@pytest.fixture(name="connected")
def _connected(ring: Ring) -> Ring:
    ring.connect()
    return ring


def test_messages_meet_their_receives_by_peer_and_tag(connected: Ring) -> None:
    first, second = bytearray(3), bytearray(BIG)
    connected.carriers[1].post_receive(10, 0, 8, memoryview(second), 0)
    connected.carriers[1].post_receive(11, 0, 7, memoryview(first), 0)
    connected.carriers[0].post_send(20, 1, 7, b"abc", 0)
    connected.carriers[0].post_send(21, 1, 8, bytes(range(256)) * (BIG // 256), 0)
    connected.until(lambda: len(connected.events[1]) == 2)
    assert bytes(first) == b"abc"
    assert bytes(second) == bytes(range(256)) * (BIG // 256)
    assert connected.events[1] == [Received(11), Received(10)]
    assert connected.events[0] == [Sent(20), Sent(21)]
    assert connected.carriers[0].idle()


def test_a_message_may_come_before_it_is_asked_for(connected: Ring) -> None:
    connected.carriers[2].post_send(1, 0, 5, b"early", 0)
    connected.carriers[2].post_send(2, 0, 6, b"", 0)
    connected.until(lambda: len(connected.events[2]) == 2)
    late = bytearray(5)
    connected.until(lambda: connected.carriers[0].counters()["received_bytes"] == 5)
    connected.carriers[0].post_receive(3, 2, 6, memoryview(bytearray()), 0)
    connected.carriers[0].post_receive(4, 2, 5, memoryview(late), 0)
    connected.until(lambda: len(connected.events[0]) == 2)
    assert connected.events[0] == [Received(3), Received(4)]
    assert bytes(late) == b"early"


def test_a_half_come_message_moves_into_its_receive(connected: Ring) -> None:
    data = os.urandom(32 << 20)
    connected.carriers[0].post_send(1, 1, 5, data, 0)
    connected.until(lambda: connected.carriers[1].counters()["received_bytes"] > 0)
    assert connected.carriers[1].counters()["received_bytes"] < len(data)
    buffer = bytearray(len(data))
    connected.carriers[1].post_receive(2, 0, 5, memoryview(buffer), 0)
    connected.until(lambda: connected.events[1] == [Received(2)])
    assert bytes(buffer) == data


def test_sends_wait_for_the_connection(ring: Ring) -> None:
    ring.carriers[0].post_send(1, 2, 1, b"x", 0)
    assert not ring.carriers[0].idle()
    ring.connect()
    ring.until(lambda: ring.events[0] == [Sent(1)])


def test_a_message_of_another_length_fails_the_receive(connected: Ring) -> None:
    connected.carriers[0].post_receive(1, 1, 1, memoryview(bytearray(4)), 0)
    connected.carriers[1].post_send(2, 0, 1, b"12345", 0)
    connected.until(lambda: bool(connected.events[0]))
    assert connected.events[0] == [Failed(-1, 1, "it sent a message of 5 bytes where 4 were expected")]


def test_a_peer_that_goes_away_is_named(connected: Ring) -> None:
    connected.carriers[1].close()
    connected.carriers[1] = TcpCarrier(1, ADDRESSES, set(), "reno")
    connected.until(lambda: bool(connected.events[0]))
    assert connected.events[0] == [Failed(-1, 1, "the connection ended")]


def test_counters_are_the_kernels(connected: Ring) -> None:
    before = connected.carriers[0].counters()
    buffer = bytearray(BIG)
    connected.carriers[1].post_receive(1, 0, 1, memoryview(buffer), 0)
    connected.carriers[0].post_send(2, 1, 1, bytes(BIG), 0)
    connected.until(lambda: connected.events[1] == [Received(1)])
    after = connected.carriers[0].counters()
    again = after["retransmitted_packets"]  # the kernel may probe the tail of a quiet stream (RACK-TLP, RFC 8985)
    assert BIG + 12 <= after["sent_bytes"] - before["sent_bytes"] <= BIG + 12 + again * 65_536  # head: tag 4, length 8
    assert after["sent_packets"] > before["sent_packets"]


def test_an_older_kernel_tells_of_no_timeouts(connected: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Linux 6.7 its tcp_info ends ahead of them, which is not the same as none."""
    monkeypatch.setattr(tcp, "_TCP_INFO_BYTES", 232)
    counters = connected.carriers[0].counters()
    assert "timeouts" not in counters
    assert counters["sent_packets"] > 0
