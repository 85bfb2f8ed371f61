"""One rank as the run sees it: prepares and runs iterations on request, reports each, answers questions in between.

Notices to the run: `ready` and `done` of an iteration, `failed` with a reason. After `done` the rank goes on serving
its peers (retransmissions, acknowledgements) until the next iteration. Instants in messages are real (CLOCK_MONOTONIC).
"""

import select
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from testbed.collective.executor import Gap
from testbed.run.channel import Channel, Message
from testbed.worker.clock import ModelClock
from testbed.worker.loop import Loop
from testbed.worker.memory import SharedInputs
from testbed.worker.probe import Prober
from testbed.worker.workload import Workload

_FINISH_POLL_NS = 5_000_000


Happened = TypeVar("Happened")
_Out_co = TypeVar("_Out_co", covariant=True)
_In_contra = TypeVar("_In_contra", contravariant=True)


class Driver(Protocol[_Out_co]):
    """What moves a rank's packets; its events are for the iteration. Instants are real nanoseconds."""

    def connect(self) -> None:
        """Begin whatever must be there before the first iteration; all ranks are up."""

    @property
    def connected(self) -> bool: ...

    def watched(self) -> Sequence[tuple[int, int]]: ...

    def receive(self, ready: Mapping[int, int]) -> None: ...

    def transmit(self) -> None: ...

    def events(self) -> Sequence[_Out_co]: ...

    def idle(self) -> bool: ...

    def wake_ns(self) -> int | None: ...

    def counters(self) -> dict[str, int]: ...

    def take_late_ns(self) -> list[int]:
        """How much later than asked packets left since the last call, in model nanoseconds."""


class Work(Protocol[_In_contra]):
    """One iteration of a rank; see `testbed.worker.iteration.Iteration`. Instants are model nanoseconds."""

    @property
    def failure(self) -> str | None: ...

    @property
    def received_ns(self) -> int | None: ...

    @property
    def received_bytes(self) -> int: ...

    @property
    def missing_bytes(self) -> int: ...

    @property
    def gaps(self) -> Sequence[Gap]: ...

    @property
    def done(self) -> bool: ...

    @property
    def skipped(self) -> bool: ...

    def prepare(self, now: int) -> None: ...

    def start(self, now: int) -> None: ...

    def on_events(self, events: Iterable[_In_contra], now: int) -> None: ...

    def wake_ns(self) -> int | None: ...

    def go_on(self, now: int) -> None: ...

    def waiting_for(self, now: int) -> str: ...


# The iteration of a number, on the layers' buffers, with the delays of its steps.
Begin = Callable[[int, Sequence[npt.NDArray[Any]], Mapping[int, int]], Work[Happened]]


class _State(Enum):
    SERVING = auto()  # no iteration of its own under way
    PREPARING = auto()  # until the carrier is connected
    READY = auto()
    ARMED = auto()  # released, until its instant
    RUNNING = auto()
    FINISHED = auto()  # until all ranks are, so that checking results disturbs nobody's timing


