"""The memory that all ranks of a run share: every rank's input, so that each can check its result against them."""

import mmap

import numpy as np
import numpy.typing as npt

_PAGE_BYTES = mmap.PAGESIZE


class SharedInputs:
    """One anonymous mapping, made before the ranks are forked: an input a rank, and how far each rank has come.

    `finished[rank]` is one more than the last iteration whose timed part the rank has behind it.
    """

    def __init__(self, ranks: int, elements: int, dtype: npt.DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.elements = elements
        stride = -(-elements * self.dtype.itemsize // _PAGE_BYTES) * _PAGE_BYTES
        table_bytes = -(-8 * ranks // _PAGE_BYTES) * _PAGE_BYTES
        self._map = mmap.mmap(-1, table_bytes + max(1, ranks * stride))
        self.finished: npt.NDArray[np.int64] = np.frombuffer(self._map, np.int64, ranks)
        self._inputs = [
            np.frombuffer(self._map, self.dtype, elements, table_bytes + rank * stride) for rank in range(ranks)
        ]

    def __len__(self) -> int:
        return len(self._inputs)

    def __getitem__(self, rank: int) -> npt.NDArray[np.generic]:
        """The input of `rank`, writable, shape (elements,)."""
        return self._inputs[rank]
