"""Whether ranks' results are the exact ones, from the inputs of all ranks, in pieces that fit any memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.codec.block_exponent import LEAST_EXPONENT, Quantiser, exponents
from testbed.collective.reference import ELEMENTWISE, Expected, expected

_ELEMENTS_AT_A_TIME = 1 << 18
_ALIKE = (*ELEMENTWISE, "all-gather")  # all ranks must have the same
Results = Mapping[int, npt.NDArray[Any]]  # by rank
Checked = Mapping[int, tuple[int | None, float | None]]  # by rank: wrong elements, normalised mean square error
_Verified = dict[int, tuple[int, float]]


def verify(
    collective: str, inputs: Sequence[npt.NDArray[Any]], result: npt.NDArray[Any], rank: int, root: int
) -> tuple[int, float]:
    """How many elements are wrong, and the normalised mean square error. All arrays are 1-D and of one length."""
    return verify_all(collective, inputs, {rank: result}, root)[rank]


def verify_all(
    collective: str,
    inputs: Sequence[npt.NDArray[Any]],
    results: Results,
    root: int,
    slack: npt.NDArray[np.float64] | None = None,
) -> _Verified:
    """As `verify`, of several ranks; what they must have alike is worked out once.

    slack: by how much more than sums do elements may be off (with collectives that are elementwise).
    """
    if collective not in _ALIKE and len(results) > 1:
        return {rank: verify(collective, inputs, result, rank, root) for rank, result in results.items()}
    size = len(inputs[0])
    step = _ELEMENTS_AT_A_TIME if collective in ELEMENTWISE else size
    pieces = (slice(first, first + step) for first in range(0, size, step))
    some_rank = next(iter(results))

    def exact(piece: slice) -> Expected:
        found = expected(collective, [values[piece] for values in inputs], some_rank, root)
        return found if slack is None else replace(found, tolerance=found.tolerance + slack[piece])

    return _compare(((piece, exact(piece)) for piece in pieces), results)


def verify_sums(inputs: Sequence[npt.NDArray[Any]], results: Results, layers: Sequence[int], chunk: int) -> _Verified:
    """As `verify_all`, of an allreduce that the network did: floats may be off by what scaling them costs.

    layers: elements of each buffer, end to end in the arrays. chunk: elements with one scale, from each layer's start.
    """
    step = _ELEMENTS_AT_A_TIME // chunk * chunk
    pieces = (
        slice(first, min(first + step, end))
        for begin, end in pairwise(accumulate(layers, initial=0))
        for first in range(begin, end, step)
    )
    return _compare(((piece, _scaled([values[piece] for values in inputs], chunk)) for piece in pieces), results)


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


def _compare(pieces: Iterable[tuple[slice, Expected]], results: Results) -> _Verified:
    """Ranks mostly have the same bits as the one before, of which all is known then."""
    wrong, error, norm = dict.fromkeys(results, 0), dict.fromkeys(results, 0.0), 0.0
    for piece, exact in pieces:
        square = _square(exact)
        norm += square
        bits, found = np.empty(0, np.uint8), (0, 0.0)
        for rank, result in results.items():
            own = result[piece].view(np.uint8)
            if not np.array_equal(own, bits):
                bits, found = own, (exact.wrong(result[piece]), exact.nmse(result[piece]) * square)
            wrong[rank] += found[0]
            error[rank] += found[1]
    return {rank: (wrong[rank], error[rank] / norm if error[rank] else 0.0) for rank in results}


def _square(exact: Expected) -> float:
    return float(np.sum(exact.exact.astype(np.float64) ** 2))