class Rank(Generic[Happened]):
    """Rank `rank` of a run; `layers`: the elements of each part of `buffer`; `begin` makes an iteration over them."""

    def __init__(
        self,
        rank: int,
        channel: Channel,
        driver: Driver[Happened],
        prober: Prober,
        buffer: npt.NDArray[Any],
        layers: Sequence[int],
        begin: Begin[Happened],
        workload: Workload,
        inputs: SharedInputs,
        clock: ModelClock,
        loop: Loop,
    ) -> None:
        self._rank = rank
        self._channel = channel
        self._driver = driver
        self._prober = prober
        self._begin = begin
        self._workload = workload
        self._inputs = inputs
        self._clock = clock
        self._loop = loop
        self._state = _State.SERVING
        self._number = -1
        self._iteration: Work[Happened] | None = None
        self._buffer = buffer
        edges = np.cumsum([0, *layers])
        self._layers = [self._buffer[first:last] for first, last in pairwise(edges)]
        self._begin_ns = 0  # the instant asked for
        self._start_ns = self._end_ns = self._cpu_ns = 0
        self._reported = {"retransmitted_packets": 0, "timeouts": 0}

    def watched(self) -> list[tuple[int, int]]:
        return [(self._channel.fileno(), select.POLLIN), *self._driver.watched()]

    def serve(self, ready: Mapping[int, int]) -> None:
        if self._channel.fileno() in ready:
            for message in self._channel.poll():
                self._handle(message)
            if self._channel.closed:
                self._loop.stop()
                return
        self._driver.receive(ready)
        self._advance()
        self._driver.transmit()
        while self._state is _State.RUNNING and self._go_on():  # a transport may tell of sends as they leave
            self._driver.transmit()
        if self._state is _State.RUNNING:
            self._finish()

    def wake_ns(self) -> int | None:
        wakes = [self._driver.wake_ns()]
        if self._state is _State.ARMED:
            wakes.append(self._begin_ns)
        elif self._state is _State.FINISHED:
            wakes.append(self._clock.monotonic() + _FINISH_POLL_NS)
        elif self._state is _State.RUNNING and self._iteration and (held := self._iteration.wake_ns()) is not None:
            wakes.append(self._clock.real(held))
        return min((wake for wake in wakes if wake is not None), default=None)

    def _handle(self, message: Message) -> None:
        op = message.get("op")
        if op == "prepare":
            self._prepare(message["iteration"])
        elif op == "release":
            self._begin_ns = message["at_ns"] + self._workload.compute_ns(self._number) * self._clock.dilation
            self._state = _State.ARMED
        elif op == "counters":
            self._channel.answer(message, counters=self._driver.counters())
        elif op == "progress":
            self._channel.answer(message, waiting=self._waiting_for())
        elif op == "exit":
            self._loop.stop()
        elif not self._prober.answer(self._channel, message):
            self._channel.answer(message, error=f"a rank knows no request {op!r}")

    def _prepare(self, number: int) -> None:
        self._number = number
        self._workload.fill(number, self._inputs[self._rank], self._buffer)
        self._iteration = self._begin(number, self._layers, self._workload.step_delays(number))
        self._driver.connect()
        self._iteration.prepare(self._clock.now())
        self._state = _State.PREPARING

    def _advance(self) -> None:
        if self._state is _State.PREPARING and self._driver.connected:
            self._state = _State.READY
            self._notice("ready")
        if self._state is _State.ARMED and self._clock.monotonic() >= self._begin_ns:
            self._start()
        if self._state is _State.RUNNING:
            self._go_on()
        if self._state is _State.FINISHED and self._inputs.finished.min() > self._number:
            self._report()

    def _go_on(self) -> bool:
        """Go on from what has happened; whether anything had."""
        assert self._iteration
        now = self._clock.now()
        self._iteration.go_on(now)
        events = self._driver.events()
        self._iteration.on_events(events, now)
        if self._iteration.failure:
            self._state = _State.SERVING
            self.fail(self._iteration.failure)
        return bool(events)

    def _start(self) -> None:
        assert self._iteration
        self._state = _State.RUNNING
        self._driver.take_late_ns()
        self._cpu_ns = time.process_time_ns()
        self._start_ns = self._clock.monotonic()
        self._iteration.start(self._clock.now())

    def _finish(self) -> None:
        """The timed part ends when the result is in place (at once for who receives nothing).

        The iteration ends when nobody waits for this rank any more.
        """
        assert self._iteration
        if self._iteration.done and self._driver.idle():
            self._cpu_ns = time.process_time_ns() - self._cpu_ns
            received_ns = self._iteration.received_ns
            self._end_ns = self._start_ns if received_ns is None else self._clock.real(received_ns)
            self._state = _State.FINISHED
            self._inputs.finished[self._rank] = self._number + 1

    def _report(self) -> None:
        assert self._iteration
        self._state = _State.SERVING
        late = self._driver.take_late_ns()
        counters = self._driver.counters()
        since = {name: counters[name] - before for name, before in self._reported.items() if name in counters}
        self._reported |= {name: counters[name] for name in since}
        result = self._workload.result(self._number, self._buffer)
        wrong, nmse = self._workload.check([self._inputs[rank] for rank in range(len(self._inputs))], result)
        if not self._iteration.skipped:
            self._workload.apply(self._number, result)
        self._notice(
            "done",
            start_ns=self._start_ns,
            end_ns=self._end_ns,
            start_late_ns=self._clock.model(self._start_ns) - self._clock.model(self._begin_ns),
            received_bytes=self._iteration.received_bytes,
            missing_bytes=self._iteration.missing_bytes,
            gaps=self._iteration.gaps,
            wrong=wrong,
            nmse=nmse,
            retransmitted=since["retransmitted_packets"],
            timeouts=since.get("timeouts"),
            cpu_ns=self._cpu_ns,
            late_p50_ns=_percentile(late, 50),
            late_p99_ns=_percentile(late, 99),
            counters=counters,
            metrics=self._workload.metrics(),
            digest=self._workload.digest(),
        )

    def _waiting_for(self) -> str:
        if self._state is _State.RUNNING and self._iteration:
            return self._iteration.waiting_for(self._clock.now()) or "its packets to be acknowledged"
        if self._state is _State.PREPARING:
            return "its connections"
        if self._state is _State.ARMED:
            left_ns = (self._begin_ns - self._clock.monotonic()) // self._clock.dilation
            return f"its own computing or stall to end, {left_ns / 1e6:.3f} ms more (model time)"
        return ""

    def fail(self, reason: str) -> None:
        """Tell the run that this rank cannot go on."""
        self._notice("failed", reason=reason)

    def _notice(self, event: str, **fields: Any) -> None:
        self._channel.send({"event": event, "rank": self._rank, "iteration": self._number, **fields})


def _percentile(values: Sequence[int], percent: int) -> int | None:
    """By nearest rank; None of nothing."""
    return int(np.percentile(values, percent, method="inverted_cdf")) if values else None
