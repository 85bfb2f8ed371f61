"""All layers of a job's gradient, coded end to end: what the ranks of a job encode and decode with."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.codec import Given, settle
from testbed.streams import derive

Numbers = npt.NDArray[Any]


class CodedLayers:
    """`layers`: the elements of each. The ranks of a job have the same `seed`, so that sums of what they code mean
    something; raises CodecError."""

    def __init__(self, given: Given, layers: Sequence[int], seed: int) -> None:
        codec, values = settle(given)
        self.coded = tuple(codec.coded_elements(elements, values) for elements in layers)
        self._coders = [codec.make(elements, values, derive(seed, "codec", i)) for i, elements in enumerate(layers)]
        self._plain = _slices(layers)
        self._wire = _slices(self.coded)

    @property
    def elements(self) -> int:
        """Of the gradient."""
        return self._plain[-1].stop if self._plain else 0

    def encode(self, gradient: Numbers, iteration: int, out: Numbers) -> None:
        """`gradient` has all layers end to end, and `out` all coded ones."""
        for coder, plain, wire in zip(self._coders, self._plain, self._wire, strict=True):
            coder.encode(gradient[plain], iteration, out[wire])

    def decode(self, coded: Numbers, iteration: int, out: Numbers) -> None:
        """The reverse, of what ranks encoded in that iteration or a sum of it."""
        for coder, plain, wire in zip(self._coders, self._plain, self._wire, strict=True):
            coder.decode(coded[wire], iteration, out[plain])

    def error_bound(self, gradients: Sequence[Numbers]) -> npt.NDArray[np.float64]:
        """How far the elements of their decoded sum may be from the exact one."""
        parts = [
            coder.error_bound([gradient[plain] for gradient in gradients])
            for coder, plain in zip(self._coders, self._plain, strict=True)
        ]
        return np.concatenate(parts) if parts else np.empty(0)


def _slices(lengths: Sequence[int]) -> list[slice]:
    return [slice(first, last) for first, last in pairwise(accumulate(lengths, initial=0))]
