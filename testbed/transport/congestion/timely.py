"""TIMELY: rate control by the gradient of the round trip (Mittal et al., SIGCOMM 2015), as it was and as patched.

With each sample, the gradient g is the smoothed difference to the one before, d = (1 - alpha) d + alpha (rtt -
previous), over the least round trip D:

    rtt < T_low     R += delta
    rtt > T_high    R *= 1 - beta (1 - T_high / rtt)
    between, as published     g <= 0: R += N delta, with N = 5 from the fifth such sample in a row on, else 1
                              g > 0:  R *= 1 - beta g
    between, as patched       R = R (1 - beta w (rtt - T_low) / T_low) + delta (1 - w),
                              with w = 2 g + 1/2 cut off at 0 and 1

As published there is no unique fixed point: any split of the rate is stable while g = 0. The patch (Zhu et al., "ECN or
Delay", CoNEXT 2016, section 4.3) has one, where all N flows have the same rate and, with a link of C, wait
T_low (1 + N delta / (beta C)); from different rates they come to it by exp(-delta (N - 1) t / (2 Seg)), with 2 N flows
or segments of 16 KB in some 4,000 least round trips.

A sample that comes less than D after the one before has only so large a share of delta and beta (eRPC's implementation,
after the authors' snippet; in Zhu et al.'s fluid model a rate changes every max(Seg / R, D)).

Our reading: `rtt` here includes the serialisation of one packet, not of a segment. TIMELY was made for lossless fabrics
and has no reaction to a loss.
"""

from testbed.transport.congestion.control import Congestion, Indifferent
from testbed.transport.congestion.scaling import least_rate_bps, within_queue
from testbed.transport.endpoint import Path
from testbed.transport.parameters import Parameter, Value, Values, real, whole

_MIN_RTT_NS = 20_000
_REFERENCE_BPS = 10 * 10**9
_QUEUE_SHARE_LOW, _QUEUE_SHARE_HIGH = 0.25, 0.75  # our choice


class _Timely(Indifferent):
    """What both forms share. Rates are wire rates."""

    def __init__(self, path: Path, values: Values) -> None:
        self.run_packets: int | None = whole(values, "segment")
        self._line_bps = float(path.rate_bps)
        self._rate_bps = min(self._line_bps, float(whole(values, "initial_rate")))
        self._least_bps = min(self._line_bps, float(whole(values, "least_rate")))
        self._delta_bps = whole(values, "additive_increase")
        self._beta = real(values, "beta")
        self._gain = real(values, "ewma")
        self._min_rtt_ns = whole(values, "min_rtt")
        self._low_ns = whole(values, "t_low")
        self._high_ns = whole(values, "t_high")
        self._most_cut = real(values, "most_cut")
        self._previous_ns: int | None = None
        self._difference_ns = 0.0
        self._sampled_ns: int | None = None

    def on_ack(self, now: int, packets: int, rtt_ns: int | None, marked: bool) -> None:  # noqa: ARG002
        if rtt_ns is None:
            return
        share = 1.0 if self._sampled_ns is None else min(1.0, (now - self._sampled_ns) / self._min_rtt_ns)
        self._sampled_ns = now
        difference_ns = 0 if self._previous_ns is None else rtt_ns - self._previous_ns
        self._previous_ns = rtt_ns
        self._difference_ns += self._gain * (difference_ns - self._difference_ns)
        if rtt_ns < self._low_ns:
            rate_bps = self._rate_bps + share * self._delta_bps
        elif rtt_ns > self._high_ns:
            rate_bps = self._rate_bps * (1 - share * self._beta * (1 - self._high_ns / rtt_ns))
        else:
            rate_bps = self._between(rtt_ns, self._difference_ns / self._min_rtt_ns, share)
        floor_bps = max(self._least_bps, self._rate_bps * (1 - self._most_cut))
        self._rate_bps = min(self._line_bps, max(floor_bps, rate_bps))

    def rate_bps(self, now: int) -> int | None:  # noqa: ARG002
        return int(self._rate_bps) if self._rate_bps < self._line_bps else None

    def _between(self, rtt_ns: int, gradient: float, share: float) -> float:
        """The rate after a sample from T_low to T_high, which counts by `share`."""
        raise NotImplementedError


class PatchedTimely(_Timely):
    """With the smooth, absolute decrease of Zhu et al."""

    def _between(self, rtt_ns: int, gradient: float, share: float) -> float:
        weight = min(1.0, max(0.0, 2 * gradient + 0.5))
        error = (rtt_ns - self._low_ns) / self._low_ns
        return self._rate_bps * (1 - share * self._beta * weight * error) + share * self._delta_bps * (1 - weight)


