"""NSCC: Ultra Ethernet's sender-based window control by marks and queueing delay (UEC 1.0, as its simulator has it).

With each acknowledgement of n packets, whose queueing delay q is its round trip beyond the least one seen:

    not marked, q < target    proportional increase: gain += alpha n (1 - q / target); or, while a whole window came
                              with q < fast_delay, fast increase: cwnd += fast n
    not marked, q >= target   fair increase: gain += fair n
    marked, q < target        nothing (a sprayed flow takes another path)
    marked, q >= target       cwnd *= max(1 - gamma (avg - target) / avg, 1/2), if the average delay is above the
                              target, at most once in a base round trip
    each 8 packets or base round trip: cwnd += gain / cwnd, and + eta once in a round trip; gain = 0

and once in a base round trip and target of time: if what was acknowledged in it is less than an eighth of the largest
window, and a packet was lost or q > 4 targets, then cwnd becomes that (quick adapt), and a window of acknowledgements
is ignored. A loss takes one packet from cwnd otherwise. The average q moves by 1/80 a packet, and towards a quarter of
the base round trip when q is above the target and nothing was marked.

Our readings, as one-path go-back-N knows less than UEC: the simulator's bytes are packets of the transport here; what
is under way is the window; a gap counts as one lost packet, and so does a timeout; an acknowledgement whose round trip
is not known (sent twice) has the average delay. Nothing is trimmed and no receiver gives credit.

Flows become fair where the target lies between the queues at which none and all packets are marked: only there are
flows cut, and rise, by chance. Where all are marked already below the target, a queue in between moves nobody.
"""

from testbed.transport.congestion.control import Congestion, Windowed
from testbed.transport.congestion.scaling import bdp_packets, within_queue
from testbed.transport.endpoint import ECN_ECT0, Path
from testbed.transport.parameters import Parameter, Value, Values, real, whole

_REFERENCE_RTT_NS = 12_000
_REFERENCE_BPS = 100 * 10**9
_REFERENCE_BITS = _REFERENCE_BPS * _REFERENCE_RTT_NS // 10**9
_QUEUE_SHARE = 0.5  # our choice


class Nscc(Windowed):
    """NSCC of one queue pair, as sender."""

    ecn = ECN_ECT0

    def __init__(self, path: Path, values: Values) -> None:
        self._target_ns = whole(values, "target")
        self._most = float(whole(values, "most_window"))
        self._alpha = real(values, "proportional_increase")
        self._fair = real(values, "fair_increase")
        self._eta = real(values, "eta")
        self._gamma = real(values, "gamma")
        self._fast = real(values, "fast_increase")
        self._fast_delay_ns = whole(values, "fast_delay")
        self._average_gain = real(values, "average_gain")
        self._adjust_packets = whole(values, "adjust_every")
        self._adapt_factor = whole(values, "adapt_delay")
        self._adapt_share = real(values, "adapt_share")
        self._base_ns = path.base_rtt_ns
        self._window = self._most
        self._average_ns = 0.0
        self._gain = 0.0
        self._received = 0  # since the last adjustment
        self._fast_count = 0
        self._fast_mode = False
        self._adjusted_ns = 0
        self._decreased_ns: int | None = None
        self._adapt_ns: int | None = None  # when the present period of quick adapt ends
        self._achieved = 0
        self._lost = False
        self._ignored = 0  # packets still to be acknowledged that tell of the window before a quick adapt
        self._clamp()

    def on_ack(self, now: int, packets: int, rtt_ns: int | None, marked: bool) -> None:
        delay_ns = self._sample(packets, rtt_ns, marked)
        self._received += packets
        self._achieved += packets
        if not self._quick_adapt(now, packets, delay_ns, marked):
            if marked:
                if delay_ns >= self._target_ns:
                    self._decrease(now)
            elif delay_ns >= self._target_ns:
                self._fast_mode, self._fast_count = False, 0
                self._gain += self._fair * packets
            elif not self._increase_fast(packets, delay_ns):
                self._gain += self._alpha * packets * (1 - delay_ns / self._target_ns)
            self._adjust(now)
        self._clamp()

    def on_gap(self, now: int) -> None:
        self._lost = True
        if not self._quick_adapt(now, 0, 0.0, marked=False):
            self._window -= 1
        self._clamp()

    def on_timeout(self, now: int) -> None:
        self.on_gap(now)

    def _sample(self, packets: int, rtt_ns: int | None, marked: bool) -> float:
        """The queueing delay; moves the average."""
        if rtt_ns is None:
            return self._average_ns
        self._base_ns = min(self._base_ns, rtt_ns)
        delay_ns = float(rtt_ns - self._base_ns)
        towards_ns = self._base_ns / 4 if delay_ns > self._target_ns and not marked else delay_ns
        self._average_ns += (1 - (1 - self._average_gain) ** packets) * (towards_ns - self._average_ns)
        return delay_ns

    def _quick_adapt(self, now: int, packets: int, delay_ns: float, marked: bool) -> bool:
        """Whether the window was set to what came through, or this acknowledgement belongs to the time before."""
        done = False
        if self._ignored > 0:
            self._ignored -= packets
            done = marked
        if not done and (self._adapt_ns is None or now > self._adapt_ns):
            severe = self._lost or delay_ns > self._adapt_factor * self._target_ns
            if self._adapt_ns is not None and severe and self._achieved < self._most * self._adapt_share:
                self._ignored = int(self._window)
                self._window = float(self._achieved)
                self._lost = False
                done = True
            self._achieved = 0
            self._adapt_ns = now + self._base_ns + self._target_ns
        if done:
            self._gain, self._received = 0.0, 0
        return done

    def _increase_fast(self, packets: int, delay_ns: float) -> bool:
        if delay_ns < self._fast_delay_ns:
            self._fast_count += packets
            if self._fast_count > self._window or self._fast_mode:
                self._window += self._fast * packets
                self._fast_mode = True
                return True
        else:
            self._fast_count = 0
        self._fast_mode = False
        return False

    def _decrease(self, now: int) -> None:
        self._fast_mode, self._fast_count = False, 0
        average_ns = self._average_ns
        recent = self._decreased_ns is not None and now - self._decreased_ns <= self._base_ns
        if average_ns <= self._target_ns or recent:
            return
        self._window *= max(1 - self._gamma * (average_ns - self._target_ns) / average_ns, 0.5)
        self._decreased_ns = now

    def _adjust(self, now: int) -> None:
        self._clamp()
        period = now - self._adjusted_ns >= self._base_ns
        if self._received > self._adjust_packets or period:
            self._window += self._gain / self._window
            self._gain, self._received = 0.0, 0
            if period:
                self._window += self._eta
                self._adjusted_ns = now

    def _clamp(self) -> None:
        self._window = min(self._most, max(1.0, self._window))
        self._allow(self._window)


