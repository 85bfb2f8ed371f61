"""Floats as 32-bit integers that a switch can add up: each chunk is scaled by the largest exponent among the workers.

Source: SwitchML (NSDI 2021, section 3.7, and its public worker): scale = (2^31 - 1) / (n 2^e), e the exponent above all
values of the chunk at all n workers. Ours differs in one thing: the share is rounded down, Q = floor((2^31 - 1) / n),
since n values rounded up to (2^31 - 1) / n could overflow (n = 2 does). The switch takes the maximum of the *block
exponents* `floor(log2(max |x|))`, which lie from -127 (subnormal float32) to 127; -128 is that of zeros alone. So

    e = block exponent + 1,   step = 2^e / Q,   value = round(x / step), to even,   sum = step * (sum of the values)

**Bound.** |x| < 2^e, so no value exceeds Q and no sum 2^31 - 1. Rounding adds half a step at each of n workers; what
float64 adds (x / step below 2^31 / n, and the product of sum and step) is below 2^-20 of a step in all. So a sum is
off by at most (n / 2 + 2^-20) steps, which is n^2 2^e / 2^32 to within some n / 2^31 of it, and is then rounded once to
the buffer's dtype. As 2^e <= 2 max |x| of the chunk, that is n^2 / 2^31 of the largest value (32 workers: 2^-21; a
float32 has 2^-24 of its own). Subnormals count as having the exponent -127 (float16: -15), zeros -128.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

LEAST_EXPONENT = -128  # of zeros alone
BIG_ENDIAN = np.dtype(">i4")
_MOST = 2**31 - 1
_F64_STEPS = 2.0**-20

Floats = npt.NDArray[np.float32] | npt.NDArray[np.float16]
Exponents = npt.NDArray[np.int8]
Integers = npt.NDArray[np.int32]  # of either byte order


class NotFiniteError(ValueError):
    """The element `row`, `column` of a block is infinite or not a number."""

    def __init__(self, row: int, column: int, value: float) -> None:
        super().__init__(f"element {column} of row {row} is {value}")
        self.row = row
        self.column = column
        self.value = value


def exponents(rows: Floats) -> Exponents:
    """The block exponent of each row of `rows` (shape (rows, values)), `LEAST_EXPONENT` where all are 0.

    Raises NotFiniteError for the first element that is infinite or not a number.
    """
    integers, fraction_bits, bias = (np.int16, 10, 15) if rows.dtype == np.float16 else (np.int32, 23, 127)
    largest = np.bitwise_and(rows.view(integers), np.iinfo(integers).max).max(axis=1)  # bits are ordered as magnitudes
    biased = largest >> fraction_bits
    if biased.max(initial=0) == 2 * bias + 1:
        row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
        raise NotFiniteError(row, column, float(rows[row, column]))
    return np.where(largest == 0, LEAST_EXPONENT, biased - bias).astype(np.int8)


class Quantiser:
    """To integers and back, for a sum over `workers`. Arrays have the shape (rows, values), exponents one a row."""

    def __init__(self, workers: int) -> None:
        above = (
            np.concatenate([np.arange(128), np.arange(-128, 0)]) + 1
        )  # e, by block exponent: negative ones at the end
        self._workers = workers
        self._scales = np.ldexp(float(_MOST // workers), -above)[:, np.newaxis]
        self._steps = np.ldexp(1.0 / (_MOST // workers), above)[:, np.newaxis]

    def quantise(self, rows: Floats, block_exponents: Exponents) -> Integers:
        """`rows` as big-endian integers; the exponents are at least those of the rows."""
        scaled = np.multiply(rows, self._scales[block_exponents], dtype=np.float64)
        values: Integers = np.rint(scaled, out=scaled).astype(BIG_ENDIAN)
        return values

    def restore(self, sums: Integers, block_exponents: Exponents, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """What the sums of such integers stand for, rounded to `dtype` (beyond its range: infinite)."""
        with np.errstate(over="ignore"):
            found: npt.NDArray[Any] = (sums * self._steps[block_exponents]).astype(dtype)
        return found

    def error_bound(self, block_exponents: Exponents) -> npt.NDArray[np.float64]:
        """How far a sum, before it is rounded to the buffer's dtype, may be from the exact one; shape (rows, 1)."""
        bound: npt.NDArray[np.float64] = (self._workers / 2 + _F64_STEPS) * self._steps[block_exponents]
        return bound
