"""What a collective must give, straight from all ranks' inputs, and how far a result may be from it.

Independent of schedules: this is what the executor and every run is checked against.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.collective.schedule import chunk_ranges

Numbers = npt.NDArray[Any]

ELEMENTWISE = ("allreduce", "broadcast")  # element i of the result depends on elements i of the inputs alone


@dataclass(frozen=True, slots=True)
class Expected:
    """Elements [first, last) of a rank's buffer must be within `tolerance` of `exact` (0 for integers and copies)."""

    first: int
    last: int
    exact: Numbers
    tolerance: npt.NDArray[np.float64]

    def wrong(self, buffer: Numbers) -> int:
        """How many elements of `buffer` are further from the exact value than the tolerance (NaN is wrong)."""
        result = buffer[self.first : self.last]
        if np.issubdtype(result.dtype, np.integer):
            return int(np.count_nonzero(result != self.exact))
        error = np.abs(result.astype(np.float64) - self.exact)
        return int(len(error) - np.count_nonzero(error <= self.tolerance))

    def nmse(self, buffer: Numbers) -> float:
        """The squared error of `buffer` over the squared norm of the exact result (0 / 0 is 0)."""
        exact = self.exact.astype(np.float64)
        error = float(np.sum((buffer[self.first : self.last] - exact) ** 2))
        return error / float(np.sum(exact**2)) if error else 0.0


def expected(collective: str, inputs: Sequence[Numbers], rank: int, root: int = 0) -> Expected:
    """What `rank` must have in the end, given every rank's buffer at the start (all of the same length and dtype).

    Floats may differ from the exact sum by n eps Σ|x|: at most n-1 additions and n roundings on the way, each of eps/2
    of the partial sum (Higham, "Accuracy and Stability of Numerical Algorithms", 4.2).
    """
    ranks, own = len(inputs), inputs[rank]
    size = len(own)
    if collective in ("allreduce", "reduce-scatter"):
        first, last = chunk_ranges(size, ranks)[rank] if collective == "reduce-scatter" else (0, size)
        return _sum([values[first:last] for values in inputs], first, last)
    if collective == "broadcast":
        exact = inputs[root]
    elif collective == "all-gather":
        exact = np.concatenate([inputs[q][a:b] for q, (a, b) in enumerate(chunk_ranges(size, ranks))])
    else:
        block = size // ranks
        mine = slice(rank * block, (rank + 1) * block)
        exact = np.concatenate([*(values[mine] for values in inputs), own[block * ranks :]])
    return Expected(0, size, exact, np.zeros(size))


def _sum(parts: Sequence[Numbers], first: int, last: int) -> Expected:
    dtype = parts[0].dtype
    wide = dtype if np.issubdtype(dtype, np.integer) else np.dtype(np.float64)
    exact: Numbers = np.zeros(last - first, wide)
    for part in parts:
        exact += part
    if wide == dtype:
        return Expected(first, last, exact, np.zeros(last - first))
    magnitude = np.zeros(last - first)
    for part in parts:
        magnitude += np.abs(part)
    return Expected(first, last, exact, len(parts) * float(np.finfo(dtype).eps) * magnitude)
