"""DCQCN: rate control by congestion notification packets (Zhu et al., SIGCOMM 2015).

Notification point (receiver): at most one CNP per flow per N when marked packets arrive. Reaction point (sender), with
current rate Rc, target Rt and estimate a:

    CNP:             Rt = Rc, Rc = Rc (1 - a/2), a = (1 - g) a + g; both stages and the byte counter back to 0
    K without CNP:   a = (1 - g) a
    each T, each B bytes: the stage of that counter rises by one, after
        both stages < F     fast recovery
        both stages > F     hyper increase, Rt += i R_HAI with i = min(stages) - F
        else                additive increase, Rt += R_AI
      and then Rc = (Rt + Rc) / 2

Our reading: a stage counts the events before the present one, so that there are F steps of fast recovery (as in QCN,
which DCQCN takes this from); the estimate starts to decay with the first CNP. Nothing runs on a clock: what timers
would have done is worked out when the rate is asked for.
"""

from testbed.transport.congestion.control import Congestion, Indifferent
from testbed.transport.congestion.scaling import least_rate_bps
from testbed.transport.endpoint import ECN_ECT0, Path
from testbed.transport.parameters import Parameter, Value, Values, real, whole

_REFERENCE_RTT_NS = 24_000  # our choice: the round trip of the 40 Gb/s fabric in the IRN paper (recalled)


