"""`gradients: none`: zeros that cost nothing; nothing is learnt. For what only the bytes on the wire are asked of."""

import numpy as np
import numpy.typing as npt

from testbed.training.source import Layer


class NoGradients:
    """One layer of `elements` zeros, which is no memory until somebody writes to it."""

    def __init__(self, *, dtype: npt.DTypeLike, elements: int) -> None:
        self._dtype = np.dtype(dtype)
        self._elements = elements

    @property
    def size_bytes(self) -> int:
        return self._elements * self._dtype.itemsize

    def layers(self, iteration: int) -> list[Layer]:  # noqa: ARG002
        return [np.zeros(self._elements, self._dtype)]

    def apply(self, iteration: int, reduced: list[Layer]) -> None:
        pass

    def digest(self) -> str:
        return ""

    def metrics(self) -> dict[str, float]:
        return {}
