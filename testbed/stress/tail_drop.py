"""Messages whose last packets are lost: an endpoint between a transport's and what drives it, which lets them go.

Drop-tail queues and deadlines lose the end of a message rather than any packet of it, which is what the Hadamard
transform of OptiReduce is there for (NSDI 2025). That senders lose it is our reading, as links know no messages. Of a
message that is struck, each packet that begins in its last share is dropped once, where its sender gives it to the
network: what a transport sends again goes through. Whether a message is struck is drawn for it alone (fault, rank,
peer, tag).

A packet is known by where its payload lies in the memory of what was posted, so packets that carry copies, such as
parities, are never dropped, nor are those without payload.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from testbed.spec.model import FaultSpec
from testbed.streams import DRAWS, derive
from testbed.transport.endpoint import ALL, Buffer, Burst, Completion, Endpoint, as_bytes

_BESIDES = ("begin", "start", "skips", "learned")  # what an endpoint may have beyond the seam
DROPPED = "tail_dropped_packets"  # among the endpoint's counters


@dataclass(slots=True)
class _Tail:
    """The end of a message that is to be lost, by its addresses in memory; `gone` are those dropped so far."""

    first: int
    end: int
    gone: set[int] = field(default_factory=set)


def with_tail_drops(endpoint: Endpoint, faults: Sequence[FaultSpec], seed: int, *, job: str, rank: int) -> Endpoint:
    """`endpoint`, or where a fault of the spec strikes the rank one that loses tails for it. seed: its job's."""
    numbered = enumerate(fault for fault in faults if fault.kind == "tail-drop")
    striking = tuple((number, fault) for number, fault in numbered if fault.strikes(job, rank))
    return TailDrop(endpoint, striking, seed, rank) if striking else endpoint


class TailDrop:
    """A `testbed.transport.endpoint.Endpoint` for `rank` over another, under numbered faults."""

    def __init__(self, endpoint: Endpoint, faults: Sequence[tuple[int, FaultSpec]], seed: int, rank: int) -> None:
        self.counters = endpoint.counters
        self._endpoint = endpoint
        self._faults = faults
        self._seed = seed
        self._rank = rank
        self._tails: dict[int, list[_Tail]] = {}  # by peer
        self.receive = endpoint.receive
        self.deadline = endpoint.deadline
        self.on_deadline = endpoint.on_deadline
        self.events = endpoint.events
        self.idle = endpoint.idle
        for name in _BESIDES:  # which drivers look for
            if hasattr(endpoint, name):
                setattr(self, name, getattr(endpoint, name))

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        """See the seam."""
        size = as_bytes(buffer).nbytes
        if size:
            self._watch(peer, tag, _address(buffer), size)
        self._endpoint.post_send(id, peer, tag, buffer, now)

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        """See the seam."""
        self._endpoint.post_receive(id, peer, tag, buffer, now, completion)

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        """What of the endpoint's bursts is not lost; it is asked again where nothing else is left of them."""
        while bursts := self._endpoint.transmit(now, budget_packets):
            kept = [part for burst in bursts for part in self._parts(burst)]
            deadline_ns = self._endpoint.deadline()
            if kept or deadline_ns is None or deadline_ns > now:
                return kept
        return ()

    def _watch(self, peer: int, tag: int, address: int, size: int) -> None:
        """Of a message that is posted: what is to be lost of it, in place of what was posted there before."""
        end = address + size
        tails = [tail for tail in self._tails.get(peer, ()) if tail.end <= address or tail.first >= end]
        lost = max((self._lost(number, fault, peer, tag) for number, fault in self._faults), default=0.0)
        if lost:
            tails.append(_Tail(end - int(lost * size), end))
        self._tails[peer] = tails

    def _lost(self, number: int, fault: FaultSpec, peer: int, tag: int) -> float:
        """The share of a message that a fault takes."""
        draw = derive(self._seed, "tail-drop", number, self._rank, peer, tag)
        chance = 1.0 if fault.probability is None else fault.probability
        return (fault.share or 0.0) if Fraction(draw, DRAWS) < chance else 0.0

    def _parts(self, burst: Burst) -> list[Burst]:
        """The runs that are left of a burst."""
        tails = self._tails.get(burst.peer)
        size = as_bytes(burst.payload).nbytes
        if not tails or not size:
            return [burst]
        first = _address(burst.payload)
        tail = next((each for each in tails if each.first < first + size and first < each.end), None)
        if tail is None:
            return [burst]
        parts: list[Burst] = []
        begin = 0
        for index in range(burst.packets):
            at = first + index * burst.segment_bytes
            if at >= tail.first and at not in tail.gone:
                tail.gone.add(at)
                self.counters.extra[DROPPED] = self.counters.extra.get(DROPPED, 0) + 1
                parts += _run(burst, begin, index)
                begin = index + 1
        return [*parts, *_run(burst, begin, burst.packets)] if begin else [burst]


def _run(burst: Burst, first: int, last: int) -> list[Burst]:
    """The packets [first, last) of a burst, if there are any."""
    if first == last:
        return []
    payload = as_bytes(burst.payload)[first * burst.segment_bytes : last * burst.segment_bytes]
    return [burst._replace(headers=burst.headers[first:last], payload=payload)]


def _address(buffer: Buffer) -> int:
    """Where a buffer of some bytes lies in memory."""
    return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])
