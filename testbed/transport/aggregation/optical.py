"""A member's end of aggregation by units that average (`protocol: optical`), after OptINC (arXiv 2603.28290).

Packets have numbers that go on from one buffer to the next; number c takes slot c modulo `slots`. All are sent in order
and once, each as soon as its slot is free and its scale known: when the mean of the packet before it in the slot has
come, or that one is given up. A packet is given up, and its chunk counts as missing, after `deadline`, or when the mean
of one that is more than half the slots later is there: ways do not change, so means come in order, and who lacks one
keeps up with the others. Nothing is sent again, and no result waits for more than that; a mean that comes after all, as
long as its buffer is under way, is taken. Where none came the buffer keeps what it had, the member's own values.

The scales of blocks come to be known a block ahead (`testbed.transport.aggregation.passage`); a member that has missed
all that tells of one cannot send that block's chunks, and all members miss these.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.codec.block_exponent import NotFiniteError
from testbed.codec.words import WordQuantiser
from testbed.transport.aggregation import framing
from testbed.transport.aggregation.endpoint import ROCE_SOURCE_PORT
from testbed.transport.aggregation.inbox import Inbox
from testbed.transport.aggregation.parameters import batch_of
from testbed.transport.aggregation.passage import ALONE, MISSING, NEVER, SENT, Passage
from testbed.transport.aggregation.reduction import Indices
from testbed.transport.aggregation.seam import AGGREGATOR, Member, Reduced, ReduceEvent
from testbed.transport.endpoint import ECN_NOT_ECT, Arrival, Burst, Counters, Failed, Path
from testbed.transport.parameters import Values, whole
from testbed.transport.settings import Settings
from testbed.wire.aggregation import UDP_PORT, VALUE_BYTES, Kind

_NUMBERS = 1 << 32  # of packets, before they begin again
_FREE = -1
_COUNTED = ("gaps", "late", "unscaled")


@dataclass(frozen=True, slots=True)
class _Constants:
    roce: bool
    values: int
    slots: int
    block: int
    hold_ns: int
    batch: int
    deadline_ns: int
    patience_ns: int
    dscp: int

    @classmethod
    def of(cls, values: Values) -> "_Constants":
        return cls(
            roce=values["framing"] == "roce",
            values=whole(values, "values"),
            slots=whole(values, "slots"),
            block=whole(values, "block"),
            hold_ns=whole(values, "hold"),
            batch=batch_of(values),
            deadline_ns=whole(values, "deadline"),
            patience_ns=whole(values, "patience"),
            dscp=whole(values, "dscp"),
        )


class OpticalEndpoint:
    """A `testbed.transport.aggregation.ReduceEndpoint` of float32 or float16 buffers, whose results may be partial.

    After a failure all reductions, also later ones, fail for the same reason. counters.timeouts are packets given up
    after their deadline; .extra: `gaps` given up for later means, `late` means that came after all, `unscaled` chunks
    not sent for want of a scale.
    """

    def __init__(self, path: Path, member: Member, settings: Settings) -> None:
        self.counters = Counters()
        self.counters.extra.update(dict.fromkeys(_COUNTED, 0))
        self._member = member
        self._burst_packets = path.max_burst_packets
        self._constants = constants = _Constants.of(settings.values)
        self._quantiser = WordQuantiser(member.workers, whole(settings.values, "bits"))
        self._results = framing.results(member.job, np.arange(constants.slots))
        self._holder = np.full(constants.slots, _FREE, np.int64)  # the number of the packet that is waited for
        self._passages: list[Passage] = []  # under way, by order of posting
        self._number = 0  # of the next packet
        self._inbox = Inbox(self.counters, constants.values, roce=constants.roce)
        self._events: list[ReduceEvent] = []
        self._failure: str | None = None
        self._now = 0

    def post_reduce(self, id: int, buffer: npt.NDArray[Any], now: int) -> None:
        """See the seam, but for int32. Floats must be finite: what is not is found when its turn comes, and named."""
        self._now = now
        self._take_in()
        constants = self._constants
        passage = Passage(id, buffer, constants.values, constants.block, self._number, self._quantiser)
        if self._failure:
            self._events.append(Failed(id, AGGREGATOR, self._failure))
        elif not passage.packets:
            self._events.append(Reduced(id))
        else:
            self._number += passage.packets
            self._passages.append(passage)

    def receive(self, arrival: Arrival, now: int) -> None:
        self._now = now
        self._inbox.put(arrival, now)

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        """One run at the most: what follows can be asked for at once."""
        self._now = now
        self._take_in()
        found = self._sendable(min(budget_packets, self._burst_packets))
        burst = self._send(*found) if found else None
        return [burst] if burst else []

    def deadline(self) -> int | None:
        self._take_in()
        if self._sendable(1):
            return self._now
        held = [self._inbox.since_ns + self._constants.hold_ns] if self._inbox else []
        return min([*held, *self._due_instants()], default=None)

    def on_deadline(self, now: int) -> None:
        self._now = now
        self._take_in(at_once=min(self._due_instants(), default=now + 1) <= now)
        for passage in self._passages:
            if passage.next and passage.begun_ns is None and passage.sent_ns[0] + self._constants.patience_ns <= now:
                passage.begun_ns = int(passage.sent_ns[0])
            if passage.begun_ns is not None:
                waits = np.flatnonzero(passage.state[: passage.next] == SENT)
                since_ns = np.maximum(passage.sent_ns[waits], passage.begun_ns)
                late = waits[since_ns + self._constants.deadline_ns <= now]
                self.counters.timeouts += len(late)
                self._give_up(passage, late)
        self._settle()

    def events(self) -> Sequence[ReduceEvent]:
        self._take_in()
        events = tuple(self._events)
        self._events.clear()
        return events

    def idle(self) -> bool:
        self._take_in()
        return not self._passages

    def _sendable(self, most: int) -> tuple[Passage, Indices] | None:
        """The next packets that may leave, all of one kind."""
        for passage in self._passages:
            while (first := passage.next) < passage.packets:
                packets = np.arange(first, min(first + min(most, self._constants.slots), passage.packets))
                may = self._holder[self._slots_of(passage, packets)] == _FREE
                if not may[0]:
                    return None
                may &= passage.scaled(packets) & ((passage.chunk[packets] == ALONE) == (passage.chunk[first] == ALONE))
                if may[0]:
                    return passage, packets if may.all() else packets[: int(np.argmin(may))]
                if not passage.pass_over():
                    return None
                self.counters.extra["unscaled"] += passage.next - first
        self._settle()
        return None

    def _send(self, passage: Passage, packets: Indices) -> Burst | None:
        """The packets' run; None if there is no going on."""
        constants = self._constants
        try:
            offered = passage.offered(packets)
        except NotFiniteError as error:
            element = passage.element_of(error.row, error.column)
            self._fail(f"element {element} of reduction {passage.id} is {error.value}: only finite ones can be scaled")
            return None
        alone = passage.chunk[packets[0]] == ALONE
        payload = b"" if alone else passage.words(packets)
        slots, numbers = self._slots_of(passage, packets), passage.origin + packets
        first = framing.as_kinds(self._results[slots], Kind.ADD, self._member.worker)
        if not alone:
            first |= constants.values
        self._holder[slots] = numbers
        passage.state[packets], passage.sent_ns[packets] = SENT, self._now
        passage.next += len(packets)
        self.counters.sent_packets += len(packets)
        self.counters.sent_bytes += len(payload)
        return Burst(
            peer=AGGREGATOR,
            source_port=ROCE_SOURCE_PORT if constants.roce else UDP_PORT,
            dscp=constants.dscp,
            ecn=ECN_NOT_ECT,
            not_before_ns=self._now,
            segment_bytes=0 if alone else constants.values * VALUE_BYTES,
            headers=tuple(framing.encode(first, numbers % _NUMBERS, offered, 0, constants.roce)),
            payload=payload,
        )

    def _take_in(self, at_once: bool = False) -> None:
        """Take in what has come, if it is time to: as with slots, many at once cost less."""
        if not self._inbox:
            return
        held = self._now < self._inbox.since_ns + self._constants.hold_ns and not at_once
        if held and len(self._inbox) < min(self._constants.batch, int(np.count_nonzero(self._holder != _FREE))):
            return
        for headers, means in self._inbox.empty():
            self._take(headers, means)
        self._settle()

    def _take(self, encoded: Sequence[bytes], means: npt.NDArray[np.int32]) -> None:
        """Headers, and the mean words behind each."""
        first, numbers, exponents, _ = framing.decode(encoded, self._constants.roce)
        slots = framing.slots_of(first)
        right = slots < self._constants.slots
        slots[~right] = 0
        right &= first == self._results[slots] | means.shape[1]
        ended = self._passages[0].origin if self._passages else self._number
        behind = right & ((ended - 1 - numbers) % _NUMBERS < _NUMBERS // 2)  # of buffers that are done
        self.counters.duplicates += int(np.count_nonzero(behind))
        others = ~behind
        for passage in self._passages:
            packets = (numbers - passage.origin) % _NUMBERS
            mine = np.flatnonzero(right & (packets < passage.next))
            if len(mine):
                self._accept(passage, packets[mine], slots[mine], means[mine], exponents[mine])
                others[mine] = False
        self.counters.refuse("bad_result", int(np.count_nonzero(others)))

    def _accept(
        self,
        passage: Passage,
        packets: Indices,
        slots: Indices,
        means: npt.NDArray[np.int32],
        exponents: npt.NDArray[np.int8],
    ) -> None:
        """What has come of the packets of one buffer, sent ones and others, perhaps some twice."""
        due = (passage.state[packets] == SENT) | (passage.state[packets] == MISSING) & (
            passage.sent_ns[packets] != NEVER
        )
        right = (slots == self._slots_of(passage, packets)) & (exponents >= passage.offered(packets))
        right &= (passage.chunk[packets] == ALONE) == (means.shape[1] == 0)
        taken = due & right
        taken[taken] = passage.once(packets[taken])
        self.counters.refuse("bad_result", int(np.count_nonzero(~right)))
        self.counters.duplicates += int(np.count_nonzero(right & ~taken))
        packets, means, exponents = packets[taken], means[taken], exponents[taken]
        if not len(packets):
            return
        if passage.begun_ns is None:
            passage.begun_ns = self._now
        self.counters.extra["late"] += int(np.count_nonzero(passage.state[packets] == MISSING))
        self.counters.received_bytes += means.nbytes
        self._free(passage, packets)
        passage.accept(packets, means, exponents)
        self._give_up_before(passage.origin + int(packets.max()) - self._constants.slots // 2)

    def _give_up_before(self, number: int) -> None:
        """Those that are waited for and have a smaller number."""
        for passage in self._passages:
            until = min(number - passage.origin, passage.next)
            if until <= 0:
                return
            waiting = np.flatnonzero(passage.state[:until] == SENT)
            self.counters.extra["gaps"] += len(waiting)
            self._give_up(passage, waiting)

    def _give_up(self, passage: Passage, packets: Indices) -> None:
        passage.state[packets] = MISSING
        self._free(passage, packets)

    def _free(self, passage: Passage, packets: Indices) -> None:
        """Slots that wait for these packets wait no more."""
        slots = self._slots_of(passage, packets)
        held = self._holder[slots] == passage.origin + packets
        self._holder[slots[held]] = _FREE

    def _settle(self) -> None:
        """Buffers that nothing more comes of are done, in order."""
        while self._passages and self._ended(self._passages[0]):
            passage = self._passages.pop(0)
            self._events.append(Reduced(passage.id, passage.missing()))

    def _ended(self, passage: Passage) -> bool:
        return passage.next == passage.packets and not (passage.state == SENT).any()

    def _due_instants(self) -> Iterator[int]:
        """Of each buffer that waits for any, when the first that is waited for is given up."""
        for passage in self._passages:
            waits = np.flatnonzero(passage.state[: passage.next] == SENT)
            if not len(waits):
                continue
            if passage.begun_ns is None:
                yield int(passage.sent_ns[0]) + self._constants.patience_ns
            else:
                yield max(int(passage.sent_ns[waits[0]]), passage.begun_ns) + self._constants.deadline_ns

    def _slots_of(self, passage: Passage, packets: Indices) -> Indices:
        return (passage.origin + packets) % self._constants.slots

    def _fail(self, reason: str) -> None:
        self._failure = reason
        self._events += [Failed(passage.id, AGGREGATOR, reason) for passage in self._passages]
        self._passages.clear()
        self._holder[:] = _FREE
