"""One iteration of one rank whose buffers the network sums up: all layers are handed over at the start, in order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt

from testbed.collective.executor import Gap
from testbed.transport.aggregation import AGGREGATOR, ReduceEvent
from testbed.transport.endpoint import Failed


class Summing(Protocol):
    """What sums buffers up: a NIC with its endpoint."""

    def post_reduce(self, id: int, buffer: npt.NDArray[Any], now: int) -> None: ...


class SumIteration:
    """Sums each of `buffers` over all ranks, in place. Times are model nanoseconds; there is one step, number 0.

    first_id: of `len(buffers)` reductions that no earlier iteration had. step_delays: as in `Iteration`.
    """

    def __init__(
        self,
        buffers: Sequence[npt.NDArray[Any]],
        summing: Summing,
        first_id: int,
        step_delays: Mapping[int, int],
    ) -> None:
        self.failure: str | None = None
        self.received_ns: int | None = None
        self.received_bytes = self.missing_bytes = 0
        self.gaps: list[Gap] = []  # as those of `Iteration`
        self._buffers = buffers
        self._summing = summing
        self._first_id = first_id
        self._delay_ns = step_delays.get(0, 0)
        self._held_until_ns: int | None = None
        self._left = set(range(len(buffers)))
        self._progress_ns = 0

    @property
    def done(self) -> bool:
        return not self._left

    @property
    def skipped(self) -> bool:
        return False

    def prepare(self, now: int) -> None:
        """Results need no place of their own."""

    def start(self, now: int) -> None:
        self._held_until_ns = now + self._delay_ns
        self.go_on(now)

    def on_events(self, events: Iterable[ReduceEvent], now: int) -> None:
        for event in events:
            if isinstance(event, Failed):
                self.failure = event.reason
                return
            layer = event.id - self._first_id
            self._left.discard(layer)
            lost = sum(last - first for first, last in event.missing)
            self.missing_bytes += lost
            begins = sum(buffer.nbytes for buffer in self._buffers[:layer])
            self.gaps += [Gap(0, AGGREGATOR, begins + first, begins + end) for first, end in event.missing]
            self.received_bytes += self._buffers[layer].nbytes - lost
            self.received_ns = self._progress_ns = now

    def wake_ns(self) -> int | None:
        return self._held_until_ns

    def go_on(self, now: int) -> None:
        if self._held_until_ns is not None and self._held_until_ns <= now:
            self._held_until_ns, self._progress_ns = None, now
            for layer, buffer in enumerate(self._buffers):
                self._summing.post_reduce(self._first_id + layer, buffer, now)

    def waiting_for(self, now: int) -> str:
        """In words: which layer's sum is not there, and since when nothing has been."""
        if self._held_until_ns is not None:
            return f"a stall of {(self._held_until_ns - now) / 1e6:.3f} ms more (model time)"
        if not self._left:
            return ""
        which = f" of layer {min(self._left)}" if len(self._buffers) > 1 else ""
        return f"the sum{which}, nothing whole for {(now - self._progress_ns) / 1e6:.3f} ms (model time)"
