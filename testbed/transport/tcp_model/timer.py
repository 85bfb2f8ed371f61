"""The retransmission timeout of RFC 6298, by default with Linux's bounds."""

INITIAL_NS = 1_000_000_000  # RFC 6298, 2.1
LEAST_NS = 200_000_000  # Linux: TCP_RTO_MIN, above the smoothed round trip
MOST_NS = 120_000_000_000  # Linux: TCP_RTO_MAX


class RetransmissionTimeout:
    """How long to wait for an acknowledgement: `initial_ns` before there is a round trip, then the smoothed one and at
    least `least_ns` more."""

    def __init__(self, initial_ns: int = INITIAL_NS, least_ns: int = LEAST_NS) -> None:
        self._initial_ns = initial_ns
        self._least_ns = least_ns
        self._smoothed_ns: int | None = None
        self._variation_ns = 0
        self._backoff = 0

    @property
    def smoothed_ns(self) -> int | None:
        """The smoothed round trip, once there was one."""
        return self._smoothed_ns

    def sample(self, rtt_ns: int) -> None:
        """A round trip of a segment that was sent once."""
        if self._smoothed_ns is None:
            self._smoothed_ns, self._variation_ns = rtt_ns, rtt_ns // 2
        else:
            self._variation_ns += (abs(self._smoothed_ns - rtt_ns) - self._variation_ns) // 4
            self._smoothed_ns += (rtt_ns - self._smoothed_ns) // 8

    def progress(self) -> None:
        """Something new was acknowledged."""
        self._backoff = 0

    def back_off(self) -> None:
        """It ran out."""
        self._backoff += 1

    @property
    def now_ns(self) -> int:
        base_ns = self._initial_ns
        if self._smoothed_ns is not None:
            base_ns = self._smoothed_ns + max(self._least_ns, 4 * self._variation_ns)
        return min(MOST_NS, base_ns << self._backoff)
