"""The sending half of a Falcon-like connection: messages in, runs of packets on several paths out, answers back."""

from collections.abc import Sequence

from testbed.transport.endpoint import Buffer, Burst, Counters, Event, Failed
from testbed.transport.falcon.flights import Flight, Flights
from testbed.transport.falcon.parameters import Constants
from testbed.transport.falcon.paths import FlowPath, choose
from testbed.transport.roce.address import Address
from testbed.transport.roce.flights import Line
from testbed.transport.roce.parameters import FRAME_BYTES
from testbed.transport.selective.outbox import Outbox
from testbed.transport.selective.packets import REFUSALS
from testbed.wire.falcon import DATA_BYTES, TIME_MASK, Ack, Data, Refusal, encode_data
from testbed.wire.roce import (
    RNR_NAK,
    RNR_TIMER_NS,
    pad_bytes,
    psn_difference,
)


class FalconSender:
    """Lost packets leave before new ones, on the path that they were on; all within the windows of all paths."""

    def __init__(
        self,
        constants: Constants,
        address: Address,
        paths: Sequence[FlowPath],
        counters: Counters,
        events: list[Event],
        line: Line,
    ) -> None:
        self.failure = ""
        self._constants = constants
        self._address = address
        self._paths = paths
        self._counters = counters
        self._events = events
        self._line = line
        self._outbox = Outbox(address.first_psn, constants.mtu_bytes, address.peer, events)
        self._flights = Flights(constants)
        self._heard_ns = 0  # when something was heard that was news, or left last
        self._early_ns: int | None = None  # when something may be lost by time
        self._probed = False  # since something was heard
        self._held_ns: int | None = None  # until when the receiver is not ready
        self._timeouts = self._held = 0  # in a row
        self._expired_ns = 0  # when the last of them was

    @property
    def busy(self) -> bool:
        """Something is not acknowledged yet."""
        return bool(self._outbox)

    def post(self, id: int, tag: int, buffer: Buffer, now: int) -> None:
        """Append a message."""
        if self.failure:
            self._events.append(Failed(id, self._address.peer, self.failure))
            return
        if self._waits:
            self._opened(now)
        self._outbox.post(id, tag, buffer)

    def fail(self, reason: str) -> None:
        """End all messages with `reason`, and all that will be posted."""
        self.failure = reason
        self._outbox.fail(reason)
        self._flights.clear()
        self._early_ns = self._held_ns = None

    def ready_ns(self, now: int) -> int | None:
        """The earliest instant at which a run may leave; None: not before something is heard."""
        return None if self._waits else self._next(now)[1]

    def deadline(self, now: int) -> int | None:
        """The earliest instant at which there is something to do or a rate may have changed."""
        if self._held_ns is not None:
            return self._held_ns
        due = [at for at in (self._early_ns, self._probe_ns, self._expires_ns) if at is not None]
        if (ready_ns := self.ready_ns(now)) is not None:
            due.append(ready_ns)
            if ready_ns > now:  # and the rates of these were just asked for
                waiting = (self._flights.first_lost[1],) if self._flights.lost else self._paths
                due += [at for path in waiting if (at := path.pacer.changes_ns()) is not None]
        return min(due, default=None)

    def run(self, now: int, ready_ns: int, budget_packets: int) -> Burst:
        """The next run, at most `budget_packets` long; only when `ready_ns` (from the method of that name) has come."""
        outbox, constants, (path, _) = self._outbox, self._constants, self._next(now)
        most = min(budget_packets, constants.burst_packets, self._room)
        if (run_packets := path.control.run_packets) is not None:
            most = min(most, run_packets)
        if lost := self._flights.lost:
            first = self._flights.first_lost[0]
            message = outbox.message(first)
            again = self._flights.take_lost(first, min(first + most, message.first + message.packets))
            self._counters.retransmitted_packets += len(again)
        else:
            first, message = outbox.next, outbox.message(outbox.next)
            end = min(first + most, message.first + message.packets, outbox.acknowledged + constants.window_packets)
            again = [-1] * (end - first)
            outbox.next = end
            path.took(len(again))
        end = first + len(again)
        payload = outbox.payload(message, first, end)
        wire_bytes = len(payload) + pad_bytes(len(payload)) + len(again) * (DATA_BYTES + FRAME_BYTES)
        leaves_ns = self._line.leave(max(now, ready_ns), 8 * wire_bytes)
        asks, headers = self._asks(path, len(again)), []
        for sequence, times in zip(range(first, end), again, strict=True):
            self._flights.left(sequence, path, leaves_ns, times + 1)
            offset = (sequence - message.first) * constants.mtu_bytes
            length = message.view.nbytes
            size = min(constants.mtu_bytes, length - offset)
            last = asks and sequence == end - 1
            data = Data(sequence, last, pad_bytes(size), leaves_ns, path.label, offset, message.tag, length)
            headers.append(encode_data(self._address.remote_qp, data))
            leaves_ns += 8 * (size + pad_bytes(size) + DATA_BYTES + FRAME_BYTES) * 10**9 // self._line.rate_bps
        self._counters.sent_packets += len(again)
        self._counters.sent_bytes += len(payload)
        self._heard_ns = max(self._heard_ns, now)
        self._early_ns = self._flights.early(now) if lost else self._early_ns
        path.pacer.left(ready_ns, wire_bytes, now)
        return Burst(
            self._address.peer, path.source_port, constants.dscp, path.control.ecn, ready_ns, constants.mtu_bytes,
            tuple(headers), payload,
        )  # fmt: skip

    def hear(self, ack: Ack, now: int) -> str | None:
        """Take an answer in; what is bad about it, if anything (a key of the counters)."""
        outbox = self._outbox
        expected = self._sequence(ack.psn)
        if ack.label >= len(self._paths) or expected + ack.bitmap.bit_length() >= outbox.next + (not ack.bitmap):
            return "bad_acknowledgement"
        path, waits = self._paths[ack.label], self._waits
        there = list(range(outbox.acknowledged, expected))
        there += [expected + 1 + bit for bit in range(ack.bitmap.bit_length()) if ack.bitmap >> bit & 1]
        news = [self._flights.arrived(sequence) for sequence in there if sequence >= outbox.acknowledged]
        if expected > outbox.acknowledged:
            outbox.acknowledge(expected)
        rtt_ns = (now - ack.t1 & TIME_MASK) - ack.held_ns
        known = 0 < rtt_ns < TIME_MASK >> 1
        if known:
            path.sampled(rtt_ns, now)
        if waits:
            self._opened(now)
        if any(news):
            self._timeouts = self._held = 0
            self._heard_ns, self._probed = now, False
        if path.delivered:
            delivered, path.delivered = path.delivered, 0
            path.control.on_ack(now, delivered, rtt_ns if known else None, ack.marked)
        self._early_ns = self._flights.early(now)
        return None

    def refused(self, refusal: Refusal, now: int) -> str | None:
        """The receiver cannot take something."""
        if self._sequence(refusal.psn) > self._outbox.next:
            return "bad_acknowledgement"
        if refusal.syndrome in REFUSALS:
            reason = REFUSALS[refusal.syndrome]
            self.fail(f"peer {self._address.peer} refused {self._address.remote_qp:#x}: {reason}")
        elif refusal.syndrome >> 5 != RNR_NAK >> 5:
            return "bad_syndrome"
        elif self._held_ns is None and self._outbox.in_flight:
            self._hold(now, RNR_TIMER_NS[refusal.syndrome & 0x1F])
        return None

    def on_deadline(self, now: int) -> None:
        """Do what is due."""
        if self._held_ns is not None:
            if self._held_ns <= now:
                self._held_ns = None
                self._flights.all_lost()
                self._opened(now)
            return
        waits = self._waits
        if self._early_ns is not None and self._early_ns <= now:
            self._early_ns = self._flights.early(now)
        if (at_ns := self._expires_ns) is not None and at_ns <= now:
            self._expire(now)
        elif (at_ns := self._probe_ns) is not None and at_ns <= now:
            self._probed = True
            self._count("probes")
            self._flights.probe()
        if waits and not self._waits:
            self._opened(now)

    @property
    def _room(self) -> int:
        """How many more packets may be under way by the windows of all paths."""
        windows = [path.window for path in self._paths]
        most = sum(window for window in windows if window is not None)
        return (self._constants.window_packets if None in windows else most) - len(self._flights)

    @property
    def _waits(self) -> bool:
        """Nothing may be sent, whatever the rates."""
        if self._held_ns is not None or self._room <= 0:
            return True
        if self._flights.lost:
            return False
        return self._outbox.in_flight >= self._constants.window_packets or not self._outbox.may_begin

    def _next(self, now: int) -> tuple[FlowPath, int]:
        """The path of the next run, and when it may leave."""
        if self._flights.lost:
            path = self._flights.first_lost[1]
            return path, path.pacer.ready_ns(now)
        return choose(self._paths, now)

    @property
    def _probe_ns(self) -> int | None:
        """When a probe is due."""
        oldest = self._flights.oldest
        if self._probed or oldest is None or oldest.path.smoothed_ns is None:
            return None
        constants = self._constants
        wait_ns = round(constants.tlp_factor * oldest.path.smoothed_ns) + constants.ack_timeout_ns
        return self._heard_ns + max(wait_ns, constants.tlp_least_ns)

    @property
    def _expires_ns(self) -> int | None:
        """When the packet that left first is given up."""
        oldest = self._flights.oldest
        if oldest is None:
            return None
        return oldest.left_ns + self._timeout_ns(oldest)

    def _timeout_ns(self, flight: Flight) -> int:
        """How long a packet is waited for: twice as long after each timeout, but for what left before that."""
        before = self._timeouts and flight.left_ns < self._expired_ns
        return flight.path.timeout_ns() << self._timeouts - bool(before)

    def _expire(self, now: int) -> None:
        """Packets that left together expire one after the other: only the first of them tells of a timeout."""
        oldest = self._flights.oldest
        assert oldest is not None
        if self._timeouts and oldest.left_ns < self._expired_ns:
            self._flights.expired(now, self._timeout_ns)
            return
        self._counters.timeouts += 1
        if self._timeouts == self._constants.retries:
            self.fail(
                f"peer {self._address.peer} (queue pair {self._address.remote_qp:#x}) acknowledges nothing from PSN "
                f"{self._outbox.acknowledged & 0xFFFFFF:#08x} on, after {self._timeouts} retries"
            )
            return
        for path in self._flights.expired(now, self._timeout_ns):
            path.control.on_timeout(now)
            path.change()
            self._count("paths_changed")
        self._timeouts += 1
        self._expired_ns = now

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

    def _asks(self, path: FlowPath, packets: int) -> bool:
        """Whether the last of so many packets of a path asks for an answer at once."""
        constants, window = self._constants, path.window
        path.unasked += packets
        few = window is not None and window <= constants.ack_request_window
        if not few and path.unasked < constants.ack_request_every:
            return False
        path.unasked = 0
        return True

    def _sequence(self, psn: int) -> int:
        acknowledged = self._outbox.acknowledged
        return acknowledged + psn_difference(psn, acknowledged & 0xFFFFFF)

    def _opened(self, now: int) -> None:
        for path in self._paths:
            path.pacer.opened(now)

    def _count(self, name: str) -> None:
        self._counters.extra[name] = self._counters.extra.get(name, 0) + 1
