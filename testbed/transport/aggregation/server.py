"""The server of a best-effort job: ATP's parameter server (NSDI 2021), which adds up what the switch did not.

What comes has a bitmap of the workers whose contributions it is the sum of. It is added unless one of them is there
already, so that nothing counts twice whatever is lost, doubled or late; a worker's contribution to a chunk is always
the same, and one that lacks the result sends it again. As at a switch with slots a chunk takes the place of the chunk
before the last of its slot, whose result all workers have by then.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.codec.block_exponent import BIG_ENDIAN, LEAST_EXPONENT
from testbed.transport.aggregation import framing
from testbed.transport.aggregation.endpoint import ROCE_SOURCE_PORT
from testbed.transport.aggregation.parameters import Constants
from testbed.transport.aggregation.seam import AGGREGATOR
from testbed.transport.endpoint import ECN_CE, ECN_ECT0, Arrival, Burst, Counters, Path
from testbed.transport.settings import Settings
from testbed.wire.aggregation import UDP_PORT, VALUE_BYTES, Flag, Kind

_NUMBERS = 1 << 32  # of chunks, before they begin again
_COUNTED = ("whole", "added", "overlapping")


@dataclass(slots=True)
class _Place:
    """A slot in one version."""

    chunk: int
    first: int  # what its result begins with
    there: int = 0  # a bit a worker
    exponent: int = LEAST_EXPONENT
    congested: bool = False


@dataclass(frozen=True, slots=True)
class _Answer:
    """A sum to be sent, as long as its chunk is there: to one worker, or to all."""

    place: int
    chunk: int
    alone: int | None = None


class AggregationServer:
    """Of job number `job`, with `workers` of them. Driven as an endpoint is; nothing is posted to it.

    counters.extra: `whole` chunks that the switch had added up, `added` partial sums of others, and `overlapping` ones,
    which had a contribution that was there and one that was not, and were left out.
    """

    def __init__(self, path: Path, job: int, workers: int, settings: Settings) -> None:
        self.counters = Counters()
        self.counters.extra.update(dict.fromkeys(_COUNTED, 0))
        self._constants = constants = Constants.of(path, settings.values)
        self._all = (1 << workers) - 1
        self._result = framing.results(job, np.zeros(1, np.int64))  # the first word of its results, in slot 0
        self._places: dict[int, _Place] = {}  # by slot and version
        self._sums = np.zeros((2 * constants.slots, constants.values), np.int32)
        self._answers: deque[_Answer] = deque()

    def receive(self, arrival: Arrival, now: int) -> None:  # noqa: ARG002 - it has no timer
        count, values = len(arrival.headers), self._constants.values
        self.counters.received_packets += count
        marked = arrival.ecn == ECN_CE
        self.counters.ecn_marked += count * marked
        whole, rest = divmod(len(arrival.payload), VALUE_BYTES * values)
        size = framing.header_bytes(self._constants.roce)
        if rest or whole not in (0, count - 1, count) or any(len(header) != size for header in arrival.headers):
            self.counters.malformed += count
            return
        rows = np.frombuffer(arrival.payload, BIG_ENDIAN).reshape(whole, values)
        first, chunks, exponents, rests = framing.decode(arrival.headers, self._constants.roce)
        bitmaps, slots = framing.bitmaps_of(first, rests), framing.slots_of(first)
        flags = framing.flags_of(rests) & Flag.CONGESTED
        known = framing.whose(first) == framing.whose(framing.as_kinds(self._result, Kind.PARTIAL, 0))
        known &= (slots < self._constants.slots) & (bitmaps != 0) & (bitmaps & ~self._all == 0)
        known &= first & framing.VALUES == np.where(np.arange(count) < whole, values, 0)
        for i in range(count):
            if not known[i]:
                self.counters.malformed += 1
                continue
            index = int(slots[i]) << 1 | bool(first[i] & framing.VERSION)
            place = self._place(index, int(first[i]), int(chunks[i]))
            if place is None:
                self.counters.duplicates += 1
            else:
                row = rows[i] if i < whole else None
                congested = marked or bool(flags[i])
                self._add(index, place, int(bitmaps[i]), row, int(exponents[i]), congested=congested)

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        bursts: list[Burst] = []
        left = budget_packets
        while left > 0 and self._answers:
            most = min(left, self._constants.burst_packets)
            bare = self._bare(self._answers[0])
            run: list[_Answer] = []
            while self._answers and len(run) < most and self._bare(self._answers[0]) == bare:
                answer = self._answers.popleft()
                if self._places[answer.place].chunk == answer.chunk:
                    run.append(answer)
            if run:
                bursts.append(self._burst(run, now, bare=bare))
                left -= len(run)
        return bursts

    def deadline(self) -> int | None:
        return 0 if self._answers else None

    def on_deadline(self, now: int) -> None:
        """Workers have the timers."""

    def idle(self) -> bool:
        return not self._answers

    def _place(self, index: int, first: int, chunk: int) -> _Place | None:
        """The place that a chunk has or takes; None if it has been and gone."""
        place = self._places.get(index)
        ahead = (chunk - place.chunk) % _NUMBERS if place else 1
        if ahead >= _NUMBERS // 2:
            return None
        if place is None or ahead:
            where = first & (framing.SLOT | framing.VERSION | framing.VALUES)
            place = self._places[index] = _Place(chunk, where | int(self._result[0]))
        return place

    def _add(
        self,
        index: int,
        place: _Place,
        bitmap: int,
        row: npt.NDArray[np.int32] | None,
        exponent: int,
        *,
        congested: bool,
    ) -> None:
        counters = self.counters
        if bitmap & ~place.there == 0:
            counters.duplicates += 1
            if place.there == self._all:  # somebody lacks the result
                alone = bitmap.bit_length() - 1 if bitmap.bit_count() == 1 else None
                self._answers.append(_Answer(index, place.chunk, alone))
            return
        if bitmap & place.there:
            counters.extra["overlapping"] += 1
            return
        counters.extra["whole" if bitmap == self._all else "added"] += 1
        if row is not None:
            counters.received_bytes += row.nbytes
            if place.there:
                self._sums[index] += row
            else:
                self._sums[index] = row
        place.there |= bitmap
        place.exponent = max(place.exponent, exponent)
        place.congested |= congested
        if place.there == self._all:
            self._answers.append(_Answer(index, place.chunk))

    def _bare(self, answer: _Answer) -> bool:
        """Whether it is of exponents alone."""
        return not self._places[answer.place].first & framing.VALUES

    def _burst(self, run: Sequence[_Answer], now: int, *, bare: bool) -> Burst:
        constants, places = self._constants, [self._places[answer.place] for answer in run]
        flags = [
            (answer.alone is not None) * Flag.ALONE | place.congested * Flag.CONGESTED
            for answer, place in zip(run, places, strict=True)
        ]
        first, workers = np.array([place.first for place in places]), np.array([answer.alone or 0 for answer in run])
        headers = framing.encode(
            framing.as_kinds(first, Kind.SUM, workers),
            np.array([answer.chunk for answer in run]),
            np.array([place.exponent for place in places], np.int8),
            np.array(flags, np.int64),
            constants.roce,
        )
        payload = b"" if bare else self._sums[[answer.place for answer in run]].astype(BIG_ENDIAN).tobytes()
        self.counters.sent_packets += len(run)
        self.counters.sent_bytes += len(payload)
        return Burst(
            peer=AGGREGATOR,
            source_port=ROCE_SOURCE_PORT if constants.roce else UDP_PORT,
            dscp=constants.dscp,
            ecn=ECN_ECT0,
            not_before_ns=now,
            segment_bytes=0 if bare else constants.values * VALUE_BYTES,
            headers=tuple(headers),
            payload=payload,
        )
