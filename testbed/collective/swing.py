"""Swing: halving and doubling between ranks that a ring's hops separate little, the larger data the less.

De Sensi, Bonato, Saam and Hoefler, "Swing: short-cutting rings for higher bandwidth allreduce" (NSDI 2024), recalled;
the variant that is bandwidth-optimal. In step s even rank r meets r + d and odd rank r meets r - d, where
d = (1 - (-2)^(s+1)) / 3 = 1, -1, 3, -5, 11, ...: to and fro, 2^s / 3 away at the most where recursive doubling is 2^s.
The first step moves half of the buffer to a neighbour, the next a quarter, and so on; the all-gather goes the way back.
2 lg n steps with the ring's bytes for a power of two; others are folded (`testbed.collective.fold`). Ranks are taken as
a ring: the paper's other dimensions of a torus are for who knows where ranks are.
"""

import numpy as np
import numpy.typing as npt

from testbed.collective.fold import Ranks, fold
from testbed.collective.schedule import COPY, REDUCE, Schedule, Transfers, in_order, in_sequence, merged, transfers

Sets = npt.NDArray[np.bool_]


def generate(collective: str, ranks: int, root: int) -> Schedule:
    """Allreduce: a chunk for each core rank."""
    folded = fold(ranks)
    chunks = len(folded.core)
    down, up = _halves(folded.core)
    before = transfers(0, folded.extras, folded.partners, 0, REDUCE, count=chunks)
    after = transfers(0, folded.partners, folded.extras, 0, COPY, count=chunks)
    rows = in_order(in_sequence(before, *down, *up, after))
    return Schedule(collective, "swing", ranks, chunks, rows, root=root)


def peers(ranks: int, step: int) -> Ranks:
    """Whom each of a power of two of ranks meets."""
    rank, distance = np.arange(ranks), (1 - (-2) ** (step + 1)) // 3
    met: Ranks = np.where(rank % 2, rank - distance, rank + distance) % ranks
    return met


def _halves(core: Ranks) -> tuple[list[Transfers], list[Transfers]]:
    """The steps of the reduce-scatter and of the all-gather, each by itself."""
    count = len(core)
    down: list[Transfers] = []
    up: list[Transfers] = []
    # By rank, whose chunks it stands for: from the last step on, its own and what its peers of later steps stand for.
    stands: Sets = np.eye(count, dtype=bool)
    for step in reversed(range(count.bit_length() - 1)):
        peer = peers(count, step)
        rank, chunk = np.nonzero(stands[peer])
        down.insert(0, merged(transfers(0, core[rank], core[peer[rank]], chunk, REDUCE)))
        rank, chunk = np.nonzero(stands)
        up.append(merged(transfers(0, core[rank], core[peer[rank]], chunk, COPY)))
        stands = stands | stands[peer]
    return down, up
