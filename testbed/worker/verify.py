"""Whether a rank's result is the exact one, from the inputs of all ranks, in pieces that fit any memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.collective.reference import Expected, expected

_ELEMENTS_AT_A_TIME = 1 << 18
_ELEMENTWISE = ("allreduce", "broadcast")  # element i of the result depends on elements i of the inputs alone


def verify(
    collective: str, inputs: Sequence[npt.NDArray[Any]], result: npt.NDArray[Any], rank: int, root: int
) -> tuple[int, float]:
    """How many elements are wrong, and the normalised mean square error. All arrays are 1-D and of one length."""
    size = len(result)
    pieces = range(0, size, _ELEMENTS_AT_A_TIME) if collective in _ELEMENTWISE else range(0, 1)
    step = _ELEMENTS_AT_A_TIME if collective in _ELEMENTWISE else size
    wrong, error, norm = 0, 0.0, 0.0
    for first in pieces:
        piece = slice(first, first + step)
        exact = expected(collective, [values[piece] for values in inputs], rank, root)
        wrong += exact.wrong(result[piece])
        square = _square(exact)
        error += exact.nmse(result[piece]) * square
        norm += square
    return wrong, error / norm if error else 0.0


def _square(exact: Expected) -> float:
    return float(np.sum(exact.exact.astype(np.float64) ** 2))
