"""A queue pair and the reliable one beside it: what the packets of a peer say, and what is to be said besides data."""

from collections.abc import Callable
from dataclasses import dataclass

from testbed.transport.congestion import CongestionControl
from testbed.transport.endpoint import ECN_CE, ECN_NOT_ECT, Buffer, Burst, Counters
from testbed.transport.optinic.control import Control
from testbed.transport.optinic.parameters import Constants
from testbed.transport.optinic.receiver import Receiver
from testbed.transport.optinic.sender import Sender
from testbed.transport.roce.address import Address
from testbed.transport.roce.flights import Line
from testbed.transport.roce.parameters import FRAME_BYTES
from testbed.wire import MalformedError
from testbed.wire.optinic import (
    CONTROL_BIT,
    UC_WRITE_ONLY_IMMEDIATE,
    Timings,
    decode_data,
    decode_other,
    decode_timings,
)
from testbed.wire.roce import ACKNOWLEDGE, CNP, SEND_ONLY, cnp, pad_bytes

_NOTHING = memoryview(b"")


@dataclass(slots=True)
class QueuePair:
    """A `testbed.transport.connected.Connection`. `hear(rank, timings)` is told what the peer measured."""

    constants: Constants
    address: Address
    sender: Sender
    receiver: Receiver
    control: Control
    congestion: CongestionControl
    counters: Counters
    line: Line
    hear: Callable[[int, Timings], None]
    notify: bool = False  # a CNP is due

    @property
    def busy(self) -> bool:
        return self.sender.busy or self.control.busy or self.notify or self.receiver.speaks

    def receive(self, data: bytes, payload: memoryview, ecn: int, now: int) -> str | None:
        try:
            problem = self._take(data, payload, ecn == ECN_CE, now)
        except MalformedError:
            return "bad_header"
        if not problem:
            self.control.heard()
        return problem

    def speak(self, now: int, budget_packets: int) -> list[Burst]:
        """CNPs, hints and control messages that are due."""
        packets: list[tuple[int, bytes, Buffer]] = []
        if self.notify and budget_packets > 0:
            self.notify = False
            self.counters.cnps += 1
            packets.append((self.constants.cnp_dscp, cnp(self.address.remote_qp), _NOTHING))
        while self.receiver.speaks and budget_packets > len(packets):
            packets.append((self.constants.dscp, self.receiver.hint(), _NOTHING))
        due = self.control.due(now, budget_packets - len(packets))
        packets += [(self.constants.dscp, header, payload) for header, payload in due]
        self.counters.sent_packets += len(packets)
        for _, header, payload in packets:
            self.line.leave(now, 8 * (len(header) + len(payload) + pad_bytes(len(payload)) + FRAME_BYTES))
        own = self.address
        return [
            Burst(own.peer, own.source_port, dscp, ECN_NOT_ECT, now, len(payload), (header,), payload)
            for dscp, header, payload in packets
        ]

    def ready_ns(self, now: int) -> int | None:
        return self.sender.ready_ns(now)

    def run(self, now: int, ready_ns: int, budget_packets: int) -> Burst:
        return self.sender.run(now, ready_ns, budget_packets)

    def deadline(self, now: int) -> int | None:
        if self.notify or self.receiver.speaks:
            return now
        times = (self.sender.deadline(now), self.control.deadline(now))
        return min((at for at in times if at is not None), default=None)

    def on_deadline(self, now: int) -> None:
        self.sender.on_deadline(now)
        self.control.on_deadline(now)

    def _take(self, encoded: bytes, payload: memoryview, marked: bool, now: int) -> str | None:
        """Take a packet in; what is bad about it, if anything. Raises MalformedError."""
        own = self.address
        if encoded[:1] == bytes((UC_WRITE_ONLY_IMMEDIATE,)):
            data = decode_data(encoded)
            if data.queue_pair != own.local_qp:
                return "bad_queue_pair"
            if marked and self.congestion.on_marked(now):
                self.notify = True
            return self.receiver.take(data, payload, marked, now)
        header = decode_other(encoded)
        if header.opcode != SEND_ONLY and header.destination_qp == own.local_qp:
            if header.opcode == ACKNOWLEDGE:
                return self.sender.hint(header, now)
            self.counters.extra["cnps_received"] = self.counters.extra.get("cnps_received", 0) + 1
            self.congestion.on_cnp(now)
            return None
        if header.opcode == CNP or header.destination_qp != own.local_qp | CONTROL_BIT:
            return "bad_queue_pair"
        if header.opcode == ACKNOWLEDGE:
            self.control.acknowledged(header.psn)
            return None
        if header.pad != pad_bytes(len(payload)):
            return "bad_padding"
        self.hear(own.peer, decode_timings(payload))
        self.control.came(header.psn)
        return None
