"""How a congestion window grows and shrinks: NewReno's (RFC 5681) and CUBIC's (RFC 9438). Windows are in segments.

What is cut after a loss is the window, as Linux does (the RFCs: what is in flight, which acknowledgements of the same
flight have lessened if they come all at once).
"""

from typing import Protocol

INITIAL_WINDOW = 10.0  # RFC 6928
LEAST_THRESHOLD = 2.0  # RFC 5681, equation 4
_C = 0.4  # RFC 9438, 5.1
_BETA = 0.7  # RFC 9438, 4.6
_RENO_BETA = 0.5


class Growth(Protocol):
    """The window's size in congestion avoidance."""

    def cut(self, window: float) -> float:
        """The slow start threshold after a loss."""

    def grown(self, window: float, acknowledged: float, now: int, rtt_ns: int) -> float:
        """The window after so many segments were acknowledged."""


class Reno:
    """One segment a round trip; half after a loss."""

    def cut(self, window: float) -> float:
        return max(LEAST_THRESHOLD, window * _RENO_BETA)

    def grown(self, window: float, acknowledged: float, now: int, rtt_ns: int) -> float:  # noqa: ARG002
        return window + acknowledged / window


class Cubic:
    """A cubic of the time since the last loss, which is flat where that was; never slower than NewReno would be."""

    def __init__(self) -> None:
        self._before = 0.0  # W_max, with fast convergence
        self._epoch_ns: int | None = None
        self._origin = 0.0  # cwnd_epoch
        self._inflection_s = 0.0  # K
        self._estimate = 0.0  # W_est

    def cut(self, window: float) -> float:
        self._before = window * (1 + _BETA) / 2 if window < self._before else window
        self._epoch_ns = None
        return max(LEAST_THRESHOLD, window * _BETA)

    def grown(self, window: float, acknowledged: float, now: int, rtt_ns: int) -> float:
        if self._epoch_ns is None:
            self._epoch_ns = now
            self._origin = self._estimate = window
            self._before = max(self._before, window)
            self._inflection_s = ((self._before - window) / _C) ** (1 / 3)
        # RFC 9438, 4.3: as NewReno with cuts of 0.7 would have it, from W_max on with NewReno's own step.
        share = 1.0 if self._estimate >= self._before else 3 * (1 - _BETA) / (1 + _BETA)
        self._estimate += share * acknowledged / window
        elapsed_s = (now - self._epoch_ns) / 1e9
        if self._cubic(elapsed_s) < self._estimate:
            return max(window, self._estimate)
        target = min(max(self._cubic(elapsed_s + rtt_ns / 1e9), window), 1.5 * window)
        return window + (target - window) / window * acknowledged

    def _cubic(self, elapsed_s: float) -> float:
        return _C * (elapsed_s - self._inflection_s) ** 3 + self._before


GROWTHS: dict[str, type[Reno] | type[Cubic]] = {"cubic": Cubic, "reno": Reno}
