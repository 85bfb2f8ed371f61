"""Round trips of packets that were sent once, for a congestion control that asks for them.

An endpoint cannot see when its NIC sends, but it knows what it handed over and the line's rate, as the NIC does: runs
leave one after the other, none before the instant it was handed over or asked for. A NIC that is held back by PFC or by
the kernel is later than that, and the wait counts as part of the round trip. Packets that were sent again tell nothing,
since which copy was acknowledged is not known (Karn and Partridge, SIGCOMM 1987).
"""

from collections import deque
from typing import NamedTuple


class Line:
    """The line of a NIC, which all queue pairs of an endpoint share."""

    def __init__(self, rate_bps: int) -> None:
        self.rate_bps = rate_bps
        self._free = 0  # in nanoseconds / rate, so that no remainder is ever lost

    def leave(self, at_ns: int, bits: int) -> int:
        """When a run of so many bits, to leave at `at_ns` or later, begins to do so."""
        begins = max(at_ns * self.rate_bps, self._free)
        self._free = begins + bits * 10**9
        return begins // self.rate_bps

    @property
    def free_ns(self) -> int:
        """When all that was handed over has left."""
        return -(-self._free // self.rate_bps)


class _Run(NamedTuple):
    first: int
    end: int  # sequence numbers [first, end)
    begins_ns: int


class Flights:
    """The runs of one queue pair that are under way, in order. A full packet takes `packet_bits` of the line."""

    def __init__(self, line: Line, packet_bits: int) -> None:
        self._line = line
        self._packet_bits = packet_bits
        self._runs: deque[_Run] = deque()

    def left(self, first: int, end: int, at_ns: int, bits: int, *, again: bool) -> None:
        """The packets [first, end) were handed over; `again`: some of them not for the first time."""
        begins_ns = self._line.leave(at_ns, bits)
        if not again:
            self._runs.append(_Run(first, end, begins_ns))

    def forget(self) -> None:
        """All that is under way will be sent again."""
        self._runs.clear()

    def rtt_ns(self, sequence: int, now: int) -> int | None:
        """The round trip of the packet `sequence`, which is acknowledged now with all before it."""
        runs = self._runs
        while runs and runs[0].end <= sequence:
            runs.popleft()
        if not runs or sequence < runs[0].first:
            return None
        run = runs.popleft() if runs[0].end == sequence + 1 else runs[0]
        before_bits = (sequence - run.first) * self._packet_bits
        return max(1, now - run.begins_ns - before_bits * 10**9 // self._line.rate_bps)
