"""One rank's end of the Falcon-like transport, and its half of a connection."""

from collections.abc import Sequence

from testbed.transport.congestion import CongestionControl
from testbed.transport.endpoint import ECN_CE, Counters, Event, Path, Peer
from testbed.transport.falcon.parameters import Constants
from testbed.transport.falcon.paths import FlowPath
from testbed.transport.falcon.receiver import FalconReceiver
from testbed.transport.falcon.sender import FalconSender
from testbed.transport.roce.address import Address, address
from testbed.transport.roce.flights import Line
from testbed.transport.selective.endpoint import Connection, ReliableEndpoint
from testbed.transport.selective.halves import HalvedConnection
from testbed.transport.settings import Settings
from testbed.wire import MalformedError
from testbed.wire.falcon import Ack, Data, decode
from testbed.wire.roce import CNP, pad_bytes
from testbed.wire.roce import decode as decode_roce

_LABEL, _TURN = 40, 48  # bits that a label and its changes take of the seed of its port


class FalconConnection(HalvedConnection[FalconSender, FalconReceiver]):
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
        sender = FalconSender(constants, address, paths, counters, events, line)
        receiver = FalconReceiver(constants, address, counters, events)
        super().__init__(sender, receiver, constants, address, counters, events, line)
        self._paths = paths

    def _take(self, data: bytes, payload: memoryview, ecn: int, now: int) -> str | None:
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
        marked = ecn == ECN_CE
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


def falcon_endpoint(path: Path, rank: int, peers: Sequence[Peer], settings: Settings, seed: int) -> ReliableEndpoint:
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

    return ReliableEndpoint(rank, peers, connect)
