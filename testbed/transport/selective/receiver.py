"""The receiving half of a connection with selective repeat: packets into posted buffers, answers back."""

from collections import deque
from typing import NamedTuple

from testbed.transport.endpoint import Counters, Event
from testbed.transport.roce.address import Address
from testbed.transport.selective.inbox import Inbox, Landing, RefusedError
from testbed.transport.selective.packets import ahead, answer, refusal
from testbed.transport.selective.parameters import Constants
from testbed.wire.roce import RNR_NAK, RNR_TIMER_NS, Header

_MOST_OWED = 1 << 12  # answers of packets ahead; no window is as long, so that only a flood of duplicates makes more


class _Owed(NamedTuple):
    """An answer that is due at an instant: to the packet `came`, ahead of a gap, or (None) to all before `before`."""

    at_ns: int
    came: int | None
    before: int
    marked: bool


class Receiver:
    """Answers every packet ahead of a gap by itself, those in order together.

    With a slow path, an answer that has to do with a gap leaves so much later than what it answers. echoes: each answer
    says whether the packets that it covers came marked, as RoCE's responder does.
    """

    def __init__(
        self, constants: Constants, address: Address, counters: Counters, events: list[Event], echoes: bool
    ) -> None:
        self._constants = constants
        self._address = address
        self._counters = counters
        self._inbox = Inbox(
            address.peer_first_psn, constants.window_packets, constants.mtu_bytes, address.peer, counters, events
        )
        self._echoes = echoes
        self._marked = False  # the last packet came so
        self._since_answered = 0
        self._answer_ns: int | None = None  # when what is in order is to be acknowledged
        self._owed: deque[_Owed] = deque()
        self._refused: tuple[int, int] | None = None  # since when, and the syndrome to answer with
        self._not_ready_ns: int | None = None  # when that was said last

    def post(self, id: int, tag: int, view: memoryview) -> None:
        self._inbox.post(id, tag, view)

    def fail(self, reason: str) -> None:
        """End all receives with `reason`."""
        self._inbox.fail(reason)
        self._owed.clear()
        self._answer_ns = self._refused = None

    def deadline(self) -> int | None:
        """When an answer is due."""
        due = [self._owed[0].at_ns] if self._owed else []
        if self._answer_ns is not None:
            due.append(self._answer_ns)
        if self._refused is not None:
            due.append(self._refused[0])
        return min(due, default=None)

    def answers(self, now: int, most: int) -> list[bytes]:
        """The packets that are due, at most so many."""
        found: list[bytes] = []
        queue_pair, expected = self._address.remote_qp, self._inbox.expected
        if self._refused is not None and most > 0:
            self._count_refusal(self._refused[1])
            found.append(refusal(queue_pair, expected, self._refused[1]))
            self._refused = None
        while self._owed and self._owed[0].at_ns <= now and len(found) < most:
            owed = self._owed.popleft()
            if owed.came is None:
                found.append(answer(queue_pair, owed.before, owed.marked))
            elif owed.came < expected:
                found.append(answer(queue_pair, expected, owed.marked))
            else:
                self._counters.naks += 1
                found.append(ahead(queue_pair, expected, owed.came, owed.marked))
        if self._answer_ns is not None and self._answer_ns <= now and len(found) < most:
            found.append(answer(queue_pair, expected, self._marked and self._echoes))
            self._answer_ns, self._since_answered = None, 0
        return found

    def take(self, header: Header, payload: memoryview, marked: bool, now: int) -> str | None:
        """Take a packet in; what is bad about it, if anything."""
        place, inbox = header.reth, self._inbox
        assert place is not None
        before, gap = inbox.expected, bool(inbox.ahead)
        sequence = inbox.sequence(header.psn)
        try:
            landing = inbox.take(sequence, place.address, place.key, place.length, payload)
        except RefusedError as refused:
            if refused.syndrome is not None:
                self._refused = now, refused.syndrome
            return refused.problem
        delay_ns = self._constants.slow_path_ns if gap or inbox.ahead else 0
        if landing is Landing.UNPOSTED:
            self._not_ready(now)
            return None
        if self._echoes and marked != self._marked:
            if self._since_answered:
                self._owe(_Owed(now, None, before, self._marked))
                self._answer_ns, self._since_answered = None, 0
            self._marked = marked
        if landing is Landing.AHEAD or (landing is Landing.DUPLICATE and sequence > inbox.expected):
            self._owe(_Owed(now + delay_ns, sequence, before, marked and self._echoes))
            return None
        self._since_answered += 1
        if (
            header.ack_request
            or gap
            or landing is Landing.DUPLICATE
            or self._since_answered >= self._constants.ack_every_packets
        ):
            due_ns = now + delay_ns
            self._answer_ns = due_ns if self._answer_ns is None else min(self._answer_ns, due_ns)
        return None

    def _owe(self, owed: _Owed) -> None:
        if len(self._owed) < _MOST_OWED:
            self._owed.append(owed)

    def _not_ready(self, now: int) -> None:
        """Say it once in the time that it asks the sender to wait."""
        wait_ns = RNR_TIMER_NS[self._constants.rnr_timer]
        if self._not_ready_ns is None or now - self._not_ready_ns >= wait_ns:
            self._not_ready_ns = now
            self._refused = now, RNR_NAK | self._constants.rnr_timer

    def _count_refusal(self, syndrome: int) -> None:
        if syndrome >> 5 == RNR_NAK >> 5:
            self._counters.extra["rnr_naks"] = self._counters.extra.get("rnr_naks", 0) + 1
        else:
            self._counters.naks += 1
