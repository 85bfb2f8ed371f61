"""The messages of a schedule, and which of them waits for which, for all ranks at once.

Each message is two operations: its send (number i) and its receive (number `messages` + i). What waits for what is what
`testbed.collective.program` says, found for some ranks at a time, which bounds the memory.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.collective.cost import transfer_bytes
from testbed.collective.program import operations
from testbed.collective.schedule import Schedule, Transfers, spans

Ints = npt.NDArray[np.int64]

_AT_ONCE = 1 << 19  # operations, about


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of one iteration: columns by message, and by operation what waits for it.

    meeting: which messages come to one place of one rank in one step (one number each), where a schedule has such; with
    a barrier, to one rank in one step.
    waits: for how many operations each waits. `freed[first[i]:first[i + 1]]` are those that wait for operation i.
    """

    source: Ints
    destination: Ints
    size_bytes: Ints
    step: Ints
    meeting: Ints | None
    waits: Ints
    first: Ints
    freed: Ints

    def __len__(self) -> int:
        return len(self.source)

    def freed_by(self, done: Ints) -> tuple[Ints, Ints]:
        """The operations that wait for those that are done, one after another, and how many for each."""
        begin, length = self.first[done], self.first[done + 1] - self.first[done]
        return self.freed[spans(begin, length)], length


def messages(schedule: Schedule, elements: int, itemsize: int) -> Messages:
    """Those of a buffer of `elements`; transfers that it leaves empty are no messages."""
    size = transfer_bytes(schedule, elements * itemsize, itemsize)
    number_of = np.cumsum(size > 0) - 1
    rows, size = schedule.transfers[size > 0], size[size > 0]
    count = len(rows)
    at_once = max(1, schedule.ranks * _AT_ONCE // max(1, 2 * count))
    later, earlier = [], []
    for first in range(0, schedule.ranks, at_once):
        part = operations(schedule, elements, range(first, min(first + at_once, schedule.ranks)))
        number = number_of[part.number] + np.where(part.send, 0, count)
        before, after, _ = part.dependencies()
        later.append(number[after])
        earlier.append(number[before])
    waiting, awaited = np.concatenate(later), np.concatenate(earlier)
    return Messages(
        source=rows["source"].astype(np.int64),
        destination=rows["destination"].astype(np.int64),
        size_bytes=size,
        step=rows["step"].astype(np.int64),
        meeting=_meeting(rows, whole=schedule.barrier) if schedule.incast else None,
        waits=np.bincount(waiting, minlength=2 * count),
        first=np.concatenate(([0], np.cumsum(np.bincount(awaited, minlength=2 * count)))),
        freed=waiting[np.argsort(awaited, kind="stable")],
    )


def _meeting(rows: Transfers, *, whole: bool) -> Ints:
    """By transfer, a number for its destination and step, and unless `whole` its place."""
    places = np.stack([rows[name] for name in ("destination", "step", *(() if whole else ("at", "count")))])
    return np.asarray(np.unique(places, axis=1, return_inverse=True)[1], np.int64).reshape(-1)


def together(parts: list[Messages]) -> Messages:
    """Buffers that are under way side by side, as one."""
    if len(parts) == 1:
        return parts[0]
    counts = [len(part) for part in parts]
    total, before = sum(counts), [0, *np.cumsum(counts)[:-1].tolist()]

    def renumbered(part: Messages, offset: int) -> Ints:
        receive = part.freed >= len(part)
        return np.where(receive, part.freed - len(part) + total, part.freed) + offset

    freed, length = [], []
    for half in (0, 1):
        for part, offset in zip(parts, before, strict=True):
            bounds = part.first[half * len(part) : (half + 1) * len(part) + 1]
            freed.append(renumbered(part, offset)[bounds[0] : bounds[-1]])
            length.append(np.diff(bounds))
    meetings = [part.meeting for part in parts if part.meeting is not None]
    offsets = np.cumsum([0, *(int(each.max(initial=-1)) + 1 for each in meetings)])
    return Messages(
        source=np.concatenate([part.source for part in parts]),
        destination=np.concatenate([part.destination for part in parts]),
        size_bytes=np.concatenate([part.size_bytes for part in parts]),
        step=np.concatenate([part.step for part in parts]),
        meeting=np.concatenate([m + o for m, o in zip(meetings, offsets[:-1], strict=True)]) if meetings else None,
        waits=np.concatenate([p.waits[h * len(p) : (h + 1) * len(p)] for h in (0, 1) for p in parts]),
        first=np.concatenate(([0], np.cumsum(np.concatenate(length)))),
        freed=np.concatenate(freed),
    )
