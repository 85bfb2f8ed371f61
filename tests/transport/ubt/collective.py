"""Collectives over UBT endpoints in memory: the worker's own iterations, pumped by hand under a virtual clock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.collective import generate
from testbed.collective.program import programs
from testbed.spec.model import TransportSpec
from testbed.transport import TRANSPORTS, Path, queue_pairs, settle
from testbed.transport.endpoint import Burst, Event
from testbed.transport.ubt import UbtEndpoint
from testbed.worker.iteration import Iteration
from testbed.worker.operation import Announcer
from tests.transport.pump import PATH, Fate, Network

UBT = TRANSPORTS["ubt"]
NONE: Mapping[int, int] = {}


def endpoints(ranks: int, path: Path = PATH, **keys: Any) -> list[UbtEndpoint]:
    """`keys` are those of the spec's `transport`."""
    settings = settle(TransportSpec(kind="ubt", **keys), path)
    return [UbtEndpoint(path, rank, queue_pairs(ranks), settings, 1) for rank in range(ranks)]


@dataclass
class Pumped(Network):
    """Hands what was completed to `listen`, as a worker does, and wakes when it says that it wants to."""

    listen: Callable[[int, Sequence[Event], int], None] = lambda *_: None

    def _send(self, budget_packets: int) -> bool:
        sent = super()._send(budget_packets)
        for rank, end in enumerate(self.ends):
            if events := end.events():
                self.events[rank] += events
                self.listen(rank, events, self.now)
                sent = True
        return sent

    def _launch(self, sender: int, burst: Burst) -> None:
        super()._launch(sender, burst._replace(payload=bytes(burst.payload)))


@dataclass
class Outcome:
    """What an iteration came to, rank by rank."""

    results: list[npt.NDArray[Any]]
    exact: npt.NDArray[Any]
    missing_bytes: list[int]
    took_ns: list[int]  # from the rank's own start
    failures: list[str | None]


@dataclass
class Ranks:
    """Runs collectives one after the other; `fate` may be exchanged in between."""

    count: int
    fate: Fate
    algorithm: str = "tar"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    elements: int = 4096
    warmup: int = 2
    keys: Mapping[str, Any] = field(default_factory=dict)
    path: Path = PATH

    def __post_init__(self) -> None:
        schedule = generate("allreduce", self.algorithm, self.count, parameters=self.parameters)
        self.programs = programs(schedule, self.elements)
        self.ends = endpoints(self.count, self.path, **self.keys)
        self.network = Pumped(self.ends, self._launch)
        self._told = [Announcer(end, [mine], self.warmup) for end, mine in zip(self.ends, self.programs, strict=True)]
        self._number = 0

    def _launch(self, sender: int, burst: Burst, index: int) -> Sequence[int]:
        return self.fate(sender, burst, index)

    def run(
        self, starts_ns: Mapping[int, int] = NONE, stalls_ns: Mapping[int, Mapping[int, int]] | None = None
    ) -> Outcome:
        """One iteration. starts_ns: by how much a rank starts later; stalls_ns: rank -> step -> delay of its sends."""
        number, network = self._number, self.network
        self._number += 1
        random = np.random.default_rng(number)
        inputs = [random.standard_normal(self.elements).astype(np.float32) for _ in range(self.count)]
        buffers = [values.copy() for values in inputs]
        tag = number * self.programs[0].tags
        iterations = [
            Iteration(
                [self.programs[rank]],
                [buffers[rank]],
                self.ends[rank],
                tag,
                (stalls_ns or {}).get(rank, {}),
                None,
                "keep",
                self._told[rank].of(number, tag, np.float32),
            )
            for rank in range(self.count)
        ]
        began, running = network.now, [False] * self.count
        started = [began + starts_ns.get(rank, 0) for rank in range(self.count)]

        early: list[list[Event]] = [[] for _ in range(self.count)]  # before the rank itself has begun

        def listen(rank: int, events: Sequence[Event], now: int) -> None:
            if now < started[rank] or not running[rank]:
                early[rank] += events
                return
            iterations[rank].on_events(events, now)
            wake(rank, now)

        def wake(rank: int, now: int) -> None:
            iterations[rank].go_on(now)
            if (at := iterations[rank].wake_ns()) is not None:
                network.at(at, lambda later: wake(rank, later))

        def start(rank: int, now: int) -> None:
            iterations[rank].start(now)
            running[rank] = True
            listen(rank, early[rank], now)

        network.listen = listen
        for iteration in iterations:
            iteration.prepare(began)
        for rank, at in enumerate(started):
            network.at(at, lambda now, rank=rank: start(rank, now))
        network.run()
        return Outcome(
            results=buffers,
            exact=np.sum([values.astype(np.float64) for values in inputs], axis=0),
            missing_bytes=[iteration.missing_bytes for iteration in iterations],
            took_ns=[(iteration.received_ns or at) - at for iteration, at in zip(iterations, started, strict=True)],
            failures=[iteration.failure for iteration in iterations],
        )
