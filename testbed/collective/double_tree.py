"""Two complementary binary trees, each of which sums up one half of the buffer and sends the sum down, chunk by chunk.

After Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan" (Parallel
Computing 35(12), 2009), as NCCL does allreduce (recalled): the second tree is the first mirrored, or for an odd number
of ranks shifted by one, so that nearly every rank is a leaf of one of them, and no port carries more than two buffers
each way. Chunks follow each other: with c of them a tree and trees of height h = ceil(lg n), c + 2 h - 1 steps; what a
small buffer waits for are 2 h messages, what a large one does are 2 buffers through a port.
"""

import numpy as np
import numpy.typing as npt

from testbed.collective.schedule import COPY, REDUCE, Schedule, in_order, transfers
from testbed.errors import UsageError

Ranks = npt.NDArray[np.int64]


def generate(collective: str, ranks: int, root: int, *, chunks: int = 16) -> Schedule:
    """Allreduce; `chunks` of each tree's half. A rank may receive from both children and a parent in one step."""
    if chunks < 1:
        raise UsageError(f"chunks {chunks}: each tree's half is one chunk at least")
    parents, depth = binary_tree(ranks)
    places = np.arange(ranks)
    second = places[::-1] if ranks % 2 == 0 else (places + 1) % ranks  # the rank at each place of the second tree
    height = int(depth.max(initial=0))
    child = np.flatnonzero(parents >= 0)
    parent, depth = parents[child], depth[child]
    parts = [transfers(0, [], [], 0, COPY)]
    for tree, rank in enumerate((places, second)):
        for chunk in range(chunks):
            number = tree * chunks + chunk
            parts.append(transfers(chunk + height - depth, rank[child], rank[parent], number, REDUCE))
            parts.append(transfers(chunk + height + depth - 1, rank[parent], rank[child], number, COPY))
    rows = in_order(np.concatenate(parts))
    return Schedule(collective, "double-tree", ranks, 2 * chunks, rows, root=root, incast=ranks > 2)


def binary_tree(ranks: int) -> tuple[Ranks, Ranks]:
    """The parent (-1: none) and the depth of each place of a tree whose odd places are its leaves; 0 is its root.

    A place's lowest bit that is set says how high it is; where its parent would be beyond the last, it hangs from the
    next one below.
    """
    place = np.arange(ranks)
    low = place & -place
    above = (place ^ low) | (low << 1)
    parents = np.where(above < ranks, above, place ^ low)
    parents[:1] = -1
    depth = np.zeros(ranks, np.int64)
    at = parents.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, parents[at], -1)
    return parents, depth
