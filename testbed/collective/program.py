"""Each rank's part of a schedule: what it sends and receives, element by element, and which of it waits for which.

A send waits for what was received into its range in earlier steps. A receive waits, before it is added or copied into
the buffer, for the earlier ones of its range (so that sums are always formed in the same order) and for the sends that
still read the range. A send whose range is received into in its own step (an exchange) goes out from a copy instead,
or the peer's data would have to wait for an acknowledgement. With a barrier all waits for the receives of earlier
steps. Empty transfers, which a buffer of fewer elements than chunks has, are left out at both ends.

A schedule of a thousand ranks has millions of operations, so they are arrays, worked out for all ranks at once.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.collective.schedule import Schedule, Transfers

Flags = npt.NDArray[np.bool_]
Small = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The operations of `rank`, by step, sends before receives. `tags` is how many tags the schedule uses.

    All arrays but `frees` have an entry an operation.
    """

    rank: int
    elements: int
    tags: int
    send: Flags  # else it receives
    step: Small
    peer: Small
    tag: Small  # the transfer's number in the schedule, so both ends know it
    first: Numbers  # elements [first, last) of the buffer
    last: Numbers
    op: npt.NDArray[np.int8]  # REDUCE or COPY
    copied: Flags  # a send that goes out from a copy
    waits: Small  # for so many operations
    freed: Numbers  # `frees[freed[i] : freed[i + 1]]` wait for operation i; one entry more than operations
    frees: Small

    def __len__(self) -> int:
        return len(self.send)

    @property
    def peers(self) -> frozenset[int]:
        """The ranks it exchanges messages with."""
        return frozenset(self.peer.tolist())

    @property
    def sent_elements(self) -> int:
        return int((self.last - self.first)[self.send].sum())

    @property
    def received_elements(self) -> int:
        return int((self.last - self.first)[~self.send].sum())


def program(schedule: Schedule, rank: int, elements: int) -> Program:
    """The part of `rank` in `schedule` over a buffer of `elements`; it can be run any number of times."""
    rows = schedule.transfers
    sends, receives = np.flatnonzero(rows["source"] == rank), np.flatnonzero(rows["destination"] == rank)
    return _cut(schedule, _Ends.of(schedule, elements, sends, receives), elements, range(rank, rank + 1))[0]


def programs(schedule: Schedule, elements: int) -> tuple[Program, ...]:
    """The parts of all ranks; they are views of arrays that they share."""
    every = np.arange(len(schedule.transfers))
    return _cut(schedule, _Ends.of(schedule, elements, every, every), elements, range(schedule.ranks))


@dataclass(frozen=True, slots=True, eq=False)
class _Ends:
    """The operations of some ranks, in order of rank, step, sends before receives, and number of the transfer."""

    number: Numbers
    rows: Transfers
    send: Flags
    owner: Small
    first: Numbers
    last: Numbers

    @classmethod
    def of(cls, schedule: Schedule, elements: int, sends: Numbers, receives: Numbers) -> "_Ends":
        """Of the transfers with these numbers, ascending, those that are not empty."""
        rows, steps = schedule.transfers, schedule.steps + 1
        send_turns = rows["source"][sends].astype(np.int64) * steps + rows["step"][sends]
        receive_turns = rows["destination"][receives].astype(np.int64) * steps + rows["step"][receives]
        order = _in_order_of(np.concatenate([2 * send_turns, 2 * receive_turns + 1]))
        send, number = order < len(sends), np.concatenate([sends, receives])[order]
        rows = rows[number]
        place = np.where(send, rows["chunk"], rows["at"])
        begin, end = np.array(schedule.ranges(elements), np.int64).T
        first, last = begin[place], end[place + rows["count"] - 1]
        owner = np.where(send, rows["source"], rows["destination"])
        columns = number, rows, send, owner, first, last
        full = first < last
        return cls(*columns) if full.all() else cls(*(column[full] for column in columns))


