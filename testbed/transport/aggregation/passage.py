"""One buffer on its way through units that average: the order of its packets, and what is known of each.

First come `LEAD` packets of exponents alone, with that of the first block; then each block's chunks, and before them,
if there is a block after it, one more packet of exponents alone. All packets of a block, that one too, carry the
exponent of the block after it, whose scale is known as soon as any mean of the block has come. So the scales cost
`LEAD` packets without values a buffer, and one a block: 0.12 % of the bytes at 64 chunks of 256 values, and 656 bytes.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.codec.block_exponent import LEAST_EXPONENT, Exponents
from testbed.transport.aggregation.reduction import Indices, Quantises, Reduction

LEAD = 8
UNSENT, SENT, THERE, MISSING = range(4)  # what a packet's mean is
ALONE = -1  # in place of a chunk's index
NEVER = -1


def packets(elements: int, values: int, block: int) -> tuple[int, int]:
    """How many packets a member sends for a buffer: of chunks, and of exponents alone."""
    chunks = -(-elements // values)
    return chunks, LEAD + -(-chunks // block) - 1 if chunks else 0


class Passage:
    """The buffer of reduction `id` in chunks of `values`, `block` of them with one scale.

    `chunk` and `tells` are of its packets, in order: which chunk, and of which block the exponent; `state` and
    `sent_ns` are what has become of them. `origin` is the first one's number in the job.
    """

    def __init__(
        self, id: int, buffer: npt.NDArray[Any], values: int, block: int, origin: int, quantiser: Quantises
    ) -> None:
        if buffer.dtype.kind != "f":
            raise ValueError(f"float32 or float16 is wanted, as means are rounded, not {buffer.dtype.name}")
        self._reduction = Reduction(id, buffer, values, 0, origin, quantiser)
        self._block, self._itemsize = block, buffer.itemsize
        self.id, self.origin, self.chunks = id, origin, self._reduction.chunks
        self.blocks = -(-self.chunks // block)
        blocks, chunk = np.arange(self.chunks) // block, np.arange(self.chunks)
        begins = block * np.arange(self.blocks - 1)  # a packet of exponents alone before these chunks
        lead = min(self.blocks, 1) * LEAD
        self.chunk: Indices = np.concatenate([np.full(lead, ALONE), np.insert(chunk, begins, ALONE)])
        self.tells: Indices = np.concatenate([np.zeros(lead, np.int64), np.insert(blocks, begins, blocks[begins]) + 1])
        self.packets = len(self.chunk)
        self.state = np.full(self.packets, UNSENT, np.uint8)
        self.sent_ns = np.full(self.packets, NEVER, np.int64)
        self.next = 0  # the first that is not sent
        self.begun_ns: int | None = None  # since when means are due: when the first one came, or should have
        self._common: Exponents = np.zeros(self.blocks + 1, np.int8)  # of all workers
        self._known = np.zeros(self.blocks + 1, np.bool_)
        self._own: Exponents = np.full(self.blocks + 1, LEAST_EXPONENT, np.int8)  # nothing follows the last block
        self._found = 0  # of how many blocks the member's own exponent is
        self._place = np.zeros(self.packets, np.int64)  # in what has come, to find what came twice

    def offered(self, packets: Indices) -> Exponents:
        """The exponents that packets carry; raises NotFiniteError (row: the chunk)."""
        tells = self.tells[packets]
        for block in range(self._found, min(int(tells.max()) + 1, self.blocks)):
            chunks = np.arange(block * self._block, min((block + 1) * self._block, self.chunks))
            self._own[block] = self._reduction.exponents(chunks).max()
            self._found = block + 1
        return self._own[tells]

    def once(self, packets: Indices) -> npt.NDArray[np.bool_]:
        """Which of `packets` are not there again behind."""
        places = np.arange(len(packets))
        self._place[packets] = places
        last: npt.NDArray[np.bool_] = self._place[packets] == places
        return last

    def scaled(self, packets: Indices) -> npt.NDArray[np.bool_]:
        """Which of `packets` could be sent: exponents alone, and chunks whose scale is known."""
        known: npt.NDArray[np.bool_] = (self.chunk[packets] == ALONE) | self._known[self.tells[packets] - 1]
        return known

    def words(self, packets: Indices) -> bytes:
        """What these packets, all of chunks, carry, end to end."""
        return self._reduction.contribution(self.chunk[packets], self._common[self.tells[packets] - 1])

    def accept(self, packets: Indices, means: npt.NDArray[np.int32], exponents: Exponents) -> None:
        """The means of `packets`, all of one kind, none of which was there."""
        tells = self.tells[packets]
        self._common[tells], self._known[tells] = exponents, True
        self.state[packets] = THERE
        if means.shape[1]:
            self._reduction.accept(self.chunk[packets], means, self._common[tells - 1])

    def pass_over(self) -> bool:
        """Give up the chunks at `next` if their block's scale can no longer come to be known; whether that is so."""
        block = int(self.tells[self.next]) - 1
        first, last, behind = np.searchsorted(self.tells, [block, block + 1, block + 2])
        if (self.state[first:last] == SENT).any():
            return False
        self.state[self.next : behind] = MISSING
        self.next = int(behind)
        return True

    def missing(self) -> tuple[tuple[int, int], ...]:
        """The byte ranges of the buffer whose sums never came."""
        lost = np.zeros(self.chunks + 2, np.int8)
        lost[1:-1][self.chunk[(self.chunk != ALONE) & (self.state != THERE)]] = 1
        edges = np.flatnonzero(np.diff(lost)).reshape(-1, 2)
        size, end = self._reduction.values * self._itemsize, self._reduction.elements * self._itemsize
        return tuple((first * size, min(last * size, end)) for first, last in edges.tolist())

    def element_of(self, chunk: int, column: int) -> int:
        """Which element of the buffer is at a place of a chunk."""
        return chunk * self._reduction.values + column
