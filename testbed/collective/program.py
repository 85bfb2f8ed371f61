"""One rank's part of a schedule: what it sends and receives, element by element, and which of it waits for which.

A send waits for what was received into its range in earlier steps. A receive waits, before it is added or copied into
the buffer, for the earlier ones of its range (so that sums are always formed in the same order) and for the sends that
still read the range. A send whose range is received into in its own step (an exchange) goes out from a copy instead,
or the peer's data would have to wait for an acknowledgement. With a barrier all waits for the receives of earlier
steps. Empty transfers, which a buffer of fewer elements than chunks has, are left out at both ends.
"""

from dataclasses import dataclass, field

import numpy as np

from testbed.collective.schedule import Schedule


@dataclass(slots=True)
class Operation:
    """A send or a receive. `tag` is the transfer's number in the schedule, so both ends know it."""

    send: bool
    step: int
    peer: int
    tag: int
    first: int  # elements [first, last) of the buffer
    last: int
    op: int  # REDUCE or COPY
    copied: bool = False  # goes out from a copy
    waits: int = 0  # for so many operations
    frees: list[int] = field(default_factory=list)  # the operations that wait for this one, by index


@dataclass(frozen=True, slots=True)
class Program:
    """The operations of `rank`, by step, sends before receives; `tags` is how many tags the schedule uses."""

    rank: int
    elements: int
    tags: int
    operations: tuple[Operation, ...]

    @property
    def sent_elements(self) -> int:
        return sum(o.last - o.first for o in self.operations if o.send)

    @property
    def received_elements(self) -> int:
        return sum(o.last - o.first for o in self.operations if not o.send)


def program(schedule: Schedule, rank: int, elements: int) -> Program:
    """The part of `rank` in `schedule` over a buffer of `elements`; it can be run any number of times."""
    rows = schedule.transfers
    ranges = schedule.ranges(elements)
    numbers = np.flatnonzero((rows["source"] == rank) | (rows["destination"] == rank))
    mine = rows[numbers]
    receives = mine["destination"] == rank
    dependencies = _Dependencies(schedule.chunks, schedule.barrier)
    for i in np.lexsort((numbers, receives, mine["step"])):
        _, source, destination, chunk, count, at, op, _ = row = mine[i].item()
        place = at if receives[i] else chunk
        first, last = ranges[place][0], ranges[place + count - 1][1]
        if first < last:
            peer = source if receives[i] else destination
            operation = Operation(not receives[i], row[0], peer, int(numbers[i]), first, last, op)
            dependencies.add(operation, range(place, place + count))
    return Program(rank, elements, len(rows), tuple(dependencies.operations))


class _Dependencies:
    """Finds what each operation waits for, given them one after another."""

    def __init__(self, chunks: int, barrier: bool) -> None:
        self.operations: list[Operation] = []
        self._writer: list[int | None] = [None] * chunks  # the last receive into the chunk
        self._readers: list[list[int]] = [[] for _ in range(chunks)]  # the sends of the chunk since then
        self._barrier = barrier
        self._before: list[int] = []  # the receives of the last step that had any, for the barrier
        self._now: list[int] = []

    def add(self, operation: Operation, chunks: range) -> None:
        index = len(self.operations)
        self.operations.append(operation)
        waits_for = {writer for c in chunks if (writer := self._writer[c]) is not None}
        if self._barrier:
            if self._now and self.operations[self._now[0]].step < operation.step:
                self._before, self._now = self._now, []
            waits_for.update(self._before)
        if operation.send:
            for c in chunks:
                self._readers[c].append(index)
        else:
            for reader in {reader for c in chunks for reader in self._readers[c]}:
                if self.operations[reader].step == operation.step:
                    self.operations[reader].copied = True
                else:
                    waits_for.add(reader)
            for c in chunks:
                self._writer[c], self._readers[c] = index, []
            self._now.append(index)
        operation.waits = len(waits_for)
        for other in waits_for:
            self.operations[other].frees.append(index)
