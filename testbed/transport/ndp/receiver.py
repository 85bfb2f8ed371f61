"""The receiving half of an NDP connection: packets into posted buffers, an answer to each at once, and pulls in turn.

What comes short of the bytes that its header tells of was cut by a switch: it is answered with a NACK. Whatever comes,
whole or cut, is worth a pull, as long as the sender wants to be pulled: so there is never more under way than the first
window was. Pulls leave when the host's `PullQueue` says, in the next answer or by themselves.
"""

from collections import deque

from testbed.transport.endpoint import Counters, Event
from testbed.transport.ndp.parameters import Constants
from testbed.transport.ndp.pulls import PullQueue
from testbed.transport.roce.address import Address
from testbed.transport.selective.inbox import Inbox, Landing, RefusedError
from testbed.wire.ndp import ACK, NACK, PULL, REFUSAL, Control, Data, checked_from, count_difference, encode_control
from testbed.wire.roce import RNR_NAK, RNR_TIMER_NS

_MOST_OWED = 1 << 12  # answers; they are no longer than what they answer, so that as many wait only in a flood


class NdpReceiver:
    """A `testbed.transport.ndp.pulls.Pulled`, too: of the sender at the other end of the connection."""

    def __init__(
        self, constants: Constants, address: Address, counters: Counters, events: list[Event], pulls: PullQueue
    ) -> None:
        self.peer = address.peer
        self.waits = False
        self._constants = constants
        self._counters = counters
        self._inbox = Inbox(
            address.peer_first_psn, constants.window_packets, constants.mtu_bytes, address.peer, counters, events
        )
        self._start = checked_from(address.remote_qp)
        self._pulls = pulls
        self._pulled = 0  # packets
        self._target = 0  # up to which the sender wants to be pulled
        self._worth = 0  # pulls that what came is worth, and that were not made
        self._untold_ns: int | None = None  # since when no packet has told of the last pull
        self._owed: deque[tuple[int, int, int]] = deque()  # answers: since when, ACK or NACK, the packet
        self._refused: tuple[int, int] | None = None  # since when, and the syndrome
        self._not_ready_ns: int | None = None  # when that was said last

    def post(self, id: int, tag: int, view: memoryview) -> None:
        self._inbox.post(id, tag, view)

    def fail(self, reason: str) -> None:
        """End all receives with `reason`."""
        self._inbox.fail(reason)
        self._pulls.leave(self)
        self._owed.clear()
        self._target, self._worth = self._pulled, 0
        self._untold_ns = self._refused = None

    @property
    def due(self) -> int:
        return min(self._worth, self._target - self._pulled)

    def pull(self, now: int) -> None:
        self._pulled += 1
        self._worth -= 1
        self._untold_ns = now

    def deadline(self) -> int | None:
        """Since when there is something to say."""
        if self._owed:
            return self._owed[0][0]
        return self._untold_ns if self._refused is None else self._refused[0]

    def answers(self, now: int, most: int) -> list[bytes]:  # noqa: ARG002
        """The packets that are due, at most so many."""
        found: list[bytes] = []
        if self._refused is not None and most > 0:
            syndrome, self._refused = self._refused[1], None
            found.append(self._say(REFUSAL, syndrome=syndrome))
        while self._owed and len(found) < most:
            _, kind, came = self._owed.popleft()
            self._counters.naks += kind == NACK
            found.append(self._say(kind, came))
        if self._untold_ns is not None and len(found) < most:
            self._counters.extra["pulls"] = self._counters.extra.get("pulls", 0) + 1
            found.append(self._say(PULL))
        return found

    def take(self, data: Data, payload: memoryview, now: int) -> str | None:
        """Take a packet in; what is bad about it, if anything."""
        inbox, size = self._inbox, min(self._constants.mtu_bytes, data.length - data.offset)
        sequence = inbox.sequence(data.psn)
        if len(payload) < size:
            if sequence >= inbox.expected + self._constants.window_packets:
                return "bad_sequence"
            self._counters.extra["trimmed"] = self._counters.extra.get("trimmed", 0) + 1
            missing = sequence >= inbox.expected and sequence not in inbox.ahead
            self._want(data.target, now, again=missing)
            self._owe(NACK if missing else ACK, sequence, now)
            return None
        try:
            landing = inbox.take(sequence, data.offset, data.tag, data.length, payload)
        except RefusedError as refused:
            if refused.syndrome is not None:
                self._refused = now, refused.syndrome
            return refused.problem
        self._want(data.target, now, again=False)
        if landing is Landing.UNPOSTED:
            self._not_ready(now)
        else:
            self._owe(ACK, sequence, now)
        return None

    def _want(self, target: int, now: int, *, again: bool) -> None:
        """A packet came, which told a target; again: it is to be sent again, of which its sender does not know yet."""
        self._target = again + max(self._target, self._pulled + count_difference(target, self._pulled))
        self._worth = min(self._worth + 1, self._constants.first_window_packets)
        self._pulls.want(self, now)

    def _owe(self, kind: int, sequence: int, now: int) -> None:
        if len(self._owed) < _MOST_OWED:
            self._owed.append((now, kind, sequence))

    def _say(self, kind: int, came: int = 0, syndrome: int = 0) -> bytes:
        self._untold_ns = None
        control = Control(kind, self._inbox.expected, self._pulled, self._pulls.waiting, came, syndrome)
        return encode_control(self._start, control)

    def _not_ready(self, now: int) -> None:
        """Say it once in the time that it asks the sender to wait."""
        wait_ns = RNR_TIMER_NS[self._constants.rnr_timer]
        if self._not_ready_ns is None or now - self._not_ready_ns >= wait_ns:
            self._not_ready_ns = now
            self._refused = now, RNR_NAK | self._constants.rnr_timer
            self._counters.extra["rnr_naks"] = self._counters.extra.get("rnr_naks", 0) + 1
