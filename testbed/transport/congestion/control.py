"""The seam between a queue pair and its congestion control: what it hears, and the rate it answers with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from testbed.transport.endpoint import Path
from testbed.transport.parameters import Parameter, Values


class CongestionControl(Protocol):
    """Both ends of one queue pair: reaction as sender, notification as receiver. Times in model nanoseconds."""

    ecn: int
    """The ECN field of data packets."""

    def on_sent(self, now: int, wire_bytes: int) -> None:
        """A run has left."""

    def on_ack(self, now: int, packets: int) -> None:
        """So many packets more were acknowledged."""

    def on_cnp(self, now: int) -> None:
        """The peer says that our packets were marked."""

    def on_timeout(self, now: int) -> None:
        """No acknowledgement came in time."""

    def on_marked(self, now: int) -> bool:
        """A data packet of the peer came marked; whether a CNP is to be sent."""

    def rate_bps(self, now: int) -> int | None:
        """At most so fast (wire bits, as the link counts them); None: the line's rate."""

    def deadline(self) -> int | None:
        """When the rate next changes by itself."""


@dataclass(frozen=True, slots=True)
class Congestion:
    """A registered congestion control. `make(path, values)` makes that of one queue pair."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    make: Callable[[Path, Values], CongestionControl]