class Dcqcn(Indifferent):
    """DCQCN at both ends of one queue pair. Rates are wire rates."""

    ecn = ECN_ECT0

    def __init__(self, path: Path, values: Values) -> None:
        self._line_bps = float(path.rate_bps)
        self._gain = real(values, "g")
        self._alpha_interval_ns = whole(values, "alpha_interval")
        self._increase_interval_ns = whole(values, "increase_interval")
        self._counter_bytes = whole(values, "byte_counter")
        self._recovery_steps = whole(values, "fast_recovery")
        self._additive_bps = whole(values, "additive_increase")
        self._hyper_bps = whole(values, "hyper_increase")
        self._least_bps = min(self._line_bps, float(whole(values, "least_rate")))
        self._cnp_interval_ns = whole(values, "cnp_interval")
        self._alpha = real(values, "initial_alpha")
        self._alpha_at_ns: int | None = None  # when `_alpha` held; None: no CNP yet
        self._rate_bps = self._target_bps = self._line_bps
        self._timer_stage = self._byte_stage = 0
        self._bytes = 0
        self._next_increase_ns: int | None = None
        self._next_cnp_ns: int | None = None

    def on_sent(self, now: int, wire_bytes: int) -> None:
        self._advance(now)
        if not self._counter_bytes or self._next_increase_ns is None:
            return
        self._bytes += wire_bytes
        while self._bytes >= self._counter_bytes:
            self._bytes -= self._counter_bytes
            self._increase()
            self._byte_stage += 1

    def on_cnp(self, now: int) -> None:
        self._advance(now)
        alpha = self.alpha(now)
        self._target_bps = self._rate_bps
        self._rate_bps = max(self._least_bps, self._rate_bps * (1 - alpha / 2))
        self._alpha = (1 - self._gain) * alpha + self._gain
        self._alpha_at_ns = now
        self._timer_stage = self._byte_stage = self._bytes = 0
        self._next_increase_ns = now + self._increase_interval_ns

    def on_marked(self, now: int) -> bool:
        if self._next_cnp_ns is not None and now < self._next_cnp_ns:
            return False
        self._next_cnp_ns = now + self._cnp_interval_ns
        return True

    def rate_bps(self, now: int) -> int | None:
        self._advance(now)
        return int(self._rate_bps) if self._rate_bps < self._line_bps else None

    def deadline(self) -> int | None:
        return self._next_increase_ns

    def alpha(self, now: int) -> float:
        """The congestion estimate."""
        if self._alpha_at_ns is None:
            return self._alpha
        return self._alpha * (1 - self._gain) ** ((now - self._alpha_at_ns) // self._alpha_interval_ns)

    def _advance(self, now: int) -> None:
        while self._next_increase_ns is not None and self._next_increase_ns <= now:
            self._next_increase_ns += self._increase_interval_ns
            self._increase()
            self._timer_stage += 1

    def _increase(self) -> None:
        stages = (self._timer_stage, self._byte_stage if self._counter_bytes else self._timer_stage)
        if min(stages) > self._recovery_steps:
            self._target_bps += (min(stages) - self._recovery_steps) * self._hyper_bps
        elif max(stages) >= self._recovery_steps:
            self._target_bps += self._additive_bps
        self._target_bps = min(self._target_bps, self._line_bps)
        self._rate_bps = (self._target_bps + self._rate_bps) / 2
        if self._line_bps - self._rate_bps < 1:
            self._rate_bps = self._line_bps
            self._next_increase_ns = None


def _parameters(
    reference_bps: int,
    source: str,
    *,
    gain: float,
    initial_alpha: float,
    cnp_ns: int,
    alpha_ns: int,
    increase_ns: int,
    counter_bytes: int,
    recovery: int,
    additive_bps: int,
    hyper_bps: int,
    hyper_source: str,
    least_bps: int,
    least_source: str,
) -> tuple[Parameter, ...]:
    """The table; `source` is that of every constant which has none of its own."""

    def slower(path: Path) -> float:
        return max(1.0, path.base_rtt_ns / _REFERENCE_RTT_NS)

    def time(name: str, summary: str, value: int) -> Parameter:
        rule = f"x base RTT / {_REFERENCE_RTT_NS // 1000} us, never shorter than published"
        return Parameter(name, summary, value, "ns", source, rule, lambda path, _: round(value * slower(path)), least=1)

    def rate(name: str, summary: str, value: int, source: str) -> Parameter:
        rule = f"x rate / {reference_bps // 10**9} Gb/s"
        return Parameter(
            name, summary, value, "bps", source, rule, lambda path, _: max(1, value * path.rate_bps // reference_bps)
        )

    def counter(path: Path, _: Values) -> Value:
        return round(counter_bytes * slower(path) * path.rate_bps / reference_bps)

    def least(path: Path, values: Values) -> Value:
        return max(least_bps * path.rate_bps // reference_bps, least_rate_bps(path, values))

    return (
        Parameter("g", "weight of a CNP in the estimate", gain, "fraction", source),
        Parameter("initial_alpha", "the estimate at the first CNP", initial_alpha, "fraction", source),
        time("cnp_interval", "N: least time between two CNPs of one flow", cnp_ns),
        time("alpha_interval", "K: the estimate decays after so long without a CNP", alpha_ns),
        time("increase_interval", "T: time between two increases of the rate", increase_ns),
        Parameter(
            "byte_counter",
            "B: bytes between two increases of the rate; 0: by time alone",
            counter_bytes,
            "B",
            source,
            "x rate and x time as the others",
            counter,
        ),
        Parameter("fast_recovery", "F: steps of fast recovery", recovery, "", source, least=1),
        rate("additive_increase", "R_AI", additive_bps, source),
        rate("hyper_increase", "R_HAI", hyper_bps, hyper_source),
        Parameter(
            "least_rate",
            "the rate is never cut below this",
            least_bps,
            "bps",
            least_source,
            f"x rate / {reference_bps // 10**9} Gb/s, but at least a full packet in 10 base RTTs",
            least,
            least=1,
        ),
    )


PAPER = _parameters(
    40 * 10**9,
    "DCQCN paper, 40 Gb/s (recalled)",
    gain=1 / 256,
    initial_alpha=1.0,
    cnp_ns=50_000,
    alpha_ns=55_000,
    increase_ns=55_000,
    counter_bytes=10_000_000,
    recovery=5,
    additive_bps=40_000_000,
    hyper_bps=400_000_000,
    hyper_source="our reading: 10 R_AI, the ratio of the HPCC simulator's configuration",
    least_bps=40_000_000,
    least_source="our reading: R_AI (the paper has none)",
)

CONNECTX = _parameters(
    25 * 10**9,
    "ConnectX-4 firmware defaults: g, alpha from NVIDIA's DCQCN page, the rest recalled; 25 Gb/s is our reading",
    gain=5 / 1024,
    initial_alpha=1023 / 1024,
    cnp_ns=4_000,
    alpha_ns=1_000,
    increase_ns=300_000,
    counter_bytes=0,
    recovery=1,
    additive_bps=5_000_000,
    hyper_bps=50_000_000,
    hyper_source="ConnectX-4 firmware default (recalled)",
    least_bps=1_000_000,
    least_source="NVIDIA's DCQCN page: minimum rate 1 Mb/s",
)

DCQCN = Congestion("dcqcn", "DCQCN with the constants of its paper", PAPER, Dcqcn, quiet=True)
DCQCN_CONNECTX = Congestion(
    "dcqcn-connectx",
    "DCQCN with constants like a ConnectX-4's, without its byte counter (unit unknown)",
    CONNECTX,
    Dcqcn,
    quiet=True,
)
