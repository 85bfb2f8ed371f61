"""Packets that have come to a member and are not taken in yet: sorted as they come, taken in many at once."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from testbed.codec.block_exponent import BIG_ENDIAN
from testbed.transport.aggregation import framing
from testbed.transport.aggregation.seam import AGGREGATOR
from testbed.transport.endpoint import ECN_CE, Arrival, Counters
from testbed.wire.aggregation import VALUE_BYTES


class Inbox:
    """Takes results with `values` values or none, and counts all that comes, by kind what cannot be one."""

    def __init__(self, counters: Counters, values: int, *, roce: bool) -> None:
        self.since_ns = 0  # when the first of those that wait came
        self._counters = counters
        self._chunk_bytes = values * VALUE_BYTES
        self._header_bytes = framing.header_bytes(roce)
        self._headers: list[bytes] = []
        self._values = bytearray()
        self._alone: list[bytes] = []  # headers of exponents alone

    def __len__(self) -> int:
        return len(self._headers) + len(self._alone)

    def put(self, arrival: Arrival, now: int) -> None:
        """Take a run in."""
        count = len(arrival.headers)
        self._counters.received_packets += count
        if arrival.ecn == ECN_CE:
            self._counters.ecn_marked += count
        whole, rest = divmod(len(arrival.payload), self._chunk_bytes)
        if arrival.peer != AGGREGATOR:
            self._counters.refuse("bad_peer", count)
        elif any(len(header) != self._header_bytes for header in arrival.headers):
            self._counters.refuse("bad_header", count)
        elif rest or whole not in (0, count - 1, count):  # exponents alone: all of a run, or what ends it
            self._counters.refuse("bad_length", count)
        else:
            if not self:
                self.since_ns = now
            self._headers += arrival.headers[:whole]
            self._values += arrival.payload
            self._alone += arrival.headers[whole:]

    def empty(self) -> Iterator[tuple[list[bytes], npt.NDArray[np.int32]]]:
        """What waits: headers, and the values behind each (shape (headers, values)); those without values first."""
        if self._alone:
            headers, self._alone = self._alone, []
            yield headers, np.empty((len(headers), 0), np.int32)
        if self._headers:
            headers, self._headers = self._headers, []
            values, self._values = self._values, bytearray()
            yield headers, np.frombuffer(values, BIG_ENDIAN).reshape(len(headers), -1)
