"""The sending half of a connection with selective repeat: messages in, runs of packets out, answers back."""

from collections import deque

from testbed.transport.congestion import CongestionControl
from testbed.transport.endpoint import Buffer, Burst, Counters, Event, Failed
from testbed.transport.roce.address import Address
from testbed.transport.roce.flights import Flights, Line
from testbed.transport.roce.parameters import FRAME_BYTES
from testbed.transport.selective.outbox import Outbox
from testbed.transport.selective.pacing import Pacer
from testbed.transport.selective.packets import HEADER_BYTES, REFUSALS, data
from testbed.transport.selective.parameters import Constants
from testbed.transport.selective.scoreboard import Scoreboard
from testbed.wire.roce import (
    CREDITS_UNLIMITED,
    NAK_SEQUENCE,
    RNR_NAK,
    RNR_TIMER_NS,
    Header,
    pad_bytes,
    psn_difference,
)


class Sender:
    """Packets that are lost (`Scoreboard`) leave before new ones, whatever the window is.

    The timer runs while something is in flight, from the last answer that told of something new. A receiver that has
    no receive posted yet holds the sender, which then sends again all that is not known to be there. Runs are as long
    as what one answer is for (our choice): answers to the other direction wait for a run of this one.
    """

    def __init__(
        self,
        constants: Constants,
        address: Address,
        congestion: CongestionControl,
        counters: Counters,
        events: list[Event],
        line: Line,
    ) -> None:
        self.failure = ""
        self._constants = constants
        self._address = address
        self._congestion = congestion
        self._counters = counters
        self._events = events
        self._outbox = Outbox(address.first_psn, constants.mtu_bytes, address.peer, events)
        self._scoreboard = Scoreboard(address.first_psn)
        self._pacer = Pacer(congestion)
        self._slow: deque[tuple[int, Header]] = deque()  # answers that software acts upon at an instant
        self._heard_ns: int | None = None  # since when the timer runs
        self._silent_ns: int | None = None  # since when there was no news, though a timeout was
        self._held_ns: int | None = None  # until when the receiver is not ready
        self._held = 0  # in a row
        self._asked = address.first_psn
        self._window = constants.window_packets
        self._run_packets: int | None = None
        feedback = congestion.run_packets is not None
        self._flights = Flights(line, 8 * (constants.mtu_bytes + HEADER_BYTES + FRAME_BYTES)) if feedback else None
        self._obey()

    @property
    def busy(self) -> bool:
        """Something is not acknowledged yet."""
        return bool(self._outbox)

    def post(self, id: int, tag: int, buffer: Buffer, now: int) -> None:
        """Append a message."""
        if self.failure:
            self._events.append(Failed(id, self._address.peer, self.failure))
            return
        if self._outbox.next == self._outbox.end:
            self._pacer.opened(now)
        self._outbox.post(id, tag, buffer)

    def fail(self, reason: str) -> None:
        """End all messages with `reason`, and all that will be posted."""
        self.failure = reason
        self._outbox.fail(reason)
        self._scoreboard.clear(self._outbox.next)
        self._slow.clear()
        self._heard_ns = self._held_ns = None

    def ready_ns(self, now: int) -> int | None:
        """The earliest instant at which a run may leave; None: not before something is heard."""
        return None if self._waits else self._pacer.ready_ns(now)

    def deadline(self, now: int) -> int | None:
        """The earliest instant at which there is something to do or the rate may have changed."""
        due = [at for at in (self._expires_ns, self._held_ns) if at is not None]
        if self._slow:
            due.append(self._slow[0][0])
        if (ready_ns := self.ready_ns(now)) is not None:
            due.append(ready_ns)
            if ready_ns > now and (change_ns := self._pacer.changes_ns()) is not None:
                due.append(change_ns)
        return min(due, default=None)

    def run(self, now: int, ready_ns: int, budget_packets: int) -> Burst:
        """The next run, at most `budget_packets` long; only when `ready_ns` (from the method of that name) has come."""
        outbox, constants = self._outbox, self._constants
        most = min(budget_packets, constants.burst_packets, self._run_packets or constants.ack_every_packets)
        if (lost := self._scoreboard.lost(most)) is not None:
            first, end = lost
            message = outbox.message(first)
            end = min(end, message.first + message.packets)
            self._scoreboard.sent_again(end)
            self._counters.retransmitted_packets += end - first
        else:
            first, message = outbox.next, outbox.message(outbox.next)
            end = min(first + most, message.first + message.packets, outbox.acknowledged + self._window)
            outbox.next = end
        asks = self._asks(end, message.first + message.packets, lost is not None)
        headers = tuple(
            self._header(message.first, message.tag, message.view.nbytes, each, asks and each == end - 1)
            for each in range(first, end)
        )
        payload = outbox.payload(message, first, end)
        self._counters.sent_packets += end - first
        self._counters.sent_bytes += len(payload)
        wire_bytes = len(payload) + pad_bytes(len(payload)) + (end - first) * (HEADER_BYTES + FRAME_BYTES)
        if self._flights is not None:
            again = self._scoreboard.recovering  # then what is acknowledged may have waited for a gap to be filled
            self._flights.left(first, end, max(now, ready_ns), 8 * wire_bytes, again=again)
        if self._heard_ns is None:
            self._heard_ns = now
        self._pacer.left(ready_ns, wire_bytes, now)
        own = self._address
        return Burst(
            own.peer, own.source_port, constants.dscp, self._congestion.ecn, ready_ns, constants.mtu_bytes, headers,
            payload,
        )  # fmt: skip

    def hear(self, header: Header, now: int) -> str | None:
        """Take an answer in; what is bad about it, if anything (a key of the counters)."""
        assert header.aeth is not None
        syndrome, outbox = header.aeth.syndrome, self._outbox
        acknowledges = syndrome <= CREDITS_UNLIMITED
        if not acknowledges and syndrome >> 5 != RNR_NAK >> 5 and syndrome not in (NAK_SEQUENCE, *REFUSALS):
            return "bad_syndrome"
        if self._before(header) > outbox.next or (syndrome == NAK_SEQUENCE and self._came(header) >= outbox.next):
            return "bad_acknowledgement"
        if not acknowledges:
            self._counters.extra["naks_received"] = self._counters.extra.get("naks_received", 0) + 1
        if self._constants.slow_path_ns and (self._slow or syndrome == NAK_SEQUENCE):
            self._slow.append((now + self._constants.slow_path_ns, header))
        else:
            self._act(header, now)
        return None

    def on_deadline(self, now: int) -> None:
        """Do what is due."""
        while self._slow and self._slow[0][0] <= now:
            self._act(self._slow.popleft()[1], now)
        if self._held_ns is not None and self._held_ns <= now:
            self._held_ns = None
            self._again(now)
        elif self._expires_ns is not None and self._expires_ns <= now:
            self._expire(now)

    @property
    def _waits(self) -> bool:
        """Nothing may be sent, whatever the rate."""
        if self._held_ns is not None:
            return True
        may_go_on = self._outbox.in_flight < self._window and self._outbox.may_begin
        return not may_go_on and self._scoreboard.lost(1) is None

    @property
    def _expires_ns(self) -> int | None:
        """When the timer runs out."""
        if self._heard_ns is None or self._held_ns is not None:
            return None
        few = self._outbox.in_flight <= self._constants.rto_low_packets
        return self._heard_ns + (self._constants.rto_low_ns if few else self._constants.rto_high_ns)

    def _before(self, header: Header) -> int:
        """What an answer says that the receiver has all before."""
        assert header.aeth is not None
        acknowledged = self._outbox.acknowledged
        sequence = acknowledged + psn_difference(header.psn, acknowledged & 0xFFFFFF)
        return sequence + 1 if header.aeth.syndrome <= CREDITS_UNLIMITED else sequence

    def _came(self, header: Header) -> int:
        """The packet ahead of the gap that a NACK tells of."""
        assert header.aeth is not None
        acknowledged = self._outbox.acknowledged
        return acknowledged + psn_difference(header.aeth.msn, acknowledged & 0xFFFFFF)

    def _act(self, header: Header, now: int) -> None:
        """Act upon an answer that is as it should be, however old."""
        assert header.aeth is not None
        if self.failure:
            return
        syndrome, outbox = header.aeth.syndrome, self._outbox
        before, came, waits, rtt_ns = self._before(header), self._came(header), self._waits, None
        if self._flights is not None and before > outbox.acknowledged and not self._scoreboard.recovering:
            rtt_ns = self._flights.rtt_ns(before - 1, now)
        delivered = self._advance(before) if before > outbox.acknowledged else 0
        if syndrome == NAK_SEQUENCE and came > outbox.acknowledged and came not in self._scoreboard.have:
            delivered += 1
            if self._scoreboard.gap(came, outbox.acknowledged, outbox.next):
                self._congestion.on_gap(now)
                if self._flights is not None:
                    self._flights.forget()
        if waits:
            self._pacer.opened(now)
        if delivered:
            self._silent_ns, self._held = None, 0
            self._heard_ns = now if outbox.in_flight else None
            self._congestion.on_ack(now, delivered, rtt_ns, header.becn)
        self._obey()
        if syndrome in REFUSALS:
            self.fail(f"peer {self._address.peer} refused {self._address.remote_qp:#x}: {REFUSALS[syndrome]}")
        elif syndrome >> 5 == RNR_NAK >> 5 and self._held_ns is None and outbox.in_flight:
            self._hold(now, RNR_TIMER_NS[syndrome & 0x1F])

    def _advance(self, acknowledged: int) -> int:
        """The receiver has all before `acknowledged`; of how many packets that was not known."""
        delivered = self._scoreboard.advance(self._outbox.acknowledged, acknowledged)
        self._outbox.acknowledge(acknowledged)
        self._asked = max(self._asked, acknowledged)
        return delivered

    def _obey(self) -> None:
        """Look again at what the congestion control allows."""
        window, most = self._congestion.window_packets, self._constants.window_packets
        self._window = most if window is None else min(most, window)
        self._run_packets = self._congestion.run_packets

    def _expire(self, now: int) -> None:
        constants = self._constants
        self._counters.timeouts += 1
        self._congestion.on_timeout(now)
        if self._silent_ns is None:
            self._silent_ns = now if self._heard_ns is None else self._heard_ns
        if now - self._silent_ns >= constants.silence_ns:
            self.fail(
                f"peer {self._address.peer} (queue pair {self._address.remote_qp:#x}) acknowledges nothing from PSN "
                f"{self._outbox.acknowledged & 0xFFFFFF:#08x} on, for {now - self._silent_ns} ns"
            )
            return
        self._again(now)

    def _again(self, now: int) -> None:
        """Send again all that is not known to be there."""
        self._obey()
        if self._flights is not None:
            self._flights.forget()
        self._scoreboard.timeout(self._outbox.acknowledged, self._outbox.next)
        self._heard_ns = now
        self._pacer.opened(now)

    def _hold(self, now: int, wait_ns: int) -> None:
        if self._held == self._constants.rnr_retries:
            self.fail(
                f"peer {self._address.peer} (queue pair {self._address.remote_qp:#x}) has no receive posted for what "
                f"it was sent, after {self._held} retries"
            )
            return
        self._held += 1
        self._silent_ns = None
        self._held_ns = now + wait_ns

    def _asks(self, end: int, message_end: int, again: bool) -> bool:
        """Whether the last packet before `end` asks for an answer."""
        full = end - self._outbox.acknowledged >= self._window
        if not (
            again
            or full
            or end == message_end
            or self._run_packets
            or end - self._asked >= self._constants.ack_every_packets
        ):
            return False
        self._asked = max(self._asked, end)
        return True

    def _header(self, first: int, tag: int, length: int, sequence: int, asks: bool) -> bytes:
        offset = (sequence - first) * self._constants.mtu_bytes
        size = min(self._constants.mtu_bytes, length - offset)
        return data(self._address.remote_qp, sequence, asks, offset, tag, length, size)
