"""Recursive doubling: in each step pairs at twice the distance exchange and add the whole buffer.

lg n steps, the fewest possible, each with all bytes: for small buffers. Others than powers of two are folded.
"""

import numpy as np

from testbed.collective.fold import fold
from testbed.collective.schedule import COPY, REDUCE, Schedule, in_order, in_sequence, transfers


def generate(collective: str, ranks: int, root: int) -> Schedule:
    folded = fold(ranks)
    core = np.arange(len(folded.core))
    bit = np.arange(len(core).bit_length() - 1)[:, np.newaxis]
    phases = [
        transfers(0, folded.extras, folded.partners, 0, REDUCE),
        transfers(bit, folded.core, folded.core[core ^ (1 << bit)], 0, REDUCE),
        transfers(0, folded.partners, folded.extras, 0, COPY),
    ]
    return Schedule(collective, "recursive-doubling", ranks, 1, in_order(in_sequence(*phases)), root=root)
