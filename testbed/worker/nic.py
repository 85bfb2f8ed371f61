"""The NIC of a rank: carries a sans-IO endpoint's runs over UDP sockets, at no more than the link's rate.

A run leaves with one system call (UDP segmentation offload) and arrives with one (receive offload), in the frames of
the transport's wire format. Departures follow a virtual clock that counts whole frames at the link's rate, so that the
queue behind the socket, which the endpoint cannot see, stays short. A full queue in the host (EAGAIN) is back-pressure:
the rest of the run waits until the socket can be written again, and nothing is lost.
"""

import errno
import heapq
import ipaddress
import select
import socket
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Generic, Protocol, TypeVar

import numpy.typing as npt

from testbed import netcore
from testbed.transport.aggregation import AggregationServer, ReduceEndpoint, ReduceEvent
from testbed.transport.endpoint import ALL, Arrival, Buffer, Burst, Completion, Counters, Endpoint, Event, Path
from testbed.wire.ethernet import FCS_BYTES, UDP_HEADERS_BYTES, UDP_WIRE_BYTES
from testbed.wire.roce import PROBE_PORT
from testbed.worker.clock import ModelClock
from testbed.worker.frames import Frames, Piece

_RECEIVE_SLOTS = 16
_RECEIVES_A_TURN, _RUNS_A_TURN = 4, 8  # before the loop looks at everything else again
_RECEIVE_BUFFER_BYTES = 16 << 20
_SEND_BUFFER_BYTES = 256 << 10
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h
_AHEAD_SHARE = 20  # runs are handed over up to base RTT / 20 before the link is free: sleeping late then costs no rate
_NEVER = 1 << 62
_CANNOT_SEGMENT = (errno.EIO, errno.EINVAL)
_NO_LINK = (errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH)
_COUNTED = (
    "sent_packets",
    "received_packets",
    "frame_bytes",
    "corrupt_packets",
    "malformed_packets",
    "unsent_packets",
    "strangers",
)


class _Driven(Protocol):
    """What every endpoint has, whatever is posted to it."""

    counters: Counters

    def receive(self, arrival: Arrival, now: int) -> None: ...

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]: ...

    def deadline(self) -> int | None: ...

    def on_deadline(self, now: int) -> None: ...

    def idle(self) -> bool: ...


_Any = TypeVar("_Any", bound=_Driven)


