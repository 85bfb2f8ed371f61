"""One rank's end of the Falcon-like transport, and its half of a connection."""

from collections.abc import Sequence

from testbed.transport.congestion import CongestionControl
from testbed.transport.endpoint import (
    ECN_CE,
    ECN_NOT_ECT,
    Buffer,
    Burst,
    Counters,
    Event,
    Failed,
    Path,
    Peer,
    as_bytes,
)
from testbed.transport.falcon.parameters import Constants
from testbed.transport.falcon.paths import FlowPath
from testbed.transport.falcon.receiver import FalconReceiver
from testbed.transport.falcon.sender import FalconSender
from testbed.transport.roce.address import Address, address
from testbed.transport.roce.flights import Line
from testbed.transport.roce.parameters import FRAME_BYTES
from testbed.transport.selective.endpoint import ConnectedEndpoint, Connection
from testbed.transport.settings import Settings
from testbed.wire import MalformedError
from testbed.wire.falcon import Ack, Data, decode
from testbed.wire.roce import CNP, cnp, pad_bytes
from testbed.wire.roce import decode as decode_roce

_NOTHING = memoryview(b"")
_LABEL, _TURN = 40, 48  # bits that a label and its changes take of the seed of its port


class FalconConnection:
    """A `testbed.transport.selective.endpoint.Connection`. counters.naks counts the answers with a bitmap; extra has
    probes (TLP) and paths_changed (by a timeout).
    """

    def __init__(
        self,
        constants: Constants,
        address: Address,
        paths: Sequence[FlowPath],
        counters: Counters,
        events: list[Event],
        line: Line,
    ) -> None:
        self._constants = constants
        self._address = address
        self._paths = paths
        self._counters = counters
        self._events = events
        self._line = line
        self._sender = FalconSender(constants, address, paths, counters, events, line)
        self._receiver = FalconReceiver(constants, address, counters, events)
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
        problem = self._take(data, payload, ecn == ECN_CE, now)
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
        due = [at for at in (self._receiver.deadline(), self._sender.deadline(now)) if at is not None]
        return now if self._notify else min(due, default=None)

    def on_deadline(self, now: int) -> None:
        self._sender.on_deadline(now)
        self._settle()

    def _take(self, data: bytes, payload: memoryview, marked: bool, now: int) -> str | None:
        if data[:1] == bytes((CNP,)):
            return self._notified(data, now)
        try:
            queue_pair, found = decode(data)
        except MalformedError:
            return "bad_header"
        if queue_pair != self._address.local_qp:
            return "bad_queue_pair"
        if self._sender.failure:
            return None
        if isinstance(found, Ack):
            return self._sender.hear(found, now)
        if not isinstance(found, Data):
            return self._sender.refused(found, now)
        if found.pad != pad_bytes(len(payload)):
            return "bad_padding"
        if marked and found.label < len(self._paths) and self._paths[found.label].control.on_marked(now):
            self._notify = True
        return self._receiver.take(found, payload, marked, now)

    def _notified(self, data: bytes, now: int) -> str | None:
        try:
            header = decode_roce(data)
        except MalformedError:
            return "bad_header"
        if header.destination_qp != self._address.local_qp:
            return "bad_queue_pair"
        self._counters.extra["cnps_received"] = self._counters.extra.get("cnps_received", 0) + 1
        for path in self._paths:
            path.control.on_cnp(now)
        return None

    def _settle(self) -> None:
        """A failed sender takes the receiver with it."""
        if self._sender.failure:
            self._receiver.fail(self._sender.failure)
            self._notify = False


def falcon_endpoint(path: Path, rank: int, peers: Sequence[Peer], settings: Settings, seed: int) -> ConnectedEndpoint:
    """A `testbed.transport.endpoint.Endpoint`; every path of every connection has a congestion control of its own."""
    constants, line = Constants.of(path, settings.values), Line(path.rate_bps)
    values = dict(settings.congestion_values)
    if isinstance(window := values.get("initial_window"), int):
        values["initial_window"] = max(1, window // constants.paths)

    def connect(peer: int, counters: Counters, events: list[Event]) -> Connection:
        def port(label: int, turn: int) -> int:
            return address(rank, peer, peers, seed ^ label << _LABEL ^ turn << _TURN).source_port

        def control() -> CongestionControl:
            return settings.congestion.make(path, values)

        paths = tuple(FlowPath(label, constants, control(), port) for label in range(constants.paths))
        return FalconConnection(constants, address(rank, peer, peers, seed), paths, counters, events, line)

    return ConnectedEndpoint(rank, peers, connect)
