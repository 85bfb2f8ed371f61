"""When each message of a schedule could leave if none had to share a link with another: its α-β time.

Walked from what waits for nothing, a generation of operations at a time. As in `testbed.plan.bound`, of messages that
meet at one place of a rank none is there before its port has carried all of them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.collective.schedule import spans
from testbed.simulation.messages.dependencies import Messages

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Alone:
    """By message, if it meets nothing, in ns from when it leaves: until its head is at the last link, how long that
    takes for all of it, until all of it is there, and until its sender knows."""

    head_ns: Floats
    work_ns: Floats
    whole_ns: Floats
    acknowledged_ns: Floats


def earliest(messages: Messages, alone: Alone) -> tuple[Floats, float]:
    """By message when it could leave, and when the last is there, in ns from the start of all ranks."""
    count = len(messages)
    waits = messages.waits.copy()
    waits[count:] += 1  # a receive waits for its message too
    ready = np.zeros(2 * count)
    meetings = None if messages.meeting is None else _Meetings(messages.meeting)
    last, done = 0.0, np.flatnonzero(waits == 0)
    while len(done):
        sends = done[done < count]
        come, at = sends, ready[sends] + alone.whole_ns[sends]
        if meetings is not None:
            come, at = meetings.add(sends, ready[sends] + alone.head_ns[sends], alone.work_ns[sends], at)
        last = max(last, float(at.max(initial=0.0)))
        receives = come + count
        ready[receives] = np.maximum(ready[receives], at)
        waits[receives] -= 1
        over = ready[done]
        over[done < count] += alone.acknowledged_ns[sends]
        freed, length = messages.freed_by(done)
        np.subtract.at(waits, freed, 1)
        np.maximum.at(ready, freed, np.repeat(over, length))
        touched = np.unique(np.concatenate((receives, freed)))
        done = touched[waits[touched] == 0]
    return ready[:count], last


class _Meetings:
    """Messages that meet: known when all of them could leave."""

    def __init__(self, meeting: Ints) -> None:
        self._meeting = meeting
        self._members = np.argsort(meeting, kind="stable")
        self._size = np.bincount(meeting)
        self._left = self._size.copy()
        self._first = np.cumsum(self._size) - self._size
        self._head = np.full(len(self._size), np.inf)
        self._work = np.zeros(len(self._size))
        self._whole = np.zeros(len(meeting))

    def add(self, sends: Ints, head: Floats, work: Floats, whole: Floats) -> tuple[Ints, Floats]:
        """These can leave; of all that are known by that, when they are there."""
        groups = self._meeting[sends]
        np.minimum.at(self._head, groups, head)
        np.add.at(self._work, groups, work)
        np.subtract.at(self._left, groups, 1)
        self._whole[sends] = whole
        known = np.unique(groups[self._left[groups] == 0])
        size = self._size[known]
        members = self._members[spans(self._first[known], size)]
        return members, np.maximum(self._whole[members], np.repeat(self._head[known] + self._work[known], size))
