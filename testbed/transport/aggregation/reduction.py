"""One buffer being summed: its chunks as rows of values, in and out of what packets carry."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from testbed.codec import block_exponent
from testbed.codec.block_exponent import (
    BIG_ENDIAN,
    LEAST_EXPONENT,
    Exponents,
    Floats,
    Integers,
    NotFiniteError,
)

Indices = npt.NDArray[np.int64]
DTYPES = ("float32", "float16", "int32")
_AHEAD_CHUNKS = 256  # whose exponents are found at once


class Quantises(Protocol):
    """What makes integers of floats, and floats of what the switches make of those (`testbed.codec`)."""

    def quantise(self, rows: Floats, exponents: Exponents, /) -> Integers: ...

    def restore(self, sums: Integers, exponents: Exponents, dtype: npt.DTypeLike, /) -> npt.NDArray[Any]: ...


class Reduction:
    """The reduction `id` of `buffer` in chunks of `values` elements, the last one padded with zeros.

    Chunk i has the number `origin + i` in the job, and takes the slot of its number modulo `slots`. `number` is the
    first that no earlier reduction has. Floats have a round of exponents alone in each slot before its first chunk, a
    turn of the slots earlier (`first` is the index of the first of these), so that each exponent travels a turn ahead.
    """

    def __init__(
        self, id: int, buffer: npt.NDArray[Any], values: int, slots: int, number: int, quantiser: Quantises
    ) -> None:
        if buffer.ndim != 1 or not buffer.flags.c_contiguous or buffer.dtype.name not in DTYPES:
            raise ValueError(f"a 1-D contiguous buffer of {', '.join(DTYPES)} is wanted, not {buffer.dtype.name}")
        self.id = id
        self.values = values
        self.elements = len(buffer)
        self.chunks = -(-self.elements // values)
        self.floats = buffer.dtype.kind == "f"
        self.first = -slots if self.floats else 0
        self.origin = number - self.first
        self.left = self.chunks
        self._quantiser = quantiser
        self._whole = self.elements // values
        self._rows = buffer[: self._whole * values].reshape(-1, values)
        self._rest = buffer[self._whole * values :]
        self._padded = np.zeros((1, values), buffer.dtype)
        self._padded[0, : len(self._rest)] = self._rest
        self._exponents: Exponents = np.full(self.chunks + slots, LEAST_EXPONENT, np.int8)  # none follow the last
        self._known = 0 if self.floats else self.chunks

    @property
    def next_number(self) -> int:
        """The number after those of all its rounds."""
        return self.origin + self.chunks

    def exponents(self, chunks: Indices) -> Exponents:
        """The block exponents of `chunks`, which may lie beyond the last; raises NotFiniteError (row: the chunk)."""
        wanted = min(int(chunks.max()) + 1, self.chunks)
        while self._known < wanted:
            first, last = self._known, min(self._known + _AHEAD_CHUNKS, self._whole)
            rows = self._rows[first:last] if first < last else self._padded
            try:
                self._exponents[first : first + len(rows)] = block_exponent.exponents(rows)
            except NotFiniteError as error:
                raise NotFiniteError(first + error.row, error.column, error.value) from None
            self._known += len(rows)
        return self._exponents[chunks]

    def contribution(self, chunks: Indices, exponents: Exponents) -> bytes:
        """What packets carry of `chunks`, end to end; `exponents` hold for all workers."""
        rows = self._gather(chunks)
        if self.floats:
            return self._quantiser.quantise(rows, exponents).tobytes()
        return rows.astype(BIG_ENDIAN).tobytes()

    def accept(self, chunks: Indices, sums: npt.NDArray[np.int32], exponents: Exponents) -> None:
        """Put the `sums` of `chunks` into their places."""
        dtype = self._rows.dtype
        found = self._quantiser.restore(sums, exponents, dtype) if self.floats else sums
        if self._has_rest(chunks):
            padded = chunks == self._whole
            self._rest[:] = found[padded][0, : len(self._rest)]
            chunks, found = chunks[~padded], found[~padded]
        self._rows[chunks] = found
        self.left -= len(sums)

    def elements_of(self, chunk: int) -> str:
        """Where chunk `chunk` lies in the buffer."""
        first = chunk * self.values
        return f"elements {first} to {min(first + self.values, self.elements) - 1}"

    def _has_rest(self, chunks: Indices) -> bool:
        """Whether the padded chunk is one of `chunks`."""
        return bool(len(self._rest)) and self._whole in chunks

    def _gather(self, chunks: Indices) -> npt.NDArray[Any]:
        if not self._has_rest(chunks):
            return self._rows[chunks]
        rows = np.empty((len(chunks), self.values), self._rows.dtype)
        padded = chunks == self._whole
        rows[padded] = self._padded
        rows[~padded] = self._rows[chunks[~padded]]
        return rows


def rounds(elements: int, values: int, slots: int, *, floats: bool) -> tuple[int, int]:
    """How many packets a member sends, without retransmissions, for a buffer: of chunks, and of exponents alone."""
    chunks = -(-elements // values)
    return chunks, min(chunks, slots) if floats else 0
