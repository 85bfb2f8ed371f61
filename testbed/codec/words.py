"""Floats as words of a few bits whose mean an optical interconnect forms: one scale for a block of chunks.

After OptINC (arXiv 2603.28290), which quantises blocks to 8 or 16 bits; the scale is ours: a power of two and the
number of levels, as in `testbed.codec.block_exponent`. With e above the exponents of a block's values at all workers,

    step = 2^e / (2^(bits - 1) - 1),   word = round(x / step) + 2^(bits - 1),   mean = step * (mean word - 2^(bits - 1))

so words lie from 1 to 2^bits - 1, as light has no negative levels. Both roundings are to the nearest, halves to even.

**Bound.** Rounding a value costs half a step, and the mean of n such errors is not larger; rounding the mean costs half
a step more. So a mean is off by at most a step, and the sum of n workers, n times the mean, by n steps, which is
n 2^e / (2^(bits - 1) - 1); it is then rounded once to the buffer's dtype. Units in a cascade that round on each level
add half a step for each but one.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.codec.block_exponent import BIG_ENDIAN, Exponents, Floats, Integers

BITS = (8, 16)
_F64_STEPS = 2.0**-20  # what float64 adds is far below


class WordQuantiser:
    """To words of `bits` bits, and from their mean back to the sum over `workers`.

    Arrays have the shape (rows, values), exponents one a row: what holds for the row's block at all workers.
    """

    def __init__(self, workers: int, bits: int) -> None:
        above = np.concatenate([np.arange(128), np.arange(-128, 0)]) + 1  # e, by exponent: negative ones at the end
        most = (1 << bits - 1) - 1
        self._workers = workers
        self._zero = 1 << bits - 1
        self._scales = np.ldexp(float(most), -above)[:, np.newaxis]
        self._steps = np.ldexp(1.0 / most, above)[:, np.newaxis]

    def quantise(self, rows: Floats, exponents: Exponents) -> Integers:
        """`rows` as big-endian words."""
        scaled = np.multiply(rows, self._scales[exponents], dtype=np.float64)
        words: Integers = (np.rint(scaled, out=scaled) + self._zero).astype(BIG_ENDIAN)
        return words

    def restore(self, means: Integers, exponents: Exponents, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """The sums that mean words stand for, rounded to `dtype` (beyond its range: infinite)."""
        with np.errstate(over="ignore"):
            sums = (means.astype(np.float64) - self._zero) * (self._workers * self._steps[exponents])
            found: npt.NDArray[Any] = sums.astype(dtype)
        return found

    def error_bound(self, exponents: Exponents) -> npt.NDArray[np.float64]:
        """How far a sum, before it is rounded to the buffer's dtype, may be from the exact one; shape (rows, 1)."""
        bound: npt.NDArray[np.float64] = (1 + _F64_STEPS) * self._workers * self._steps[exponents]
        return bound
