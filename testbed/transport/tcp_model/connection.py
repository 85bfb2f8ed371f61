"""One rank's end of a connection: what it may send, what it acknowledges, and how it recovers from losses.

Source: RFC 9293 (segments, acknowledgements), RFC 5681 and 6582 (congestion control, NewReno's recovery), RFC 6298 (the
timer). Our reading where these leave it open: the window is counted in full segments, as Linux does; a segment that is
not full leaves at once if it is the last of what was posted (ranks set TCP_NODELAY); after a timeout all from the first
unacknowledged byte on is sent again as the window lets it.
"""

import heapq
from collections import deque

from testbed.transport.endpoint import ECN_NOT_ECT, Buffer, Burst, Counters, Event, Failed, as_bytes
from testbed.transport.tcp_model.growth import INITIAL_WINDOW, Growth
from testbed.transport.tcp_model.segment import Segment, encode
from testbed.transport.tcp_model.stream import Incoming, Outgoing
from testbed.transport.tcp_model.timer import RetransmissionTimeout

_BUFFER_BYTES = 4 << 20  # as emulated ranks set SO_RCVBUF
_DUPLICATES = 3  # RFC 5681, 3.2
_RETRIES = 15  # Linux: tcp_retries2
_NOTHING = memoryview(b"")


class Connection:
    """Sequence numbers: unacknowledged <= next <= highest <= end of the stream."""

    def __init__(
        self, peer: int, source_port: int, mss_bytes: int, growth: Growth, counters: Counters, events: list[Event]
    ) -> None:
        self.failure = ""
        self._peer = peer
        self._source_port = source_port
        self._mss = mss_bytes
        self._growth = growth
        self._counters = counters
        self._events = events
        self._outgoing = Outgoing()
        self._unacknowledged = self._next = self._highest = 0
        self._window = INITIAL_WINDOW  # in segments
        self._threshold = float("inf")
        self._duplicates = 0
        self._recover = -1  # what was sent when the last loss was found
        self._recovering = False
        self._again = False  # the first unacknowledged segment is to be sent again
        self._timeout = RetransmissionTimeout()
        self._timer_ns: int | None = None
        self._retries = 0
        self._sent_ns = 0  # when something was sent last
        self._times: deque[tuple[int, int]] = deque()  # (end, instant) of what was sent once
        self._incoming = Incoming(peer, events, self.fail)
        self._expected = 0
        self._ahead: list[tuple[int, int, int, memoryview]] = []  # heap of (first, end, order, bytes) behind a gap
        self._order = 0
        self._acknowledge = False
        self._repeats = 0  # acknowledgements that must go by themselves: each counts as a duplicate

    @property
    def busy(self) -> bool:
        """Something is not acknowledged yet."""
        return self._unacknowledged < self._outgoing.end

    def post_send(self, id: int, tag: int, buffer: Buffer, now: int) -> None:
        if self.failure:
            self._events.append(Failed(id, self._peer, self.failure))
            return
        if not self.busy and now - self._sent_ns > self._timeout.now_ns:
            self._window = min(self._window, INITIAL_WINDOW)  # RFC 5681, 4.1
        self._outgoing.post(id, tag, as_bytes(buffer))

    def post_receive(self, id: int, tag: int, view: memoryview) -> None:
        if self.failure:
            self._events.append(Failed(id, self._peer, self.failure))
        else:
            self._incoming.post(id, tag, as_bytes(view))

    def fail(self, reason: str) -> None:
        """The connection is lost."""
        self.failure = reason
        self._events += [Failed(number, self._peer, reason) for number in self._outgoing.clear()]
        self._incoming.fail(reason)
        self._unacknowledged = self._next = self._highest = self._outgoing.end
        self._timer_ns, self._again = None, False
        self._acknowledge, self._repeats = False, 0

    @property
    def ready(self) -> bool:
        """Something may leave now."""
        return self._acknowledge or self._repeats > 0 or self._again or self._sendable() > 0

    def deadline(self) -> int | None:
        """When the timer runs out."""
        return self._timer_ns

    def on_deadline(self, now: int) -> None:
        if self._timer_ns is None or self._timer_ns > now:
            return
        self._counters.timeouts += 1
        self._retries += 1
        if self._retries > _RETRIES:
            self.fail(f"rank {self._peer} acknowledges nothing, after {_RETRIES} retransmissions")
            return
        if self._retries == 1:
            self._threshold = self._growth.cut(self._window)
        self._timeout.back_off()
        self._window = 1.0
        self._recover, self._recovering, self._duplicates = self._highest, False, 0
        self._next, self._again = self._unacknowledged, False
        self._times.clear()
        self._timer_ns = now + self._timeout.now_ns

    def transmit(self, now: int, budget_packets: int) -> list[Burst]:
        """What may leave, acknowledgements of gaps first."""
        bursts: list[Burst] = []
        left = budget_packets
        while self._repeats and left > 0:
            self._repeats -= 1
            left -= 1
            bursts.append(self._burst(self._next, _NOTHING, now))
        if self._again and left > 0:
            self._again = False
            size = min(self._mss, self._highest - self._unacknowledged)
            bursts.append(self._burst(self._unacknowledged, self._read(self._unacknowledged, size), now))
            self._counters.retransmitted_packets += 1
            left -= 1
        while left > 0 and (size := self._sendable()):
            payload = self._read(self._next, min(size, left * self._mss))
            bursts.append(self._burst(self._next, payload, now))
            left -= bursts[-1].packets
            self._went(len(payload), bursts[-1].packets, now)
        if self._acknowledge and left > 0:
            self._acknowledge = False
            bursts.append(self._burst(self._next, _NOTHING, now))
        return bursts

    def receive(self, segment: Segment, payload: memoryview, now: int) -> bool:
        """Take a segment in; false: it cannot be the peer's."""
        if segment.acknowledged > self._highest:
            return False
        self._heed(segment.acknowledged, now, plain=not len(payload))
        if len(payload) and not self.failure:
            self._place(segment.sequence, payload)
        return True

    # --- the receiving half

    def _place(self, first: int, payload: memoryview) -> None:
        end = first + len(payload)
        if first > self._expected:
            self._counters.out_of_order += 1
            self._repeats += 1
            if end - self._expected <= _BUFFER_BYTES:
                self._order += 1
                heapq.heappush(self._ahead, (first, end, self._order, payload))
            return
        if end <= self._expected:
            self._counters.duplicates += 1
            self._repeats += 1
            return
        self._acknowledge = True
        self._deliver(first, end, payload)
        while self._ahead and self._ahead[0][0] <= self._expected:
            first, end, _, payload = heapq.heappop(self._ahead)
            self._deliver(first, end, payload)

    def _deliver(self, first: int, end: int, payload: memoryview) -> None:
        if end > self._expected:
            before = self._incoming.received_bytes
            payload = payload[self._expected - first :]
            self._expected = end
            self._incoming.take(payload)
            self._counters.received_bytes += self._incoming.received_bytes - before

    # --- the sending half

    def _sendable(self) -> int:
        """Bytes of the stream that may leave now: whole segments, or the last ones there are."""
        flight = self._next - self._unacknowledged
        room = min(int(self._window) * self._mss, _BUFFER_BYTES) - flight
        left = self._outgoing.end - self._next
        if left <= 0 or room <= 0:
            return 0
        if left <= room:
            return left
        return room // self._mss * self._mss

    def _read(self, sequence: int, most_bytes: int) -> memoryview:
        return self._outgoing.read(sequence, self._mss, most_bytes)

    def _went(self, size: int, packets: int, now: int) -> None:
        """New bytes, or after a timeout old ones, have left."""
        end = self._next + size
        if end > self._highest:
            if self._next >= self._highest:
                self._times.append((end, now))
            self._highest = end
        else:
            self._counters.retransmitted_packets += packets
        self._next = end

    def _burst(self, sequence: int, payload: memoryview, now: int) -> Burst:
        size, mss = len(payload), self._mss
        headers = tuple(
            encode(Segment(sequence + at, self._expected), min(mss, size - at)) for at in range(0, max(1, size), mss)
        )
        if size:
            self._acknowledge = False  # these bytes carry it
            self._sent_ns = now
            self._counters.sent_bytes += size
            if self._timer_ns is None:
                self._timer_ns = now + self._timeout.now_ns
        self._counters.sent_packets += len(headers)
        return Burst(self._peer, self._source_port, 0, ECN_NOT_ECT, now, mss if size else 0, headers, payload)

    def _heed(self, acknowledged: int, now: int, *, plain: bool) -> None:
        """An acknowledgement came, in a segment of its own (`plain`) or with bytes."""
        if acknowledged > self._unacknowledged:
            self._advance(acknowledged, now)
        elif plain and acknowledged == self._unacknowledged < self._highest:
            self._duplicates += 1
            if self._recovering:
                self._window += 1
            elif self._duplicates == _DUPLICATES and acknowledged > self._recover:
                self._threshold = self._growth.cut(self._window)
                self._recover, self._recovering, self._again = self._highest, True, True
                self._window = self._threshold + _DUPLICATES
                self._times.clear()

    def _advance(self, acknowledged: int, now: int) -> None:
        segments = (acknowledged - self._unacknowledged) / self._mss
        self._sample(acknowledged, now)
        self._unacknowledged = acknowledged
        self._next = max(self._next, acknowledged)
        self._duplicates = self._retries = 0
        self._timeout.progress()
        self._outgoing.acknowledge(acknowledged, self._events)
        if self._recovering:
            self._recover_from(acknowledged, segments)
        elif self._window < self._threshold:
            self._window += segments
        else:
            self._window = self._growth.grown(self._window, segments, now, self._timeout.smoothed_ns or 0)
        self._timer_ns = now + self._timeout.now_ns if acknowledged < self._highest else None

    def _recover_from(self, acknowledged: int, segments: float) -> None:
        """RFC 6582, 3.2, step 3: all that was lost is there (then the second choice, Linux's), or the next hole is."""
        if acknowledged >= self._recover:
            self._recovering = False
            self._window = self._threshold
        else:
            self._again = True
            self._window = max(1.0, self._window - segments + (1 if segments >= 1 else 0))

    def _sample(self, acknowledged: int, now: int) -> None:
        sent_ns = None
        while self._times and self._times[0][0] <= acknowledged:
            sent_ns = self._times.popleft()[1]
        if sent_ns is not None:
            self._timeout.sample(now - sent_ns)
