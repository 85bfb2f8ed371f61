"""Each rank's part of a schedule: what it sends and receives, element by element, and which of it waits for which.

A send waits for what was received into its range in earlier steps. A receive waits, before it is added or copied into
the buffer, for the earlier ones of its range (so that sums are always formed in the same order) and for the sends that
still read the range. A send whose range is received into in its own step (an exchange) goes out from a copy instead,
or the peer's data would have to wait for an acknowledgement; what is received then waits for all that the send waits
for. With a barrier all waits for the receives of earlier steps. Empty transfers, which a buffer of fewer elements than
chunks has, are left out at both ends.

A schedule of a thousand ranks has millions of operations, so they are arrays, worked out for all ranks at once.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.collective.schedule import Schedule, Transfers, spans

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
    op: npt.NDArray[np.int8]  # REDUCE, COPY or POOL
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
    def longest_receive(self) -> int:
        """In elements."""
        return int((self.last - self.first)[~self.send].max(initial=0))

    @property
    def received_elements(self) -> int:
        return int((self.last - self.first)[~self.send].sum())


def program(schedule: Schedule, rank: int, elements: int) -> Program:
    """The part of `rank` in `schedule` over a buffer of `elements`; it can be run any number of times."""
    return _cut(operations(schedule, elements, range(rank, rank + 1)))[0]


def programs(schedule: Schedule, elements: int) -> tuple[Program, ...]:
    """The parts of all ranks; they are views of arrays that they share."""
    return _cut(operations(schedule, elements, range(schedule.ranks)))


@dataclass(frozen=True, slots=True, eq=False)
class Operations:
    """Those of some ranks, in order of rank, step, sends before receives, and number of the transfer."""

    schedule: Schedule
    elements: int
    ranks: range
    number: Numbers  # of the transfer in the schedule
    rows: Transfers
    send: Flags  # else it receives
    owner: Small  # whose it is
    first: Numbers  # elements [first, last) of the buffer
    last: Numbers

    def dependencies(self) -> tuple[Numbers, Numbers, Flags]:
        """(before, after): operation `after` waits for `before`, each pair once, ascending; and which are copied."""
        step = np.ascontiguousarray(self.rows["step"])
        operation, cell = self._cells()
        order = _in_order_of(cell)
        operation, cell = operation[order], cell[order]
        receives = ~self.send[operation]
        at, size = np.arange(len(cell)), len(cell)
        begins = np.concatenate([[True], cell[1:] != cell[:-1]]) if size else receives
        start = np.maximum.accumulate(np.where(begins, at, 0))
        writer = np.concatenate([[-1], np.maximum.accumulate(np.where(receives, at, -1))])[:size]  # the receive before
        written = writer >= start
        later = np.minimum.accumulate(np.where(receives, at, size)[::-1])[::-1]  # the next receive
        read = ~receives & (later < size)
        read[read] = cell[later[read]] == cell[read]
        reader, rewriter = operation[read], operation[later[read]]
        exchanged = step[reader] == step[rewriter]
        copied = np.zeros(len(self.send), bool)
        copied[reader[exchanged]] = True
        pairs = [
            (operation[writer[written]], operation[written]),
            (reader[~exchanged], rewriter[~exchanged]),
            *([self._barriers()] if self.schedule.barrier else []),
        ]
        if exchanged.any():
            known = map(np.concatenate, zip(*pairs, strict=True))
            pairs.append(_as_long(reader[exchanged], rewriter[exchanged], *known))
        total = max(1, len(self.send))
        key = np.sort(np.concatenate([before * total + after for before, after in pairs]))
        return *np.divmod(key[np.diff(key, prepend=-1) > 0], total), copied

    def _cells(self) -> tuple[Numbers, Numbers]:
        """(operation, cell) of every piece of a rank's buffer that an operation touches; cells are of no other rank.

        Cells are the pieces between all borders of the rank's ranges, so a range of many chunks has few of them.
        """
        first = self.owner.astype(np.int64) * (self.elements + 1) + self.first
        if np.all(self.rows["count"] == 1):
            return np.arange(len(first)), first
        last = first - self.first + self.last
        borders = np.sort(np.concatenate([first, last]))
        borders = borders[np.diff(borders, prepend=-1) > 0]
        low, high = np.searchsorted(borders, first), np.searchsorted(borders, last)
        count = high - low
        return np.repeat(np.arange(len(first)), count), spans(low, count)

    def _barriers(self) -> tuple[Numbers, Numbers]:
        """Each operation waits for the receives of the last step before its own in which its rank receives.

        Of receives of one range that is the last, as it waits for the others: of n senders to a place it is one.
        """
        turn = self.owner.astype(np.int64) * (self.schedule.steps + 1) + self.rows["step"]
        receives = np.flatnonzero(~self.send)
        order = receives[np.lexsort((receives, self.last[receives], self.first[receives], turn[receives]))]
        ends = np.logical_or.reduce([each[order[1:]] != each[order[:-1]] for each in (turn, self.first, self.last)])
        receives = np.sort(order[np.concatenate((ends, np.ones(min(1, len(order)), bool)))])
        starts = np.flatnonzero(np.diff(turn[receives], prepend=-1))
        groups, size = turn[receives[starts]], np.diff(starts, append=len(receives))
        group = np.searchsorted(groups, turn) - 1
        after = np.flatnonzero(group >= 0)
        after = after[self.owner[receives[starts[group[after]]]] == self.owner[after]]
        first, count = starts[group[after]], size[group[after]]
        return receives[spans(first, count)], np.repeat(after, count)


def operations(schedule: Schedule, elements: int, ranks: range) -> Operations:
    """The operations of `ranks` in `schedule` over a buffer of `elements`."""
    rows, steps = schedule.transfers, schedule.steps + 1
    sends, receives = (_within(rows[end], ranks, schedule.ranks) for end in ("source", "destination"))
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
    kept = columns if full.all() else tuple(column[full] for column in columns)
    return Operations(schedule, elements, ranks, *kept)


def _as_long(reader: Numbers, rewriter: Numbers, before: Numbers, after: Numbers) -> tuple[Numbers, Numbers]:
    """What each `reader` waits for (`after` for `before`), its `rewriter` waits for too: not to be there before it."""
    order = np.argsort(after, kind="stable")
    begin, end = (np.searchsorted(after[order], reader, side) for side in ("left", "right"))
    return before[order][spans(begin, end - begin)], np.repeat(rewriter, end - begin)


def _within(owner: Small, ranks: range, all_ranks: int) -> Numbers:
    if len(ranks) == all_ranks:
        return np.arange(len(owner))
    return np.flatnonzero((owner >= ranks.start) & (owner < ranks.stop))


def _cut(part: Operations) -> tuple[Program, ...]:
    """One program a rank."""
    before, after, copied = part.dependencies()
    edges = np.searchsorted(part.owner, np.arange(part.ranks.start, part.ranks.stop + 1))
    freed = np.concatenate([[0], np.cumsum(np.bincount(before, minlength=len(part.number)))])
    columns: dict[str, npt.NDArray[Any]] = {
        "send": part.send,
        "step": np.ascontiguousarray(part.rows["step"]),
        "peer": np.where(part.send, part.rows["destination"], part.rows["source"]),
        "tag": part.number.astype(np.int32),
        "first": part.first,
        "last": part.last,
        "op": np.ascontiguousarray(part.rows["op"]),
        "copied": copied,
        "waits": np.bincount(after, minlength=len(part.number)).astype(np.int32),
    }
    frees = after.astype(np.int32)
    return tuple(
        Program(
            rank=rank,
            elements=part.elements,
            tags=len(part.schedule.transfers),
            **{name: column[a:b] for name, column in columns.items()},
            freed=freed[a : b + 1] - freed[a],
            frees=frees[freed[a] : freed[b]] - np.int32(a),
        )
        for rank, (a, b) in zip(part.ranks, pairwise(edges.tolist()), strict=True)
    )


def _in_order_of(key: Numbers) -> Numbers:
    """Indices that sort `key`, equals as they are; sorting values is several times as fast as sorting indices."""
    size = max(1, len(key))
    return np.sort(key * size + np.arange(len(key))) % size
