"""How long to wait for a result before its packet is sent again.

A round trip here has two parts. One is known: the packets under way are this member's own, and their results come back
one after another, each in a packet's time at the NIC's rate. The other is the network's and the other members',
recoveries of theirs included, so that TCP's estimate (RFC 6298) of it runs away: whoever waits long makes all others
wait longer. Its part of the wait is therefore four times a *short* sample, one that about one in nine is below; the
deviations of TCP's estimate are in the factor. So who has little under way, as at the end, waits hardly longer than the
network takes (RFC 8985's probe of the tail comes after two round trips). Karn's rule holds, and as in RFC 6298 (5.5 to
5.7) a wait is doubled after a timeout, and stays so for all until the next sample.
"""

import numpy as np
import numpy.typing as npt

_ROUND_TRIPS = 4
_BACKLOGS = 2  # our own, and as much of whoever is behind us
_DOWN, _UP = 8, 64  # the estimate falls by an eighth or rises by a 64th: it is stable where 1 in 9 samples is below it


class Timer:
    """The wait in nanoseconds: with all `slots` under way from `most_ns` to that `doublings` times doubled; with fewer,
    less by `packet_ns` each, down to `least_ns`.
    """

    def __init__(self, most_ns: int, least_ns: int, packet_ns: int, slots: int, doublings: int) -> None:
        self.doubled = 0  # how often, for what is sent the first time: what a timeout had, until the next sample
        self._most_ns = most_ns
        self._least_ns = min(least_ns, most_ns)
        self._packet_ns = packet_ns
        self._slots = slots
        self._doublings = doublings
        self._short_ns: int | None = None

    def measure(self, sample_ns: int, under_way: int) -> None:
        """Take in a round trip of what was sent once only, when so many results were to come, its own included."""
        self.doubled = 0
        beyond_ns = max(0, sample_ns - under_way * self._packet_ns)
        if self._short_ns is None:
            self._short_ns = beyond_ns
        elif beyond_ns < self._short_ns:
            self._short_ns -= self._short_ns // _DOWN
        else:
            self._short_ns += -(-self._short_ns // _UP)

    def expired(self, doubled: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Waits have been in vain that were so often doubled; how often the next ones are."""
        doubled = np.minimum(doubled + 1, self._doublings)
        self.doubled = max(self.doubled, int(doubled.max()))
        return doubled

    def waits_ns(self, doubled: npt.NDArray[np.int64], under_way: int) -> npt.NDArray[np.int64]:
        """How long to wait, doubled so often, with so many results to come."""
        idle_ns = (self._slots - under_way) * self._packet_ns
        measured_ns = _ROUND_TRIPS * (self._short_ns or 0) + _BACKLOGS * under_way * self._packet_ns
        base_ns = max(self._most_ns - idle_ns, self._least_ns, measured_ns)
        waits_ns: npt.NDArray[np.int64] = np.minimum(base_ns << doubled, self._most_ns << self._doublings)
        return waits_ns
