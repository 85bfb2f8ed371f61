"""The randomised Hadamard transform: every coefficient has a little of every element of its block, and the reverse.

y = H(D x) / √p over blocks of p elements, D = ±1 drawn from a seed that all ranks share (OptiReduce, NSDI 2025: its
code encodes the whole tensor, padded with zeros to a power of two; ours draws D anew in every iteration). It is
orthonormal and linear, so that reducers add up coefficients and only the result is decoded: x = D(H y) / √p.

What a lost coefficient costs is spread over its block, evenly and with random signs. As the transform is orthonormal,
coefficients that are lost at random cost the same squared error as as many elements would; what it changes is whom they
strike: a lost tail costs the share of the energy that is lost, whichever part of the gradient would have been there
(a numpy model of ours, in the tests: less where that part is large, more where it is small).

`block` elements at a time cost lg p operations an element in place of lg of the whole tensor. With `stride` S
consecutive coefficients come from S different blocks (or from all, if there are fewer), so m lost in a row cost each
block at most ceil(m / S) of its coefficients: OptiNIC's interleaving (arXiv 2512.22743, from a reading note), where
S = p is the full one. Blocks are cut into as many groups as have S blocks at least, one after another on the wire.

**Bound.** A butterfly adds two numbers, so lg p stages and the factor 1 / √p cost a relative error in the norm of
(lg p + 2) u (Higham, "Accuracy and Stability of Numerical Algorithms", 24.1, for the FFT; u = eps / 2), which is
that of the block, there and back again; rounding to the dtype and adding n ranks up cost (n + 2) u. So no element of a
decoded sum is off by more than (2 lg p + n + 6) u Σ ‖block of a rank‖, and an underflow.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.streams import derive
from testbed.transport.parameters import Parameter, Values, whole

MOST_BLOCK = 1 << 30
PARAMETERS = (
    Parameter(
        "block",
        "elements that are transformed together, a power of two; 0: the whole tensor, padded to a power of two",
        0,
        "elements",
        "OptiReduce, NSDI 2025, its public code: the whole; OptiNIC, arXiv 2512.22743, a reading note: blocks",
        most=MOST_BLOCK,
    ),
    Parameter(
        "stride",
        "how many blocks consecutive coefficients come from",
        1,
        "blocks",
        "OptiNIC, arXiv 2512.22743, a reading note; the default is our reading",
        least=1,
    ),
)

Numbers = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]


def check(values: Values) -> tuple[str, str] | None:
    """What is wrong with parameters that are right each by itself: (key, message)."""
    block, stride = whole(values, "block"), whole(values, "stride")
    if block & (block - 1):
        return (
            "block",
            f"{block} is not a power of two: {1 << (block.bit_length() - 1)} and {1 << block.bit_length()} are",
        )
    if stride > 1 and not block:
        return "stride", "needs a block: the whole tensor is one, so there is nothing to take turns with"
    return None


def coded_elements(elements: int, values: Values) -> int:
    """Whole blocks."""
    block = block_of(elements, values)
    return -(-elements // block) * block


def block_of(elements: int, values: Values) -> int:
    """How many elements are transformed together."""
    return whole(values, "block") or 1 << max(0, elements - 1).bit_length()


class HadamardCoder:
    """Of one layer; see `testbed.codec.Coder`."""

    def __init__(self, elements: int, values: Values, seed: int) -> None:
        self._elements = elements
        self._block = block_of(elements, values)
        self._blocks = -(-elements // self._block)
        self._stride = whole(values, "stride")
        self._scale = np.float32(1 / np.sqrt(self._block))
        self._seed = seed
        self._drawn = -1  # the iteration that the signs are of
        self._signs: Floats = np.empty(0, np.float32)

    def encode(self, gradient: Numbers, iteration: int, out: Numbers) -> None:
        rows = np.zeros((self._blocks, self._block), np.float32)
        np.multiply(gradient, self._signs_of(iteration), out=rows.reshape(-1)[: self._elements])
        rows = transform(rows)
        for some, turned in self._in_turns(out):
            np.multiply(rows[some], self._scale, out=turned)

    def decode(self, coded: Numbers, iteration: int, out: Numbers) -> None:
        rows = np.empty((self._blocks, self._block), np.float32)
        for some, turned in self._in_turns(coded):
            rows[some] = turned
        rows = transform(rows)
        rows *= self._scale
        np.multiply(rows.reshape(-1)[: self._elements], self._signs_of(iteration), out=out)

    def error_bound(self, gradients: Sequence[Numbers]) -> npt.NDArray[np.float64]:
        info = np.finfo(gradients[0].dtype)
        norms = np.zeros(self._blocks)
        padded = np.zeros((self._blocks, self._block))
        for gradient in gradients:
            padded.reshape(-1)[: self._elements] = gradient
            norms += np.linalg.norm(padded, axis=1)
        roundings = 2 * (self._block.bit_length() - 1) + len(gradients) + 6
        underflow = (len(gradients) + 1) * self._block * float(info.smallest_subnormal)
        return np.repeat(float(info.eps) / 2 * roundings * norms + underflow, self._block)[: self._elements]

    def _in_turns(self, coded: Numbers) -> Iterator[tuple[slice, Numbers]]:
        """Some blocks at a time, and where `coded` has them: a view of shape (blocks, elements of each)."""
        if self._stride == 1:
            yield slice(0, self._blocks), coded.reshape(self._blocks, self._block)
            return
        groups = max(1, self._blocks // self._stride)
        bounds = [group * self._blocks // groups for group in range(groups + 1)]
        for first, last in pairwise(bounds):
            part = coded[first * self._block : last * self._block]
            yield slice(first, last), part.reshape(self._block, last - first).T

    def _signs_of(self, iteration: int) -> Floats:
        if iteration != self._drawn:
            draws = np.random.default_rng(derive(self._seed, "signs", iteration))
            bits = np.unpackbits(draws.integers(0, 256, -(-self._elements // 8), np.uint8), count=self._elements)
            self._signs = np.float32(1) - 2 * bits.astype(np.float32)
            self._drawn = iteration
        return self._signs


def transform(rows: Floats) -> Floats:
    """Each of `rows`, whose length is a power of two, times the Hadamard matrix (Sylvester's order); they are lost.

    Butterflies over the higher half of an index, then over the lower, turned so that numpy's loops are long.
    """
    count, size = rows.shape
    high = 1 << size.bit_length() // 2
    low = size // high
    spare = np.empty_like(rows)
    rows, spare = _butterflies(rows.reshape(count, high, low), spare.reshape(count, high, low))
    turned = spare.reshape(count, low, high)
    turned[:] = rows.swapaxes(1, 2)
    turned, rest = _butterflies(turned, rows.reshape(count, low, high))
    result = rest.reshape(count, high, low)
    result[:] = turned.swapaxes(1, 2)
    return result.reshape(count, size)


def _butterflies(values: Floats, spare: Floats) -> tuple[Floats, Floats]:
    """Axis 1 of three transformed, in one of the two arrays; and the other, which holds nothing."""
    count, size, inner = values.shape
    for bit in range(size.bit_length() - 1):
        pairs = count, size >> bit + 1, 2, inner << bit
        before, after = values.reshape(pairs), spare.reshape(pairs)
        np.add(before[:, :, 0], before[:, :, 1], out=after[:, :, 0])
        np.subtract(before[:, :, 0], before[:, :, 1], out=after[:, :, 1])
        values, spare = spare, values
    return values, spare
