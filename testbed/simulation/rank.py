"""One simulated rank: its iterations over a NIC, under the virtual clock.

Its work is the very object that an emulated rank has (`testbed.worker`); what this adds is when it is called. All
instants are model nanoseconds since the simulation began.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from testbed.collective.executor import Gap
from testbed.errors import RunFailed
from testbed.worker.rank import Begin, Happened, Work

_Out_co = TypeVar("_Out_co", covariant=True)


class RankNic(Protocol[_Out_co]):
    """What moves a rank's packets; see `testbed.simulation.nic`."""

    turn: Callable[[int], None]
    early: bool  # it may tell of sends that have ended when it is asked to transmit

    def events(self) -> Sequence[_Out_co]: ...

    def idle(self) -> bool: ...

    def transmit(self, now: int) -> None: ...

    def sleep(self, now: int, wake_ns: int | None = None) -> None: ...

    def wake(self, now: int) -> None: ...

    def counters(self) -> dict[str, int]: ...

    def switch_off(self) -> None: ...


class SimulatedRank(Generic[Happened]):
    """A rank; `called` as in `JobPlan.called`. `finished(now)` is called when an iteration of it is over.

    layers: the elements of each buffer; `begin` makes an iteration over them. buffer: room for all, end to end.
    """

    def __init__(
        self,
        called: str,
        nic: RankNic[Happened],
        buffer: npt.NDArray[Any],
        layers: Sequence[int],
        begin: Begin[Happened],
        finished: Callable[[int], None],
    ) -> None:
        self.called = called
        self.nic = nic
        self.dead = False
        self.buffer = buffer
        self.start_ns = self.end_ns = self.begins_ns = 0
        self.layers = [buffer[first:last] for first, last in pairwise(np.cumsum([0, *layers]))]
        self._begin = begin
        self._finished = finished
        self._iteration: Work[Happened] | None = None
        self._running = False
        self._complete = False  # all of the iteration has happened, but perhaps not been acknowledged
        self._held_until_ns: int | None = None  # when a step that is held back may go on
        nic.turn = self._turn

    @property
    def received_bytes(self) -> int:
        return self._iteration.received_bytes if self._iteration else 0

    @property
    def missing_bytes(self) -> int:
        return self._iteration.missing_bytes if self._iteration else 0

    @property
    def gaps(self) -> Sequence[Gap]:
        return self._iteration.gaps if self._iteration else ()

    @property
    def skipped(self) -> bool:
        """Whether the result of the iteration that is over is not to be used."""
        return self._iteration is not None and self._iteration.skipped

    @property
    def running(self) -> bool:
        """Whether its iteration has been prepared and is not over."""
        return self._iteration is not None and self.end_ns < 0

    def prepare(self, number: int, step_delays: Mapping[int, int], begins_ns: int, now: int) -> None:
        """Have iteration `number` ready, which begins at `begins_ns` if nobody stands in its way."""
        self._iteration = self._begin(number, self.layers, step_delays)
        self._iteration.prepare(now)
        self.begins_ns, self.end_ns = begins_ns, -1

    def start(self, now: int) -> None:
        """Begin the iteration that is prepared."""
        if self.dead:
            return
        assert self._iteration
        self._running = True
        self.start_ns = now
        self._iteration.start(now)
        self._held_until_ns, self._complete = self._iteration.wake_ns(), self._iteration.done
        self.nic.wake(now)

    def resume(self, iteration: Work[Happened] | None, *, running: bool) -> None:
        """Go on from what another has come to, the iteration that it prepared last included, if any."""
        self._iteration, self._running = iteration, running
        self._complete = iteration is not None and iteration.done

    def idle(self) -> bool:
        """No send is unacknowledged, and nothing waits to be sent."""
        return self.nic.idle()

    def wake(self, now: int) -> None:
        """Something was posted by none of its own turns."""
        self.nic.wake(now)

    def counters(self) -> dict[str, int]:
        """Cumulative, as `testbed.worker.nic` has them."""
        return self.nic.counters()

    def kill(self) -> None:
        """As if its process died."""
        self.dead, self._running = True, False
        self.nic.switch_off()

    def waiting_for(self, now: int) -> str:
        """In words; empty if for nothing."""
        if not self.running or self._iteration is None:
            return ""
        if not self._running:
            return f"its own computing or stall to end, {(self.begins_ns - now) / 1e6:.3f} ms more (model time)"
        return self._iteration.waiting_for(now) or "its packets to be acknowledged"

    def _turn(self, now: int) -> None:
        nic, iteration = self.nic, self._iteration
        if not self._running or iteration is None:
            nic.transmit(now)
            nic.sleep(now)
            return
        if self._held_until_ns is not None:
            iteration.go_on(now)
            self._held_until_ns = iteration.wake_ns()
        if events := nic.events():
            self._heed(iteration, events, now)
        nic.transmit(now)
        while nic.early and (events := nic.events()):
            self._heed(iteration, events, now)
            nic.transmit(now)
        if self._complete and nic.idle():
            self._running = False
            self.end_ns = self.start_ns if iteration.received_ns is None else iteration.received_ns
            nic.sleep(now)
            self._finished(now)
        else:
            nic.sleep(now, self._held_until_ns)

    def _heed(self, iteration: Work[Happened], events: Sequence[Happened], now: int) -> None:
        """Go on with the iteration from what has happened."""
        iteration.on_events(events, now)
        if iteration.failure:
            raise RunFailed(f"{self.called} failed: {iteration.failure}")
        self._held_until_ns = iteration.wake_ns()
        self._complete = iteration.done
