"""Recursive halving (reduce-scatter) and doubling (all-gather); one after the other they are Rabenseifner's allreduce.

2 lg n steps and as few bytes as the ring's, for a power of two; others are folded (`testbed.collective.fold`).
"""

import numpy as np

from testbed.collective.fold import Fold, Ranks, fold
from testbed.collective.schedule import COPY, REDUCE, Schedule, Transfers, in_order, in_sequence, transfers


def generate(collective: str, ranks: int, root: int) -> Schedule:
    """Allreduce cuts the buffer into one chunk for each core rank, the other two into one for each rank."""
    folded = fold(ranks)
    extras, partners = folded.extras, folded.partners
    if collective == "allreduce":
        chunks, bounds = len(folded.core), np.arange(len(folded.core) + 1)
        before = transfers(0, extras, partners, 0, REDUCE, count=chunks)
        after = transfers(0, partners, extras, 0, COPY, count=chunks)
        phases = [before, _halving(folded, bounds), _doubling(folded, bounds), after]
    elif collective == "reduce-scatter":
        chunks = ranks
        before = transfers(0, extras, partners, 0, REDUCE, count=chunks)
        phases = [before, _halving(folded, folded.bounds), transfers(0, partners, extras, extras, COPY)]
    else:
        chunks = ranks
        after = transfers(0, partners, extras, 0, COPY, count=chunks)
        phases = [transfers(0, extras, partners, extras, COPY), _doubling(folded, folded.bounds), after]
    return Schedule(collective, "halving-doubling", ranks, chunks, in_order(in_sequence(*phases)), root=root)


def _halving(folded: Fold, bounds: Ranks) -> Transfers:
    """Each pair splits the range it shares: each sends the half that the other will own, and adds the one it gets."""
    distances = [1 << bit for bit in reversed(range(len(folded.core).bit_length() - 1))]
    return _exchange(folded, bounds, distances, REDUCE)


def _doubling(folded: Fold, bounds: Ranks) -> Transfers:
    """Each pair tells the other all that it has."""
    distances = [1 << bit for bit in range(len(folded.core).bit_length() - 1)]
    return _exchange(folded, bounds, distances, COPY)


def _exchange(folded: Fold, bounds: Ranks, distances: list[int], op: int) -> Transfers:
    core = np.arange(len(folded.core))
    steps = []
    for step, distance in enumerate(distances):
        peer = core ^ distance
        first = (peer if op == REDUCE else core) & -distance
        chunk, last = bounds[first], bounds[first + distance]
        steps.append(transfers(step, folded.core, folded.core[peer], chunk, op, count=last - chunk))
    return np.concatenate(steps) if steps else transfers(0, [], [], 0, op)
