"""The parameter server: every rank pushes its whole buffer to the root, which adds them up and sends all the sum.

One rank serves and works too, so its port carries (n-1) buffers each way: the incast that the other algorithms avoid.
(A server's load spread over all ranks is another algorithm, direct reduce-scatter and all-gather.)
"""

import numpy as np

from testbed.collective.schedule import COPY, REDUCE, Schedule, in_sequence, transfers


def generate(collective: str, ranks: int, root: int) -> Schedule:
    workers = np.delete(np.arange(ranks), root)
    push = transfers(0, workers, root, 0, REDUCE)
    pull = transfers(0, root, workers, 0, COPY)
    return Schedule(collective, "parameter-server", ranks, 1, in_sequence(push, pull), root=root, incast=True)
