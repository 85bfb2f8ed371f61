"""The receiving half of a queue pair: packets in any order into the one message that is active; nothing is asked for.

Of what comes of the active message each packet is placed, and counts once. A packet of a later work request ends the
active message with what is there (pre-emption) and makes its own the active one; one of an earlier request is late and
is dropped, since the memory may have another use by then. Source: a reading note of arXiv 2512.22743.

Our readings, for a collective that posts many receives at once:
  - A work request is for the receive that its tag (the RETH's key) names. `wqe_seq` is the order in which the *sender*
    posted, which with several layers is not that of the receives; so a receive of which nothing came yet is left alone
    by later requests, and only its timer ends it.
  - Of two messages with one tag the first may be lost, and then the second is taken for it: who posts keeps tags apart
    while receives of them wait, as collectives do.
  - A packet for which no receive is posted, mostly one whose receive the timer has ended, changes nothing.
  - What came of a message is known packet by packet, so that a duplicate counts once and what is missing can be told. A
    NIC would have a count of bytes alone, and zeros in the memory.
"""

from collections import deque
from enum import Enum, auto

from testbed.transport.endpoint import Buffer, Completion, Counters, Event, Received
from testbed.transport.optinic.parameters import Constants
from testbed.transport.optinic.timeout import Stopwatch
from testbed.wire.optinic import Data, hint

_HALF, _ALL = 1 << 31, 1 << 32


class End(Enum):
    """Why a receive is over."""

    WHOLE = auto()
    ENOUGH = auto()  # as much as its completion asks for
    PREEMPTED = auto()
    CUT = auto()  # by the timer


class Receive:
    """One posted. `step`: of the collective that `watch` times; both None where it belongs to none."""

    def __init__(
        self,
        id: int,
        tag: int,
        view: memoryview,
        completion: Completion,
        packets: int,
        watch: Stopwatch | None,
        step: int | None,
    ) -> None:
        self.id = id
        self.tag = tag
        self.view = view
        self.open = True
        self.here = bytearray(packets)  # 1: came
        self.left = packets
        self.bytes = 0
        self.parity: dict[int, bytes] = {}  # by the first packet of the group
        self.watch = watch
        self.step = step
        self._enough_bytes = completion.fraction * view.nbytes

    @property
    def enough(self) -> bool:
        return self.bytes >= self._enough_bytes

    def missing(self, mtu_bytes: int) -> tuple[tuple[int, int], ...]:
        """The byte ranges of which nothing came."""
        found, size = [], self.view.nbytes
        first = self.here.find(0)
        while first >= 0:
            end = self.here.find(1, first)
            end = len(self.here) if end < 0 else end
            if first * mtu_bytes < size:
                found.append((first * mtu_bytes, min(end * mtu_bytes, size)))
            first = self.here.find(0, end)
        return tuple(found)


