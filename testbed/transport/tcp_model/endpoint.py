"""One rank's end of the TCP model: its connections, and the segments between them and the driver."""

from collections.abc import Sequence

from testbed.transport.endpoint import ALL, Arrival, Buffer, Burst, Completion, Counters, Event, Path, Peer
from testbed.transport.settings import Settings
from testbed.transport.tcp_model.connection import Connection
from testbed.transport.tcp_model.growth import GROWTHS
from testbed.transport.tcp_model.segment import UDP_PORT, decode
from testbed.wire import MalformedError
from testbed.wire.ethernet import ETHERNET_BYTES, TCP_HEADERS_BYTES

_FIRST_EPHEMERAL = 32_768  # Linux: ip_local_port_range


class TcpEndpoint:
    """A `testbed.transport.endpoint.Endpoint`. Segments are as long as the links' MTU lets TCP's be.

    first_port: of the ports that ranks listen at.
    """

    def __init__(
        self,
        path: Path,
        rank: int,
        peers: Sequence[Peer],
        settings: Settings,
        seed: int,
        first_port: int = UDP_PORT,
    ) -> None:
        self.counters = Counters()
        self._burst_packets = path.max_burst_packets
        self._mss_bytes = path.mtu_bytes - (TCP_HEADERS_BYTES - ETHERNET_BYTES)
        self._rank = rank
        self._ranks = frozenset(peer.rank for peer in peers) - {rank}
        self._growth = GROWTHS[str(settings.values["control"])]
        self._seed = seed
        self._first_port = first_port
        self._connections: dict[int, Connection] = {}
        self._active: dict[int, Connection] = {}  # those with something to send or to wait for, the next to serve first
        self._events: list[Event] = []
        self._now = 0

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        self._now = now
        self._connection(peer).post_send(id, tag, buffer, now)
        self._active[peer] = self._connections[peer]

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        """`completion` other than all of it is for transports that lose; here all comes."""
        self._now = now
        if completion != ALL:
            raise ValueError("a connection completes a receive only as a whole")
        self._connection(peer).post_receive(id, tag, buffer)

    def receive(self, arrival: Arrival, now: int) -> None:
        self._now = now
        count, size = len(arrival.headers), arrival.segment_bytes
        self.counters.received_packets += count
        if arrival.peer not in self._ranks:
            self.counters.refuse("bad_peer", count)
            return
        connection = self._connection(arrival.peer)
        self._active[arrival.peer] = connection
        payload = memoryview(arrival.payload)
        for index, header in enumerate(arrival.headers):
            end = (index + 1) * size if index + 1 < count else len(payload)
            try:
                fits = connection.receive(decode(header), payload[index * size : end], now)
            except MalformedError:
                self.counters.refuse("bad_header", 1)
            else:
                if not fits:
                    self.counters.refuse("bad_acknowledgement", 1)

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        self._now = now
        bursts: list[Burst] = []
        left = budget_packets
        for peer, connection in list(self._active.items()):
            if left <= 0:
                break
            found = connection.transmit(now, min(left, self._burst_packets))
            if found:
                bursts += found
                left -= sum(burst.packets for burst in found)
                self._active[peer] = self._active.pop(peer)  # to the end: the next call begins with the others
        return bursts

    def deadline(self) -> int | None:
        earliest: int | None = None
        for peer, connection in list(self._active.items()):
            at = self._now if connection.ready else connection.deadline()
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
        events = tuple(self._events)
        self._events.clear()
        return events

    def idle(self) -> bool:
        return not any(connection.busy or connection.ready for connection in self._connections.values())

    def _connection(self, peer: int) -> Connection:
        """That with `peer`, made when first asked for. The higher rank of two has connected to the lower one's port."""
        connection = self._connections.get(peer)
        if connection is None:
            port = self._first_port + self._rank
            if self._rank > peer:
                port = _FIRST_EPHEMERAL + (self._seed * 7919 + peer * 263 + self._rank) % 28_000
            connection = self._connections[peer] = Connection(
                peer, port, self._mss_bytes, self._growth(), self.counters, self._events
            )
        return connection
