"""One rank's end of a transport that has a connection to each peer, and the packets between them and the driver."""

from collections.abc import Callable, Sequence
from typing import Protocol

from testbed.transport.endpoint import (
    ALL,
    ECN_CE,
    Arrival,
    Buffer,
    Burst,
    Completion,
    Counters,
    Event,
    Path,
    Peer,
)
from testbed.transport.roce.address import address
from testbed.transport.roce.flights import Line
from testbed.transport.selective.connection import SelectiveConnection
from testbed.transport.selective.parameters import Constants
from testbed.transport.settings import Settings


class Connection(Protocol):
    """One rank's half of a connection; `ConnectedEndpoint` has one to each peer that it has to do with."""

    @property
    def busy(self) -> bool:
        """A send is not acknowledged, or an answer is due."""

    def post_send(self, id: int, tag: int, buffer: Buffer, now: int) -> None: ...

    def post_receive(self, id: int, tag: int, buffer: memoryview, now: int) -> None: ...

    def receive(self, data: bytes, payload: memoryview, ecn: int, now: int) -> str | None:
        """Take a packet in; what is bad about it, if anything."""

    def speak(self, now: int, budget_packets: int) -> list[Burst]:
        """The packets without data that are due."""

    def ready_ns(self, now: int) -> int | None:
        """The earliest instant at which a run may leave; None: not before something is heard."""

    def run(self, now: int, ready_ns: int, budget_packets: int) -> Burst:
        """The next run; only when `ready_ns` (from the method of that name) has come."""

    def deadline(self, now: int) -> int | None:
        """The earliest instant at which there is something to do."""

    def on_deadline(self, now: int) -> None:
        """The clock has reached it."""


class ConnectedEndpoint:
    """A `testbed.transport.endpoint.Endpoint`; `connect(peer, counters, events)` makes the connection to a peer.

    It hands over one run a connection at a time, so that answers need not wait until more of them have left.

    counters.naks (without RNR NAKs) and .cnps count those sent; extra has rnr_naks (sent), naks_received, cnps_received
    and, for each kind of bad packet, `bad_...`; all of these last are in counters.malformed.
    """

    def __init__(
        self, rank: int, peers: Sequence[Peer], connect: Callable[[int, Counters, list[Event]], Connection]
    ) -> None:
        self.counters = Counters()
        self._ranks = frozenset(peer.rank for peer in peers) - {rank}
        self._connect = connect
        self._connections: dict[int, Connection] = {}
        self._active: dict[int, Connection] = {}  # those with something to send or to wait for, the next to serve first
        self._events: list[Event] = []
        self._now = 0

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        self._now = now
        self._connection(peer).post_send(id, tag, buffer, now)

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        """`completion` other than all of it is for transports that lose; here all comes."""
        self._now = now
        if completion != ALL:
            raise ValueError("a reliable connection completes a receive only as a whole")
        self._connection(peer).post_receive(id, tag, buffer, now)

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
        for peer, connection in list(self._active.items()):
            ready_ns = connection.ready_ns(now)
            if left <= 0 or ready_ns is None or ready_ns > now:
                continue
            bursts.append(connection.run(now, ready_ns, left))
            left -= bursts[-1].packets
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

    def _connection(self, peer: int) -> Connection:
        """That to `peer`, made when first asked for; it may have something to do now."""
        connection = self._connections.get(peer)
        if connection is None:
            connection = self._connections[peer] = self._connect(peer, self.counters, self._events)
        self._active[peer] = connection
        return connection


def selective_endpoint(
    path: Path, rank: int, peers: Sequence[Peer], settings: Settings, seed: int
) -> ConnectedEndpoint:
    """The endpoint of IRN and of SRNIC, which differ by their constants."""
    constants, line = Constants.of(path, settings.values), Line(path.rate_bps)

    def connect(peer: int, counters: Counters, events: list[Event]) -> Connection:
        congestion = settings.congestion.make(path, settings.congestion_values)
        own = address(rank, peer, peers, seed)
        return SelectiveConnection(constants, own, congestion, counters, events, line)

    return ConnectedEndpoint(rank, peers, connect)
