"""A connection made of what sends and what receives: their packets are all that such connections differ in."""

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from testbed.transport.endpoint import ECN_NOT_ECT, Buffer, Burst, Counters, Event, Failed, as_bytes
from testbed.transport.roce.address import Address
from testbed.transport.roce.flights import Line
from testbed.transport.roce.parameters import FRAME_BYTES
from testbed.wire.roce import cnp

_NOTHING = memoryview(b"")


class SendingHalf(Protocol):
    """What sends; once it has a `failure`, it stays failed."""

    failure: str

    @property
    def busy(self) -> bool: ...

    def post(self, id: int, tag: int, buffer: Buffer, now: int) -> None: ...

    def ready_ns(self, now: int) -> int | None: ...

    def run(self, now: int, ready_ns: int, budget_packets: int) -> Burst: ...

    def deadline(self, now: int) -> int | None: ...

    def on_deadline(self, now: int) -> None: ...


class ReceivingHalf(Protocol):
    """What receives, and answers."""

    def post(self, id: int, tag: int, view: memoryview) -> None: ...

    def fail(self, reason: str) -> None: ...

    def deadline(self) -> int | None: ...

    def answers(self, now: int, most: int) -> list[bytes]: ...


class Marking(Protocol):
    """The DSCPs of answers, and of CNPs."""

    @property
    def dscp(self) -> int: ...

    @property
    def cnp_dscp(self) -> int: ...


S = TypeVar("S", bound=SendingHalf)
R = TypeVar("R", bound=ReceivingHalf)


class HalvedConnection(ABC, Generic[S, R]):
    """A `testbed.transport.selective.endpoint.Connection`, but for what its packets say (`_take`)."""

    def __init__(
        self,
        sender: S,
        receiver: R,
        marking: Marking,
        address: Address,
        counters: Counters,
        events: list[Event],
        line: Line,
    ) -> None:
        self._sender = sender
        self._receiver = receiver
        self._marking = marking
        self._address = address
        self._counters = counters
        self._events = events
        self._line = line
        self._notify = False  # a CNP is due

    @property
    def busy(self) -> bool:
        return self._sender.busy or self._notify or self._receiver.deadline() is not None

    def post_send(self, id: int, tag: int, buffer: Buffer, now: int) -> None:
        self._sender.post(id, tag, buffer, now)

    def post_receive(self, id: int, tag: int, buffer: memoryview, now: int) -> None:  # noqa: ARG002
        if self._sender.failure:
            self._events.append(Failed(id, self._address.peer, self._sender.failure))
        else:
            self._receiver.post(id, tag, as_bytes(buffer))

    def receive(self, data: bytes, payload: memoryview, ecn: int, now: int) -> str | None:
        problem = self._take(data, payload, ecn, now)
        self._settle()
        return problem

    def speak(self, now: int, budget_packets: int) -> list[Burst]:
        packets: list[tuple[int, bytes]] = []
        if self._notify and budget_packets > 0:
            self._notify = False
            self._counters.cnps += 1
            packets.append((self._marking.cnp_dscp, cnp(self._address.remote_qp)))
        for header in self._receiver.answers(now, budget_packets - len(packets)):
            packets.append((self._marking.dscp, header))
        self._counters.sent_packets += len(packets)
        for _, header in packets:
            self._line.leave(now, 8 * (len(header) + FRAME_BYTES))
        peer = self._address.peer
        return [Burst(peer, self._port(), dscp, ECN_NOT_ECT, now, 0, (header,), _NOTHING) for dscp, header in packets]

    def ready_ns(self, now: int) -> int | None:
        return self._sender.ready_ns(now)

    def run(self, now: int, ready_ns: int, budget_packets: int) -> Burst:
        return self._sender.run(now, ready_ns, budget_packets)

    def deadline(self, now: int) -> int | None:
        answer_ns = now if self._notify else self._receiver.deadline()
        due_ns = self._sender.deadline(now)
        if answer_ns is None or due_ns is None:
            return due_ns if answer_ns is None else answer_ns
        return min(answer_ns, due_ns)

    def on_deadline(self, now: int) -> None:
        self._sender.on_deadline(now)
        self._settle()

    def _port(self) -> int:
        """The UDP source port of the next answer."""
        return self._address.source_port

    @abstractmethod
    def _take(self, data: bytes, payload: memoryview, ecn: int, now: int) -> str | None:
        """Take a packet in; what is bad about it, if anything."""

    def _settle(self) -> None:
        """A failed sender takes the receiver with it."""
        if self._sender.failure:
            self._receiver.fail(self._sender.failure)
            self._notify = False
