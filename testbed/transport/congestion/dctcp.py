"""DCTCP: a window cut by the share of marked packets (Alizadeh et al., SIGCOMM 2010; RFC 8257), over NewReno's growth.

    each window     alpha = (1 - g) alpha + g (marked / acknowledged packets)
    a mark          cwnd *= 1 - alpha / 2 and ssthresh = cwnd, at most once a window
    otherwise       cwnd += n below ssthresh, n / cwnd above, with n packets acknowledged (RFC 5681)
    a loss          cwnd *= 1/2 and ssthresh = cwnd, at most once a window
    a timeout       ssthresh = cwnd / 2, cwnd = 1

Whether packets were marked comes back in the BECN bit of acknowledgements, exactly, as DCTCP's receiver sees to it.

Our readings: a window of data has passed when as many packets were acknowledged as the window had at its start; as
TCP's, the window does not grow in the one after a cut.
"""

from testbed.transport.congestion.control import Congestion, Windowed
from testbed.transport.congestion.scaling import bdp_packets
from testbed.transport.endpoint import ECN_ECT0, Path
from testbed.transport.parameters import Parameter, Values, real, whole


class Dctcp(Windowed):
    """DCTCP of one queue pair, as sender."""

    ecn = ECN_ECT0

    def __init__(self, path: Path, values: Values) -> None:  # noqa: ARG002
        self._gain = real(values, "g")
        self.alpha = real(values, "initial_alpha")
        self._least = whole(values, "least_window")
        self._most = whole(values, "most_window")
        self._window = float(whole(values, "initial_window"))
        self._threshold = float(self._most)
        self._recovery = 0  # packets still to be acknowledged until the window that was cut has passed
        self._clamp()
        self._observed = self._window  # packets still to be acknowledged in the window observed
        self._acknowledged = self._marked = 0

    def on_ack(self, now: int, packets: int, rtt_ns: int | None, marked: bool) -> None:  # noqa: ARG002
        self._acknowledged += packets
        self._marked += packets if marked else 0
        if self._acknowledged >= self._observed:
            self.alpha += self._gain * (self._marked / self._acknowledged - self.alpha)
            self._acknowledged = self._marked = 0
            self._observed = self._window
        if self._recovery > 0:
            self._recovery -= packets
        elif marked:
            self._cut(self.alpha / 2)
        elif self._window < self._threshold:
            self._window = min(self._window + packets, self._threshold)
        else:
            self._window += packets / self._window
        self._clamp()

    def on_gap(self, now: int) -> None:  # noqa: ARG002
        if self._recovery <= 0:
            self._cut(0.5)
            self._clamp()

    def on_timeout(self, now: int) -> None:  # noqa: ARG002
        self._threshold = max(float(self._least), self._window / 2)
        self._window, self._recovery = 1.0, 0
        self._allow(self._window)

    def _cut(self, share: float) -> None:
        self._recovery = int(self._window)
        self._window = self._threshold = max(float(self._least), self._window * (1 - share))

    def _clamp(self) -> None:
        floor = 1 if self._window < self._threshold else self._least
        self._window = min(float(self._most), max(float(floor), self._window))
        self._allow(self._window)


PARAMETERS = (
    Parameter("g", "weight of a window in alpha", 1 / 16, "fraction", "DCTCP paper; RFC 8257, section 4.2"),
    Parameter("initial_alpha", "alpha at the start", 1.0, "fraction", "RFC 8257, section 3.3"),
    Parameter("initial_window", "the window at the start", 10, "packets", "RFC 6928", least=1),
    Parameter("least_window", "a mark or a loss never cuts below this", 2, "packets", "Linux (recalled)", least=1),
    Parameter(
        "most_window",
        "the window is never above this",
        4096,
        "packets",
        "our choice: what the transport's own window is at most",
        "4 BDP, at least 64",
        lambda path, values: max(64, 4 * bdp_packets(path, values)),
        least=1,
    ),
)

DCTCP = Congestion("dctcp", "DCTCP: a window cut by the share of marked packets", PARAMETERS, Dctcp)
