"""The sending half of an NDP connection: a first window unasked, then a packet for each pull, lost ones first.

What may leave: a packet that was pulled, or that timed out; and of what is posted while nothing waits, one first window
for the first time, as long as less than that is under way (our reading: NDP's transfers have a connection each, ours
follow each other on one). Every packet tells up to which pull its sender wants to be pulled, so that no pull is in vain
where one message ends and wanted where the next goes on (of the kind that EQDS and Ultra Ethernet have, recalled; NDP
marks a transfer's last packet, and its receiver then forgets the pulls that wait).

A packet is lost when a NACK says so, and then waits for a pull; or when nothing is heard of it for a timeout, and then
leaves at once (as in public htsim). Where nothing is under way and a pull is late, by more than the turns of all the
senders that waited when the receiver spoke last, it may have been lost: a packet leaves, whose answer has the count of
pulls.
"""

from collections.abc import Callable

from testbed.transport.endpoint import ECN_NOT_ECT, Buffer, Burst, Counters, Event, Failed
from testbed.transport.ndp.parameters import Constants
from testbed.transport.roce.address import Address
from testbed.transport.roce.flights import Line
from testbed.transport.selective.outbox import Outbox
from testbed.transport.selective.packets import REFUSALS
from testbed.wire.ethernet import UDP_WIRE_BYTES
from testbed.wire.ndp import (
    ACK,
    COUNTS,
    DATA_BYTES,
    NACK,
    REFUSAL,
    Control,
    Data,
    checked_from,
    count_difference,
    encode_data,
)
from testbed.wire.roce import RNR_NAK, RNR_TIMER_NS, psn_difference

_MOST_WANTED = (COUNTS >> 1) - 1


