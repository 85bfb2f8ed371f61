"""Packets that say where they belong, placed into posted receives in whatever order they come.

`ahead` is the bitmap of what came beyond the first gap: packets sent are at most `reach` beyond it, and so is what is
kept. A packet is placed once: what was there already is a duplicate.
"""

from dataclasses import dataclass
from enum import IntEnum, auto

from testbed.transport.endpoint import Counters, Event, Failed, Received
from testbed.wire.roce import NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS, psn_difference


class Landing(IntEnum):
    """What became of a packet."""

    IN_ORDER = auto()  # it was the expected one
    AHEAD = auto()
    DUPLICATE = auto()
    UNPOSTED = auto()  # nobody has asked for its message yet


class RefusedError(Exception):
    """A packet that can never be taken, and what to answer (nothing: it is none of the sender's)."""

    def __init__(self, problem: str, syndrome: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.syndrome = syndrome


@dataclass(slots=True)
class _Incoming:
    """A message under way: `first` is the number of its first packet, `left` how many have not come."""

    id: int
    view: memoryview
    first: int
    length: int
    left: int


class Inbox:
    """`expected` is the first packet that has not come."""

    def __init__(
        self, first: int, reach: int, mtu_bytes: int, peer: int, counters: Counters, events: list[Event]
    ) -> None:
        self.expected = first
        self.ahead: set[int] = set()
        self._reach = reach
        self._mtu_bytes = mtu_bytes
        self._peer = peer
        self._counters = counters
        self._events = events
        self._posted: dict[int, list[tuple[int, memoryview]]] = {}  # by tag: (id, buffer), in the order of posting
        self._incoming: dict[int, _Incoming] = {}  # by tag

    def post(self, id: int, tag: int, view: memoryview) -> None:
        self._posted.setdefault(tag, []).append((id, view))

    def fail(self, reason: str) -> None:
        """End all receives with `reason`."""
        waiting = [incoming.id for incoming in self._incoming.values()]
        waiting += [number for queue in self._posted.values() for number, _ in queue]
        self._events += [Failed(number, self._peer, reason) for number in waiting]
        self._posted.clear()
        self._incoming.clear()
        self.ahead.clear()

    def sequence(self, psn: int) -> int:
        """The whole number of which `psn` is the low 24 bits."""
        return self.expected + psn_difference(psn, self.expected & 0xFFFFFF)

    def take(self, sequence: int, offset: int, tag: int, length: int, payload: memoryview) -> Landing:
        """Place a packet; raises RefusedError."""
        if sequence < self.expected or sequence in self.ahead:
            self._counters.duplicates += 1
            return Landing.DUPLICATE
        if sequence >= self.expected + self._reach:
            raise RefusedError("bad_sequence")
        index, size = offset // self._mtu_bytes, len(payload)
        if offset % self._mtu_bytes or size != min(self._mtu_bytes, length - offset) or (length and not size):
            raise RefusedError("bad_length", NAK_INVALID_REQUEST)
        incoming = self._incoming.get(tag) or self._begin(sequence - index, tag, length)
        if incoming is None:
            return Landing.UNPOSTED
        if incoming.first != sequence - index or incoming.length != length:
            raise RefusedError("bad_sequence", NAK_INVALID_REQUEST)
        incoming.view[offset : offset + size] = payload
        incoming.left -= 1
        self._counters.received_bytes += size
        if not incoming.left:
            self._complete(tag, incoming)
        if sequence != self.expected:
            self._counters.out_of_order += 1
            self.ahead.add(sequence)
            return Landing.AHEAD
        self.expected += 1
        while self.expected in self.ahead:
            self.ahead.remove(self.expected)
            self.expected += 1
        return Landing.IN_ORDER

    def _begin(self, first: int, tag: int, length: int) -> _Incoming | None:
        """The message for the receive that it goes to; None: none is posted."""
        queue = self._posted.get(tag)
        if not queue:
            return None
        if length > queue[0][1].nbytes:
            raise RefusedError("bad_access", NAK_REMOTE_ACCESS)
        number, view = queue.pop(0)
        if not queue:
            del self._posted[tag]
        packets = max(1, -(-length // self._mtu_bytes))
        incoming = self._incoming[tag] = _Incoming(number, view, first, length, packets)
        return incoming

    def _complete(self, tag: int, incoming: _Incoming) -> None:
        del self._incoming[tag]
        size, length = incoming.view.nbytes, incoming.length
        self._events.append(Received(incoming.id, ((length, size),) if length < size else ()))
