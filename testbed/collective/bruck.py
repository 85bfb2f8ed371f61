"""Bruck's algorithms: ⌈lg n⌉ steps, the fewest possible, for all-gather and for all-to-all of small buffers.

Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport
message-passing systems" (IEEE TPDS 8(11), 1997). In all-gather every rank hands all that it has to the rank that is a
power of two before it. In all-to-all what is for the rank j further on goes the way in as many hops as j has bits, so
that each chunk travels lg n / 2 times on average.

The original turns the blocks round in memory of its own at the beginning and the end. A schedule has no such memory:
what is under way takes the places of what has left. The chunk for j further on is at place j (counted from its rank) to
begin with; it has to end at -j. j and -j have the same lowest bit if n is a power of two, so in that bit's step they
change places. Of other numbers of ranks all-to-all is refused.
"""

import numpy as np

from testbed.collective.schedule import COPY, Schedule, Transfers, in_sequence, merged, transfers
from testbed.errors import UsageError


def generate(collective: str, ranks: int, root: int) -> Schedule:
    """All-gather over any number of ranks; all-to-all over a power of two, else UsageError."""
    if collective == "all-to-all" and ranks & (ranks - 1):
        raise UsageError(
            f"bruck does all-to-all for powers of two, not for {ranks} ranks", hint="pairwise does it for any number"
        )
    one = _gather if collective == "all-gather" else _exchange
    steps = [one(ranks, bit) for bit in range((ranks - 1).bit_length())]
    return Schedule(collective, "bruck", ranks, ranks, in_sequence(transfers(0, [], [], 0, COPY), *steps), root=root)


def _gather(ranks: int, bit: int) -> Transfers:
    """Each rank has the chunks of itself and of 2^bit - 1 ranks after it."""
    source, further = np.ogrid[:ranks, : min(1 << bit, ranks - (1 << bit))]
    return merged(transfers(0, source, (source - (1 << bit)) % ranks, (source + further) % ranks, COPY))


def _exchange(ranks: int, bit: int) -> Transfers:
    """All that has this bit of its way before it goes on by it."""
    way = np.flatnonzero(np.arange(ranks) >> bit & 1)
    lowest = way & -way
    before, after = (np.where(lowest >> each, way, -way) for each in (bit, bit + 1))
    source = np.arange(ranks)[:, np.newaxis]
    target = (source + (1 << bit)) % ranks
    return merged(transfers(0, source, target, (source + before) % ranks, COPY, at=(target + after) % ranks))
