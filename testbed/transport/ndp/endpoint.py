"""One rank's end of NDP, and its half of a connection."""

from collections.abc import Sequence

from testbed.transport.endpoint import Burst, Counters, Event, Path, Peer
from testbed.transport.ndp.parameters import Constants
from testbed.transport.ndp.pulls import PullQueue
from testbed.transport.ndp.receiver import NdpReceiver
from testbed.transport.ndp.sender import NdpSender
from testbed.transport.ndp.spraying import Spray
from testbed.transport.roce.address import Address, address
from testbed.transport.roce.flights import Line
from testbed.transport.selective.endpoint import Connection, ReliableEndpoint
from testbed.transport.selective.halves import HalvedConnection
from testbed.transport.settings import Settings
from testbed.wire import MalformedError
from testbed.wire.ndp import Data, checked_from, decode


class _Marking:
    """Of answers; NDP has no notifications of congestion."""

    def __init__(self, constants: Constants) -> None:
        self.dscp = self.cnp_dscp = constants.control_dscp


class NdpConnection(HalvedConnection[NdpSender, NdpReceiver]):
    """A `testbed.transport.selective.endpoint.Connection`.

    counters.naks counts NACKs sent; extra has naks_received, trimmed (packets that came cut) and pulls (that no answer
    told of).
    """

    def __init__(
        self,
        constants: Constants,
        address: Address,
        spray: Spray,
        pulls: PullQueue,
        counters: Counters,
        events: list[Event],
        line: Line,
    ) -> None:
        sender = NdpSender(constants, address, counters, events, line, spray.port)
        receiver = NdpReceiver(constants, address, counters, events, pulls)
        super().__init__(sender, receiver, _Marking(constants), address, counters, events, line)
        self._start = checked_from(address.local_qp)
        self._spray = spray

    def _port(self) -> int:
        return self._spray.port()

    def _take(self, data: bytes, payload: memoryview, ecn: int, now: int) -> str | None:  # noqa: ARG002
        try:
            found = decode(self._start, data)
        except MalformedError:
            return "bad_header"
        if self._sender.failure:
            return None
        return self._receiver.take(found, payload, now) if isinstance(found, Data) else self._sender.hear(found, now)


class NdpEndpoint(ReliableEndpoint):
    """A `testbed.transport.endpoint.Endpoint`, whose connections share the host's pull queue."""

    def __init__(self, path: Path, rank: int, peers: Sequence[Peer], settings: Settings, seed: int) -> None:
        constants, line = Constants.of(path, settings.values), Line(path.rate_bps)
        self._pulls = PullQueue(constants.packet_ns, path.base_rtt_ns)

        def connect(peer: int, counters: Counters, events: list[Event]) -> Connection:
            own, spray = address(rank, peer, peers, seed), Spray(constants.entropies, rank, peer, seed)
            return NdpConnection(constants, own, spray, self._pulls, counters, events, line)

        super().__init__(rank, peers, connect)

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        for peer in self._pulls.serve(now):
            self._connection(peer)  # which has something to say
        return super().transmit(now, budget_packets)

    def deadline(self) -> int | None:
        due_ns, pull_ns = super().deadline(), self._pulls.deadline()
        if due_ns is None or pull_ns is None:
            return pull_ns if due_ns is None else due_ns
        return min(due_ns, pull_ns)

    def idle(self) -> bool:
        return not self._pulls.waiting and super().idle()
