"""A member's slots as arrays, one entry a slot: the round that each is in, and since and until when it waits."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from testbed.transport.aggregation.reduction import Reduction
from testbed.transport.aggregation.timer import Timer
from testbed.wire.aggregation import LEAST_EXPONENT

NEVER = 1 << 62
Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Slots:
    """The state of `count` slots. A slot's *round* is one packet there and one back: of a chunk, or, before a
    reduction's first chunk in that slot, of its exponent alone (then `index` is negative)."""

    count: int
    order: Numbers = field(init=False)  # which reduction, counted from the first
    index: Numbers = field(init=False)  # which chunk of it
    number: Numbers = field(init=False)  # the same in the job; of the last round where there is none now
    version: Numbers = field(init=False)
    exponent: npt.NDArray[np.int8] = field(init=False)  # of the chunk, the largest of all members
    offered: npt.NDArray[np.int8] = field(init=False)  # our own of the next chunk, as sent
    busy: npt.NDArray[np.bool_] = field(init=False)  # in a round
    asked: npt.NDArray[np.bool_] = field(init=False)  # its packet has been sent
    timeouts: Numbers = field(init=False)  # in this round
    sent_ns: Numbers = field(init=False)
    due_ns: Numbers = field(init=False)  # when its packet is sent again
    earliest_ns: int = NEVER  # not after the first of them
    _ready: deque[Numbers] = field(default_factory=deque)  # those with a packet to send
    _queued: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        for name in ("order", "index", "version", "timeouts", "sent_ns"):
            setattr(self, name, np.zeros(self.count, np.int64))
        self.number = np.full(self.count, -1, np.int64)
        self.version += 1  # the first round turns it to 0
        self.due_ns = np.full(self.count, NEVER, np.int64)
        self.exponent = np.full(self.count, LEAST_EXPONENT, np.int8)
        self.offered = self.exponent.copy()
        self.busy = np.zeros(self.count, np.bool_)
        self.asked, self._queued = self.busy.copy(), self.busy.copy()

    @property
    def ready(self) -> bool:
        """A packet is to be sent."""
        return bool(self._ready)

    def enter(self, slots: Numbers, order: int, reduction: Reduction) -> Numbers:
        """Begin the first round of `reduction` in those of `slots`, all free, that it has chunks for; gives the
        others."""
        chunks = (slots - reduction.origin) % self.count
        taken = chunks < reduction.chunks
        self.begin(slots[taken], order, reduction, chunks[taken] + reduction.first)
        return slots[~taken]

    def begin(self, slots: Numbers, order: int, reduction: Reduction, indices: Numbers) -> None:
        """Begin a round in each of `slots`."""
        if not len(slots):
            return
        self.order[slots] = order
        self.index[slots] = indices
        self.number[slots] = indices + reduction.origin
        self.version[slots] ^= 1
        self.timeouts[slots] = 0
        self.due_ns[slots] = NEVER
        self.busy[slots] = True
        self.asked[slots] = False
        self.queue(slots)

    def free(self, slots: Numbers) -> None:
        """These have no round now."""
        self.due_ns[slots] = NEVER
        self.busy[slots] = False
        self.asked[slots] = False

    def queue(self, slots: Numbers) -> None:
        """Have the packets of `slots` sent."""
        fresh = slots[~self._queued[slots]]
        if len(fresh):
            self._queued[fresh] = True
            self._ready.append(fresh)

    def take(self, most: int) -> Numbers:
        """At most `most` of those with a packet to send, the longest waiting first; they are no longer queued."""
        pieces, room = [], most
        while room and self._ready:
            piece = self._ready.popleft()
            if len(piece) > room:
                self._ready.appendleft(piece[room:])
                piece = piece[:room]
            pieces.append(piece)
            room -= len(piece)
        slots = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        self._queued[slots] = False
        return slots[self.busy[slots]]

    def sent(self, slots: Numbers, timer: Timer, now: int) -> None:
        """Their packets leave now."""
        due_ns = now + timer.waits_ns(self.timeouts[slots])
        self.asked[slots] = True
        self.sent_ns[slots] = now
        self.due_ns[slots] = due_ns
        self.earliest_ns = min(self.earliest_ns, int(due_ns.min()))

    def expire(self, now: int) -> Numbers:
        """Those whose wait is over."""
        expired = np.flatnonzero(self.due_ns <= now)
        self.due_ns[expired] = NEVER
        self.earliest_ns = int(self.due_ns.min())
        return expired