_SOURCE = "UEC's public simulator (uet-htsim)"


def _scale(path: Path, _: Values) -> float:
    """What the specification calls a."""
    return path.rate_bps * path.base_rtt_ns / 10**9 / _REFERENCE_BITS


def _step(name: str, summary: str, published: float) -> Parameter:
    return Parameter(
        name,
        summary,
        published,
        "packets",
        f"{_SOURCE}, at 100 Gb/s and 12 us, whose packets are of 4 KB",
        "x BDP / 150 kB, in packets",
        lambda path, values: published * _scale(path, values),
        least=0.0001,
    )


def _target(path: Path, _: Values) -> Value:
    return max(1, within_queue(path, path.base_rtt_ns, _QUEUE_SHARE))


def _most_window(path: Path, values: Values) -> Value:
    return max(1, int(1.5 * bdp_packets(path, values)))


def _proportional(path: Path, values: Values) -> Value:
    return 4.0 * _scale(path, values) * whole(values, "target") / path.base_rtt_ns


PARAMETERS = (
    Parameter(
        "target",
        "the queueing delay that is aimed at",
        _REFERENCE_RTT_NS,
        "ns",
        f"{_SOURCE}: without trimming the network's round trip",
        f"the base RTT, but at most {_QUEUE_SHARE:.0%} of the fullest queue (our choice)",
        _target,
        least=1,
    ),
    Parameter(
        "most_window",
        "the window is never above this, and begins with it",
        3 * _REFERENCE_BITS // (2 * 8 * 4096),
        "packets",
        f"{_SOURCE}: 1.5 BDP",
        "1.5 BDP",
        _most_window,
        least=1,
    ),
    _step("fair_increase", "packets in a round trip above the target without marks", 5.0),
    Parameter(
        "proportional_increase",
        "packets in a round trip without marks and without a queue",
        4.0,
        "packets",
        f"{_SOURCE}: 4 a b, at 100 Gb/s, 12 us and that target",
        "x BDP / 150 kB, x target / base RTT (our reading of b), in packets",
        _proportional,
        least=0.0001,
    ),
    _step("eta", "packets in each round trip in any case", 0.15),
    Parameter("gamma", "weight of a decrease", 0.8, "fraction", _SOURCE),
    Parameter(
        "fast_increase",
        "packets for each acknowledged one, once a whole window met no queue",
        0.25,
        "packets",
        f"{_SOURCE}, at 100 Gb/s and 12 us",
        "x BDP / 150 kB",
        lambda path, values: 0.25 * _scale(path, values),
        least=0.0001,
    ),
    Parameter(
        "fast_delay",
        "a queueing delay below this is no queue",
        1_000,
        "ns",
        _SOURCE,
        "base RTT / 12",
        lambda path, _: path.base_rtt_ns // 12,
    ),
    Parameter("average_gain", "weight of a packet in the average delay", 0.0125, "fraction", _SOURCE),
    Parameter("adjust_every", "packets between two adjustments of the window", 8, "packets", _SOURCE, least=1),
    Parameter("adapt_delay", "queueing delay, in targets, from which quick adapt may act", 4, "", _SOURCE, least=1),
    Parameter("adapt_share", "share of the largest window below which quick adapt may act", 1 / 8, "fraction", _SOURCE),
)

NSCC = Congestion("nscc", "NSCC, Ultra Ethernet's: a window by marks and queueing delay", PARAMETERS, Nscc)
