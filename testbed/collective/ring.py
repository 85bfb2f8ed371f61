"""Ring algorithms: every rank talks to its two neighbours only, and every link carries the same.

Allreduce is reduce-scatter followed by all-gather, 2(n-1) steps of 1/n of the buffer: the fewest bytes possible
(Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 2009).
"""

import numpy as np

from testbed.collective.schedule import COPY, REDUCE, Schedule, Transfers, in_sequence, transfers


def generate(collective: str, ranks: int, root: int) -> Schedule:
    """The ring for allreduce, reduce-scatter, all-gather, or broadcast as a pipelined chain."""
    phases = {
        "allreduce": lambda: in_sequence(_reduce_scatter(ranks), _all_gather(ranks)),
        "reduce-scatter": lambda: _reduce_scatter(ranks),
        "all-gather": lambda: _all_gather(ranks),
        "broadcast": lambda: _chain(ranks, root),
    }
    return Schedule(collective, "ring", ranks, ranks, phases[collective](), root=root)


def _reduce_scatter(ranks: int) -> Transfers:
    """Chunk c starts at rank c+1, gathers a contribution at each rank and ends at rank c."""
    step, source = np.ogrid[: ranks - 1, :ranks]
    return transfers(step, source, (source + 1) % ranks, (source - step - 1) % ranks, REDUCE)


def _all_gather(ranks: int) -> Transfers:
    """Chunk c starts at rank c and is passed all the way round."""
    step, source = np.ogrid[: ranks - 1, :ranks]
    return transfers(step, source, (source + 1) % ranks, (source - step) % ranks, COPY)


def _chain(ranks: int, root: int) -> Transfers:
    """Chunks follow each other down the chain that starts at `root`; the c-th leaves the k-th rank in step c + k."""
    hop, chunk = (axis.ravel() for axis in np.mgrid[: ranks - 1, :ranks])
    step = hop + chunk
    order = np.lexsort(((hop + root) % ranks, step))
    source = (hop + root)[order]
    return transfers(step[order], source % ranks, (source + 1) % ranks, chunk[order], COPY)
