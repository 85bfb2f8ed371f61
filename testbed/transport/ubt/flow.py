"""What goes to one peer: its rate, and the round trips that tell what it should be.

Rate control is there to avoid collapse and brings nothing back (a reading note). Of a congestion control only its rate
is heeded, as nothing is acknowledged that a window could count; what it asks for are round trips, and a receiver
answers one packet in so many for it (recalled: about ten).
"""

from collections import deque
from typing import NamedTuple

from testbed.transport.congestion import CongestionControl
from testbed.transport.roce.flights import Line
from testbed.transport.ubt.outgoing import Outgoing
from testbed.transport.ubt.parameters import packet_bits


class _Run(NamedTuple):
    bucket: int
    offsets: range
    begins_ns: int


class Flow:
    """The packets to one peer, from `source_port`."""

    def __init__(self, source_port: int, control: CongestionControl, line: Line, mtu_bytes: int) -> None:
        self.source_port = source_port
        self.control = control
        self.ready_ns = 0  # when the next run may leave
        self._line = line
        self._packet_bits = packet_bits(mtu_bytes)
        self._runs: deque[_Run] = deque()  # whose round trips are not known yet

    @property
    def asks(self) -> bool:
        """Its control wants round trips."""
        return self.control.run_packets is not None

    def left(self, message: Outgoing, offsets: range, wire_bytes: int, now: int, *, again: bool) -> None:
        """A run has been handed over; `again`: not for the first time."""
        begins_ns = self._line.leave(now, 8 * wire_bytes)
        self.control.on_sent(now, wire_bytes)
        if self.asks and not again:
            self._runs.append(_Run(message.bucket, offsets, begins_ns))
        rate_bps = self.control.rate_bps(now)
        if rate_bps is not None:
            self.ready_ns = max(now, self.ready_ns) + 8 * wire_bytes * 10**9 // rate_bps

    def answered(self, bucket: int, offset: int, packets: int, now: int) -> None:
        """The peer has the packet at `offset`, and tells of so many."""
        if self.asks:
            self.control.on_ack(now, packets, self._rtt_ns(bucket, offset, now), False)

    def forget(self) -> None:
        """Who is asked for a round trip from before will never answer."""
        self._runs.clear()

    def _rtt_ns(self, bucket: int, offset: int, now: int) -> int | None:
        for index, run in enumerate(self._runs):
            if run.bucket == bucket and offset in run.offsets:
                for _ in range(index):
                    self._runs.popleft()
                before = run.offsets.index(offset) * self._packet_bits
                return max(1, now - run.begins_ns - before * 10**9 // self._line.rate_bps)
        return None
