"""Kernel TCP as the baseline transport: the messages of the transport seam over one connection a pair of ranks.

Rank i listens on port 5000 + i and connects to those of lower number. A message is a head (tag, length) and its bytes.
A posted receive is filled straight from the socket; a message nobody has asked for yet is kept until somebody does.
What the kernel retransmits, and when, is its own affair: `counters` reads it out of TCP_INFO.
"""

import errno
import select
import socket
import struct
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from testbed.errors import RunFailed
from testbed.transport.endpoint import ALL, Buffer, Completion, Event, Failed, Received, Sent
from testbed.wire.ethernet import FCS_BYTES, TCP_HEADERS_BYTES

FIRST_PORT = 5000  # job traffic is told from background by the ports 5000-5999
_HEAD = struct.Struct("!IQ")  # tag, length in bytes
_HELLO = struct.Struct("!I")  # rank of the end that connects
_BUFFER_BYTES = 4 << 20
_SENDS_A_CALL = 16  # pieces handed to one sendmsg
_READS_A_TURN = 32  # before the loop looks at everything else again
_BACKLOG = 1024

# Offsets in struct tcp_info of linux/tcp.h: total_retrans, segs_out, segs_in, bytes_sent, total_rto (Linux 6.7).
_TOTAL_RETRANS, _SEGMENTS_OUT, _SEGMENTS_IN, _BYTES_SENT, _TOTAL_RTO = 100, 136, 140, 200, 240
_TCP_INFO_BYTES = 256
_U32, _U64, _U16 = struct.Struct("=I"), struct.Struct("=Q"), struct.Struct("=H")


@dataclass(slots=True)
class _Outgoing:
    id: int
    pieces: deque[memoryview]


@dataclass(slots=True)
class _Incoming:
    """A message being read: into `view`, of which `filled` bytes are there."""

    id: int | None  # None: nobody has asked for it yet
    view: memoryview
    filled: int = 0


@dataclass(slots=True)
class _Connection:
    peer: int
    socket: socket.socket
    established: bool
    outgoing: deque[_Outgoing] = field(default_factory=deque)
    head: bytearray = field(default_factory=bytearray)
    incoming: _Incoming | None = None


