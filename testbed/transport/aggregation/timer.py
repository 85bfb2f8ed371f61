"""How long to wait for a result before its packet is sent again.

A round trip here has in it how long the other members take, recoveries of theirs included, so TCP's estimate (RFC 6298)
runs away: whoever waits long makes all others wait longer. The base of the wait is therefore four times a *short* round
trip, one that about one in nine is below; the deviations of TCP's estimate are in the factor. Karn's rule holds, and as
in RFC 6298 (5.5 to 5.7) a wait is doubled after a timeout, and stays so for all until the next sample.
"""

import numpy as np
import numpy.typing as npt

_ROUND_TRIPS = 4
_DOWN, _UP = 8, 64  # the estimate falls by an eighth or rises by a 64th: it is stable where 1 in 9 samples is below it


class Timer:
    """The wait in nanoseconds, from `least_ns` to that `doublings` times doubled."""

    def __init__(self, least_ns: int, doublings: int) -> None:
        self.doubled = 0  # how often, for what is sent the first time: what a timeout had, until the next sample
        self._least_ns = least_ns
        self._doublings = doublings
        self._short_ns = 0

    def measure(self, sample_ns: int) -> None:
        """Take in a round trip of what was sent once only."""
        self.doubled = 0
        if not self._short_ns:
            self._short_ns = sample_ns
        elif sample_ns < self._short_ns:
            self._short_ns -= self._short_ns // _DOWN
        else:
            self._short_ns += -(-self._short_ns // _UP)

    def expired(self, doubled: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Waits have been in vain that were so often doubled; how often the next ones are."""
        doubled = np.minimum(doubled + 1, self._doublings)
        self.doubled = max(self.doubled, int(doubled.max()))
        return doubled

    def waits_ns(self, doubled: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How long to wait, doubled so often."""
        base_ns = max(self._least_ns, _ROUND_TRIPS * self._short_ns)
        waits_ns: npt.NDArray[np.int64] = np.minimum(base_ns << doubled, self._least_ns << self._doublings)
        return waits_ns
