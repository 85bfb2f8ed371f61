"""`gradients: random`: normally distributed numbers, keyed by rank and iteration; nothing is learnt."""

import numpy as np
import numpy.typing as npt

from testbed.streams import derive
from testbed.training.source import Layer


class DrawnGradients:
    """One layer of `elements` standard normal numbers, or of integers so small that their sum cannot overflow."""

    def __init__(self, *, rank: int, ranks: int, seed: int, dtype: npt.DTypeLike, elements: int) -> None:
        self._rank = rank
        self._ranks = ranks
        self._seed = seed
        self._dtype = np.dtype(dtype)
        self._elements = elements

    @property
    def size_bytes(self) -> int:
        return self._elements * self._dtype.itemsize

    def layers(self, iteration: int) -> list[Layer]:
        generator = np.random.default_rng(derive(self._seed, "gradients", self._rank, iteration))
        if np.issubdtype(self._dtype, np.integer):
            most = int(np.iinfo(self._dtype).max) // self._ranks
            return [generator.integers(-most, most, self._elements, self._dtype, endpoint=True)]
        return [generator.standard_normal(self._elements, np.float32).astype(self._dtype)]

    def apply(self, iteration: int, reduced: list[Layer]) -> None:
        pass

    def digest(self) -> str:
        return ""

    def metrics(self) -> dict[str, float]:
        return {}
