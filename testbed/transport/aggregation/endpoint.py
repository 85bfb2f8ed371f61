"""A member's end of in-network aggregation: SwitchML's worker (NSDI 2021, section 3.5), for many slots at once.

Chunks have numbers that go on from one reduction to the next; number c takes slot c modulo `slots`. A slot is in one
round at a time: its packet is sent, and sent again when its timer runs out, until the result comes, which begins the
slot's next round with the other version. So the switch knows, when a chunk comes, that this member has the result of
the one before: two versions are enough, and any packet may be lost, doubled or late. Results are told by their number.

All members send in the order in which results come, which is the same for all of them. So a packet is sent again, too,
when results have come of packets that were sent some time after it (`reordering.py`); what is slow for all, and the
last packets of a reduction, are left to the timer.

With a server (`protocol: besteffort`) a packet that is sent again says so, a window (`window.py`) limits how many
chunks are under way, and three packets are enough, since part of a chunk may wait at the switch while the rest found no
room there. Everything else is the same.

All work is done on arrays, so that a packet costs the less the more there are at once: what has come waits, but no
longer than `hold`, until a quarter of the slots or all that is still to come is there.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.codec.block_exponent import NotFiniteError, Quantiser
from testbed.transport.aggregation import framing
from testbed.transport.aggregation.inbox import Inbox
from testbed.transport.aggregation.parameters import Constants
from testbed.transport.aggregation.reduction import Reduction
from testbed.transport.aggregation.seam import AGGREGATOR, Member, Reduced, ReduceEvent
from testbed.transport.aggregation.slots import AGAIN, FREE, Numbers, Slots
from testbed.transport.aggregation.window import Window
from testbed.transport.endpoint import ECN_CE, ECN_ECT0, ECN_NOT_ECT, Arrival, Burst, Counters, Failed, Path
from testbed.transport.settings import Settings
from testbed.wire.aggregation import UDP_PORT, VALUE_BYTES, Flag, Kind

ROCE_SOURCE_PORT = 0xC000  # the first of those that RoCE senders take


class AggregationEndpoint:
    """A `testbed.transport.aggregation.ReduceEndpoint`.

    After a failure all reductions, also later ones, fail for the same reason: the members' numbers are no longer the
    same. counters.duplicates are results that had come before; .malformed those that can be none, by kind in .extra.
    """

    def __init__(self, path: Path, member: Member, settings: Settings) -> None:
        self.counters = Counters()
        self._member = member
        self._constants = Constants.of(path, settings.values)
        self._chunk_bytes = self._constants.values * VALUE_BYTES
        self._quantiser = Quantiser(member.workers)
        self._timer = self._constants.timer()
        self._reordering = self._constants.reordering()
        self._window = Window(self._constants.slots) if self._constants.best_effort else None
        self._marked = False  # of what came and is not taken in, some met a deep queue
        self._slots = Slots(self._constants.slots, member.job, self._constants.values)
        self._position = np.zeros(self._constants.slots, np.int64)  # where in what has come, to find what came twice
        self._reductions: dict[int, Reduction] = {}  # under way, by order of posting
        self._posted = 0
        self._number = 0  # of the next chunk
        self._inbox = Inbox(self.counters, self._constants.values, roce=self._constants.roce)
        self._events: list[ReduceEvent] = []
        self._failure: str | None = None
        self._now = 0

    def post_reduce(self, id: int, buffer: npt.NDArray[Any], now: int) -> None:
        """See the seam. Floats must be finite: what is not is found when its turn comes, and named in `Failed`."""
        self._now = now
        self._take_in()
        constants = self._constants
        reduction = Reduction(id, buffer, constants.values, constants.slots, self._number, self._quantiser)
        if self._failure:
            self._events.append(Failed(id, AGGREGATOR, self._failure))
        elif not reduction.chunks:
            self._events.append(Reduced(id))
        else:
            order, self._posted = self._posted, self._posted + 1
            self._number = reduction.next_number
            self._reductions[order] = reduction
            self._slots.enter(self._slots.free, order, reduction)

    def receive(self, arrival: Arrival, now: int) -> None:
        self._now = now
        self._marked |= arrival.ecn == ECN_CE
        self._inbox.put(arrival, now)

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        self._now = now
        self._take_in()
        bursts: list[Burst] = []
        left = budget_packets
        while left > 0 and self._ready:
            most = min(left, self._constants.burst_packets)
            taken = self._slots.within(self._window.chunks)[:most] if self._window else self._slots.take(most)
            if not len(taken):
                continue
            for group, which in self._alike(taken):
                burst = self._send(group, taken[which])
                if burst is None:
                    return bursts
                bursts.append(burst)
            left -= len(taken)
        return bursts

    def deadline(self) -> int | None:
        self._take_in()
        if not self._reductions:
            return None
        if self._ready:
            return self._now
        earliest_ns = self._slots.earliest_ns
        return min(earliest_ns, self._inbox.since_ns + self._constants.hold_ns) if self._inbox else earliest_ns

    def on_deadline(self, now: int) -> None:
        self._now = now
        due = self._slots.earliest_ns <= now
        self._take_in(at_once=due)
        if not due:
            return
        expired = self._slots.expire(self._timer, now)
        self.counters.timeouts += len(expired)
        given_up = expired[self._slots.timeouts[expired] > self._constants.retries]
        if len(given_up):
            self._fail(self._unanswered(int(given_up[0])))

    def events(self) -> Sequence[ReduceEvent]:
        self._take_in()
        events = tuple(self._events)
        self._events.clear()
        return events

    def idle(self) -> bool:
        self._take_in()
        return not self._reductions

    def _alike(self, slots: Numbers) -> Iterator[tuple[int, slice | npt.NDArray[np.bool_]]]:
        """Each group among `slots`, and which of them are of it."""
        groups = self._slots.group[slots]
        group = int(groups[0])
        if np.count_nonzero(groups == group) == len(groups):
            yield group, slice(None)
        else:
            for group in np.unique(groups).tolist():
                yield group, groups == group

    def _send(self, group: int, slots: Numbers) -> Burst | None:
        """The packets of `slots`, which are of one group; None if there is no going on."""
        state, constants = self._slots, self._constants
        order, alone = divmod(group, 2)
        reduction, indices = self._reductions[order], state.index[slots]
        try:
            offered = reduction.exponents(indices + constants.slots)
        except NotFiniteError as error:
            element = error.row * constants.values + error.column
            self._fail(
                f"element {element} of reduction {reduction.id} is {error.value}: only finite ones can be scaled"
            )
            return None
        state.offered[slots] = offered
        payload = b"" if alone else reduction.contribution(indices, state.exponent[slots])
        kinds = np.where(state.due_ns[slots] == AGAIN, Kind.AGAIN, Kind.ADD) if constants.best_effort else Kind.ADD
        first = framing.as_kinds(state.result[slots], kinds, self._member.worker)
        headers = framing.encode(first, state.number[slots], offered, 0, constants.roce)
        self.counters.sent_packets += len(slots)
        self.counters.sent_bytes += len(payload)
        self.counters.retransmitted_packets += state.sent(slots, self._timer, self._now)
        return Burst(
            peer=AGGREGATOR,
            source_port=ROCE_SOURCE_PORT if constants.roce else UDP_PORT,
            dscp=constants.dscp,
            ecn=ECN_ECT0 if constants.best_effort else ECN_NOT_ECT,
            not_before_ns=self._now,
            segment_bytes=0 if alone else self._chunk_bytes,
            headers=tuple(headers),
            payload=payload,
        )

    @property
    def _ready(self) -> bool:
        """A packet may be to be sent."""
        return len(self._slots.within(self._window.chunks)) > 0 if self._window else self._slots.ready

    def _take_in(self, at_once: bool = False) -> None:
        """Take in what has come, if it is time to."""
        held = self._now < self._inbox.since_ns + self._constants.hold_ns and not at_once
        if held and len(self._inbox) < min(self._constants.batch, self._slots.asked):
            return
        for headers, sums in self._inbox.empty():
            self._take(headers, sums)
        self._marked = False

    def _take(self, encoded: list[bytes], sums: npt.NDArray[np.int32]) -> None:
        """Headers, and the values behind each."""
        state = self._slots
        first, chunks, exponents, rest = framing.decode(encoded, self._constants.roce)
        slots = framing.slots_of(first)
        known = slots < state.count
        if np.count_nonzero(known) < len(known):
            self.counters.refuse("bad_header", int(np.count_nonzero(~known)))
            first, chunks, slots = first[known], chunks[known], slots[known]
            exponents, sums = exponents[known], sums[known]
        right = (first == state.result[slots]) & (first & framing.VALUES == sums.shape[1])
        right &= (chunks == state.number[slots] & 0xFFFFFFFF) & (state.due_ns[slots] <= AGAIN)
        right &= exponents >= state.offered[slots]
        if len(slots) > 1:  # of equal ones that came at once, the last
            positions = np.arange(len(slots))
            self._position[slots[right]] = positions[right]
            right &= self._position[slots] == positions
        others = None
        if np.count_nonzero(right) < len(right):
            others = first[~right], chunks[~right], slots[~right]
            exponents, slots, sums = exponents[right], slots[right], sums[right]
        if len(slots):
            once = slots[(state.timeouts[slots] == 0) & state.once[slots]]
            if len(once):
                last = once[state.sent_ns[once].argmax()]
                self._timer.measure(self._now - int(state.sent_ns[last]), int(state.under_way[last]))
            if len(early := state.answered_early(slots, self._constants, self._now)):
                self._reordering.erred(int(state.order[early].max()), state.orders)
            self.counters.received_bytes += sums.nbytes
            if self._window is not None:
                if self._marked or (framing.flags_of(rest) & Flag.CONGESTED).any():
                    self._window.cut(int(state.sent_ns[slots].max()), self._now)
                else:
                    self._window.grow(len(slots))
            latest = int(state.order[slots].max())
            for group, which in self._alike(slots):
                self._accept(group, slots[which], sums[which], exponents[which])
            state.answered(len(slots), self._timer, self._now)
            if len(state.overtaken(latest, self._reordering.packets)):
                self._reordering.recovers(latest, state.orders)
        if others is not None:
            self._sort_out(*others)

    def _accept(self, group: int, slots: Numbers, sums: npt.NDArray[np.int32], exponents: npt.NDArray[np.int8]) -> None:
        """The results of `slots`, which are of one group: the next rounds begin."""
        state = self._slots
        order, alone = divmod(group, 2)
        reduction, indices = self._reductions[order], state.index[slots]
        if not alone:
            reduction.accept(indices, sums, state.exponent[slots])
        state.exponent[slots] = exponents
        following = indices + state.count
        more = following < reduction.chunks
        if np.count_nonzero(more) == len(more):
            state.go_on(slots, order, reduction, following)
            return
        state.go_on(slots[more], order, reduction, following[more])
        free = slots[~more]
        state.due_ns[free] = FREE
        for later, other in self._reductions.items():
            if later > order and len(free):
                free = state.enter(free, later, other)
        if not reduction.left:
            del self._reductions[order]
            self._events.append(Reduced(reduction.id))

    def _sort_out(self, first: Numbers, chunks: Numbers, slots: Numbers) -> None:
        """Results that no slot waits for: duplicates if they are of earlier rounds."""
        state = self._slots
        ours = (first ^ state.result[slots]) & ~(framing.VERSION | framing.VALUES) == 0
        ahead = (chunks - state.number[slots]).astype(np.int32)
        late = ours & ((ahead < 0) | ((ahead == 0) & (state.due_ns[slots] == FREE)))
        duplicates = int(np.count_nonzero(late))
        self.counters.duplicates += duplicates
        self.counters.refuse("bad_result", len(slots) - duplicates)

    def _unanswered(self, slot: int) -> str:
        """Why to give up on `slot`."""
        state, constants, member = self._slots, self._constants, self._member
        reduction, index = self._reductions[int(state.group[slot]) // 2], int(state.index[slot])
        what = (
            f"the exponent of chunk {index + constants.slots}" if index < 0 else
            f"the sum of chunk {index} ({reduction.elements_of(index)})"
        )  # fmt: skip
        version = int(state.result[slot]) // framing.VERSION & 1
        number = int(state.number[slot]) & 0xFFFFFFFF
        waiting = state.count - len(state.free)
        where = "the server" if constants.best_effort else "a switch"
        return (
            f"slot {slot}, version {version}, chunk number {number}: {what} of reduction {reduction.id} has not come "
            f"after {constants.retries} retransmissions; at {where} the packet of at least one of {member.workers} "
            f"workers is missing ({waiting} of {state.count} slots wait)"
        )

    def _fail(self, reason: str) -> None:
        self._failure = reason
        self._events += [Failed(reduction.id, AGGREGATOR, reason) for reduction in self._reductions.values()]
        self._reductions.clear()
        self._slots.clear()
