"""The sending half of a queue pair: messages in, runs of packets out, acknowledgements back."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from testbed.transport.congestion import CongestionControl
from testbed.transport.endpoint import Buffer, Burst, Counters, Event, Failed, Sent, as_bytes
from testbed.transport.roce.address import Address
from testbed.transport.roce.flights import Flights, Line
from testbed.transport.roce.machine import REQUESTER, Action, Heard, RequesterState
from testbed.transport.roce.parameters import FRAME_BYTES, Constants
from testbed.wire.roce import (
    BTH_BYTES,
    CREDITS_UNLIMITED,
    NAK_INVALID_REQUEST,
    NAK_REMOTE_ACCESS,
    NAK_REMOTE_OPERATION,
    NAK_SEQUENCE,
    RNR_NAK,
    RNR_TIMER_NS,
    SEND_FIRST,
    SEND_LAST_IMMEDIATE,
    SEND_MIDDLE,
    SEND_ONLY_IMMEDIATE,
    WRITE_FIRST,
    WRITE_LAST_IMMEDIATE,
    WRITE_MIDDLE,
    Header,
    Reth,
    Verb,
    encode,
    middle_headers,
    only_write,
    pad_bytes,
    psn_difference,
)

_OPCODES = {
    Verb.SEND: (SEND_FIRST, SEND_MIDDLE, SEND_LAST_IMMEDIATE),
    Verb.WRITE: (WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST_IMMEDIATE),
}  # of messages of several packets
_REFUSALS = {
    NAK_INVALID_REQUEST: "invalid request",
    NAK_REMOTE_ACCESS: "remote access error: no receive of that tag is so long",
    NAK_REMOTE_OPERATION: "remote operational error",
}
_LARGEST_MESSAGE_BYTES = 1 << 31  # source: IBTA 9.7.2, message size


class _Message(NamedTuple):
    id: int
    tag: int
    view: memoryview
    first: int  # sequence number of its first packet
    packets: int


class Sending(NamedTuple):
    """What a requester has come to without anything lost. The numbers are its sequence numbers."""

    first: int  # of the first message that is not acknowledged
    unacknowledged: int
    next: int
    asked: int
    timer_ns: int | None
    messages: Sequence[tuple[int, int, memoryview]]  # those messages: id, tag, bytes
    open_ns: int
    departed_ns: int
    departed_bits: int
    waiting: bool  # for an acknowledgement that was asked for


class Requester:
    """Sequence numbers here are whole numbers that never wrap; PSNs are their low 24 bits.

    unacknowledged <= next <= highest <= end: what the peer has, what is sent next, what was ever sent, what was posted.
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
        self.state = RequesterState.READY
        self.failure = ""
        self._constants = constants
        self._address = address
        self._congestion = congestion
        self._counters = counters
        self._events = events
        self._messages: deque[_Message] = deque()
        self._current = 0  # index of the message that holds `next`
        self._unacknowledged = self._next = self._highest = self._end = address.first_psn
        self._asked = address.first_psn  # one past the last packet that asked for an acknowledgement
        self._recovering: int | None = None  # the sequence number a NAK asked for, until it is acknowledged
        self._timer_ns: int | None = None
        self._retries = self._rnr_retries = 0
        self._open_ns = 0  # since when something could be sent, but for the rate
        self._departed_ns = 0  # of the last run, and its size on the wire
        self._departed_bits = 0
        feedback = congestion.run_packets is not None
        self._flights = Flights(line, 8 * (constants.mtu_bytes + BTH_BYTES + FRAME_BYTES)) if feedback else None
        self._obey()

    @property
    def busy(self) -> bool:
        """Something is not acknowledged yet."""
        return bool(self._messages)

    def post(self, id: int, tag: int, buffer: Buffer, now: int) -> None:
        """Append a message."""
        if self.state is RequesterState.FAILED:
            self._events.append(Failed(id, self._address.peer, self.failure))
            return
        view = as_bytes(buffer)
        if not 0 <= tag < 1 << 32 or view.nbytes > _LARGEST_MESSAGE_BYTES:
            raise ValueError(f"a message of {view.nbytes} bytes with tag {tag}: tags have 32 bits, messages 2 GiB")
        packets = max(1, -(-view.nbytes // self._constants.mtu_bytes))
        if self._next == self._end:
            self._open_ns = now
        self._messages.append(_Message(id, tag, view, self._end, packets))
        self._end += packets

    def resume(self, sending: Sending) -> None:
        """Go on, as one that has done nothing yet, from what another has come to."""
        self._end = sending.first
        for message in sending.messages:
            self.post(*message, sending.open_ns)
        self.state = RequesterState.WAITING if sending.waiting else RequesterState.READY
        self._unacknowledged, self._next, self._highest = sending.unacknowledged, sending.next, sending.next
        self._current = sum(message.first + message.packets <= sending.next for message in self._messages)
        self._asked, self._timer_ns = sending.asked, sending.timer_ns
        self._open_ns = sending.open_ns
        self._departed_ns, self._departed_bits = sending.departed_ns, sending.departed_bits

    def fail(self, reason: str) -> None:
        """End all messages with `reason`, and all that will be posted."""
        self.state, self.failure, self._timer_ns = RequesterState.FAILED, reason, None
        self._events += [Failed(message.id, self._address.peer, reason) for message in self._messages]
        self._messages.clear()
        self._unacknowledged = self._next = self._highest = self._end

    def ready_ns(self, now: int) -> int | None:
        """The earliest instant at which a run may leave; None: not before something is heard."""
        outstanding = self._next - self._unacknowledged
        if self._next == self._end or self.state is RequesterState.HELD or outstanding >= self._window:
            return None
        rate_bps = self._congestion.rate_bps(now)
        if rate_bps is None:
            return now
        gap_ns = self._departed_bits * 10**9 // rate_bps
        return max(self._departed_ns + gap_ns, self._open_ns, now - gap_ns)  # a late driver catches up by one run

    def deadline(self, now: int) -> int | None:
        """The earliest instant at which there is something to do or the rate may have changed."""
        ready_ns, earliest_ns = self.ready_ns(now), self._timer_ns
        if ready_ns is not None:
            if earliest_ns is None or ready_ns < earliest_ns:
                earliest_ns = ready_ns
            if ready_ns > now and (change_ns := self._congestion.deadline()) is not None:
                earliest_ns = min(earliest_ns, change_ns)
        return earliest_ns

    def run(self, now: int, ready_ns: int, budget_packets: int) -> Burst:
        """The next run, at most `budget_packets` long; only when `ready_ns` (from the method of that name) has come."""
        constants = self._constants
        message = self._messages[self._current]
        index = self._next - message.first
        window = self._window - (self._next - self._unacknowledged)
        count = min(budget_packets, constants.burst_packets, window, message.packets - index)
        if self._run_packets is not None:
            count = min(count, self._run_packets)
        end = self._next + count
        last = index + count == message.packets
        asks = last or count == window or end - self._asked >= constants.ack_every_packets or bool(self._run_packets)
        headers = self._headers(message, index, count, asks)
        payload = message.view[index * constants.mtu_bytes : (index + count) * constants.mtu_bytes]
        self._counters.sent_packets += count
        self._counters.sent_bytes += len(payload)
        wire_bytes = len(payload) + pad_bytes(len(payload)) + sum(map(len, headers)) + count * FRAME_BYTES
        if self._flights is not None:
            again = self._next < self._highest
            self._flights.left(self._next, end, max(now, ready_ns), 8 * wire_bytes, again=again)
        self._counters.retransmitted_packets += max(0, min(self._highest, end) - self._next)
        self._next = end
        self._highest = max(self._highest, end)
        self._current += last
        if asks:
            self._asked = end
            self._hear(Heard.ASKED, now)
        self._departed_ns, self._departed_bits = ready_ns, 8 * wire_bytes
        self._congestion.on_sent(now, wire_bytes)
        own, ecn = self._address, self._congestion.ecn
        return Burst(
            own.peer, own.source_port, constants.dscp, ecn, ready_ns, constants.mtu_bytes, tuple(headers), payload
        )

    def acknowledge(self, header: Header, now: int) -> str | None:
        """Take an acknowledgement in; what is bad about it, if anything (a key of the counters)."""
        assert header.aeth is not None
        syndrome = header.aeth.syndrome
        sequence = self._unacknowledged + psn_difference(header.psn, self._unacknowledged & 0xFFFFFF)
        if syndrome <= CREDITS_UNLIMITED:
            if sequence >= self._highest:
                return "bad_acknowledgement"
            rtt_ns = self._flights.rtt_ns(sequence, now) if self._flights is not None else None
            self._advance(sequence + 1, now, rtt_ns, header.becn)
            return None
        if syndrome >> 5 != RNR_NAK >> 5 and syndrome != NAK_SEQUENCE and syndrome not in _REFUSALS:
            return "bad_syndrome"
        if sequence >= self._highest:
            return "bad_acknowledgement"
        if sequence < self._unacknowledged or (syndrome == NAK_SEQUENCE and sequence == self._recovering):
            return None  # late, or a duplicate
        self._counters.extra["naks_received"] = self._counters.extra.get("naks_received", 0) + 1
        self._advance(sequence, now, None, header.becn)
        if syndrome == NAK_SEQUENCE:
            self._hear(Heard.GAP, now)
        elif syndrome in _REFUSALS:
            self._hear(Heard.REFUSED, now, f"{_REFUSALS[syndrome]} (PSN {sequence & 0xFFFFFF:#08x})")
        else:
            self._hear(Heard.NOT_READY, now, RNR_TIMER_NS[syndrome & 0x1F])
        return None

    def on_deadline(self, now: int) -> None:
        """Do what the timer is for, if it has run out."""
        if self._timer_ns is not None and self._timer_ns <= now:
            self._hear(Heard.EXPIRED, now)

    def _advance(self, unacknowledged: int, now: int, rtt_ns: int | None, marked: bool) -> None:
        """The peer has all before `unacknowledged`; for the others see `CongestionControl.on_ack`."""
        packets = unacknowledged - self._unacknowledged
        if packets <= 0:
            return
        if self._next - self._unacknowledged >= self._window:
            self._open_ns = now
        self._unacknowledged = unacknowledged
        self._retries = self._rnr_retries = 0
        self._recovering = None
        while self._messages and self._messages[0].first + self._messages[0].packets <= unacknowledged:
            self._events.append(Sent(self._messages.popleft().id))
            self._current -= 1
        if self._next <= unacknowledged:
            self._next, self._current = unacknowledged, 0
        self._congestion.on_ack(now, packets, rtt_ns, marked)
        self._obey()
        self._hear(Heard.PROGRESS if self._asked > unacknowledged else Heard.SETTLED, now)

    def _hear(self, heard: Heard, now: int, detail: int | str = 0) -> None:
        """Drive the table. `detail`: how long to hold, or why the peer refused."""
        self.state, action = REQUESTER[self.state, heard]
        match action:
            case Action.START_TIMER:
                self._timer_ns = now + self._constants.timeout_ns if self._constants.timeout_ns else None
            case Action.STOP_TIMER:
                self._timer_ns = None
            case Action.GO_BACK:
                self._congestion.on_gap(now)
                self._go_back(now)
                self._recovering = self._unacknowledged
            case Action.RESUME:
                self._go_back(now)
            case Action.RETRY:
                self._retry(now)
            case Action.HOLD:
                self._hold(now, int(detail))
            case Action.FAIL:
                self.fail(f"peer {self._address.peer} refused queue pair {self._address.remote_qp:#x}: {detail}")

    def _obey(self) -> None:
        """Look again at what the congestion control allows."""
        window, most = self._congestion.window_packets, self._constants.window_packets
        self._window = most if window is None else min(most, window)
        self._run_packets = self._congestion.run_packets

    def _go_back(self, now: int) -> None:
        self._obey()
        if self._flights is not None:
            self._flights.forget()
        self._next = self._asked = self._unacknowledged
        self._current = 0
        self._timer_ns = None
        self._open_ns = now
        self._recovering = None

    def _retry(self, now: int) -> None:
        self._counters.timeouts += 1
        self._congestion.on_timeout(now)
        if self._retries == self._constants.retries:
            self.fail(
                f"peer {self._address.peer} (queue pair {self._address.remote_qp:#x}) acknowledges nothing from PSN "
                f"{self._unacknowledged & 0xFFFFFF:#08x} on, after {self._retries} retries of "
                f"{self._constants.timeout_ns} ns"
            )
            return
        self._retries += 1
        self._go_back(now)

    def _hold(self, now: int, wait_ns: int) -> None:
        if self._rnr_retries == self._constants.rnr_retries:
            self.fail(
                f"peer {self._address.peer} (queue pair {self._address.remote_qp:#x}) has no receive posted for PSN "
                f"{self._unacknowledged & 0xFFFFFF:#08x}, after {self._rnr_retries} retries"
            )
            return
        self._rnr_retries += 1
        self._timer_ns = now + wait_ns

    def _headers(self, message: _Message, index: int, count: int, asks: bool) -> list[bytes]:
        """Of `count` packets from packet `index` of `message`; `asks`: the last asks for an acknowledgement."""
        psn, remote = self._next, self._address.remote_qp
        verb, size = self._constants.verb, message.view.nbytes
        if message.packets == 1 and verb is Verb.WRITE:
            return [only_write(remote, psn & 0xFFFFFF, asks, size, message.tag)]
        pad = pad_bytes(size)
        if message.packets == 1:
            only = Header(SEND_ONLY_IMMEDIATE, remote, psn & 0xFFFFFF, asks, pad, immediate=message.tag)
            return [encode(only)]
        first, middle, last = _OPCODES[verb]
        begins, ends = index == 0, index + count == message.packets
        headers: list[bytes] = []
        if begins:
            reth = Reth(0, message.tag, size) if verb is Verb.WRITE else None
            headers.append(encode(Header(first, remote, psn & 0xFFFFFF, asks and count == 1, reth=reth)))
        between = count - begins - ends
        if between:
            headers += middle_headers(middle, remote, psn + begins, between, asks and not ends)
        if ends:
            headers.append(encode(Header(last, remote, psn + count - 1 & 0xFFFFFF, asks, pad, immediate=message.tag)))
        return headers
