"""Whether a rank's result is the exact one, from the inputs of all ranks, in pieces that fit any memory."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.codec.block_exponent import LEAST_EXPONENT, Quantiser, exponents
from testbed.collective.reference import Expected, expected

_ELEMENTS_AT_A_TIME = 1 << 18
_ELEMENTWISE = ("allreduce", "broadcast")  # element i of the result depends on elements i of the inputs alone


def verify(
    collective: str, inputs: Sequence[npt.NDArray[Any]], result: npt.NDArray[Any], rank: int, root: int
) -> tuple[int, float]:
    """How many elements are wrong, and the normalised mean square error. All arrays are 1-D and of one length."""
    size = len(result)
    step = _ELEMENTS_AT_A_TIME if collective in _ELEMENTWISE else size
    pieces = (slice(first, first + step) for first in range(0, size, step))
    return _compare(
        (expected(collective, [values[piece] for values in inputs], rank, root), result[piece]) for piece in pieces
    )


def verify_sums(
    inputs: Sequence[npt.NDArray[Any]], result: npt.NDArray[Any], layers: Sequence[int], chunk: int
) -> tuple[int, float]:
    """As `verify`, of an allreduce that the network did: floats may be off by what scaling them costs.

    layers: elements of each buffer, end to end in the arrays. chunk: elements with one scale, from each layer's start.
    """
    step = _ELEMENTS_AT_A_TIME // chunk * chunk
    pieces = (
        slice(first, min(first + step, end))
        for begin, end in pairwise(accumulate(layers, initial=0))
        for first in range(begin, end, step)
    )
    return _compare((_scaled([values[piece] for values in inputs], chunk), result[piece]) for piece in pieces)


def _scaled(parts: Sequence[npt.NDArray[Any]], chunk: int) -> Expected:
    """The exact sum; its tolerance is that of `testbed.codec.block_exponent`, and half a unit in the last place."""
    exact = expected("allreduce", parts, 0)
    dtype, size = parts[0].dtype, len(parts[0])
    if np.issubdtype(dtype, np.integer):
        return exact
    chunks = -(-size // chunk)
    rows = np.zeros((chunks, chunk), dtype)
    largest = np.full(chunks, LEAST_EXPONENT, np.int8)
    for part in parts:
        rows.reshape(-1)[:size] = part
        np.maximum(largest, exponents(rows), out=largest)
    scaling = np.repeat(Quantiser(len(parts)).error_bound(largest)[:, 0], chunk)[:size]
    info = np.finfo(dtype)
    rounding = np.maximum(float(info.eps) * (np.abs(exact.exact) + scaling), float(info.smallest_subnormal)) / 2
    return replace(exact, tolerance=scaling + rounding)


def _compare(pieces: Iterable[tuple[Expected, npt.NDArray[Any]]]) -> tuple[int, float]:
    wrong, error, norm = 0, 0.0, 0.0
    for exact, result in pieces:
        wrong += exact.wrong(result)
        square = _square(exact)
        error += exact.nmse(result) * square
        norm += square
    return wrong, error / norm if error else 0.0


def _square(exact: Expected) -> float:
    return float(np.sum(exact.exact.astype(np.float64) ** 2))
