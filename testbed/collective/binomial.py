"""The binomial tree: broadcast in ⌈lg n⌉ steps, the number of ranks that have the data doubling in each.

Allreduce is its mirror image (a reduction to the root) followed by the broadcast.
"""

import numpy as np

from testbed.collective.schedule import COPY, REDUCE, Schedule, Transfers, in_order, in_sequence, transfers


def generate(collective: str, ranks: int, root: int) -> Schedule:
    down: list[Transfers] = []
    up: list[Transfers] = []
    for bit in reversed(range((ranks - 1).bit_length())):
        parent = np.arange(0, ranks - (1 << bit), 2 << bit)  # counted from the root
        child = (parent + (1 << bit) + root) % ranks
        parent = (parent + root) % ranks
        down.append(transfers(0, parent, child, 0, COPY))
        up.insert(0, transfers(0, child, parent, 0, REDUCE))
    phases = down if collective == "broadcast" else up + down
    rows = in_order(in_sequence(*phases)) if phases else transfers(0, [], [], 0, COPY)
    return Schedule(collective, "binomial", ranks, 1, rows, root=root)
