"""The seam between a queue pair and its congestion control: what it hears, and the rate and window it answers with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from testbed.transport.endpoint import ECN_NOT_ECT, Path
from testbed.transport.parameters import Parameter, Values


class CongestionControl(Protocol):
    """Both ends of one queue pair: reaction as sender, notification as receiver. Times in model nanoseconds.

    The two attributes in packets may change whenever it hears of something; they are looked at again after `on_ack`,
    `on_gap` and `on_timeout`.
    """

    ecn: int
    """The ECN field of data packets."""

    window_packets: int | None
    """At most so many packets unacknowledged, at least 1; None: the transport's window alone."""

    run_packets: int | None
    """A run is at most so long, and asks for an acknowledgement that tells its round trip and whether it was marked.
    None: acknowledgements come by the transport's own rule and tell neither."""

    def on_sent(self, now: int, wire_bytes: int) -> None:
        """A run has left."""

    def on_ack(self, now: int, packets: int, rtt_ns: int | None, marked: bool) -> None:
        """So many packets more were acknowledged, and came marked or not. rtt_ns: from when the last of them began to
        leave, its own serialisation included; None: not known (it was sent twice, or `run_packets` is None)."""

    def on_cnp(self, now: int) -> None:
        """The peer says that our packets were marked."""

    def on_gap(self, now: int) -> None:
        """The peer misses a packet."""

    def on_timeout(self, now: int) -> None:
        """No acknowledgement came in time."""

    def on_marked(self, now: int) -> bool:
        """A data packet of the peer came marked; whether a CNP is to be sent."""

    def rate_bps(self, now: int) -> int | None:
        """At most so fast (wire bits, as the link counts them); None: the line's rate."""

    def deadline(self) -> int | None:
        """When the rate next changes by itself."""


class Indifferent:
    """Hears all and does nothing; a congestion control overrides what it reacts to."""

    ecn = ECN_NOT_ECT
    window_packets: int | None = None
    run_packets: int | None = None

    def on_sent(self, now: int, wire_bytes: int) -> None:
        pass

    def on_ack(self, now: int, packets: int, rtt_ns: int | None, marked: bool) -> None:
        pass

    def on_cnp(self, now: int) -> None:
        pass

    def on_gap(self, now: int) -> None:
        pass

    def on_timeout(self, now: int) -> None:
        pass

    def on_marked(self, now: int) -> bool:  # noqa: ARG002
        return False

    def rate_bps(self, now: int) -> int | None:  # noqa: ARG002
        return None

    def deadline(self) -> int | None:
        return None


class Windowed(Indifferent):
    """What those that hold a window have in common."""

    def _allow(self, packets: float) -> None:
        """The window from now on; runs are a quarter of it, as acknowledgements clock what leaves (our choice)."""
        self.window_packets = max(1, int(packets))
        self.run_packets = max(1, int(packets) // 4)


@dataclass(frozen=True, slots=True)
class Congestion:
    """A registered congestion control. `make(path, values)` makes that of one queue pair.

    The rules of its parameters see the values of the transport's parameters beside their own. quiet: as long as it
    hears of no mark, no CNP, no gap and no timeout it says what `Indifferent` does, but for the ECN field.
    """

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    make: Callable[[Path, Values], CongestionControl]
    quiet: bool = False
