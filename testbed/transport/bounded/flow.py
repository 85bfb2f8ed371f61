"""All that goes on between a rank and one peer: the messages of both directions, and what each is to be told."""

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from testbed.transport.bounded.dialect import Dialect
from testbed.transport.bounded.feedback import Listener, Teller
from testbed.transport.bounded.incoming import Incoming
from testbed.transport.bounded.machine import Sending
from testbed.transport.bounded.outgoing import Outgoing, Patience
from testbed.transport.endpoint import (
    ECN_CE,
    ECN_NOT_ECT,
    Buffer,
    Burst,
    Counters,
    Event,
    Failed,
    Received,
    Sent,
)
from testbed.transport.tcp_model.timer import RetransmissionTimeout
from testbed.wire import MalformedError
from testbed.wire.bounded import Data, Feedback, Heard, Holes, Notice, Probe, Stop

_NOTHING = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Limits:
    """What all flows of an endpoint have in common."""

    burst_packets: int
    frame_bytes: int  # what is on the wire of a packet besides header and payload
    base_rtt_ns: int  # STOP is said again to who goes on sending, at most once in so long
    patience: Patience


class _Answer(NamedTuple):
    """What is to be told about an incoming message; number: of the PROBE, None where nobody asked."""

    stop: bool
    number: int | None


