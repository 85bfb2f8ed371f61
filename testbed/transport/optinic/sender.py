"""The sending half of a queue pair: one message after the other into packets that say where they belong, sent once.

Nothing is kept for what may be lost: a message is done when its last packet has left. A congestion control only paces
(source: a reading note of arXiv 2512.22743): one with a window is taken as a rate of so many packets in a round trip,
so that what is lost, packet or hint, holds nothing back (our reading). Loss is no sign of congestion to it. A message
that nobody waits for any longer (`timeout`) is not sent any further.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from testbed.transport.congestion import CongestionControl
from testbed.transport.endpoint import Buffer, Burst, Counters, Event, Sent, as_bytes
from testbed.transport.optinic.parameters import Constants
from testbed.transport.optinic.parity import Parity
from testbed.transport.roce.address import Address
from testbed.transport.roce.flights import Flights, Line
from testbed.transport.roce.parameters import FRAME_BYTES
from testbed.wire.optinic import DATA_BYTES, Data, encode_data
from testbed.wire.roce import Header, pad_bytes

_NS = 10**9


class _Stretch(NamedTuple):
    """Packets of a message that lie end to end: of data from `first` on, or (payload given) parity of such groups."""

    first: int
    packets: int
    parity: memoryview | None


@dataclass(slots=True)
class _Message:
    id: int
    tag: int
    view: memoryview
    sequence: int
    expires_ns: int | None
    dropped_ns: int | None  # when it is, once expired: not before who posted it has had a turn
    stretches: Iterator[_Stretch]
    stretch: _Stretch
    at: int = 0  # packets of the stretch that were sent


@dataclass(slots=True)
class _Left:
    """A message all of which was given out, until its last packet is on the wire."""

    id: int
    at_ns: int


@dataclass(slots=True)
class Sender:
    """PSNs count packets; here they are whole numbers that never wrap."""

    constants: Constants
    address: Address
    congestion: CongestionControl
    counters: Counters
    events: list[Event]
    line: Line
    base_rtt_ns: int
    _messages: deque[_Message] = field(default_factory=deque)
    _left: deque[_Left] = field(default_factory=deque)
    _sequence: int = 0  # of the last work request
    _next: int = 0  # PSN
    _heard: int = 0  # one past the last PSN that a hint told of
    _flights: Flights = field(init=False)
    _rtt_ns: int = field(init=False)
    _open_ns: int = 0  # since when something could be sent, but for the rate
    _departed_ns: int = 0  # of the last run, and its size on the wire
    _departed_bits: int = 0

    def __post_init__(self) -> None:
        self._flights = Flights(self.line, self._packet_bits)
        self._rtt_ns = self.base_rtt_ns

    @property
    def busy(self) -> bool:
        return bool(self._messages or self._left)

    def post(self, id: int, tag: int, buffer: Buffer, expires_ns: int | None, now: int) -> None:
        """Append a message, not to be sent from `expires_ns` on."""
        view = as_bytes(buffer)
        if not self._messages:
            self._open_ns = now
        self._sequence = self._sequence + 1 & 0xFFFFFFFF
        stretches = self._stretches(view)
        dropped_ns = None if expires_ns is None else max(expires_ns, now + 1)
        self._messages.append(
            _Message(id, tag, view, self._sequence, expires_ns, dropped_ns, stretches, next(stretches))
        )

    def ready_ns(self, now: int) -> int | None:
        """The earliest instant at which a run may leave; None: none can."""
        if not self._messages or self._expired(now):
            return None
        rate_bps = self._pace_bps(now)
        if rate_bps is None:
            return now
        gap_ns = self._departed_bits * _NS // rate_bps
        return max(self._departed_ns + gap_ns, self._open_ns, now - gap_ns)  # a late driver catches up by one run

    def deadline(self, now: int) -> int | None:
        """The earliest instant at which there is something to do or the rate may have changed."""
        times = [self._left[0].at_ns] if self._left else []
        if self._messages and (dropped_ns := self._messages[0].dropped_ns) is not None:
            times.append(dropped_ns)
        if (ready_ns := self.ready_ns(now)) is not None:
            times.append(ready_ns)
            if ready_ns > now and (change_ns := self.congestion.deadline()) is not None:
                times.append(change_ns)
        return min(times, default=None)

    def on_deadline(self, now: int) -> None:
        """Tell of what has left, and drop what has expired."""
        while self._left and self._left[0].at_ns <= now:
            self.events.append(Sent(self._left.popleft().id))
        while self._messages and (at_ns := self._messages[0].dropped_ns) is not None and at_ns <= now:
            self.events.append(Sent(self._messages.popleft().id))
            self._open_ns = now
            self.counters.extra["expired"] = self.counters.extra.get("expired", 0) + 1

    def run(self, now: int, ready_ns: int, budget_packets: int) -> Burst:
        """The next run, at most `budget_packets` long; only when `ready_ns` (from the method of that name) has come."""
        constants, message = self.constants, self._messages[0]
        stretch, at = message.stretch, message.at
        count = min(budget_packets, constants.burst_packets, stretch.packets - at)
        asks = self.congestion.run_packets is not None
        if self.congestion.run_packets is not None:
            count = min(count, self.congestion.run_packets)
        headers, payload = self._packets(message, count, asks)
        wire_bytes = len(payload) + pad_bytes(len(payload)) + sum(map(len, headers)) + count * FRAME_BYTES
        again = not asks  # of what no hint will tell
        self._flights.left(self._next, self._next + count, max(now, ready_ns), 8 * wire_bytes, again=again)
        self.counters.sent_packets += count
        self.counters.sent_bytes += len(payload)
        if stretch.parity is not None:
            self.counters.extra["parity_packets"] = self.counters.extra.get("parity_packets", 0) + count
        self._next += count
        message.at += count
        if message.at == stretch.packets:
            self._go_on(message)
        self._departed_ns, self._departed_bits = ready_ns, 8 * wire_bytes
        self.congestion.on_sent(now, wire_bytes)
        own = self.address
        return Burst(
            own.peer, own.source_port, constants.dscp, self.congestion.ecn, ready_ns, constants.mtu_bytes, headers,
            payload,
        )  # fmt: skip

    def hint(self, header: Header, now: int) -> str | None:
        """Take a hint in; what is bad about it, if anything."""
        assert header.aeth is not None
        sequence = self._next - (self._next - header.psn & 0xFFFFFF or 1 << 24)
        if sequence < 0 or not header.aeth.msn:
            return "bad_acknowledgement"
        if sequence < self._heard:
            return None  # overtaken by a later one
        packets = min(header.aeth.msn, sequence + 1 - self._heard)  # of those that came twice, both are told
        self._heard = sequence + 1
        rtt_ns = self._flights.rtt_ns(sequence, now)
        if rtt_ns is not None:
            self._rtt_ns = rtt_ns
        self.congestion.on_ack(now, packets, rtt_ns, header.becn)
        return None

    @property
    def _packet_bits(self) -> int:
        return 8 * (self.constants.mtu_bytes + DATA_BYTES + FRAME_BYTES)

    def _expired(self, now: int) -> bool:
        expires_ns = self._messages[0].expires_ns
        return expires_ns is not None and expires_ns <= now

    def _pace_bps(self, now: int) -> int | None:
        """The rate of the congestion control, or what its window comes to."""
        rate_bps, window = self.congestion.rate_bps(now), self.congestion.window_packets
        if window is None:
            return rate_bps
        windowed_bps = window * self._packet_bits * _NS // self._rtt_ns
        return windowed_bps if rate_bps is None else min(rate_bps, windowed_bps)

    def _stretches(self, view: memoryview) -> Iterator[_Stretch]:
        packets = max(1, -(-view.nbytes // self.constants.mtu_bytes))
        parity: Parity | None = self.constants.parity
        if parity is None or not view.nbytes:
            yield _Stretch(0, packets, None)
            return
        for block in parity.blocks(packets):
            yield _Stretch(block.first, block.packets, None)
            yield _Stretch(block.first, block.groups, parity.of(block, view))

    def _packets(self, message: _Message, count: int, asks: bool) -> tuple[tuple[bytes, ...], memoryview]:
        """The next `count` headers of a message, and their payloads; `asks`: the last wants a hint."""
        mtu_bytes, stretch = self.constants.mtu_bytes, message.stretch
        begin = message.at * mtu_bytes
        if stretch.parity is None:
            begin += stretch.first * mtu_bytes
            payload = message.view[begin : begin + count * mtu_bytes]
        else:
            payload = stretch.parity[begin : begin + count * mtu_bytes]
        first = stretch.first + message.at
        last = count - 1
        headers = tuple(
            encode_data(
                Data(
                    self.address.remote_qp,
                    self._next + index & 0xFFFFFF,
                    asks and index == last,
                    stretch.parity is not None,
                    (first + index) * mtu_bytes,
                    message.tag,
                    mtu_bytes if index < last else len(payload) - last * mtu_bytes,
                    message.sequence,
                )
            )
            for index in range(count)
        )
        return headers, payload

    def _go_on(self, message: _Message) -> None:
        """A stretch of the message is out: on to the next, or to the next message."""
        following = next(message.stretches, None)
        if following is not None:
            message.stretch, message.at = following, 0
            return
        self._messages.popleft()
        self._left.append(_Left(message.id, self.line.free_ns))
