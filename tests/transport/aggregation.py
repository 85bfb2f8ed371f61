"""A switch after SwitchML's pseudo-code, and members of a job pumped against it in memory under a virtual clock."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import numpy as np

from testbed.spec.model import TransportSpec
from testbed.transport import Path, settle
from testbed.transport.aggregation import AGGREGATOR, AggregationEndpoint, Member
from testbed.transport.endpoint import Arrival, Burst
from testbed.wire import aggregation
from testbed.wire.aggregation import Header, Kind

PATH = Path(rate_bps=10**10, base_rtt_ns=20_000, mtu_bytes=1500, max_burst_packets=64)
JOB = 7

Packet = tuple[bytes, bytes]  # header, values
Fate = Callable[[], Sequence[int]]
"""One delay in ns for each copy of a packet that arrives."""


def members(
    count: int, path: Path = PATH, workers: Sequence[int] | None = None, **keys: object
) -> list[AggregationEndpoint]:
    """Endpoints of all members; `keys` are those of the spec's `transport`, `workers` the indices at their switches."""
    settings = settle(TransportSpec(kind="aggregation", **keys), path)
    return [AggregationEndpoint(path, Member(JOB, worker, count), settings) for worker in workers or range(count)]


def impaired(
    random: Random, *, loss: float = 0.0, duplicate: float = 0.0, reorder: float = 0.0, delay_ns: int = 5_000
) -> Fate:
    """Bernoulli loss and duplication; a reordered packet, or the second copy, takes up to a hundred times as long."""

    def fate() -> list[int]:
        copies = 0 if random.random() < loss else 2 if random.random() < duplicate else 1
        return [
            delay_ns * random.randint(1, 100) if copy or random.random() < reorder else delay_ns
            for copy in range(copies)
        ]

    return fate


@dataclass
class _Place:
    """A slot in one version."""

    chunk: int = -1
    count: int = 0
    seen: set[int] = field(default_factory=set)
    values: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    exponent: int = -128


class Adds(Protocol):
    """What adds up: takes a member's packet in and says what leaves, and to which member."""

    def receive(self, member: int, header: Header, data: bytes) -> list[tuple[int, Packet]]: ...


class Switch:
    """NSDI 2021, algorithm 3 with two pools: add what has not been seen, answer who asks again for what is complete.

    A packet for an older chunk than its place has is a late duplicate (the paper assumes that there are none).
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._places: dict[tuple[int, int], _Place] = {}

    def receive(self, member: int, header: Header, data: bytes) -> list[tuple[int, Packet]]:
        assert member == header.worker
        assert header.kind is Kind.ADD
        assert header.job == JOB
        place = self._places.setdefault((header.version, header.slot), _Place())
        newer = (header.chunk - place.chunk + 2**31) % 2**32 - 2**31
        if place.chunk >= 0 and newer < 0:
            return []
        values = np.frombuffer(data, ">i4").astype(np.int32)
        assert len(values) == header.values
        if place.chunk < 0 or newer:
            assert place.count == 0, "a chunk begins before the one in its place is complete"
            place.chunk, place.seen = header.chunk, set()
        if header.worker in place.seen:
            return [(header.worker, self._result(header, place))] if place.count == 0 else []
        place.seen.add(header.worker)
        place.count = (place.count + 1) % self._workers
        if len(place.seen) == 1:
            place.values, place.exponent = values, header.exponent
        else:
            place.values = place.values + values
            place.exponent = max(place.exponent, header.exponent)
        if place.count:
            return []
        return [(worker, self._result(header, place)) for worker in range(self._workers)]

    def _result(self, header: Header, place: _Place) -> Packet:
        result = Header(
            Kind.RESULT, header.job, 0, header.slot, header.version, header.values, header.chunk, place.exponent
        )
        return aggregation.encode(result), place.values.astype(">i4").tobytes()


@dataclass
class Network:
    """Carries packets between members and switch until nothing is left to do; `results` are joined to runs if they
    arrive at one instant."""

    ends: Sequence[AggregationEndpoint]
    fate: Fate
    switch: Adds
    now: int = 0
    events: list[list[object]] = field(default_factory=list)
    sent: int = 0
    lost: int = 0
    log: list[tuple[int, int, Header]] = field(default_factory=list)  # (now, member, header)
    _flying: list[tuple[int, int, int, int, Packet]] = field(default_factory=list)
    _order: int = 0

    def __post_init__(self) -> None:
        self.events = [[] for _ in self.ends]

    def run(self, until_ns: int | None = None, budget_packets: int = 1000, logged: bool = True) -> None:
        """Go on to the end, or as long as the clock is below `until_ns`."""
        for _ in range(10_000_000):
            for member, end in enumerate(self.ends):
                for burst in end.transmit(self.now, budget_packets):
                    self._launch(member, burst, logged)
                self.events[member] += end.events()
            times = [at for end in self.ends if (at := end.deadline()) is not None]
            times += [self._flying[0][0]] if self._flying else []
            if not times or (until_ns is not None and min(times) >= until_ns):
                return
            self.now = max(self.now, min(times))
            self._arrive()
            for end in self.ends:
                at = end.deadline()
                if at is not None and at <= self.now:
                    end.on_deadline(self.now)
        raise AssertionError(f"still busy at {self.now} ns")

    def _launch(self, member: int, burst: Burst, logged: bool) -> None:
        assert burst.peer == AGGREGATOR
        assert burst.not_before_ns <= self.now
        assert burst.packets <= PATH.max_burst_packets
        for packet in packets(burst):
            if logged:
                self.log.append((self.now, member, aggregation.decode(packet[0][-16:])))
            self._fly(AGGREGATOR, member, packet)

    def _fly(self, target: int, source: int, packet: Packet) -> None:
        delays = self.fate()
        self.sent += 1
        self.lost += not delays
        for delay_ns in delays:
            self._order += 1
            heapq.heappush(self._flying, (self.now + delay_ns, self._order, target, source, packet))

    def _arrive(self) -> None:
        came: dict[tuple[int, int], list[Packet]] = {}
        while self._flying and self._flying[0][0] <= self.now:
            _, _, target, source, packet = heapq.heappop(self._flying)
            if target == AGGREGATOR:
                before, header = packet[0][:-16], aggregation.decode(packet[0][-16:])
                for member, (result, values) in self.switch.receive(source, header, packet[1]):
                    self._fly(member, source, (before + result, values))
            else:
                came.setdefault((target, len(packet[1])), []).append(packet)
        for (member, size), run in came.items():
            for first in range(0, len(run), 64):
                piece = run[first : first + 64]
                payload = memoryview(bytearray(b"".join(values for _, values in piece)))
                self.ends[member].receive(
                    Arrival(AGGREGATOR, 0, size, tuple(header for header, _ in piece), payload), self.now
                )
                payload[:] = bytes(len(payload))  # the driver's buffer is the driver's again


def packets(burst: Burst) -> list[Packet]:
    size = burst.segment_bytes
    return [
        (header, bytes(burst.payload[index * size : (index + 1) * size])) for index, header in enumerate(burst.headers)
    ]
