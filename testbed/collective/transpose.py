"""OptiReduce's Transpose AllReduce (NSDI 2025, arXiv 2310.06993): who has what is transposed.

Each rank hands its shard i to rank i, which adds all up and sends the sum to all: the bytes of a ring, but no sum is
passed on, so what is lost once is lost to one pair, or to one receiver, and to nobody behind it (the authors' code and
a reading note). In round k rank i sends to rank i - k (their code). With incast I a receiver takes I senders at a time,
so there are 2 ceil((n - 1) / I) rounds (recalled). The barrier makes rounds of them: a rank begins one when it has
received all of the one before, as complete as its transport makes it. Shard i is always rank i's, as in their code;
that shards change ranks from one operation to the next in the paper is recalled, and hardly for sure.

`tar-2d` cuts the n ranks into G groups of m = n / G neighbours: a reduce-scatter inside each group, an exchange of each
rank's shard with those of the other groups that have the same one, and an all-gather inside the group. That is
2 (m - 1) + G - 1 rounds (a reading note; the three phases are recalled), of 1 / m of the buffer from every rank each.
"""

import numpy as np
import numpy.typing as npt

from testbed.collective.schedule import COPY, POOL, REDUCE, Schedule, Transfers, in_sequence, transfers
from testbed.errors import UsageError

Ranks = npt.NDArray[np.int64]


def generate(collective: str, ranks: int, root: int, *, incast: int = 1) -> Schedule:
    """Of an allreduce, or one of its halves; `incast` 0: all. Raises UsageError for one beyond what there is."""
    most = max(1, ranks - 1)
    incast = incast or most
    if incast > most:
        raise UsageError(f"incast {incast}: a receiver has 1 to {most} senders, or 0: all")
    one_group = np.arange(ranks)[np.newaxis]
    phases = {
        "allreduce": (REDUCE, COPY),
        "reduce-scatter": (REDUCE,),
        "all-gather": (COPY,),
    }
    rows = in_sequence(*(_transpose(one_group, op, incast) for op in phases[collective]))
    return Schedule(collective, "tar", ranks, ranks, rows, barrier=True, root=root, incast=incast > 1)


def generate_2d(collective: str, ranks: int, root: int, *, groups: int = 0) -> Schedule:
    """`groups` must divide the ranks (0: as `fewest_rounds`); raises UsageError."""
    groups = groups or fewest_rounds(ranks)
    if ranks % groups:
        raise UsageError(
            f"groups {groups}: {ranks} ranks cannot be cut into so many groups of one size",
            hint=f"one of {', '.join(map(str, _divisors(ranks)))}",
        )
    members = np.arange(ranks).reshape(groups, -1)
    rows = in_sequence(_transpose(members, REDUCE), _exchange(members), _transpose(members, COPY))
    return Schedule(collective, "tar-2d", ranks, members.shape[1], rows, barrier=True, root=root)


def fewest_rounds(ranks: int) -> int:
    """Of the numbers of groups, beside one and a group a rank, that with the fewest rounds, then the fewest bytes."""
    between = [groups for groups in _divisors(ranks) if 1 < groups < ranks]
    return min(between, key=lambda groups: (2 * (ranks // groups - 1) + groups - 1, groups), default=1)


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def _transpose(members: Ranks, op: int, incast: int = 1) -> Transfers:
    """`members[g, j]` reduces shard j of its group, or tells the group what it has of it."""
    size = members.shape[1]
    k, source = np.meshgrid(np.arange(1, size), members.ravel(), indexing="ij")
    group, place = np.meshgrid(np.arange(len(members)), np.arange(size), indexing="ij")
    peer = (place.ravel() - k) % size
    rows = transfers(
        (k - 1) // incast, source, members[group.ravel(), peer], peer if op == REDUCE else place.ravel(), op
    )
    return rows[np.lexsort((k.ravel(), source.ravel(), rows["step"]))]


def _exchange(members: Ranks) -> Transfers:
    """All that have shard j tell each other, and each adds up."""
    groups, size = members.shape
    k, group, place = np.ogrid[1:groups, :groups, :size]
    return transfers(k - 1, members[group, place], members[(group - k) % groups, place], place, POOL)