class _UdpNic(Generic[_Any]):
    """Drives `endpoint` at the IPv4 `address`, which knows its `peers` by number. `path` is in model units.

    early: as in `testbed.transport.Transport`.
    """

    def __init__(
        self,
        address: str,
        peers: Mapping[int, str],
        endpoint: _Any,
        frames: Frames,
        path: Path,
        clock: ModelClock,
        *,
        early: bool = False,
    ) -> None:
        self._endpoint = endpoint
        self._early = early
        self._frames = frames
        self._clock = clock
        self._path = path
        self._ahead_ns = path.base_rtt_ns * clock.dilation // _AHEAD_SHARE
        self._address = address
        self._ips = {peer: int(ipaddress.IPv4Address(ip)) for peer, ip in peers.items()}
        self._peers = {ip: peer for peer, ip in self._ips.items()}
        self._receiver = udp_socket(address, frames.port)
        self._senders: dict[int, socket.socket] = {}
        self._segmented = can_segment(self._receiver, next(iter(self._peers), int(ipaddress.IPv4Address(address))))
        self._slots = memoryview(bytearray(_RECEIVE_SLOTS * netcore.SLOT_BYTES))
        self._held: list[tuple[int, int, Burst]] = []  # heap by (real instant asked for, order)
        self._held_packets = 0
        self._order = 0
        self._unsent: list[Piece] = []  # the rest of the run that met back-pressure
        self._unsent_burst: Burst | None = None
        self._free_ns = 0  # real instant at which the link has serialised all that was handed over
        self._deadline_ns = _NEVER  # the endpoint's, in real time, as last looked at
        self._announced_ns = _NEVER  # the same when the loop went to sleep
        self._late_ns: list[int] = []
        self._counts = dict.fromkeys(_COUNTED, 0)

    def connect(self) -> None:
        """Queue pairs need no handshake."""

    @property
    def connected(self) -> bool:
        return True

    def idle(self) -> bool:
        return not self._held and not self._unsent and self._endpoint.idle()

    def watched(self) -> list[tuple[int, int]]:
        watched = [(self._receiver.fileno(), select.POLLIN)]
        if self._unsent_burst:
            watched.append((self._sender(self._unsent_burst.source_port).fileno(), select.POLLOUT))
        return watched

    def receive(self, ready: Mapping[int, int]) -> None:
        """Take in what came."""
        if self._receiver.fileno() in ready:
            for _ in range(_RECEIVES_A_TURN):
                if self._receive_some() < _RECEIVE_SLOTS:
                    break

    def transmit(self) -> None:
        """Let the endpoint do what is due, and send what may leave now, some runs of it."""
        self._look()
        now = self._clock.monotonic()
        if self._deadline_ns <= now:
            self._endpoint.on_deadline(self._clock.model(now))
            self._look()
        if not self._flush():
            return
        for _ in range(_RUNS_A_TURN):
            now = self._clock.monotonic()
            if self._free_ns - self._ahead_ns > now:
                return
            if self._deadline_ns <= now and self._held_packets < self._path.max_burst_packets:
                self._pull(now)
                self._look()
            if not self._held or self._held[0][0] > now:
                return
            asked_ns, _, burst = heapq.heappop(self._held)
            self._held_packets -= burst.packets
            self._late_ns.append(max(0, now - max(asked_ns, self._free_ns)) // self._clock.dilation)
            self._send(burst, max(asked_ns, self._free_ns, now))
            if not self._flush():
                return

    def wake_ns(self) -> int | None:
        """When `transmit` will have something to do even if nothing arrives and no socket becomes writable."""
        self._announced_ns = self._deadline_ns
        wake_ns = min(self._deadline_ns, self._held[0][0]) if self._held else self._deadline_ns
        if wake_ns == _NEVER:
            return None
        if wake_ns > self._clock.monotonic():
            return wake_ns
        return None if self._unsent else self._free_ns - self._ahead_ns  # the socket, or the link, is waited for

    def take_late_ns(self) -> list[int]:
        """How much later than asked each run has left since the last call, in model nanoseconds."""
        late, self._late_ns = self._late_ns, []
        return late

    def counters(self) -> dict[str, int]:
        """Cumulative: the endpoint's counters, and the NIC's in place of those both count. Packets are wire packets;
        `received_packets` had right ICRCs, `frame_bytes` are those sent, FCS included."""
        endpoint = self._endpoint.counters
        counts = {f.name: getattr(endpoint, f.name) for f in fields(endpoint) if f.name != "extra"}
        return counts | endpoint.extra | self._counts

    def close(self) -> None:
        for sock in (self._receiver, *self._senders.values()):
            sock.close()

    def _receive_some(self) -> int:
        datagrams = netcore.receive_segments(self._receiver.fileno(), self._slots)
        counts = self._counts
        for offset, size, segment_bytes, ip, port, tos, _ in datagrams:
            packets = -(-size // segment_bytes) if segment_bytes else 1
            peer = self._peers.get(ip)
            if peer is None:
                counts["strangers"] += packets
                continue
            if not size:
                counts["malformed_packets"] += 1
                continue
            data = self._slots[offset : offset + size]
            runs, corrupt, malformed = self._frames.take_apart(data, segment_bytes, ip, port)
            counts["received_packets"] += packets - corrupt - malformed
            counts["corrupt_packets"] += corrupt
            counts["malformed_packets"] += malformed
            now = self._clock.now()
            for headers, payload, segment in runs:
                self._endpoint.receive(Arrival(peer, tos & 3, segment, headers, payload), now)
        return len(datagrams)

    def _look(self) -> None:
        deadline = self._endpoint.deadline()
        self._deadline_ns = _NEVER if deadline is None else self._clock.real(deadline)

    def _pull(self, now: int) -> None:
        for burst in self._endpoint.transmit(self._clock.model(now), self._path.max_burst_packets):
            # What was posted or came only now may be owed an earlier instant by its pacing; nobody is late for that.
            asked_ns = max(self._clock.real(burst.not_before_ns), min(now, self._announced_ns))
            kept = burst._replace(payload=bytes(burst.payload)) if self._early else burst
            heapq.heappush(self._held, (asked_ns, self._order, kept))
            self._order += 1
            self._held_packets += burst.packets

    def _send(self, burst: Burst, departure_ns: int) -> None:
        """Lay a run out and account for it; `_flush` hands it over."""
        self._unsent = list(self._frames.lay_out(burst, self._ips[burst.peer], segmented=self._segmented))
        self._unsent_burst = burst
        udp_bytes = sum(len(piece.data) for piece in self._unsent)
        self._counts["sent_packets"] += burst.packets
        self._counts["frame_bytes"] += udp_bytes + burst.packets * (UDP_HEADERS_BYTES + FCS_BYTES)
        wire_bits = 8 * (udp_bytes + burst.packets * UDP_WIRE_BYTES)
        self._free_ns = departure_ns + wire_bits * 10**9 * self._clock.dilation // self._path.rate_bps

    def _flush(self) -> bool:
        """Hand the run that is laid out to the kernel; False if it must wait for the socket."""
        burst = self._unsent_burst
        if burst is None:
            return True
        sender = self._sender(burst.source_port).fileno()
        tos = burst.dscp << 2 | burst.ecn
        while self._unsent:
            data, segment_bytes = self._unsent[0]
            try:
                sent = netcore.send_segments(
                    sender, self._ips[burst.peer], self._frames.port, data, segment_bytes, tos, self._segmented
                )
            except OSError as error:
                if error.errno not in _NO_LINK:
                    raise
                self._forget_unsent()
                break
            if not sent:
                return False
            if sent < len(data):
                self._unsent[0] = Piece(data[sent:], segment_bytes)
            else:
                self._unsent.pop(0)
        self._unsent_burst = None
        return True

    def _forget_unsent(self) -> None:
        """The link is down: what is left of the run is lost before it became packets on a wire."""
        for data, segment_bytes in self._unsent:
            packets = -(-len(data) // segment_bytes)
            self._counts["sent_packets"] -= packets
            self._counts["frame_bytes"] -= len(data) + packets * (UDP_HEADERS_BYTES + FCS_BYTES)
            self._counts["unsent_packets"] += packets
        self._unsent.clear()

    def _sender(self, port: int) -> socket.socket:
        if port == self._frames.port:
            return self._receiver
        if port not in self._senders:
            self._senders[port] = udp_socket(self._address, port)
        return self._senders[port]


class Nic(_UdpNic[Endpoint]):
    """The NIC of a rank that exchanges messages with others."""

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        self._endpoint.post_send(id, peer, tag, buffer, now)

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        self._endpoint.post_receive(id, peer, tag, buffer, now, completion)

    def events(self) -> Sequence[Event]:
        return self._endpoint.events()


class SumNic(_UdpNic[ReduceEndpoint]):
    """The NIC of a rank whose buffers the network sums up."""

    def post_reduce(self, id: int, buffer: npt.NDArray[Any], now: int) -> None:
        self._endpoint.post_reduce(id, buffer, now)

    def events(self) -> Sequence[ReduceEvent]:
        return self._endpoint.events()


class ServerNic(_UdpNic[AggregationServer]):
    """The NIC of a server that adds up what a switch has no room for."""


def can_segment(sock: socket.socket, target_ip: int) -> bool:
    """Whether the kernel cuts packets for the device towards `target_ip` (older ones need its checksum offload)."""
    try:
        netcore.send_segments(sock.fileno(), target_ip, PROBE_PORT, b"\0\0", 1, 0)
    except OSError as error:
        return error.errno not in _CANNOT_SEGMENT
    return True


def udp_socket(address: str, port: int) -> socket.socket:
    """A non-blocking, unconnected socket with DF, receive offload, TOS and timestamps, and a large receive buffer."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    for force, plain, size in (
        (_SO_RCVBUFFORCE, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES),
        (_SO_SNDBUFFORCE, socket.SO_SNDBUF, _SEND_BUFFER_BYTES),
    ):
        try:
            sock.setsockopt(socket.SOL_SOCKET, force, size)
        except PermissionError:
            sock.setsockopt(socket.SOL_SOCKET, plain, size)
    netcore.prepare_udp(sock.fileno())
    sock.bind((address, port))
    return sock
