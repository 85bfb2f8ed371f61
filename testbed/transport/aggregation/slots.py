"""A member's slots as arrays, one entry a slot: the round that each is in, and until when it waits.

A *round* is one packet there and one back: of a chunk, or, before a reduction's first chunk in that slot, of its
exponent alone. Rounds that are alike (of one reduction, both of a chunk or both of exponents) have the same `group`.
"""

from collections import deque

import numpy as np
import numpy.typing as npt

from testbed.codec.block_exponent import LEAST_EXPONENT
from testbed.transport.aggregation import framing
from testbed.transport.aggregation.parameters import Constants
from testbed.transport.aggregation.reduction import Reduction
from testbed.transport.aggregation.timer import Timer

# In `due_ns`, beside instants: a packet is to be sent again, one is to be sent the first time, there is no round.
AGAIN, UNSENT, FREE = 1 << 60, 1 << 61, 1 << 62

Numbers = npt.NDArray[np.int64]
_NONE: Numbers = np.empty(0, np.int64)


class Slots:
    """The state of `count` slots, whose packets have `values` or none."""

    def __init__(self, count: int, job: int, values: int) -> None:
        self.count = count
        self.group = np.zeros(count, np.int64)  # 2 x the reduction, counted from the first; and 1: exponents alone
        self.index = np.zeros(count, np.int64)  # which chunk of it; of exponents alone: less than that by `count`
        self.number = np.full(count, -1, np.int64)  # the same in the job
        self.result = framing.results(job, np.arange(count)) ^ framing.VERSION  # what the result begins with
        self.exponent = np.full(count, LEAST_EXPONENT, np.int8)  # of the chunk: the largest of all members
        self.offered = self.exponent.copy()  # our own of the next chunk, as sent
        self.timeouts = np.zeros(count, np.int64)  # in this round
        self.doubled = np.zeros(count, np.int64)  # how often the wait is
        self.sent_ns = np.zeros(count, np.int64)
        self.under_way = np.zeros(count, np.int64)  # how many results were to come when it was sent, its own included
        self.once = np.ones(count, np.bool_)  # its packet was not sent again
        self.order = np.zeros(count, np.int64)  # of sending
        self.due_ns = np.full(count, FREE, np.int64)  # when its packet is sent again
        self.earliest_ns = FREE  # none of those is before it
        self.asked = 0  # how many results are to come
        self._most_asked = 0  # since waits were last shortened
        self._values = values
        self.orders = 0  # of the next packet
        self._oldest = 0  # of those that wait none was sent before it
        self._ready: deque[Numbers] = deque()  # those with a packet to send, and some more

    @property
    def ready(self) -> bool:
        """A packet may be to be sent."""
        return bool(self._ready)

    @property
    def free(self) -> Numbers:
        """Those without a round."""
        return np.flatnonzero(self.due_ns == FREE)

    def enter(self, slots: Numbers, order: int, reduction: Reduction) -> Numbers:
        """Begin with `reduction` in those of `slots`, all free, that it has chunks for; gives the others."""
        chunks = (slots - reduction.origin) % self.count
        taken = chunks < reduction.chunks
        if taken.any():
            values = 0 if reduction.floats else self._values
            group = 2 * order + reduction.floats
            self._begin(slots[taken], group, reduction, chunks[taken] + reduction.first, values)
        return slots[~taken]

    def go_on(self, slots: Numbers, order: int, reduction: Reduction, indices: Numbers) -> None:
        """Begin the rounds of the chunks `indices`."""
        if len(slots):
            self._begin(slots, 2 * order, reduction, indices, self._values)

    def _begin(self, slots: Numbers, group: int, reduction: Reduction, indices: Numbers, values: int) -> None:
        self.group[slots] = group
        self.index[slots] = indices
        self.number[slots] = indices + reduction.origin
        self.result[slots] = (self.result[slots] ^ framing.VERSION) & ~framing.VALUES | values
        self.timeouts[slots] = 0
        self.due_ns[slots] = UNSENT
        self._ready.append(slots)

    def take(self, most: int) -> Numbers:
        """At most `most` of those with a packet to send: those to be sent again, then the longest waiting first."""
        pieces, room = [], most
        while room and self._ready:
            piece = self._ready.popleft()
            if len(piece) > room:
                self._ready.appendleft(piece[room:])
                piece = piece[:room]
            pieces.append(piece)
            room -= len(piece)
        slots: Numbers = pieces[0]
        if len(pieces) > 1:  # each once, as they became ready: all members keep to the results' order
            slots = np.concatenate(pieces)
            slots = slots[np.sort(np.unique(slots, return_index=True)[1])]
        due_ns = self.due_ns[slots]
        unsent: Numbers = slots[(due_ns == UNSENT) | (due_ns == AGAIN)]
        return unsent

    def within(self, window: int) -> Numbers:
        """Those with a packet to send, the lowest chunk first: again, or if its number is less than `window` above the
        lowest without a result. So members whose windows are small do not wait for each other's next chunks in turn.
        """
        self._ready.clear()
        numbers = self.number[self.due_ns < FREE]
        if not len(numbers):
            return numbers
        near = (self.due_ns == UNSENT) & (self.number < int(numbers.min()) + window)
        found = np.flatnonzero((self.due_ns == AGAIN) | near)
        return found[np.argsort(self.number[found])]

    def sent(self, slots: Numbers, timer: Timer, now: int) -> int:
        """Their packets leave now; how many of them again."""
        first = self.due_ns[slots] == UNSENT
        fresh = int(np.count_nonzero(first))
        self.asked += fresh
        self._most_asked = max(self._most_asked, self.asked)
        self.doubled[slots[first]] = timer.doubled
        waits_ns = timer.waits_ns(self.doubled[slots], self.asked)
        self.sent_ns[slots] = now
        self.under_way[slots] = self.asked
        self.once[slots] = first
        self.order[slots] = np.arange(self.orders, self.orders + len(slots))
        self.orders += len(slots)
        self.due_ns[slots] = now + waits_ns
        self.earliest_ns = min(self.earliest_ns, now + int(waits_ns.min()))
        return len(slots) - fresh

    def answered(self, results: int, timer: Timer, now: int) -> None:
        """So many results have come, and what follows is ready. Where nothing does, and half of what was under way is
        not any more, all wait from now on as if they were sent with the others (RFC 8985, 7.2).
        """
        self.asked -= results
        if 2 * self.asked <= self._most_asked and not self._ready:
            self._most_asked = self.asked
            waiting = np.flatnonzero(self.due_ns < AGAIN)
            if len(waiting):
                sooner_ns = now + timer.waits_ns(self.doubled[waiting], self.asked)
                self.due_ns[waiting] = np.minimum(self.due_ns[waiting], sooner_ns)
                self.earliest_ns = min(self.earliest_ns, int(sooner_ns.min()))

    def expire(self, timer: Timer, now: int) -> Numbers:
        """Those whose wait is over: their packets are to be sent again."""
        expired = np.flatnonzero(self.due_ns <= now)
        if len(expired):
            self.timeouts[expired] += 1
            self.doubled[expired] = timer.expired(self.doubled[expired])
            self.due_ns[expired] = AGAIN
            self._ready.appendleft(expired)
        self.earliest_ns = int(self.due_ns.min())
        return expired

    def overtaken(self, order: int, by: int) -> Numbers:
        """Those sent `by` packets or more before the one of `order`, and waiting still, are to be sent again; twice as
        many before it, if they were sent again already.
        """
        if order - by < self._oldest:
            return _NONE
        waiting = np.flatnonzero(self.due_ns < AGAIN)
        late = self.order[waiting] <= order - np.where(self.once[waiting], by, 2 * by)
        overtaken: Numbers = waiting[late]
        if len(overtaken):
            self.due_ns[overtaken] = AGAIN
            self._ready.appendleft(overtaken)
        self._oldest = int(self.order[waiting[~late]].min(initial=self.orders))
        return overtaken

    def answered_early(self, slots: Numbers, constants: Constants, now: int) -> Numbers:
        """Those of `slots`, which have their results, that were sent again in vain: less than half a round trip ago."""
        again = slots[~self.once[slots]]
        trips_ns = self.under_way[again] * constants.packet_ns + constants.base_rtt_ns
        return again[2 * (now - self.sent_ns[again]) < trips_ns]

    def clear(self) -> None:
        """No slot has a round any more."""
        self.asked = 0
        self.due_ns[:] = FREE
        self._ready.clear()
