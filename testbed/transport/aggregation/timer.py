"""How long to wait for a result: by the measured round trips, as TCP does it, and twice as long after a timeout."""

import numpy as np
import numpy.typing as npt

_GAIN, _DEVIATION_GAIN, _DEVIATIONS = 8, 4, 4  # RFC 6298, 2.3: 1/8, 1/4, and K


class Timer:
    """The wait in nanoseconds: never below `least_ns`, at most `doublings` times doubled."""

    def __init__(self, least_ns: int, doublings: int) -> None:
        self._least_ns = least_ns
        self._doublings = doublings
        self._mean_ns = 0
        self._deviation_ns = 0

    def measure(self, sample_ns: int) -> None:
        """Take in a round trip of what was sent once only (Karn's rule, RFC 6298, 3)."""
        if not self._mean_ns:
            self._mean_ns, self._deviation_ns = sample_ns, sample_ns // 2
            return
        self._deviation_ns += (abs(sample_ns - self._mean_ns) - self._deviation_ns) // _DEVIATION_GAIN
        self._mean_ns += (sample_ns - self._mean_ns) // _GAIN

    @property
    def once_ns(self) -> int:
        """How long to wait for what is sent the first time."""
        return max(self._least_ns, self._mean_ns + _DEVIATIONS * self._deviation_ns)

    def again_ns(self, timeouts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """How long to wait after so many timeouts in a row."""
        return self.once_ns << np.minimum(timeouts, self._doublings)