def _cut(schedule: Schedule, ends: _Ends, elements: int, ranks: range) -> tuple[Program, ...]:
    """One program a rank."""
    before, after, copied = _dependencies(schedule, ends, elements)
    edges = np.searchsorted(ends.owner, np.arange(ranks.start, ranks.stop + 1))
    freed = np.concatenate([[0], np.cumsum(np.bincount(before, minlength=len(ends.number)))])
    columns: dict[str, npt.NDArray[Any]] = {
        "send": ends.send,
        "step": np.ascontiguousarray(ends.rows["step"]),
        "peer": np.where(ends.send, ends.rows["destination"], ends.rows["source"]),
        "tag": ends.number.astype(np.int32),
        "first": ends.first,
        "last": ends.last,
        "op": np.ascontiguousarray(ends.rows["op"]),
        "copied": copied,
        "waits": np.bincount(after, minlength=len(ends.number)).astype(np.int32),
    }
    frees = after.astype(np.int32)
    return tuple(
        Program(
            rank=rank,
            elements=elements,
            tags=len(schedule.transfers),
            **{name: column[a:b] for name, column in columns.items()},
            freed=freed[a : b + 1] - freed[a],
            frees=frees[freed[a] : freed[b]] - np.int32(a),
        )
        for rank, (a, b) in zip(ranks, pairwise(edges.tolist()), strict=True)
    )


def _dependencies(schedule: Schedule, ends: _Ends, elements: int) -> tuple[Numbers, Numbers, Flags]:
    """(before, after): each operation `after` waits for each `before`, ascending; and which sends are copied."""
    step = np.ascontiguousarray(ends.rows["step"])
    operation, cell = _cells(ends, elements)
    order = _in_order_of(cell)
    operation, cell = operation[order], cell[order]
    receives = ~ends.send[operation]
    at, size = np.arange(len(cell)), len(cell)
    begins = np.concatenate([[True], cell[1:] != cell[:-1]]) if size else receives
    start = np.maximum.accumulate(np.where(begins, at, 0))
    writer = np.concatenate([[-1], np.maximum.accumulate(np.where(receives, at, -1))])[:size]  # the last receive before
    written = writer >= start
    later = np.minimum.accumulate(np.where(receives, at, size)[::-1])[::-1]  # the next receive
    read = ~receives & (later < size)
    read[read] = cell[later[read]] == cell[read]
    reader, rewriter = operation[read], operation[later[read]]
    exchanged = step[reader] == step[rewriter]
    copied = np.zeros(len(ends.send), bool)
    copied[reader[exchanged]] = True
    pairs = [
        (operation[writer[written]], operation[written]),
        (reader[~exchanged], rewriter[~exchanged]),
        *([_barriers(schedule, ends)] if schedule.barrier else []),
    ]
    total = max(1, len(ends.send))
    key = np.sort(np.concatenate([before * total + after for before, after in pairs]))
    return *np.divmod(key[np.diff(key, prepend=-1) > 0], total), copied


def _cells(ends: _Ends, elements: int) -> tuple[Numbers, Numbers]:
    """(operation, cell) of every piece of a rank's buffer that an operation touches; cells are of no other rank.

    Cells are the pieces between all borders of the rank's ranges, so a range of many chunks has few of them.
    """
    first = ends.owner.astype(np.int64) * (elements + 1) + ends.first
    if np.all(ends.rows["count"] == 1):
        return np.arange(len(first)), first
    last = first - ends.first + ends.last
    borders = np.sort(np.concatenate([first, last]))
    borders = borders[np.diff(borders, prepend=-1) > 0]
    low, high = np.searchsorted(borders, first), np.searchsorted(borders, last)
    count = high - low
    operation = np.repeat(np.arange(len(first)), count)
    return operation, low[operation] + np.arange(len(operation)) - np.repeat(np.cumsum(count) - count, count)


def _barriers(schedule: Schedule, ends: _Ends) -> tuple[Numbers, Numbers]:
    """Each operation waits for the receives of the last step before its own in which its rank receives."""
    turn = ends.owner.astype(np.int64) * (schedule.steps + 1) + ends.rows["step"]
    receives = np.flatnonzero(~ends.send)
    starts = np.flatnonzero(np.diff(turn[receives], prepend=-1))
    groups, size = turn[receives[starts]], np.diff(starts, append=len(receives))
    group = np.searchsorted(groups, turn) - 1
    after = np.flatnonzero(group >= 0)
    after = after[ends.owner[receives[starts[group[after]]]] == ends.owner[after]]
    first, count = starts[group[after]], size[group[after]]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return receives[np.repeat(first, count) + within], np.repeat(after, count)


def _in_order_of(key: Numbers) -> Numbers:
    """Indices that sort `key`, equals as they are; sorting values is several times as fast as sorting indices."""
    size = max(1, len(key))
    return np.sort(key * size + np.arange(len(key))) % size
