"""One rank's half of a connection with selective repeat: its sender, its receiver, and their packets."""

from testbed.transport.congestion import CongestionControl
from testbed.transport.endpoint import ECN_CE, Counters, Event
from testbed.transport.roce.address import Address
from testbed.transport.roce.flights import Line
from testbed.transport.selective.halves import HalvedConnection
from testbed.transport.selective.parameters import Constants
from testbed.transport.selective.receiver import Receiver
from testbed.transport.selective.sender import Sender
from testbed.wire import MalformedError
from testbed.wire.roce import ACKNOWLEDGE, CNP, DEFAULT_PKEY, WRITE_ONLY, decode, pad_bytes


class SelectiveConnection(HalvedConnection[Sender, Receiver]):
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
        sender = Sender(constants, address, congestion, counters, events, line)
        receiver = Receiver(constants, address, counters, events, congestion.run_packets is not None)
        super().__init__(sender, receiver, constants, address, counters, events, line)
        self._congestion = congestion

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
