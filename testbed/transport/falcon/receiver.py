"""The receiving half of a Falcon-like connection: packets into posted buffers, an answer for each path in time."""

from dataclasses import dataclass

from testbed.transport.endpoint import Counters, Event
from testbed.transport.falcon.parameters import Constants
from testbed.transport.roce.address import Address
from testbed.transport.selective.inbox import Inbox, Landing, RefusedError
from testbed.wire.falcon import Ack, Data, Refusal, encode_ack, encode_refusal
from testbed.wire.roce import RNR_NAK, RNR_TIMER_NS


@dataclass(slots=True)
class _Owed:
    """What a path's next answer is for: its packets, and stamp and arrival of the last of them."""

    packets: int
    due_ns: int
    t1: int
    came_ns: int
    marked: bool


class FalconReceiver:
    """Answers are coalesced by path: after so many packets, so long after the first, or when a packet asks."""

    def __init__(self, constants: Constants, address: Address, counters: Counters, events: list[Event]) -> None:
        self._constants = constants
        self._address = address
        self._counters = counters
        self._inbox = Inbox(
            address.peer_first_psn, constants.window_packets, constants.mtu_bytes, address.peer, counters, events
        )
        self._owed: dict[int, _Owed] = {}  # by label
        self._refused: tuple[int, int] | None = None  # since when, and the syndrome
        self._not_ready_ns: int | None = None  # when that was said last

    def post(self, id: int, tag: int, view: memoryview) -> None:
        self._inbox.post(id, tag, view)

    def fail(self, reason: str) -> None:
        """End all receives with `reason`."""
        self._inbox.fail(reason)
        self._owed.clear()
        self._refused = None

    def deadline(self) -> int | None:
        """When an answer is due."""
        due = [owed.due_ns for owed in self._owed.values()]
        if self._refused is not None:
            due.append(self._refused[0])
        return min(due, default=None)

    def answers(self, now: int, most: int) -> list[bytes]:
        """The packets that are due, at most so many."""
        found: list[bytes] = []
        queue_pair, inbox = self._address.remote_qp, self._inbox
        if self._refused is not None and most > 0:
            found.append(encode_refusal(queue_pair, Refusal(inbox.expected, self._refused[1])))
            self._refused = None
        for label, owed in list(self._owed.items()):
            if owed.due_ns <= now and len(found) < most:
                del self._owed[label]
                ack = Ack(inbox.expected, owed.t1, now - owed.came_ns, label, owed.marked, self._bitmap())
                self._counters.naks += bool(ack.bitmap)
                found.append(encode_ack(queue_pair, ack))
        return found

    def take(self, data: Data, payload: memoryview, marked: bool, now: int) -> str | None:
        """Take a packet in; what is bad about it, if anything."""
        inbox = self._inbox
        if data.label >= self._constants.paths:
            return "bad_label"
        try:
            landing = inbox.take(inbox.sequence(data.psn), data.offset, data.tag, data.length, payload)
        except RefusedError as refused:
            if refused.syndrome is not None:
                self._refused = now, refused.syndrome
            return refused.problem
        if landing is Landing.UNPOSTED:
            self._not_ready(now)
            return None
        owed = self._owed.get(data.label)
        if owed is None:
            owed = self._owed[data.label] = _Owed(0, now + self._constants.ack_timeout_ns, 0, 0, False)
        owed.packets += 1
        owed.t1, owed.came_ns, owed.marked = data.t1, now, owed.marked or marked
        if data.asks or owed.packets >= self._constants.ack_every:
            owed.due_ns = min(owed.due_ns, now)
        return None

    def _bitmap(self) -> int:
        base = self._inbox.expected + 1
        return sum(1 << sequence - base for sequence in self._inbox.ahead)

    def _not_ready(self, now: int) -> None:
        """Say it once in the time that it asks the sender to wait."""
        wait_ns = RNR_TIMER_NS[self._constants.rnr_timer]
        if self._not_ready_ns is None or now - self._not_ready_ns >= wait_ns:
            self._not_ready_ns = now
            self._refused = now, RNR_NAK | self._constants.rnr_timer
            self._counters.extra["rnr_naks"] = self._counters.extra.get("rnr_naks", 0) + 1
