"""Folding: how algorithms for a power of two serve any number of ranks.

With m the largest power of two in n, the first 2(n-m) ranks form pairs. The even one (the *extra*) hands its data to
the odd one before the algorithm proper and gets the result back after it (Thakur, Rabenseifner and Gropp,
"Optimization of collective communication operations in MPICH", IJHPCA 2005).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fold:
    """`core[v]` is the rank that plays v in the algorithm for a power of two; `extras[i]` is folded onto `partners[i]`.

    The ranks that core[v] stands for are bounds[v] … bounds[v + 1] - 1.
    """

    core: Ranks
    extras: Ranks
    partners: Ranks
    bounds: Ranks


def fold(ranks: int) -> Fold:
    """The fold of `ranks` ranks; without extras if that is a power of two."""
    size = 1 << (ranks.bit_length() - 1)
    extras = 2 * np.arange(ranks - size)
    core = np.concatenate([extras + 1, np.arange(2 * len(extras), ranks)])
    return Fold(core, extras, extras + 1, np.concatenate([[0], core + 1]))