class NdpSender:
    """A packet under way is in `_flying`, with the instant at which it left, one that is lost in `_lost`; what was sent
    and is in neither is there.
    """

    def __init__(
        self,
        constants: Constants,
        address: Address,
        counters: Counters,
        events: list[Event],
        line: Line,
        port: Callable[[], int],
    ) -> None:
        self.failure = ""
        self._constants = constants
        self._address = address
        self._counters = counters
        self._events = events
        self._line = line
        self._port = port
        self._start = checked_from(address.remote_qp)
        self._outbox = Outbox(address.first_psn, constants.mtu_bytes, address.peer, events)
        self._flying: dict[int, int] = {}  # in the order in which they left
        self._lost: set[int] = set()
        self._pulled = 0  # the receiver's count, as heard last
        self._credit = 0  # packets that were pulled, or timed out, and have not left
        self._unasked = 0  # new packets that may leave without being pulled
        self._heard_ns = 0  # when something was heard that was news, or what waits began to
        self._turn_ns = 0  # how long a pull may take to come
        self._timeouts = self._held = 0  # in a row
        self._expired_ns = 0  # when the last of them was
        self._held_ns: int | None = None  # until when the receiver is not ready

    @property
    def busy(self) -> bool:
        """Something is not acknowledged yet."""
        return bool(self._outbox)

    def post(self, id: int, tag: int, buffer: Buffer, now: int) -> None:
        """Append a message."""
        if self.failure:
            self._events.append(Failed(id, self._address.peer, self.failure))
            return
        if not self._waiting:
            self._unasked = self._constants.first_window_packets
            self._heard_ns = now
        self._outbox.post(id, tag, buffer)

    def fail(self, reason: str) -> None:
        """End all messages with `reason`, and all that will be posted."""
        self.failure = reason
        self._outbox.fail(reason)
        self._flying.clear()
        self._lost.clear()
        self._held_ns = None

    def ready_ns(self, now: int) -> int | None:
        """The earliest instant at which a packet may leave; None: not before something is heard."""
        return now if self._may_send else None

    def deadline(self, now: int) -> int | None:
        """The earliest instant at which there is something to do."""
        if self._held_ns is not None or not self._outbox:
            return self._held_ns
        return now if self._may_send else self._expires_ns

    def run(self, now: int, ready_ns: int, budget_packets: int) -> Burst:  # noqa: ARG002
        """The next packet: each has a path of its own."""
        outbox, constants, own = self._outbox, self._constants, self._address
        if self._lost and self._credit:
            sequence = min(self._lost)
            self._lost.remove(sequence)
            self._counters.retransmitted_packets += 1
        else:
            sequence = outbox.next
            outbox.next += 1
        if self._credit:
            self._credit -= 1
        else:
            self._unasked -= 1
        message = outbox.message(sequence)
        payload = outbox.payload(message, sequence, sequence + 1)
        offset = (sequence - message.first) * constants.mtu_bytes
        data = Data(sequence, self._pulled + self._wanted, message.tag, offset, message.view.nbytes)
        leaves_ns = self._line.leave(now, 8 * (len(payload) + DATA_BYTES + UDP_WIRE_BYTES))
        self._flying[sequence] = leaves_ns
        self._counters.sent_packets += 1
        self._counters.sent_bytes += len(payload)
        return Burst(
            own.peer, self._port(), constants.dscp, ECN_NOT_ECT, now, constants.mtu_bytes,
            (encode_data(self._start, data),), payload,
        )  # fmt: skip

    def hear(self, control: Control, now: int) -> str | None:
        """Take in what the receiver says; what is bad about it, if anything (a key of the counters)."""
        outbox, kind = self._outbox, control.kind
        expected, came = self._sequence(control.expected), self._sequence(control.came)
        if expected > outbox.next or (kind in (ACK, NACK) and came >= outbox.next):
            return "bad_acknowledgement"
        news = self._advance(expected)
        if kind == ACK:
            news |= self._arrived(came)
        if news:
            self._held = 0  # what is pulled, or cut, may be for a receive that is not posted
        if kind == NACK:
            self._counters.extra["naks_received"] = self._counters.extra.get("naks_received", 0) + 1
            if self._flying.pop(came, None) is not None:
                self._lost.add(came)
                news = True
        if (pulls := count_difference(control.pulls, self._pulled)) > 0:
            self._pulled += pulls
            self._credit = min(self._credit + pulls, self._constants.first_window_packets)
            news = True
        if news:
            self._heard_ns, self._timeouts = now, 0
        self._turn_ns = control.waiting * self._constants.packet_ns
        return self._refused(control.syndrome, now) if kind == REFUSAL else None

    def on_deadline(self, now: int) -> None:
        """Do what is due."""
        if self._held_ns is not None:
            if self._held_ns <= now:
                self._held_ns, self._heard_ns = None, now
                self._lost.update(self._flying)
                self._flying.clear()
                self._credit = max(self._credit, min(len(self._lost), self._constants.first_window_packets))
        elif self._outbox and not self._may_send and (at_ns := self._expires_ns) is not None and at_ns <= now:
            self._expire(now)

    @property
    def _waiting(self) -> int:
        """Packets that are to leave, for the first time or again."""
        return self._outbox.end - self._outbox.next + len(self._lost)

    @property
    def _wanted(self) -> int:
        """How many more packets are to be pulled."""
        new = max(0, self._outbox.end - self._outbox.next - self._unasked)
        return min(max(0, len(self._lost) + new - self._credit), _MOST_WANTED)

    @property
    def _may_send(self) -> bool:
        outbox, constants = self._outbox, self._constants
        if self._held_ns is not None:
            return False
        if self._credit:
            if self._lost:
                return True
        elif not self._unasked or len(self._flying) >= constants.first_window_packets:
            return False
        return outbox.may_begin and outbox.in_flight < constants.window_packets

    @property
    def _expires_ns(self) -> int | None:
        """When the packet that left first is given up, or the pull that is waited for where none is under way."""
        timeout_ns = self._constants.rto_ns << self._timeouts
        if self._flying:
            left_ns = next(iter(self._flying.values()))
            return left_ns + (timeout_ns if not self._before(left_ns) else timeout_ns >> 1)
        return self._heard_ns + self._turn_ns + timeout_ns if self._waiting else None

    def _before(self, left_ns: int) -> bool:
        """Whether a packet that left then was under way at the last of the timeouts in a row."""
        return self._timeouts > 0 and left_ns < self._expired_ns

    def _expire(self, now: int) -> None:
        """Packets that left together expire one after the other: only the first of them tells of a timeout."""
        if self._flying:
            sequence, left_ns = next(iter(self._flying.items()))
            del self._flying[sequence]
            self._lost.add(sequence)
            if self._before(left_ns):
                self._credit += 1
                return
        self._counters.timeouts += 1
        if self._timeouts == self._constants.retries:
            self.fail(
                f"peer {self._address.peer} (queue pair {self._address.remote_qp:#x}) acknowledges nothing from PSN "
                f"{self._outbox.acknowledged & 0xFFFFFF:#08x} on, after {self._timeouts} retries"
            )
            return
        self._credit += 1
        self._timeouts += 1
        self._expired_ns = self._heard_ns = now

    def _advance(self, expected: int) -> bool:
        """The receiver has all before `expected`; whether that is news."""
        outbox = self._outbox
        if expected <= outbox.acknowledged:
            return False
        for sequence in range(outbox.acknowledged, expected):
            self._arrived(sequence)
        outbox.acknowledge(expected)
        return True

    def _arrived(self, sequence: int) -> bool:
        """The receiver has a packet; whether that is news."""
        if self._flying.pop(sequence, None) is not None:
            return True
        if sequence in self._lost:
            self._lost.remove(sequence)
            return True
        return False

    def _refused(self, syndrome: int, now: int) -> str | None:
        """The receiver cannot take something."""
        if syndrome in REFUSALS:
            reason = REFUSALS[syndrome]
            self.fail(f"peer {self._address.peer} refused {self._address.remote_qp:#x}: {reason}")
        elif syndrome >> 5 != RNR_NAK >> 5:
            return "bad_syndrome"
        elif self._held_ns is None and (self._flying or self._lost):
            self._hold(now, RNR_TIMER_NS[syndrome & 0x1F])
        return None

    def _hold(self, now: int, wait_ns: int) -> None:
        if self._held == self._constants.rnr_retries:
            self.fail(
                f"peer {self._address.peer} (queue pair {self._address.remote_qp:#x}) has no receive posted for what "
                f"it was sent, after {self._held} retries"
            )
            return
        self._held += 1
        self._timeouts = 0
        self._held_ns = now + wait_ns

    def _sequence(self, psn: int) -> int:
        acknowledged = self._outbox.acknowledged
        return acknowledged + psn_difference(psn, acknowledged & 0xFFFFFF)
