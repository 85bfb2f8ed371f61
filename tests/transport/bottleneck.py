"""A dumbbell in memory: pairs of endpoints over one FIFO that marks and drops, packet by packet, under a virtual clock.

Each sender has a NIC of the bottleneck's rate; acknowledgements meet no queue. Rates count whole frames and 24 bytes.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from testbed.transport import Path
from testbed.transport.endpoint import ECN_CE, ECN_ECT0, Arrival, Burst, Sent
from testbed.transport.roce import RoceEndpoint

from .pump import arrival, endpoints

_AROUND_BYTES = 46 + 24  # Ethernet, IPv4, UDP and ICRC; preamble, FCS and gap


@dataclass(frozen=True)
class Queue:
    """In bytes. Marks between `least` and `most` with a probability that rises linearly to `probability`, then all."""

    limit: int = 1 << 30
    least: int = 1 << 30
    most: int = 1 << 30
    probability: float = 1.0


def jain(rates: list[float]) -> float:
    """Jain's index of fairness: 1 where all are equal, 1/n where one has all."""
    return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))


class Dumbbell:
    """`flows` pairs; flow i begins at `starts[i]`, and then has always something to send."""

    def __init__(
        self, flows: int, path: Path, queue: Queue, starts: list[int], message_bytes: int = 1 << 20, **keys: object
    ) -> None:
        self.flows = flows
        self.ends = endpoints(2 * flows, path, kind="roce", **keys)
        self.received = [0] * flows  # payload bytes
        self.waits: list[int] = []  # of each packet in the queue, ns
        self.dropped = 0
        self._path = path
        self._queue = queue
        self._message = bytes(message_bytes)
        self._sink = memoryview(bytearray(message_bytes))
        self._posted = 0
        self._random = Random(1)
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._order = 0
        self._free_ns = [0] * (2 * flows)
        self._woken_ns: list[int | None] = [None] * (2 * flows)
        self._busy_until_ns = 0
        packet_ns = (1024 + 12 + _AROUND_BYTES) * 8 * 10**9 // path.rate_bps
        self.delay_ns = (path.base_rtt_ns - 2 * packet_ns) // 4  # of each of the four links on a round trip
        assert self.delay_ns > 0
        for flow, start_ns in enumerate(starts):
            self._at(start_ns, lambda now, flow=flow: self._begin(flow, now))

    def run(self, until_ns: int) -> None:
        while self._events and self._events[0][0] <= until_ns:
            now, _, action = heapq.heappop(self._events)
            action(now)

    def rates(self, from_ns: int, until_ns: int) -> list[float]:
        """Payload bits per second of each flow between two instants; runs until the second."""
        self.run(from_ns)
        self.waits.clear()
        before = list(self.received)
        self.run(until_ns)
        return [(b - a) * 8e9 / (until_ns - from_ns) for a, b in zip(before, self.received, strict=True)]

    def control(self, flow: int):
        """The congestion control of a sender."""
        return self.ends[flow]._queue_pairs[flow + self.flows].congestion

    def _at(self, time_ns: int, action: Callable[[int], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (time_ns, self._order, action))

    def _begin(self, flow: int, now: int) -> None:
        for _ in range(2):
            self._post(flow, now)
        self._turn(flow, now)

    def _post(self, flow: int, now: int) -> None:
        self._posted += 1
        self.ends[flow + self.flows].post_receive(self._posted, flow, self._posted, self._sink, now)
        self.ends[flow].post_send(self._posted, flow + self.flows, self._posted, self._message, now)

    def _turn(self, rank: int, now: int) -> None:
        """What a NIC does: lets the endpoint send when the line is free."""
        end = self.ends[rank]
        at = end.deadline()
        if at is not None and at <= now:
            end.on_deadline(now)
        if self._free_ns[rank] <= now:
            for burst in end.transmit(now, self._path.max_burst_packets):
                self._send(rank, burst, now)
        for event in end.events():
            if rank < self.flows:
                assert isinstance(event, Sent), event
                self._post(rank, now)
        at = end.deadline()
        if at is None:
            return
        at = max(at, self._free_ns[rank], now)
        woken = self._woken_ns[rank]
        if woken is None or at < woken or woken < now:
            self._woken_ns[rank] = at
            self._at(at, lambda then: self._wake(rank, then))

    def _wake(self, rank: int, now: int) -> None:
        if self._woken_ns[rank] == now:
            self._woken_ns[rank] = None
            self._turn(rank, now)

    def _send(self, rank: int, burst: Burst, now: int) -> None:
        assert burst.not_before_ns <= now
        for index in range(burst.packets):
            run = arrival(rank, burst, index, index + 1)
            bits = 8 * (len(burst.headers[index]) + len(run.payload) + _AROUND_BYTES)
            self._free_ns[rank] = max(now, self._free_ns[rank]) + -(-bits * 10**9 // self._path.rate_bps)
            if rank < self.flows:
                self._at(
                    self._free_ns[rank] + self.delay_ns,
                    lambda then, run=run, bits=bits: self._enqueue(burst.peer, run, bits, then),
                )
            else:
                self._at(
                    self._free_ns[rank] + 2 * self.delay_ns, lambda then, run=run: self._deliver(burst.peer, run, then)
                )

    def _enqueue(self, target: int, run: Arrival, bits: int, now: int) -> None:
        queue, rate_bps = self._queue, self._path.rate_bps
        backlog_ns = max(0, self._busy_until_ns - now)
        waiting = backlog_ns * rate_bps // (8 * 10**9)
        if waiting + bits // 8 > queue.limit:
            self.dropped += 1
            return
        if run.ecn == ECN_ECT0 and waiting > queue.least:
            share = (waiting - queue.least) / max(1, queue.most - queue.least)
            if share > 1 or self._random.random() < share * queue.probability:
                run = Arrival(run.peer, ECN_CE, run.segment_bytes, run.headers, run.payload)
        self.waits.append(backlog_ns)
        self._busy_until_ns = now + backlog_ns + -(-bits * 10**9 // rate_bps)
        self._at(self._busy_until_ns + self.delay_ns, lambda then: self._deliver(target, run, then))

    def _deliver(self, target: int, run: Arrival, now: int) -> None:
        end: RoceEndpoint = self.ends[target]
        before = end.counters.received_bytes
        end.receive(run, now)
        if target >= self.flows:
            self.received[target - self.flows] += end.counters.received_bytes - before
        self._turn(target, now)
