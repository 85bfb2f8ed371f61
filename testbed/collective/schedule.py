"""A collective's schedule as data: which rank sends which chunks to which rank in which step, and what becomes of them.

The buffer of every rank is cut into `chunks` pieces (see `Schedule.ranges`). A transfer moves a contiguous range of
chunks as they are after all earlier steps; at its destination they are added to what is there (`REDUCE`) or replace it
(`COPY`), in the order of the array. They land at the place they came from, except where `at` says otherwise (in
all-to-all, rank i's chunk j becomes rank j's chunk i). Steps order the transfers of one rank's data; there is no
barrier between them unless `barrier` is set: then a rank starts a step only when it has received all of the earlier.

Ranks that all tell each other the same chunk in several steps would each add it up in another order, and end with other
bits. So `POOL` holds what comes: the place keeps what it has until the last of them is there, and then all are added up
in the order of their ranks, the receiver's own where its rank is. All that come to one place have one range.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

REDUCE = 0
COPY = 1
POOL = 2

TRANSFER = np.dtype(
    [
        ("step", np.int32),
        ("source", np.int32),
        ("destination", np.int32),
        ("chunk", np.int32),  # the first
        ("count", np.int32),  # how many
        ("at", np.int32),  # where the first lands
        ("op", np.int8),  # REDUCE, COPY or POOL
        ("lane", np.int16),  # channel or wavelength; 0 where there is one
    ]
)

Transfers = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Schedule:
    """`transfers` is a structured array of dtype `TRANSFER`, sorted by (step, source).

    Those of one source in one step are in the order in which it sends them: by (destination, chunk), mostly.
    """

    collective: str
    algorithm: str
    ranks: int
    chunks: int
    transfers: Transfers
    barrier: bool = False
    root: int = 0  # broadcast: whose data; parameter server: who serves
    incast: bool = False  # several ranks may send to one (or one to several) in one step

    @property
    def steps(self) -> int:
        return int(self.transfers["step"].max()) + 1 if len(self.transfers) else 0

    def ranges(self, elements: int) -> list[tuple[int, int]]:
        """The element range [first, last) of each chunk in a buffer of `elements`.

        In all-to-all all chunks are equally long and a remainder stays where it is, as in nccl-tests.
        """
        if self.collective == "all-to-all":
            elements -= elements % self.chunks
        return chunk_ranges(elements, self.chunks)


def chunk_ranges(elements: int, chunks: int) -> list[tuple[int, int]]:
    """Cut `elements` into `chunks` ranges [first, last) as evenly as possible, longer ones first."""
    base, extra = divmod(elements, chunks)
    ranges, first = [], 0
    for index in range(chunks):
        last = first + base + (1 if index < extra else 0)
        ranges.append((first, last))
        first = last
    return ranges


def transfers(
    step: npt.ArrayLike,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    chunk: npt.ArrayLike,
    op: npt.ArrayLike,
    *,
    count: npt.ArrayLike = 1,
    at: npt.ArrayLike | None = None,
    lane: npt.ArrayLike = 0,
) -> Transfers:
    """The transfers whose columns are these integers or arrays, broadcast against each other, in C order."""
    columns = {"step": step, "source": source, "destination": destination, "chunk": chunk, "count": count}
    columns |= {"at": chunk if at is None else at, "op": op, "lane": lane}
    rows = np.empty(np.broadcast_shapes(*(np.shape(column) for column in columns.values())), TRANSFER)
    for name, column in columns.items():
        rows[name] = column
    return rows.reshape(-1)


def in_sequence(*phases: Transfers) -> Transfers:
    """All phases one after another: the steps of each are moved behind those of the one before."""
    rows, first, done = np.concatenate(phases), 0, 0
    for phase in phases:
        if len(phase):
            rows["step"][done : done + len(phase)] += first
            first += int(phase["step"].max()) + 1
            done += len(phase)
    return rows


def in_order(rows: Transfers) -> Transfers:
    """`rows` sorted by (step, source, destination, chunk); those that are already are not moved."""
    if not len(rows):
        return rows
    key = rows["step"].astype(np.int64)
    for name in ("source", "destination", "chunk"):
        key = key * (int(rows[name].max()) + 1) + rows[name]
    return rows if bool(np.all(key[1:] >= key[:-1])) else rows[np.argsort(key, kind="stable")]


def merged(rows: Transfers) -> Transfers:
    """`rows` of one chunk each, with those that continue each other as one: from and to the same ranks and places."""
    rows = in_order(rows)
    goes_on = np.ones(len(rows), bool)
    goes_on[:1] = False
    for name in ("step", "source", "destination", "op", "lane"):
        goes_on[1:] &= rows[name][1:] == rows[name][:-1]
    for name in ("chunk", "at"):
        goes_on[1:] &= rows[name][1:] == rows[name][:-1] + 1
    first = np.flatnonzero(~goes_on)
    joined = rows[first]
    joined["count"] = np.diff(first, append=len(rows))
    return joined


def spans(first: npt.NDArray[np.signedinteger], count: npt.NDArray[np.signedinteger]) -> npt.NDArray[np.int64]:
    """As many numbers from each `first` on as `count` says, one such span after another."""
    begins = np.cumsum(count, dtype=np.int64) - count
    return np.arange(count.sum()) + np.repeat(first - begins, count)


def by_chunk(rows: Transfers) -> Transfers:
    """The same transfers, one row a chunk."""
    count = rows["count"]
    if np.all(count == 1):
        return rows
    single = np.repeat(rows, count)
    single["chunk"] = spans(rows["chunk"], count)
    single["at"] = spans(rows["at"], count)
    single["count"] = 1
    return single
