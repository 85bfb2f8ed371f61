"""The seam between an aggregation transport and whoever drives it: like `testbed.transport.endpoint`, with one post.

There is no peer: every packet goes to, or comes from, the job's aggregator, which is `AGGREGATOR` in bursts and
arrivals. All members of a job post the same reductions in the same order; how many are under way at once is free.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt

from testbed.transport.endpoint import Arrival, Burst, Counters, Failed, Path
from testbed.transport.settings import Settings

AGGREGATOR = -1


@dataclass(frozen=True, slots=True)
class Member:
    """Who an endpoint is in its job: `worker` is its index at the switch that takes its packets in; `workers` is how
    many contributions make the sum, over all switches."""

    job: int
    worker: int
    workers: int


@dataclass(frozen=True, slots=True)
class Reduced:
    """The reduction `id` is done: its buffer holds the sum of all members' buffers, and nothing reads it any more.

    `missing` are the byte ranges [first, last) where it holds what it held, as no sum has come (reliable: none)."""

    id: int
    missing: tuple[tuple[int, int], ...] = ()


ReduceEvent = Reduced | Failed


@runtime_checkable
class ReduceEndpoint(Protocol):
    """One member's end. Every method returns at once; none blocks, sleeps or raises on bad packets."""

    counters: Counters

    def post_reduce(self, id: int, buffer: npt.NDArray[Any], now: int) -> None:
        """Sum `buffer` (1-D, contiguous, float32, float16 or int32, any length, also 0) over all members, in place;
        ends in `Reduced(id)` or `Failed(id)`. It must be left alone until then."""

    def receive(self, arrival: Arrival, now: int) -> None:
        """Take a run in."""

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        """What may leave now, at most `budget_packets` packets."""

    def deadline(self) -> int | None:
        """The earliest instant at which `on_deadline` or `transmit` may have something to do; None: nothing pending."""

    def on_deadline(self, now: int) -> None:
        """The clock has reached `deadline()`."""

    def events(self) -> Sequence[ReduceEvent]:
        """What was completed since the last call, in order."""

    def idle(self) -> bool:
        """No reduction is under way."""


MakeReduce = Callable[[Path, Member, Settings], ReduceEndpoint]