class Flow:
    """With `peer`. Packets leave from the UDP ports that `port` gives, one after the other; `leave(at_ns, bits)` is
    told of what else takes the NIC's line; a run has `run_packets` at most, whatever a congestion control says.
    """

    def __init__(
        self,
        peer: int,
        dialect: Dialect,
        limits: Limits,
        listener: Listener,
        port: Callable[[], int],
        leave: Callable[[int, int], object],
        counters: Counters,
        events: list[Event],
        *,
        run_packets: int,
    ) -> None:
        self._peer = peer
        self._dialect = dialect
        self._limits = limits
        self._listener = listener
        self._port = port
        self._leave = leave
        self._counters = counters
        self._events = events
        self._run_packets = run_packets
        self._order = 0
        self._outgoing: dict[int, Outgoing] = {}  # by tag, until they end
        self._queue: list[tuple[int, int, Outgoing]] = []  # with chunks to send, the next first
        self._incoming: dict[int, Incoming] = {}  # by tag, until they are complete
        self._stopped: dict[int, int] = {}  # those that are complete, and when STOP was last said
        self._answers: dict[int, _Answer] = {}  # due, by tag
        self._teller = Teller()
        self._rtts = RetransmissionTimeout(limits.patience.timeout_ns, limits.base_rtt_ns)  # of PROBEs
        self._notify = False
        self._open_ns = 0  # since when something could be sent, but for the rate
        self._departed_ns = 0  # of the last run, and its size on the wire
        self._departed_bits = 0

    @property
    def busy(self) -> bool:
        return bool(self._outgoing) or self.speaks

    @property
    def speaks(self) -> bool:
        """Something that is no data is due."""
        return bool(
            self._answers or self._teller.due or self._notify or any(m.probe_due for m in self._outgoing.values())
        )

    def post_send(self, id: int, tag: int, view: memoryview, now: int) -> None:
        """Send a message."""
        treatment = self._dialect.treatment(id, view)
        message = Outgoing(id, tag, view, self._dialect.chunk_bytes, treatment, self._limits.patience)
        if not self._queue:
            self._open_ns = now
        self._outgoing[tag] = message
        self._enqueue(message)

    def post_receive(self, id: int, tag: int, view: memoryview, bound: float) -> None:
        """Receive a message, of which `bound` may be missing."""
        dialect = self._dialect
        self._stopped.pop(tag, None)
        self._incoming[tag] = Incoming(id, view, dialect.chunk_bytes, bound, by_bytes=dialect.by_bytes)

    def forget(self) -> None:
        """What was posted so far is complete at both ends."""
        self._stopped.clear()

    def receive(self, data: bytes, payload: memoryview, ecn: int, now: int) -> str | None:
        """Take a packet in; what is bad about it, if anything."""
        try:
            heard = self._dialect.decode(data, payload)
        except MalformedError:
            return "bad_header"
        return self._take(heard, ecn, payload, now)

    def ready_ns(self, now: int) -> int | None:
        """The earliest instant at which a run may leave; None: not before something is heard."""
        room = self._listener.room
        if not self._queue or (room is not None and room <= 0):
            return None
        rate_bps = self._listener.control.rate_bps(now)
        if rate_bps is None:
            return now
        gap_ns = self._departed_bits * 10**9 // rate_bps
        return max(self._departed_ns + gap_ns, self._open_ns, now - gap_ns)  # a late driver catches up by one run

    def deadline(self, now: int) -> int | None:
        """The earliest instant at which there is something to do; None: nothing is pending."""
        if self.speaks:
            return now
        due = [m.expires_ns for m in self._outgoing.values() if m.expires_ns is not None]
        if self._listener.expires_ns is not None:
            due.append(self._listener.expires_ns)
        ready_ns = self.ready_ns(now)
        if ready_ns is not None:
            due.append(ready_ns)
            if ready_ns > now and (change_ns := self._listener.control.deadline()) is not None:
                due.append(max(now + 1, change_ns))
        return min(due, default=None)

    def on_deadline(self, now: int) -> None:
        """Do what timers are for that have run out."""
        if self._listener.on_deadline(now, waited_for=bool(self._queue)):
            self._counters.timeouts += 1
            self._open_ns = now
        for message in list(self._outgoing.values()):
            if message.expires_ns is not None and message.expires_ns <= now:
                self._counters.timeouts += 1
                message.on_deadline(now)
                self._settle(message)

    def speak(self, now: int, budget_packets: int) -> list[Burst]:
        """What is due besides data, at most so many packets."""
        bursts: list[Burst] = []
        dialect, tos = self._dialect, self._dialect.control_tos
        while self._teller.due and len(bursts) < budget_packets:
            feedback = self._teller.due.popleft()
            bursts.append(self._packet(dialect.feedback(feedback.sequence, marked=feedback.marked), tos, now))
        if self._notify and len(bursts) < budget_packets:
            self._notify = False
            self._counters.cnps += 1
            bursts.append(self._packet(dialect.notice(), tos, now))
        while self._answers and len(bursts) < budget_packets:
            tag = next(iter(self._answers))
            bursts += self._answer(tag, self._answers.pop(tag), now)
        for message in self._outgoing.values():
            if message.probe_due and len(bursts) < budget_packets:
                message.probed(now, self._rtts)
                self._count("probes_sent")
                dscp = message.treatment.tos[0][0]
                bursts.append(self._packet(dialect.probe(message.tag, message.number), (dscp, ECN_NOT_ECT), now))
        return bursts

    def run(self, now: int, ready_ns: int, budget_packets: int) -> Burst:
        """The next run, at most so long; only when `ready_ns` (from the method of that name) has come."""
        listener, message = self._listener, self._queue[0][2]
        most = min(budget_packets, self._run_packets, *(x for x in (listener.room, listener.control.run_packets) if x))
        first, end, kind = message.next_run(most)
        view, size, dialect = message.view, self._dialect.chunk_bytes, self._dialect
        headers = tuple(
            dialect.data(
                message.tag,
                chunk,
                view[chunk * size : (chunk + 1) * size],
                message.treatment,
                listener.next + chunk - first,
                asks=listener.asks and chunk + 1 == end,
            )
            for chunk in range(first, end)
        )
        payload = view[first * size : end * size]
        wire_bytes = len(payload) + sum(map(len, headers)) + len(headers) * self._limits.frame_bytes
        listener.left(end - first, now, max(now, ready_ns), wire_bytes)
        self._departed_ns, self._departed_bits = ready_ns, 8 * wire_bytes
        self._counters.sent_packets += end - first
        self._counters.sent_bytes += len(payload)
        self._counters.retransmitted_packets += message.left(first, end)
        self._settle(message)
        dscp, ecn = message.treatment.tos[kind]
        return Burst(self._peer, self._port(), dscp, ecn, ready_ns, size, headers, payload)

    def _take(self, heard: Heard, ecn: int, payload: memoryview, now: int) -> str:
        match heard:
            case Data():
                return self._data(heard, ecn, payload, now)
            case Probe(tag, number):
                self._probed(tag, number)
            case Stop(tag):
                if message := self._outgoing.get(tag):
                    self._time(message, now)
                    message.stopped()
                    self._settle(message)
            case Holes(tag, first, number):
                if message := self._outgoing.get(tag):
                    self._time(message, now)
                    if not message.holes(first, number, payload):
                        return "bad_bitmap"
                    self._settle(message)
            case Feedback():
                room = self._listener.room
                if not self._listener.hear(heard, now):
                    return "bad_feedback"
                if room is not None and room <= 0:
                    self._open_ns = now
            case Notice():
                self._count("cnps_received")
                self._listener.control.on_cnp(now)
        return ""

    def _time(self, message: Outgoing, now: int) -> None:
        """An answer has come; STOP may be one to data that left before the PROBE, or even to earlier ones."""
        if (rtt_ns := message.rtt_ns(now)) is not None:
            self._rtts.sample(max(rtt_ns, self._limits.base_rtt_ns))

    def _data(self, data: Data, ecn: int, payload: memoryview, now: int) -> str:
        message = self._incoming.get(data.tag)
        if message is not None and not message.fits(data.chunk, len(payload)):
            return "bad_chunk"
        if self._listener.asks:
            self._teller.take(data.sequence, ecn, asks=data.asks)
        if ecn == ECN_CE and self._listener.control.on_marked(now):
            self._notify = True
        if message is None:
            self._useless(data.tag, now)
        elif not message.take(data.chunk, payload):
            self._counters.duplicates += 1
        else:
            self._counters.received_bytes += len(payload)
            if message.content:
                self._complete(data.tag, message, now)
        return ""

    def _useless(self, tag: int, now: int) -> None:
        """Something of a message that is complete, or that nobody has asked for yet, which will be sent again."""
        stopped_ns = self._stopped.get(tag)
        if stopped_ns is None:
            self._count("unexpected")
            return
        self._counters.duplicates += 1
        if now - stopped_ns >= self._limits.base_rtt_ns:
            self._say_stop(tag, now)

    def _complete(self, tag: int, message: Incoming, now: int) -> None:
        del self._incoming[tag]
        self._say_stop(tag, now)
        missing = message.there.missing()
        self._dialect.received(message.id, message.view, missing)
        self._events.append(Received(message.id, missing))

    def _say_stop(self, tag: int, now: int) -> None:
        self._stopped[tag] = now
        self._answers[tag] = _Answer(stop=True, number=None)

    def _probed(self, tag: int, number: int | None) -> None:
        if tag in self._stopped:
            self._answers[tag] = _Answer(stop=True, number=None)
        elif tag in self._incoming:
            self._answers[tag] = _Answer(stop=False, number=number)

    def _answer(self, tag: int, answer: _Answer, now: int) -> list[Burst]:
        """STOP, or the bitmap in as many packets as it takes."""
        dialect, message = self._dialect, self._incoming.get(tag)
        if answer.stop or message is None:
            self._stopped[tag] = now
            self._count("stops_sent")
            return [self._packet(dialect.stop(tag), dialect.control_tos, now)]
        most = 8 * dialect.chunk_bytes
        bursts = []
        for first in range(0, message.there.chunks, most):
            packed = message.there.packed(first, most)
            header = dialect.holes(tag, first, answer.number or 0, len(packed))
            bursts.append(self._packet(header, dialect.control_tos, now, packed))
        self._count("bitmaps_sent", len(bursts))
        return bursts

    def _settle(self, message: Outgoing) -> None:
        """Have it where it belongs after what has happened to it."""
        if message.state is Sending.DONE:
            del self._outgoing[message.tag]
            self._events.append(Sent(message.id))
        elif message.state is Sending.FAILED:
            del self._outgoing[message.tag]
            patience = self._limits.patience
            reason = (
                f"peer {self._peer} answers nothing about message {message.tag}, after {patience.probes} repeated "
                f"PROBEs of up to {patience.timeout_ns} ns"
            )
            self._events += [Failed(message.id, self._peer, reason), Failed(-1, self._peer, reason)]
        queued = any(entry[2] is message for entry in self._queue)
        if message.sends and not queued:
            self._count("repair_rounds")
            self._enqueue(message)
        elif queued and not message.sends:
            self._queue = [entry for entry in self._queue if entry[2] is not message]

    def _enqueue(self, message: Outgoing) -> None:
        insort(self._queue, (message.treatment.priority, self._order, message), key=lambda entry: entry[:2])
        self._order += 1

    def _packet(self, header: bytes, tos: tuple[int, int], now: int, payload: Buffer = _NOTHING) -> Burst:
        self._counters.sent_packets += 1
        self._counters.sent_bytes += len(payload)
        self._leave(now, 8 * (len(header) + len(payload) + self._limits.frame_bytes))
        return Burst(self._peer, self._port(), *tos, now, len(payload), (header,), payload)

    def _count(self, name: str, count: int = 1) -> None:
        self._counters.extra[name] = self._counters.extra.get(name, 0) + count
