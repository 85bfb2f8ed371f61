"""A network in memory: endpoints pumped by hand under a virtual clock, each wire packet with a fate of its own."""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from testbed.spec.model import TransportSpec
from testbed.transport import Endpoint, Path, queue_pairs, settle
from testbed.transport.endpoint import ECN_CE, Arrival, Burst, Event
from testbed.transport.roce import RoceEndpoint

PATH = Path(rate_bps=10**10, base_rtt_ns=20_000, mtu_bytes=1500, max_burst_packets=64)

Fate = Callable[[int, Burst, int], Sequence[int]]
"""(sender, burst, index of the packet in it) -> one delay in ns for each copy that arrives."""


def endpoints(ranks: int = 2, path: Path = PATH, seed: int = 1, **keys: object) -> list[RoceEndpoint]:
    """Endpoints of all ranks; `keys` are those of the spec's `transport`."""
    settings = settle(TransportSpec(**keys), path)
    peers = queue_pairs(ranks)
    return [RoceEndpoint(path, rank, peers, settings, seed) for rank in range(ranks)]


def packets(burst: Burst) -> list[tuple[bytes, bytes]]:
    """(header, payload) of each."""
    size = burst.segment_bytes
    return [
        (header, bytes(burst.payload[index * size : (index + 1) * size])) for index, header in enumerate(burst.headers)
    ]


def arrival(sender: int, burst: Burst, first: int = 0, last: int | None = None, ecn: int | None = None) -> Arrival:
    """Packets [first, last) of a burst as a run that arrives."""
    last = burst.packets if last is None else last
    payload = burst.payload[first * burst.segment_bytes : last * burst.segment_bytes]
    mark = burst.ecn if ecn is None else ecn
    return Arrival(sender, mark, burst.segment_bytes, burst.headers[first:last], payload)


def impaired(
    random: Random, *, loss: float = 0.0, duplicate: float = 0.0, reorder: float = 0.0, delay_ns: int = 10_000
) -> Fate:
    """Bernoulli loss and duplication; a reordered packet takes up to five times as long."""

    def fate(sender: int, burst: Burst, index: int) -> list[int]:  # noqa: ARG001
        copies = 0 if random.random() < loss else 2 if random.random() < duplicate else 1
        return [delay_ns * random.randint(1, 5) if random.random() < reorder else delay_ns for _ in range(copies)]

    return fate


@dataclass
class Network:
    """Carries packets between `ends` until nothing is left to do; keeps all events and counts."""

    ends: Sequence[Endpoint]
    fate: Fate
    marks: Callable[[int, Burst, int], bool] = lambda *_: False
    now: int = 0
    events: list[list[Event]] = field(default_factory=list)
    log: list[tuple[int, int, Burst]] = field(default_factory=list)  # (now, sender, burst)
    lost: int = 0
    doubled: int = 0
    until_ns: int = 1 << 62  # what is due later is not waited for
    _flying: list[tuple[int, int, int, Arrival]] = field(default_factory=list)
    _timed: list[tuple[int, int, Callable[[int], None]]] = field(default_factory=list)
    _order: int = 0

    def __post_init__(self) -> None:
        self.events = [[] for _ in self.ends]

    def at(self, time_ns: int, action: Callable[[int], None]) -> None:
        """Call `action(now)` then."""
        heapq.heappush(self._timed, (time_ns, self._next_order(), action))

    def run(self, budget_packets: int = 1000, limit_steps: int = 200_000) -> None:
        for _ in range(limit_steps):
            while self._send(budget_packets):
                pass
            self._look()
            times = [entry[0] for entry in (*self._flying[:1], *self._timed[:1])]
            times += [at for end in self.ends if (at := end.deadline()) is not None]
            if not times or min(times) > self.until_ns:
                break
            self.now = max(self.now, min(times))
            self._arrive()
        else:
            raise AssertionError(f"still busy at {self.now} ns")
        self._look()

    def totals(self) -> Counter[str]:
        """Counters summed over the ends."""
        total: Counter[str] = Counter()
        for end in self.ends:
            for name in end.counters.__slots__:
                value = getattr(end.counters, name)
                total.update(value if isinstance(value, dict) else {name: value})
        return total

    def _look(self) -> None:
        """All that may be sent now has been."""
        for rank, end in enumerate(self.ends):
            self.events[rank] += end.events()

    def _send(self, budget_packets: int) -> bool:
        sent = False
        for sender, end in enumerate(self.ends):
            for burst in end.transmit(self.now, budget_packets):
                assert burst.not_before_ns <= self.now
                sent = True
                self.log.append((self.now, sender, burst))
                self._launch(sender, burst)
        return sent

    def _launch(self, sender: int, burst: Burst) -> None:
        """Runs of packets with the same fate stay runs."""
        pieces: list[tuple[int, bool, int, int]] = []  # arrival instant, marked, first, last
        for index in range(burst.packets):
            delays = self.fate(sender, burst, index)
            self.lost += not delays
            self.doubled += max(0, len(delays) - 1)
            for delay_ns in delays:
                at, marked = self.now + delay_ns, self.marks(sender, burst, index)
                if pieces and len(delays) == 1 and pieces[-1][:2] == (at, marked) and pieces[-1][3] == index:
                    pieces[-1] = (at, marked, pieces[-1][2], index + 1)
                else:
                    pieces.append((at, marked, index, index + 1))
        for at, marked, first, last in pieces:
            self._fly(at, burst.peer, arrival(sender, burst, first, last, ECN_CE if marked else None))

    def _fly(self, at_ns: int, target: int, run: Arrival) -> None:
        heapq.heappush(self._flying, (at_ns, self._next_order(), target, run))

    def _arrive(self) -> None:
        while self._timed and self._timed[0][0] <= self.now:
            heapq.heappop(self._timed)[2](self.now)
        while self._flying and self._flying[0][0] <= self.now:
            _, _, target, run = heapq.heappop(self._flying)
            self.ends[target].receive(run, self.now)
        for end in self.ends:
            at = end.deadline()
            if at is not None and at <= self.now:
                end.on_deadline(self.now)

    def _next_order(self) -> int:
        self._order += 1
        return self._order
