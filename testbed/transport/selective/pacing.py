"""When the next run of a connection may leave, by the rate that its congestion control allows."""

from testbed.transport.congestion import CongestionControl


class Pacer:
    """Runs leave a run's time at the rate after the one before; a driver that is late catches up by one run."""

    def __init__(self, congestion: CongestionControl) -> None:
        self._congestion = congestion
        self._open_ns = 0
        self._departed_ns = 0  # of the last run, and its size on the wire
        self._departed_bits = 0

    def opened(self, now: int) -> None:
        """From now on something could be sent, but for the rate."""
        self._open_ns = now

    def left(self, at_ns: int, wire_bytes: int, now: int) -> None:
        """A run left, which was to leave at `at_ns`."""
        self._departed_ns, self._departed_bits = at_ns, 8 * wire_bytes
        self._congestion.on_sent(now, wire_bytes)

    def ready_ns(self, now: int) -> int:
        """The earliest instant at which the next may leave."""
        rate_bps = self._congestion.rate_bps(now)
        if rate_bps is None:
            return now
        gap_ns = self._departed_bits * 10**9 // rate_bps
        return max(self._departed_ns + gap_ns, self._open_ns, now - gap_ns)

    def changes_ns(self) -> int | None:
        """When the rate next changes by itself."""
        return self._congestion.deadline()
