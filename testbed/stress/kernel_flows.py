"""Background flows of an emulated run, over the kernel's TCP: drawn as in simulation, both ends in one process.

Each pair of hosts has one connection, made at its first flow and kept, on which flows wait for each other. Which bytes
are whose needs no header: what comes over a connection is its flows, one after the other. A flow's time is from the
instant that was drawn for it until the process that reads at its target has all.
"""

import errno
import heapq
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from testbed.plan.environment import struck_in_warmup
from testbed.plan.model import Plan
from testbed.results.samples import FlowRow
from testbed.stress.arrivals import Arrival, FlowSource, flow_sources
from testbed.stress.completion import Completions
from testbed.worker.clock import ModelClock

PORT = 10_000  # no job's, nor that of background traffic that goes by a clock
_BACKLOG = 1024
_CHUNK_BYTES = 1 << 18
_READS_A_TURN = 8  # before the loop looks at everything else again

Inside = Callable[[str, Callable[[], socket.socket]], socket.socket]


@dataclass(slots=True)
class _Sending:
    """A connection's sending end: `unsent` bytes of all its flows."""

    socket: socket.socket
    unsent: int = 0
    lost: bool = False


@dataclass(slots=True)
class _Taking:
    """The flows that are to come over a connection, in order: how much of each is not there yet."""

    left: deque[tuple[int, int]] = field(default_factory=deque)  # (flow, bytes)


class KernelFlows:
    """Serves the flows of a plan. inside: makes a socket in a host's namespace."""

    def __init__(self, plan: Plan, clock: ModelClock, inside: Inside) -> None:
        self._plan = plan
        self._clock = clock
        self._inside = inside
        self._zero_ns = 0
        self._sources = flow_sources(plan.spec.traffic, plan.graph)
        self._due: list[tuple[int, int]] = []  # heap of (real instant, source)
        self._next: dict[int, tuple[Iterator[Arrival], Arrival | None]] = {}
        self._listeners: dict[int, socket.socket] = {}
        self._sending: dict[tuple[str, str], _Sending] = {}
        self._by_descriptor: dict[int, _Sending] = {}
        self._taking: dict[tuple[str, int], _Taking] = {}  # by the sending end's address
        self._accepted: dict[int, tuple[socket.socket, _Taking]] = {}
        self._zeros = memoryview(bytes(_CHUNK_BYTES))
        self._taken = bytearray(_CHUNK_BYTES)
        self.late_ns = 0  # real
        if self._sources:
            self._completions = Completions(plan)
            for target in dict.fromkeys(target for source in self._sources for target in source.targets):
                listener = inside(target, partial(_listener, plan.addresses[target].ip))
                self._listeners[listener.fileno()] = listener

    def warm_up(self, now_ns: int) -> None:
        """Begin what also runs in warm-up, until `start`. now_ns: CLOCK_MONOTONIC."""
        entries = struck_in_warmup(self._plan.spec)[1]
        self._start([index for index, source in enumerate(self._sources) if source.entry in entries], now_ns)

    def start(self, zero_ns: int) -> None:
        """zero_ns: CLOCK_MONOTONIC at model time zero."""
        if self._sources:
            self._completions.measure()
        self._start(range(len(self._sources)), zero_ns)

    def _start(self, indices: Iterable[int], zero_ns: int) -> None:
        self._zero_ns = zero_ns
        self._due.clear()
        for index in indices:
            arrivals = self._sources[index].arrivals(self._plan.spec.seed)
            self._next[index] = arrivals, next(arrivals, None)
            self._plan_next(index)

    def stop(self) -> tuple[FlowRow, ...]:
        """Begin no more; all that began from `start` on."""
        self._due.clear()
        return self._completions.rows() if self._sources else ()

    def watched(self) -> list[tuple[int, int]]:
        """The descriptors and poll masks to wait for."""
        reading = (*self._listeners, *self._accepted)
        writing = (descriptor for descriptor, sending in self._by_descriptor.items() if sending.unsent)
        return [(each, select.POLLIN) for each in reading] + [(each, select.POLLOUT) for each in writing]

    def serve(self, ready: Mapping[int, int]) -> None:
        """Take in what came, send what can be sent, and begin what is due."""
        for descriptor in ready:
            if listener := self._listeners.get(descriptor):
                self._accept(listener)
            elif taking := self._accepted.get(descriptor):
                self._take(*taking)
            elif sending := self._by_descriptor.get(descriptor):
                self._send(sending)
        now = self._clock.monotonic()
        while self._due and self._due[0][0] <= now:
            due_ns, index = heapq.heappop(self._due)
            self.late_ns = max(self.late_ns, now - due_ns)
            self._begin(index)

    def wake_ns(self) -> int | None:
        """When the next flow begins."""
        return self._due[0][0] if self._due else None

    def _plan_next(self, index: int) -> None:
        arrival = self._next[index][1]
        if arrival is not None:
            heapq.heappush(self._due, (self._zero_ns + arrival.at_ns * self._clock.dilation, index))

    def _begin(self, index: int) -> None:
        source, (arrivals, arrival) = self._sources[index], self._next[index]
        assert arrival is not None
        self._hand_over(source, arrival)
        self._next[index] = arrivals, next(arrivals, None)
        self._plan_next(index)

    def _hand_over(self, source: FlowSource, arrival: Arrival) -> None:
        pair = source.host, arrival.target
        if pair not in self._sending:
            self._connect(*pair)
        sending = self._sending[pair]
        flow = self._completions.begin(source, arrival)
        if not sending.lost:
            self._taking[sending.socket.getsockname()].left.append((flow, arrival.size_bytes))
            sending.unsent += arrival.size_bytes
            self._send(sending)

    def _connect(self, source: str, target: str) -> None:
        addresses = self._plan.addresses
        connection = self._inside(source, _stream)
        connection.bind((addresses[source].ip, 0))
        status = connection.connect_ex((addresses[target].ip, PORT))
        sending = _Sending(connection, lost=status not in (0, errno.EINPROGRESS))
        self._sending[source, target] = self._by_descriptor[connection.fileno()] = sending
        self._taking[connection.getsockname()] = _Taking()

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, address = listener.accept()
        except OSError:
            return  # it has gone again
        connection.setblocking(False)
        taking = self._taking.get(address)
        if taking is None:
            connection.close()  # none of ours
        else:
            self._accepted[connection.fileno()] = connection, taking

    def _send(self, sending: _Sending) -> None:
        while sending.unsent:
            try:
                sending.unsent -= sending.socket.send(self._zeros[: min(_CHUNK_BYTES, sending.unsent)])
            except BlockingIOError:
                return
            except OSError:  # it was never there, or nobody has answered for long: its flows do not end
                sending.lost, sending.unsent = True, 0

    def _take(self, connection: socket.socket, taking: _Taking) -> None:
        for _ in range(_READS_A_TURN):
            try:
                size = connection.recv_into(self._taken)
            except BlockingIOError:
                return
            except OSError:
                size = 0
            if not size:
                del self._accepted[connection.fileno()]
                connection.close()
                return
            now_ns = (self._clock.monotonic() - self._zero_ns) // self._clock.dilation
            while size:
                flow, left = taking.left.popleft()
                if left > size:
                    taking.left.appendleft((flow, left - size))
                    break
                size -= left
                self._completions.end(flow, now_ns)


def _listener(ip: str) -> socket.socket:
    made = _stream()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((ip, PORT))
    made.listen(_BACKLOG)
    return made


def _stream() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