class OriginalTimely(_Timely):
    """As published."""

    def __init__(self, path: Path, values: Values) -> None:
        super().__init__(path, values)
        self._hyper_after = whole(values, "hyper_after")
        self._falling = 0  # samples in a row whose gradient was not positive

    def _between(self, rtt_ns: int, gradient: float, share: float) -> float:  # noqa: ARG002
        if gradient > 0:
            self._falling = 0
            return self._rate_bps * (1 - share * self._beta * gradient)
        self._falling += 1
        steps = 5 if self._falling >= self._hyper_after else 1
        return self._rate_bps + share * steps * self._delta_bps


def _slower(path: Path) -> float:
    return path.base_rtt_ns / _MIN_RTT_NS


def _low(path: Path, _: Values) -> Value:
    return path.base_rtt_ns + within_queue(path, 1.5 * path.base_rtt_ns, _QUEUE_SHARE_LOW)


def _high(path: Path, _: Values) -> Value:
    return path.base_rtt_ns + within_queue(path, 24 * path.base_rtt_ns, _QUEUE_SHARE_HIGH)


_PAPER = "TIMELY paper, as the HPCC simulator and Zhu et al. have it"


def _parameters(beta: float, beta_source: str, segment: int, segment_source: str) -> tuple[Parameter, ...]:
    return (
        Parameter("ewma", "alpha: weight of a new difference", 0.875, "fraction", _PAPER),
        Parameter("beta", "weight of a decrease", beta, "fraction", beta_source),
        Parameter(
            "min_rtt",
            "D: what gradients are shares of; a sample that comes sooner counts less",
            _MIN_RTT_NS,
            "ns",
            _PAPER,
            "the base RTT",
            lambda path, _: path.base_rtt_ns,
            least=1,
        ),
        Parameter(
            "t_low",
            "below this round trip the rate rises in any case",
            50_000,
            "ns",
            _PAPER,
            f"2.5 base RTTs, but at most the base RTT and {_QUEUE_SHARE_LOW:.0%} of the fullest queue",
            _low,
            least=1,
        ),
        Parameter(
            "t_high",
            "above this round trip the rate falls in any case",
            500_000,
            "ns",
            _PAPER,
            f"25 base RTTs, but at most the base RTT and {_QUEUE_SHARE_HIGH:.0%} of the fullest queue",
            _high,
            least=1,
        ),
        Parameter(
            "additive_increase",
            "delta: step of the rate",
            10_000_000,
            "bps",
            f"{_PAPER}, 10 Gb/s",
            "x rate / 10 Gb/s",
            lambda path, _: max(1, 10_000_000 * path.rate_bps // _REFERENCE_BPS),
            least=1,
        ),
        Parameter(
            "segment",
            "a run is at most so long, and gives one sample",
            segment,
            "packets",
            segment_source,
            least=1,
        ),
        Parameter(
            "initial_rate",
            "the rate at the start",
            _REFERENCE_BPS // 2,
            "bps",
            "paper: the line's over one more than the sender's active flows; our reading: one flow is",
            "half the line's",
            lambda path, _: max(1, path.rate_bps // 2),
            least=1,
        ),
        Parameter(
            "least_rate",
            "the rate is never cut below this",
            10_000_000,
            "bps",
            "our reading: one step (the papers have none)",
            "a full packet in 10 base RTTs",
            least_rate_bps,
            least=1,
        ),
        Parameter(
            "most_cut",
            "one sample cuts the rate by at most this share",
            0.5,
            "fraction",
            "eRPC's implementation, after the authors' snippet",
        ),
    )


PATCHED = _parameters(
    0.008, "Zhu et al., section 4.3", 16, "Zhu et al., section 4.3: 16 KB, of packets of 1 KB (our reading)"
)
ORIGINAL = (
    *_parameters(0.8, _PAPER, 64, "TIMELY paper: segments of up to 64 KB (recalled), of packets of 1 KB (our reading)"),
    Parameter("hyper_after", "samples in a row without a rise until steps are fivefold", 5, "", _PAPER, least=1),
)

TIMELY = Congestion(
    "timely", "TIMELY as patched by Zhu et al., so that it has one fixed point, the fair one", PATCHED, PatchedTimely
)
TIMELY_ORIGINAL = Congestion(
    "timely-original", "TIMELY as published, which has no unique fixed point and oscillates", ORIGINAL, OriginalTimely
)
