"""The NIC of a simulated host: carries a sans-IO endpoint's runs through the fabric, one at a time.

A run is asked for when the one before has been serialised, as in emulation, and leaves at that very instant. Payloads
of RoCE packets fly by reference: no byte is copied and no ICRC computed.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy.typing as npt

from testbed.errors import RunFailed
from testbed.netcore import Fabric
from testbed.transport.aggregation import AggregationServer, ReduceEndpoint, ReduceEvent
from testbed.transport.endpoint import ALL, Arrival, Buffer, Burst, Completion, Counters, Endpoint, Event, Path
from testbed.transport.framing import Framing
from testbed.wire import roce
from testbed.wire.ethernet import FCS_BYTES, UDP_HEADERS_BYTES
from testbed.worker.frames import PlainFrames

if TYPE_CHECKING:
    from testbed.netcore import Run

_PAD = 4  # payloads are padded to a multiple of so many bytes (IBTA vol. 1, 9.2)
_NEVER = 1 << 62
_COUNTED = (
    "sent_packets",
    "received_packets",
    "frame_bytes",
    "corrupt_packets",
    "malformed_packets",
    "unsent_packets",
    "strangers",
)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Peers' IPv4 addresses as numbers, and the way back."""

    ips: Mapping[int, int]
    peers: Mapping[int, int]

    @classmethod
    def of(cls, ips: Mapping[int, int]) -> Self:
        return cls(ips, {ip: peer for peer, ip in ips.items()})


class _Driven(Protocol):
    """What every endpoint has, whatever is posted to it."""

    counters: Counters

    def receive(self, arrival: Arrival, now: int) -> None: ...

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]: ...

    def deadline(self) -> int | None: ...

    def on_deadline(self, now: int) -> None: ...

    def idle(self) -> bool: ...


_Any = TypeVar("_Any", bound=_Driven)


