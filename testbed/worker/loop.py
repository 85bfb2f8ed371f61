"""The event loop of one process: serves what is ready, then sleeps until a descriptor or an instant wakes it.

It never spins: a run has many more ranks than the machine has cores, and a rank that burns one delays the others.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from testbed.netcore import ppoll

_IDLE_NS = 1_000_000_000  # wake at least so often, so that nothing overlooked can block for good


class Server(Protocol):
    """Something the loop serves."""

    def watched(self) -> Sequence[tuple[int, int]]:
        """The descriptors it waits for now, with poll(2) masks."""

    def serve(self, ready: Mapping[int, int]) -> None:
        """Do all that can be done now; `ready` maps descriptors (of all servers) to poll events."""

    def wake_ns(self) -> int | None:
        """The real instant (CLOCK_MONOTONIC) at which `serve` has something to do even if nothing arrives."""


class Loop:
    """Runs its servers, in order, until `stop`."""

    def __init__(self, monotonic: "Clock") -> None:
        self._monotonic = monotonic
        self._servers: list[Server] = []
        self._stopped = False

    def add(self, server: Server) -> None:
        self._servers.append(server)

    def stop(self) -> None:
        self._stopped = True

    def run(self) -> None:
        ready: dict[int, int] = {}
        while not self._stopped:
            watched: list[tuple[int, int]] = []
            wake_ns = self._monotonic() + _IDLE_NS
            for server in self._servers:
                server.serve(ready)
            for server in self._servers:
                watched += server.watched()
                if (wake := server.wake_ns()) is not None and wake < wake_ns:
                    wake_ns = wake
            ready = dict(ppoll(watched, max(0, wake_ns - self._monotonic())))


class Clock(Protocol):
    """Real nanoseconds (CLOCK_MONOTONIC)."""

    def __call__(self) -> int: ...