class Receiver:
    """`hints`: whether the sender's congestion control wants to hear of packets; they go to queue pair `remote_qp`."""

    def __init__(
        self, constants: Constants, remote_qp: int, counters: Counters, events: list[Event], *, hints: bool
    ) -> None:
        self._constants = constants
        self._remote_qp = remote_qp
        self._counters = counters
        self._events = events
        self._hints = hints
        self._posted: dict[int, deque[Receive]] = {}  # by tag
        self._sequence: int | None = None  # of the active message, or the last that was
        self._active: Receive | None = None
        self._whole = False  # the active message was complete when it ended
        self._told = 0  # packets since the last hint, all marked or all not
        self._marked = False
        self._last_psn = 0
        self._owed: deque[bytes] = deque()

    @property
    def speaks(self) -> bool:
        """A hint is due."""
        return bool(self._owed)

    def hint(self) -> bytes:
        """The hint that is due."""
        return self._owed.popleft()

    def post(self, receive: Receive) -> None:
        self._posted.setdefault(receive.tag, deque()).append(receive)

    def end(self, receive: Receive, now: int, why: End) -> None:
        """That receive, active or not, is over."""
        receive.open = False
        if receive is self._active:
            self._active, self._whole = None, why is End.WHOLE
        else:
            self._take(receive)
        missing = receive.missing(self._constants.mtu_bytes)
        if why is End.PREEMPTED:
            self._count("preempted")
        elif why is End.CUT:
            self._counters.timeouts += 1
        if missing:
            self._count("partial")
        self._events.append(Received(receive.id, missing))
        if receive.watch is not None and receive.step is not None:
            receive.watch.ended(receive.step, now, cut=why is End.CUT)

    def take(self, data: Data, payload: Buffer, marked: bool, now: int) -> str | None:
        """Take a packet in; what is bad about it, if anything."""
        if len(payload) != data.bytes:
            return "bad_length"
        ahead = self._ahead(data.sequence)
        receive = self._active if ahead == 0 else self._find(data.tag) if ahead > 0 else None
        if receive is not None and not self._fits(data, receive):
            return "bad_access"
        if self._hints:
            self._note(data, marked)
        if receive is None:
            if ahead == 0 and self._whole:
                self._counters.duplicates += not data.parity  # of which the last comes when all is there
            else:
                self._count("late_packets")
            return None
        if ahead > 0:
            self._activate(data.sequence, receive, now)
        if data.parity:
            self._take_parity(data, receive, payload, now)
        else:
            self._place(receive, data.offset // self._constants.mtu_bytes, payload, now)
            self._repair(receive, data.offset // self._constants.mtu_bytes, now)
        if receive.open and (not receive.left or receive.enough):
            self.end(receive, now, End.ENOUGH if receive.left else End.WHOLE)
        return None

    def _ahead(self, sequence: int) -> int:
        """How far `sequence` is beyond the active message's, modulo 2^32."""
        if self._sequence is None:
            return 1
        return (sequence - self._sequence + _HALF) % _ALL - _HALF

    def _find(self, tag: int) -> Receive | None:
        queue = self._posted.get(tag)
        return queue[0] if queue else None

    def _take(self, receive: Receive) -> None:
        queue = self._posted[receive.tag]
        queue.remove(receive)
        if not queue:
            del self._posted[receive.tag]

    def _fits(self, data: Data, receive: Receive) -> bool:
        """Whether it is a packet of such a message."""
        mtu_bytes, size = self._constants.mtu_bytes, receive.view.nbytes
        if data.tag != receive.tag or data.offset % mtu_bytes or data.offset > max(0, size - 1):
            return False
        if data.parity and self._constants.parity is None:
            return False
        return data.bytes == min(mtu_bytes, size - data.offset)

    def _activate(self, sequence: int, receive: Receive, now: int) -> None:
        if self._active is not None:
            self.end(self._active, now, End.PREEMPTED)
        self._take(receive)
        self._sequence, self._active, self._whole = sequence, receive, False

    def _place(self, receive: Receive, packet: int, payload: Buffer, now: int) -> bool:
        """Put a packet where it belongs; whether it was not there yet."""
        if receive.here[packet]:
            self._counters.duplicates += 1
            return False
        size, begin = len(payload), packet * self._constants.mtu_bytes
        receive.view[begin : begin + size] = payload
        receive.here[packet] = 1
        receive.left -= 1
        receive.bytes += size
        self._counters.received_bytes += size
        if receive.watch is not None and receive.step is not None:
            receive.watch.came(receive.step, size, now)
        return True

    def _take_parity(self, data: Data, receive: Receive, payload: Buffer, now: int) -> None:
        assert self._constants.parity is not None
        first = data.offset // self._constants.mtu_bytes
        members = self._constants.parity.group(first, len(receive.here))
        if members[0] != first or all(receive.here[member] for member in members):
            return
        receive.parity[first] = bytes(payload)
        self._repair(receive, first, now)

    def _repair(self, receive: Receive, packet: int, now: int) -> None:
        """Make again what the group of `packet` lacks, if its parity came and that is all it lacks."""
        parity = self._constants.parity
        if parity is None or not receive.parity:
            return
        members = parity.group(packet, len(receive.here))
        value = receive.parity.get(members[0])
        lost = [member for member in members if not receive.here[member]]
        if value is None or len(lost) > 1:
            return
        del receive.parity[members[0]]
        if lost and self._place(receive, lost[0], parity.repaired(value, members, lost[0], receive.view), now):
            self._count("repaired_packets")

    def _note(self, data: Data, marked: bool) -> None:
        """Tell the sender of this packet, when it asks or marks change: no hint tells of packets of both kinds."""
        if self._told and marked != self._marked:
            self._owe()
        self._told += 1
        self._marked, self._last_psn = marked, data.psn
        if data.asks:
            self._owe()

    def _owe(self) -> None:
        self._owed.append(hint(self._remote_qp, self._last_psn, self._told, self._marked))
        self._told = 0

    def _count(self, name: str) -> None:
        self._counters.extra[name] = self._counters.extra.get(name, 0) + 1