class _SimulatedNic(Generic[_Any]):
    """Drives `endpoint` at the host's `port` of `core`, which knows its `neighbours` by number.

    early: as in `testbed.transport.Transport`. It serves itself, unless `turn` is set to what serves its owner.
    """

    def __init__(
        self,
        core: Fabric,
        port: int,
        neighbours: Neighbours,
        endpoint: _Any,
        framing: Framing,
        path: Path,
        *,
        early: bool = False,
    ) -> None:
        self.turn: Callable[[int], None] = self._serve  # something has come, or is due, or may leave
        self._core = core
        self._endpoint = endpoint
        self._most_packets = path.max_burst_packets
        self.early = early
        self._ips, self._peers = neighbours.ips, neighbours.peers
        self._plain = PlainFrames(framing) if framing.checksum == "udp" else None
        self._held: list[tuple[int, int, Burst]] = []  # heap by (instant asked for, order)
        self._held_packets = 0
        self._order = 0
        self._free_ns = 0  # when the link has serialised all that was handed over, if nothing pauses it
        self._due_ns = _NEVER  # the endpoint's deadline, as last looked at
        self._idle_ns = -1  # when something was due last, and nothing was done
        self._off = False
        self._counts = dict.fromkeys(_COUNTED, 0)
        if self._plain is None:
            socket = core.open_socket(port, framing.port, self.called, framing="roce", opcodes=framing.headers)
        else:
            socket = core.open_socket(port, framing.port, self.called, framing="plain")
        self.socket = socket

    def idle(self) -> bool:
        return not self._held and self._endpoint.idle()

    def counters(self) -> dict[str, int]:
        """Cumulative, as `testbed.worker.nic` has them."""
        endpoint = self._endpoint.counters
        counts = {f.name: getattr(endpoint, f.name) for f in fields(endpoint) if f.name != "extra"}
        return counts | endpoint.extra | self._counts

    def counted(self, sent_packets: int, received_packets: int, frame_bytes: int) -> None:
        """What another has counted until now in its place."""
        self._counts |= {
            "sent_packets": sent_packets,
            "received_packets": received_packets,
            "frame_bytes": frame_bytes,
        }

    def resume(self, free_ns: int, due_ns: int | None) -> None:
        """Go on from what another has come to: until when the link is busy, and when the endpoint's deadline is."""
        self._free_ns, self._due_ns = free_ns, _NEVER if due_ns is None else due_ns

    def switch_off(self) -> None:
        """Nothing is sent from now on, and what comes is not looked at."""
        self._off = True
        self._core.alarm(self.socket, None)

    def transmit(self, now: int) -> None:
        """Hand over what may leave now, a run's length at most; more is asked for when that has left."""
        endpoint = self._endpoint
        deadline_ns = endpoint.deadline()
        if self._free_ns <= now:
            if deadline_ns is not None and deadline_ns <= now and self._held_packets < self._most_packets:
                for burst in endpoint.transmit(now, self._most_packets):
                    kept = burst._replace(payload=bytes(burst.payload)) if self.early else burst
                    heapq.heappush(self._held, (burst.not_before_ns, self._order, kept))
                    self._order += 1
                    self._held_packets += len(burst.headers)
                deadline_ns = endpoint.deadline()
            while self._held and self._held[0][0] <= now:
                burst = heapq.heappop(self._held)[2]
                self._held_packets -= len(burst.headers)
                self._send(burst)
        self._due_ns = _NEVER if deadline_ns is None else deadline_ns

    def sleep(self, now: int, wake_ns: int | None = None) -> None:
        """After `transmit`: until something comes, the endpoint has something to do, or `wake_ns`."""
        due_ns = self._due_ns
        if self._held and self._held[0][0] < due_ns:
            due_ns = self._held[0][0]
        if due_ns <= now:
            if self._free_ns <= now and self._idle_ns < now:
                self._idle_ns = now  # what was heard has made it due: its deadline is told in a turn of its own
                self._core.alarm(self.socket, now)
                return
            if self._free_ns <= now:
                raise RunFailed(
                    f"an endpoint says at {now} ns that something is due, and does nothing",
                    hint="deadline() must move on once transmit() and on_deadline() were called",
                )
            if wake_ns is None or wake_ns >= self._free_ns:
                self._core.alarm(self.socket, self._free_ns, free=True)
                return
            due_ns = wake_ns
        elif wake_ns is not None and wake_ns < due_ns:
            due_ns = wake_ns
        self._core.alarm(self.socket, None if due_ns == _NEVER else due_ns)

    def wake(self, now: int) -> None:
        """Something was posted to the endpoint by none of its own turns."""
        self.called(now, ())

    def called(self, now: int, runs: "Sequence[Run]") -> None:
        """The socket's turn: what came to it, or what its alarm was for."""
        if self._off:
            return
        for run in runs:
            self._receive(run, now)
        if self._due_ns <= now:
            self._endpoint.on_deadline(now)
        self.turn(now)

    def _serve(self, now: int) -> None:
        self.transmit(now)
        self.sleep(now)

    def _receive(self, run: "Run", now: int) -> None:
        source_ip, source_port, tos, segment_bytes, headers, payload, corrupt = run
        counts, peer = self._counts, self._peers.get(source_ip)
        if peer is None:
            counts["strangers"] += len(headers) or 1
        elif corrupt:
            counts["corrupt_packets"] += corrupt
        elif self._plain is None:
            counts["received_packets"] += len(headers)
            self._endpoint.receive(Arrival(peer, tos & 3, segment_bytes, headers, payload), now)
        else:
            told, _, malformed = self._plain.take_apart(payload, segment_bytes, source_ip, source_port)
            counts["malformed_packets"] += malformed
            for part, data, segment in told:
                counts["received_packets"] += len(part)
                self._endpoint.receive(Arrival(peer, tos & 3, segment, part, data), now)

    def _send(self, burst: Burst) -> None:
        headers, payload = burst.headers, burst.payload
        self._counts["sent_packets"] += len(headers)
        self._counts["frame_bytes"] += self._frame_bytes(burst)
        tos = burst.dscp << 2 | burst.ecn
        self._free_ns = self._core.send_run(
            self.socket, self._ips[burst.peer], burst.source_port, tos, headers, payload, burst.segment_bytes
        )

    def _frame_bytes(self, burst: Burst) -> int:
        """Of the run's frames, FCS included."""
        packets, size = burst.packets, len(burst.payload)
        total = packets * (UDP_HEADERS_BYTES + FCS_BYTES) + sum(map(len, burst.headers)) + size
        if self._plain is None:
            last_bytes = size - (packets - 1) * burst.segment_bytes
            pads = (packets - 1) * (-burst.segment_bytes % _PAD) + -last_bytes % _PAD
            total += pads + packets * roce.ICRC_BYTES
        return total


class Nic(_SimulatedNic[Endpoint]):
    """The NIC of a rank that exchanges messages with others."""

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        self._endpoint.post_send(id, peer, tag, buffer, now)

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        self._endpoint.post_receive(id, peer, tag, buffer, now, completion)

    def events(self) -> Sequence[Event]:
        return self._endpoint.events()


class SumNic(_SimulatedNic[ReduceEndpoint]):
    """The NIC of a rank whose buffers the network sums up."""

    def post_reduce(self, id: int, buffer: npt.NDArray[Any], now: int) -> None:
        self._endpoint.post_reduce(id, buffer, now)

    def events(self) -> Sequence[ReduceEvent]:
        return self._endpoint.events()


class ServerNic(_SimulatedNic[AggregationServer]):
    """The NIC of a server that adds up what a switch has no room for."""
