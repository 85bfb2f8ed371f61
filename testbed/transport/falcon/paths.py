"""The paths of a connection: each with a flow label, a window, its round trip, and when it is left for another."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from testbed.transport.congestion import CongestionControl
from testbed.transport.falcon.parameters import Constants
from testbed.transport.selective.pacing import Pacer

_PORTS = 16  # of a label; a driver may keep a socket for each


@runtime_checkable
class _Aims(Protocol):
    """A congestion control that aims at a delay, such as Swift."""

    def target_ns(self) -> float: ...


class FlowPath:
    """One path. `port(label, turn)` gives the UDP source port of a label that was changed so often.

    sent: places on the path so far, one for each transmission; there: the last place known to have come through.
    """

    def __init__(
        self, label: int, constants: Constants, control: CongestionControl, port: Callable[[int, int], int]
    ) -> None:
        self.label = label
        self.control = control
        self.pacer = Pacer(control)
        self.sent = 0
        self.there = -1
        self.delivered = 0  # packets that no answer of this path told of yet
        self.unasked = 0  # packets since the last that asked for an answer
        self.turns = 0
        self.rtt_ns: int | None = None  # the last, and smoothed
        self.smoothed_ns: int | None = None
        self.source_port = port(label, 0)
        self._constants = constants
        self._port = port
        self._virtual = 0.0
        self._round_ends_ns = 0
        self._samples = self._congested = self._rounds = 0

    @property
    def window(self) -> int | None:
        return self.control.window_packets

    def next_place(self) -> int:
        self.sent += 1
        return self.sent - 1

    def sampled(self, rtt_ns: int, now: int) -> None:
        """An answer told of a round trip."""
        weight, before = self._constants.rtt_smoothing, self.smoothed_ns
        self.rtt_ns = rtt_ns
        self.smoothed_ns = rtt_ns if before is None else round(weight * before + (1 - weight) * rtt_ns)
        if isinstance(self.control, _Aims):
            self._balance(rtt_ns > self._constants.plb_delay * self.control.target_ns(), now)

    def timeout_ns(self) -> int:
        """How long a packet is waited for."""
        constants = self._constants
        if self.smoothed_ns is None:
            return max(constants.rto_initial_ns, constants.rto_least_ns)
        return max(round(constants.rto_factor * self.smoothed_ns), constants.rto_least_ns)

    def rack_ns(self) -> int:
        """How long a packet is waited for once a later one of the path is there."""
        if self.rtt_ns is None or self.smoothed_ns is None:
            return self.timeout_ns()
        return self.rtt_ns + round(self._constants.rack_factor * self.smoothed_ns)

    def change(self) -> None:
        """Leave it for another path through the network."""
        self.turns += 1
        self.source_port = self._port(self.label, self.turns % _PORTS)
        self._rounds = self._samples = self._congested = 0

    def _balance(self, congested: bool, now: int) -> None:
        """PLB: count an answer; a round is a round trip."""
        self._samples += 1
        self._congested += congested
        if now < self._round_ends_ns:
            return
        share = self._congested / self._samples
        self._rounds = self._rounds + 1 if share > self._constants.plb_share else 0
        self._samples = self._congested = 0
        self._round_ends_ns = now + (self.smoothed_ns or 0)
        if self._rounds >= self._constants.plb_rounds:
            self.change()

    def took(self, packets: int) -> None:
        """It was given so many packets."""
        self._virtual += packets / (self.window or 1)

    @property
    def virtual(self) -> float:
        """The packets it was given, by its window: who has least is next."""
        return self._virtual


def choose(paths: Sequence[FlowPath], now: int) -> tuple[FlowPath, int]:
    """The path of the next run of new packets, by weighted round robin, and when it may leave."""
    ready = [(path.pacer.ready_ns(now), path) for path in paths]
    free = [path for at_ns, path in ready if at_ns <= now]
    if free:
        return min(free, key=lambda path: path.virtual), now
    at_ns, path = min(ready, key=lambda each: each[0])
    return path, at_ns
