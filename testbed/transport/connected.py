"""The end of a transport that has a connection to each peer: all of an `Endpoint` but what may be posted to it.

RoCE's own endpoint is not one of these, as mypyc compiles it, nor the TCP model's, whose connections hand over bursts.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from testbed.transport.endpoint import ECN_CE, Arrival, Burst, Counters, Event


class Connection(Protocol):
    """One rank's half of a connection."""

    @property
    def busy(self) -> bool:
        """A send is not acknowledged, or an answer is due."""

    def receive(self, data: bytes, payload: memoryview, ecn: int, now: int) -> str | None:
        """Take a packet in; what is bad about it, if anything."""

    def speak(self, now: int, budget_packets: int) -> list[Burst]:
        """The packets that are due besides runs of data."""

    def ready_ns(self, now: int) -> int | None:
        """The earliest instant at which a run may leave; None: not before something is heard."""

    def run(self, now: int, ready_ns: int, budget_packets: int) -> Burst:
        """The next run; only when `ready_ns` (from the method of that name) has come."""

    def deadline(self, now: int) -> int | None:
        """The earliest instant at which there is something to do."""

    def on_deadline(self, now: int) -> None:
        """The clock has reached it."""


_Connection = TypeVar("_Connection", bound=Connection)


class ConnectedEndpoint(ABC, Generic[_Connection]):
    """All of a `testbed.transport.endpoint.Endpoint` but `post_send` and `post_receive`.

    once: it hands over one run a connection at a time, so that answers need not wait until more of them have left.
    """

    def __init__(self, ranks: frozenset[int], counters: Counters, *, once: bool) -> None:
        """ranks: all peers."""
        self.counters = counters
        self._ranks = ranks
        self._once = once
        self._connections: dict[int, _Connection] = {}
        self._active: dict[int, _Connection] = {}  # with something to send or to wait for, the next to serve first
        self._events: list[Event] = []
        self._now = 0

    @abstractmethod
    def _connect(self, peer: int) -> _Connection:
        """Make the connection to `peer`."""

    def receive(self, arrival: Arrival, now: int) -> None:
        self._now = now
        count, size = len(arrival.headers), arrival.segment_bytes
        self.counters.received_packets += count
        if arrival.ecn == ECN_CE:
            self.counters.ecn_marked += count
        if arrival.peer not in self._ranks:
            self.counters.refuse("bad_peer", count)
            return
        connection, payload = self._connection(arrival.peer), memoryview(arrival.payload)
        for index, header in enumerate(arrival.headers):
            end = (index + 1) * size if index + 1 < count else len(payload)
            if problem := connection.receive(header, payload[index * size : end], arrival.ecn, now):
                self.counters.refuse(problem, 1)

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        self._now = now
        bursts: list[Burst] = []
        left = budget_packets
        for connection in self._active.values():
            spoken = connection.speak(now, left)
            bursts += spoken
            left -= len(spoken)
        waiting = deque(self._active.items())
        while waiting and left > 0:
            peer, connection = waiting.popleft()
            ready_ns = connection.ready_ns(now)
            if ready_ns is None or ready_ns > now:
                continue
            bursts.append(connection.run(now, ready_ns, left))
            left -= bursts[-1].packets
            if not self._once:
                waiting.append((peer, connection))
            self._active[peer] = self._active.pop(peer)  # to the end: the next call begins with the others
        return bursts

    def deadline(self) -> int | None:
        earliest: int | None = None
        for peer, connection in list(self._active.items()):
            at = connection.deadline(self._now)
            if at is None:
                del self._active[peer]
            elif earliest is None or at < earliest:
                earliest = at
        return earliest

    def on_deadline(self, now: int) -> None:
        self._now = now
        for connection in self._active.values():
            connection.on_deadline(now)

    def events(self) -> Sequence[Event]:
        if not self._events:
            return ()
        events = tuple(self._events)
        self._events.clear()
        return events

    def idle(self) -> bool:
        return not any(connection.busy for connection in self._connections.values())

    def _connection(self, peer: int) -> _Connection:
        """That to `peer`, made when first asked for; it may have something to do now."""
        connection = self._connections.get(peer)
        if connection is None:
            connection = self._connections[peer] = self._connect(peer)
        self._active[peer] = connection
        return connection