class TcpCarrier:
    """All TCP connections of one rank; `addresses[rank]` are IPv4 addresses, `peers` those it talks with.

    control: the kernel's congestion control, by its name.
    """

    def __init__(self, rank: int, addresses: Sequence[str], peers: Collection[int], control: str) -> None:
        self._rank = rank
        self._control = control
        self._addresses = addresses
        self._peers = frozenset(peers)
        self._connections: dict[int, _Connection] = {}
        self._by_descriptor: dict[int, _Connection] = {}
        self._newcomers: dict[int, socket.socket] = {}  # accepted, their rank not yet read
        self._waiting_sends: dict[int, deque[_Outgoing]] = {}  # until the peer has connected
        self._posted: dict[tuple[int, int], deque[tuple[int, memoryview]]] = {}
        self._early: dict[tuple[int, int], deque[_Incoming]] = {}
        self._events: list[Event] = []
        self._received_bytes = 0
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((addresses[rank], FIRST_PORT + rank))
        self._listener.listen(_BACKLOG)

    def connect(self) -> None:
        """Begin the connections to the peers of lower rank; all ranks must be listening."""
        for peer in sorted(self._peers):
            if peer < self._rank and peer not in self._connections:
                connection = self._tuned(socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
                connection.bind((self._addresses[self._rank], 0))
                status = connection.connect_ex((self._addresses[peer], FIRST_PORT + peer))
                if status not in (0, errno.EINPROGRESS):
                    raise RunFailed(f"rank {self._rank} cannot connect to rank {peer}: {errno.errorcode[status]}")
                self._adopt(peer, connection, established=False)

    @property
    def connected(self) -> bool:
        """Whether there is a connection with every peer."""
        return len(self._connections) == len(self._peers) and all(c.established for c in self._connections.values())

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:  # noqa: ARG002
        view = memoryview(buffer).cast("B")
        outgoing = _Outgoing(id, deque([memoryview(_HEAD.pack(tag, len(view)))]))
        if len(view):
            outgoing.pieces.append(view)
        connection = self._connections.get(peer)
        queue = connection.outgoing if connection else self._waiting_sends.setdefault(peer, deque())
        queue.append(outgoing)

    def post_receive(
        self,
        id: int,
        peer: int,
        tag: int,
        buffer: memoryview,
        now: int,  # noqa: ARG002
        completion: Completion = ALL,  # noqa: ARG002
    ) -> None:
        view = buffer.cast("B")
        if early := self._early.get((peer, tag)):
            message = early.popleft()
            if not early:
                del self._early[peer, tag]
            if len(message.view) != len(view):
                self._events.append(Failed(id, peer, _misfit(len(message.view), len(view))))
                return
            view[: message.filled] = message.view[: message.filled]
            message.id, message.view = id, view
            if message.filled == len(view):
                self._events.append(Received(id))
        else:
            self._posted.setdefault((peer, tag), deque()).append((id, view))

    def watched(self) -> list[tuple[int, int]]:
        """The descriptors and poll masks to wait for."""
        watched = [(self._listener.fileno(), select.POLLIN)]
        watched += [(descriptor, select.POLLIN) for descriptor in self._newcomers]
        for descriptor, connection in self._by_descriptor.items():
            writing = not connection.established or bool(connection.outgoing)
            watched.append((descriptor, select.POLLIN | (select.POLLOUT if writing else 0)))
        return watched

    def receive(self, ready: Mapping[int, int]) -> None:
        """Take in what came on the descriptors of `ready` (descriptor -> poll events)."""
        for descriptor, events in ready.items():
            if connection := self._by_descriptor.get(descriptor):
                if not connection.established:
                    self._establish(connection)
                if connection.established and events & ~select.POLLOUT:
                    self._read(connection)
            elif descriptor == self._listener.fileno():
                self._accept()
            elif newcomer := self._newcomers.get(descriptor):
                self._greet(newcomer)

    def transmit(self) -> None:
        """Hand to the kernel as much as it takes."""
        for connection in list(self._connections.values()):
            if connection.established and connection.outgoing:
                self._write(connection)

    def events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def idle(self) -> bool:
        return not any(c.outgoing for c in self._connections.values()) and not any(self._waiting_sends.values())

    def wake_ns(self) -> int | None:
        """At once if there are events to be taken; TCP's timers are the kernel's."""
        return 0 if self._events else None

    def take_late_ns(self) -> list[int]:
        """TCP asks for no instants."""
        return []

    def counters(self) -> dict[str, int]:
        """Cumulative; packets are the kernel's segments, `frame_bytes` computed from them.

        There are no `timeouts` where the kernel does not tell of them (before Linux 6.7).
        """
        totals = dict.fromkeys(
            ("sent_packets", "received_packets", "retransmitted_packets", "timeouts", "sent_bytes", "frame_bytes"), 0
        )
        tells_timeouts = True
        for connection in self._connections.values():
            info = connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
            segments, sent_bytes = _U32.unpack_from(info, _SEGMENTS_OUT)[0], _U64.unpack_from(info, _BYTES_SENT)[0]
            totals["sent_packets"] += segments
            totals["received_packets"] += _U32.unpack_from(info, _SEGMENTS_IN)[0]
            totals["retransmitted_packets"] += _U32.unpack_from(info, _TOTAL_RETRANS)[0]
            totals["sent_bytes"] += sent_bytes
            totals["frame_bytes"] += sent_bytes + segments * (TCP_HEADERS_BYTES + FCS_BYTES)
            if len(info) >= _TOTAL_RTO + _U16.size:
                totals["timeouts"] += _U16.unpack_from(info, _TOTAL_RTO)[0]
            else:
                tells_timeouts = False
        if not tells_timeouts:
            del totals["timeouts"]
        return totals | {"received_bytes": self._received_bytes}

    def close(self) -> None:
        for descriptor in (*self._newcomers.values(), *(c.socket for c in self._connections.values()), self._listener):
            descriptor.close()

    def _adopt(self, peer: int, connection: socket.socket, *, established: bool) -> None:
        adopted = _Connection(peer, connection, established, self._waiting_sends.pop(peer, deque()))
        self._connections[peer] = self._by_descriptor[connection.fileno()] = adopted

    def _establish(self, connection: _Connection) -> None:
        status = connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            self._lose(connection, errno.errorcode.get(status, str(status)))
        else:
            connection.socket.send(_HELLO.pack(self._rank))  # the first 4 bytes of an empty stream always fit
            connection.established = True

    def _accept(self) -> None:
        while True:
            try:
                newcomer, _ = self._listener.accept()
            except BlockingIOError:
                return
            newcomer.setblocking(False)
            self._newcomers[newcomer.fileno()] = self._tuned(newcomer)

    def _greet(self, newcomer: socket.socket) -> None:
        try:
            hello = newcomer.recv(_HELLO.size, socket.MSG_PEEK)
        except BlockingIOError:
            return
        if 0 < len(hello) < _HELLO.size:
            return
        del self._newcomers[newcomer.fileno()]
        peer = _HELLO.unpack(newcomer.recv(_HELLO.size))[0] if hello else -1
        if peer not in self._peers or peer in self._connections:
            newcomer.close()  # none of ours
        else:
            self._adopt(peer, newcomer, established=True)

    def _write(self, connection: _Connection) -> None:
        queue = connection.outgoing
        while queue:
            pieces = [piece for message in list(queue)[:_SENDS_A_CALL] for piece in message.pieces]
            try:
                sent = connection.socket.sendmsg(pieces)
            except BlockingIOError:
                return
            except OSError as error:
                self._lose(connection, error.strerror or str(error))
                return
            while sent:
                piece = queue[0].pieces[0]
                if sent < len(piece):
                    queue[0].pieces[0] = piece[sent:]
                    break
                sent -= len(piece)
                queue[0].pieces.popleft()
                if not queue[0].pieces:
                    self._events.append(Sent(queue.popleft().id))

    def _read(self, connection: _Connection) -> None:
        try:
            for _ in range(_READS_A_TURN):
                if not connection.established:
                    return
                message = connection.incoming
                if message is None:
                    data = connection.socket.recv(_HEAD.size - len(connection.head))
                    if not data:
                        self._lose(connection, "the connection ended")
                        return
                    connection.head += data
                    if len(connection.head) == _HEAD.size:
                        self._begin(connection, *_HEAD.unpack(connection.head))
                        connection.head.clear()
                    continue
                count = connection.socket.recv_into(message.view[message.filled :])
                if not count:
                    self._lose(connection, "the connection ended")
                    return
                message.filled += count
                self._received_bytes += count
                if message.filled == len(message.view):
                    self._end(connection, message)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(connection, error.strerror or str(error))

    def _begin(self, connection: _Connection, tag: int, length: int) -> None:
        key = (connection.peer, tag)
        if posted := self._posted.get(key):
            identity, view = posted.popleft()
            if not posted:
                del self._posted[key]
            if length != len(view):
                self._lose(connection, _misfit(length, len(view)))
                return
            message = _Incoming(identity, view)
        else:
            message = _Incoming(None, memoryview(bytearray(length)))
            self._early.setdefault(key, deque()).append(message)
        connection.incoming = message
        if not length:
            self._end(connection, message)

    def _end(self, connection: _Connection, message: _Incoming) -> None:
        connection.incoming = None
        if message.id is not None:
            self._events.append(Received(message.id))

    def _tuned(self, connection: socket.socket) -> socket.socket:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self._control.encode())
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            connection.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        return connection

    def _lose(self, connection: _Connection, reason: str) -> None:
        del self._by_descriptor[connection.socket.fileno()]
        connection.established = False
        connection.socket.close()
        self._events.append(Failed(-1, connection.peer, reason))


def _misfit(length: int, room: int) -> str:
    return f"it sent a message of {length} bytes where {room} were expected"
