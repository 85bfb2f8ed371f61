"""An algorithm of one's own: allreduce in two hops. In a spec: `algorithm: algorithm.py:direct`."""

import numpy as np

from testbed.collective.schedule import COPY, REDUCE, Schedule, in_sequence, transfers


def direct(collective: str, ranks: int, root: int) -> Schedule:
    """Rank r adds up chunk r of everybody, then sends the sum to everybody: the ring's bytes in two hops of delay.

    In step s rank r serves rank r + s + 1, so that in no step two ranks send to one.
    """
    step, rank = np.ogrid[: ranks - 1, :ranks]
    peer = (rank + step + 1) % ranks
    scatter = transfers(step, rank, peer, chunk=peer, op=REDUCE)
    gather = transfers(step, rank, peer, chunk=rank, op=COPY)
    return Schedule(collective, "direct", ranks, ranks, in_sequence(scatter, gather), root=root)
