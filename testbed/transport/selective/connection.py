"""One rank's half of a connection with selective repeat: its sender, its receiver, and their packets."""

from testbed.transport.congestion import CongestionControl
from testbed.transport.endpoint import (
    ECN_CE,
    ECN_NOT_ECT,
    Buffer,
    Burst,
    Counters,
    Event,
    Failed,
    as_bytes,
)
from testbed.transport.roce.address import Address
from testbed.transport.roce.flights import Line
from testbed.transport.roce.parameters import FRAME_BYTES
from testbed.transport.selective.parameters import Constants
from testbed.transport.selective.receiver import Receiver
from testbed.transport.selective.sender import Sender
from testbed.wire import MalformedError
from testbed.wire.roce import ACKNOWLEDGE, CNP, DEFAULT_PKEY, WRITE_ONLY, cnp, decode, pad_bytes

_NOTHING = memoryview(b"")


class SelectiveConnection:
    """A `testbed.transport.selective.endpoint.Connection`."""

    def __init__(
        self,
        constants: Constants,
        address: Address,
        congestion: CongestionControl,
        counters: Counters,
        events: list[Event],
        line: Line,
    ) -> None:
        self._constants = constants
        self._address = address
        self._congestion = congestion
        self._counters = counters
        self._events = events
        self._line = line
        self._sender = Sender(constants, address, congestion, counters, events, line)
        self._receiver = Receiver(constants, address, counters, events, congestion.run_packets is not None)
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
            packets.append((self._constants.cnp_dscp, cnp(self._address.remote_qp)))
        for header in self._receiver.answers(now, budget_packets - len(packets)):
            packets.append((self._constants.dscp, header))
        self._counters.sent_packets += len(packets)
        for _, header in packets:
            self._line.leave(now, 8 * (len(header) + FRAME_BYTES))
        own = self._address
        return [
            Burst(own.peer, own.source_port, dscp, ECN_NOT_ECT, now, 0, (header,), _NOTHING) for dscp, header in packets
        ]

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

    def _take(self, data: bytes, payload: memoryview, ecn: int, now: int) -> str | None:
        try:
            header = decode(data)
        except MalformedError:
            return "bad_header"
        if header.destination_qp != self._address.local_qp or header.pkey != DEFAULT_PKEY:
            return "bad_queue_pair"
        if header.pad != pad_bytes(len(payload)):
            return "bad_padding"
        if self._sender.failure:
            return None
        if header.opcode == CNP:
            self._counters.extra["cnps_received"] = self._counters.extra.get("cnps_received", 0) + 1
            self._congestion.on_cnp(now)
            return None
        if header.opcode == ACKNOWLEDGE:
            return self._sender.hear(header, now)
        if header.opcode != WRITE_ONLY:
            return "bad_opcode"
        if ecn == ECN_CE and self._congestion.on_marked(now):
            self._notify = True
        return self._receiver.take(header, payload, ecn == ECN_CE, now)

    def _settle(self) -> None:
        """A failed sender takes the receiver with it."""
        if self._sender.failure:
            self._receiver.fail(self._sender.failure)
            self._notify = False
