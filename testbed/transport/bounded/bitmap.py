"""Which chunks of a message are there: a flag a chunk in memory, a bit a chunk on the wire, the lowest first."""

import numpy as np

from testbed.transport.endpoint import Buffer


class Bitmap:
    """Of a message of `size_bytes` cut into chunks of `chunk_bytes`, the last of which may be shorter.

    An empty message has one chunk, which is empty.
    """

    def __init__(self, size_bytes: int, chunk_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.chunk_bytes = chunk_bytes
        self.chunks = max(1, -(-size_bytes // chunk_bytes))
        self.there = 0
        self._flags = bytearray(self.chunks)

    def __contains__(self, chunk: int) -> bool:
        return self._flags[chunk] != 0

    def add(self, chunk: int) -> bool:
        """Whether it was not there before."""
        if self._flags[chunk]:
            return False
        self._flags[chunk] = 1
        self.there += 1
        return True

    def span(self, chunk: int) -> tuple[int, int]:
        """Its bytes [first, last) in the message."""
        first = chunk * self.chunk_bytes
        return first, min(self.size_bytes, first + self.chunk_bytes)

    def next_hole(self, chunk: int) -> int:
        """The first chunk from `chunk` on that is not there; `chunks` if there is none."""
        at = self._flags.find(0, chunk)
        return self.chunks if at < 0 else at

    def hole_end(self, chunk: int, most: int) -> int:
        """Where the run of chunks that are not there ends which begins with `chunk`; it has at most `most`."""
        end = min(self.chunks, chunk + most)
        at = self._flags.find(1, chunk, end)
        return end if at < 0 else at

    def missing(self) -> tuple[tuple[int, int], ...]:
        """The bytes [first, last) that are not there, neighbours as one."""
        ranges: list[tuple[int, int]] = []
        chunk = self.next_hole(0)
        while chunk < self.chunks:
            end = self.hole_end(chunk, self.chunks)
            ranges.append((self.span(chunk)[0], self.span(end - 1)[1]))
            chunk = self.next_hole(end)
        return tuple(ranges)

    def packed(self, first: int, most: int) -> bytes:
        """The bits of at most `most` chunks from `first` on."""
        flags = np.frombuffer(self._flags, np.uint8)[first : first + most]
        return np.packbits(flags, bitorder="little").tobytes()

    def merge(self, first: int, packed: Buffer, most: int) -> bool:
        """Add what another's bits say from chunk `first` on, of which there are at most `most`; whether they fit."""
        count = min(most, self.chunks - first)
        if count <= 0 or len(packed) != -(-count // 8):
            return False
        theirs = np.unpackbits(np.frombuffer(packed, np.uint8), count=count, bitorder="little")
        flags = np.frombuffer(self._flags, np.uint8)
        np.bitwise_or(flags[first : first + count], theirs, out=flags[first : first + count])
        self.there = int(np.count_nonzero(flags))
        return True
