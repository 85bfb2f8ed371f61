"""One rank's end of IRN, SRNIC, NDP and the Falcon-like transport: reliable, a connection to each peer."""

from collections.abc import Callable, Sequence
from typing import Protocol

from testbed.transport import connected
from testbed.transport.endpoint import ALL, Buffer, Completion, Counters, Event, Path, Peer
from testbed.transport.roce.address import address
from testbed.transport.roce.flights import Line
from testbed.transport.selective.connection import SelectiveConnection
from testbed.transport.selective.parameters import Constants
from testbed.transport.settings import Settings


class Connection(connected.Connection, Protocol):
    """One rank's half of a connection to which messages are posted as they are to the endpoint."""

    def post_send(self, id: int, tag: int, buffer: Buffer, now: int) -> None: ...

    def post_receive(self, id: int, tag: int, buffer: memoryview, now: int) -> None: ...


class ReliableEndpoint(connected.ConnectedEndpoint[Connection]):
    """A `testbed.transport.endpoint.Endpoint`; `connect(peer, counters, events)` makes the connection to a peer.

    counters.naks (without RNR NAKs) and .cnps count those sent; extra has rnr_naks (sent), naks_received, cnps_received
    and, for each kind of bad packet, `bad_...`; all of these last are in counters.malformed.
    """

    def __init__(
        self, rank: int, peers: Sequence[Peer], connect: Callable[[int, Counters, list[Event]], Connection]
    ) -> None:
        super().__init__(frozenset(peer.rank for peer in peers) - {rank}, Counters(), once=True)
        self._make = connect

    def _connect(self, peer: int) -> Connection:
        return self._make(peer, self.counters, self._events)

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


def selective_endpoint(path: Path, rank: int, peers: Sequence[Peer], settings: Settings, seed: int) -> ReliableEndpoint:
    """The endpoint of IRN and of SRNIC, which differ by their constants."""
    constants, line = Constants.of(path, settings.values), Line(path.rate_bps)

    def connect(peer: int, counters: Counters, events: list[Event]) -> Connection:
        congestion = settings.congestion.make(path, settings.congestion_values)
        own = address(rank, peer, peers, seed)
        return SelectiveConnection(constants, own, congestion, counters, events, line)

    return ReliableEndpoint(rank, peers, connect)
