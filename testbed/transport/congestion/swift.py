"""Swift: a window held at a target of delay, and pacing below one packet (Kumar et al., SIGCOMM 2020, algorithm 1).

With each acknowledgement of n packets whose round trip was d:

    target = base + min(max(a / sqrt(cwnd) + b, 0), fs_range), with a and b such that it adds nothing at `fs_most`
                    packets and fs_range at `fs_least`
    d < target      cwnd += ai n / cwnd, or ai n below one packet
    else            cwnd *= max(1 - beta (d - target) / d, 1 - max_mdf), at most once in a round trip
    a loss          cwnd *= 1 - max_mdf, at most once in a round trip
    a timeout       the same; from the fifth in a row on, cwnd is the least

Below one packet one is under way, and the next leaves rtt / cwnd after it.

Our readings: the whole round trip is the delay of the fabric (hosts add what they model, and no separate window is kept
for them); "a round trip" is the one sampled last; the part of the target for each hop lies in the base RTT, which the
target scales with.
"""

from math import sqrt

from testbed.transport.congestion.control import Congestion, Windowed
from testbed.transport.congestion.scaling import bdp_packets, within_queue
from testbed.transport.endpoint import Path
from testbed.transport.parameters import Parameter, Value, Values, real, whole

_BASE_NS = 25_000
_QUEUE_SHARE = 0.25  # our choice


class Swift(Windowed):
    """Swift of one queue pair, as sender."""

    def __init__(self, path: Path, values: Values) -> None:
        self._base_ns = whole(values, "base_target")
        self._fs_range_ns = whole(values, "fs_range")
        least, most = 1 / sqrt(real(values, "fs_least")), 1 / sqrt(real(values, "fs_most"))
        self._fs_slope_ns = self._fs_range_ns / (least - most) if least > most else 0.0
        self._fs_zero_ns = -self._fs_slope_ns * most
        self._increase = real(values, "additive_increase")
        self._beta = real(values, "beta")
        self._most_cut = real(values, "max_mdf")
        self._least = real(values, "least_window")
        self._most = whole(values, "most_window")
        self._reset_after = whole(values, "reset_after")
        self._window = float(whole(values, "initial_window"))
        self._rtt_ns = path.base_rtt_ns
        self._decreased_ns: int | None = None
        self._timeouts = 0
        self._run_bits = 0
        self._clamp()

    def on_sent(self, now: int, wire_bytes: int) -> None:  # noqa: ARG002
        self._run_bits = 8 * wire_bytes

    def on_ack(self, now: int, packets: int, rtt_ns: int | None, marked: bool) -> None:  # noqa: ARG002
        self._timeouts = 0
        if rtt_ns is None:
            return
        self._rtt_ns = rtt_ns
        target_ns = self.target_ns()
        if rtt_ns < target_ns:
            self._window += self._increase * packets / max(1.0, self._window)
            self._clamp()
        else:
            self._decrease(now, min(self._most_cut, self._beta * (rtt_ns - target_ns) / rtt_ns))

    def on_gap(self, now: int) -> None:
        self._decrease(now, self._most_cut)

    def on_timeout(self, now: int) -> None:
        self._timeouts += 1
        if self._timeouts >= self._reset_after:
            self._window = self._least
            self._clamp()
        else:
            self._decrease(now, self._most_cut)

    def rate_bps(self, now: int) -> int | None:  # noqa: ARG002
        if self._window >= 1:
            return None
        return max(1, int(self._run_bits * self._window * 10**9 / self._rtt_ns))  # a run each rtt / cwnd

    def target_ns(self) -> float:
        """The delay that is aimed at with the present window."""
        scaled_ns = self._fs_slope_ns / sqrt(self._window) + self._fs_zero_ns
        return self._base_ns + min(max(scaled_ns, 0.0), self._fs_range_ns)

    def _decrease(self, now: int, cut: float) -> None:
        if self._decreased_ns is not None and now - self._decreased_ns < self._rtt_ns:
            return
        self._decreased_ns = now
        self._window *= 1 - cut
        self._clamp()

    def _clamp(self) -> None:
        self._window = min(float(self._most), max(self._least, self._window))
        self._allow(self._window)


def _target(path: Path, _: Values) -> Value:
    return path.base_rtt_ns + within_queue(path, path.base_rtt_ns / 2, _QUEUE_SHARE)


def _range(path: Path, values: Values) -> Value:
    return within_queue(path, 5 * whole(values, "base_target"), _QUEUE_SHARE)


_GUESS = "csg-htsim's model of Swift, a guess by its authors"
_FALCON = "Falcon simulator's default"

PARAMETERS = (
    Parameter(
        "base_target",
        "the delay that is aimed at with a large window",
        _BASE_NS,
        "ns",
        f"{_FALCON} (csg-htsim: 20 us and 3 us a hop)",
        f"1.5 base RTTs, but at most the base RTT and {_QUEUE_SHARE:.0%} of the fullest queue (our choice)",
        _target,
        least=1,
    ),
    Parameter(
        "fs_range",
        "the most that flow scaling adds to the target",
        5 * _BASE_NS,
        "ns",
        "5 base targets: Swift paper (recalled), as csg-htsim's model",
        f"5 base targets, but at most {_QUEUE_SHARE:.0%} of the fullest queue (our choice)",
        _range,
    ),
    Parameter(
        "fs_least", "window at which flow scaling adds the most", 0.1, "packets", "Swift paper (recalled)", least=0.001
    ),
    Parameter(
        "fs_most",
        "window from which on flow scaling adds nothing",
        100.0,
        "packets",
        "Swift paper (recalled)",
        least=0.1,
    ),
    Parameter(
        "additive_increase", "ai: packets in a round trip below the target", 1.0, "packets", f"{_FALCON}; {_GUESS}"
    ),
    Parameter("beta", "weight of a decrease", 0.8, "fraction", f"{_FALCON}; {_GUESS}"),
    Parameter("max_mdf", "a decrease is at most this share", 0.5, "fraction", f"{_FALCON}; {_GUESS}"),
    Parameter("least_window", "the window is never below this", 0.01, "packets", _FALCON, least=0.001),
    Parameter(
        "most_window",
        "the window is never above this",
        256,
        "packets",
        _FALCON,
        "4 BDP, at least as published",
        lambda path, values: max(256, 4 * bdp_packets(path, values)),
        least=1,
    ),
    Parameter(
        "initial_window",
        "the window at the start",
        32,
        "packets",
        _FALCON,
        "1 BDP",
        bdp_packets,
        least=1,
    ),
    Parameter("reset_after", "timeouts in a row until the window is the least", 5, "", _GUESS, least=1),
)

SWIFT = Congestion("swift", "Swift: a window held at a target of delay, below one packet paced", PARAMETERS, Swift)
