"""One rank's end of a transport with bounded loss, in the dialect that it is given: its flows, and what drives them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from testbed.transport.bounded.dialect import Dialect
from testbed.transport.bounded.feedback import Listener
from testbed.transport.bounded.flow import Flow, Limits
from testbed.transport.congestion import CongestionControl
from testbed.transport.connected import ConnectedEndpoint
from testbed.transport.endpoint import (
    ALL,
    Buffer,
    Completion,
    Counters,
    Operation,
    Path,
    as_bytes,
)
from testbed.transport.roce.flights import Flights, Line
from testbed.transport.tcp_model.timer import RetransmissionTimeout


@dataclass(frozen=True, slots=True)
class Making:
    """What an endpoint is made of.

    ranks: all of the job's. control() makes the congestion control of one flow; ports(peer) what gives the UDP ports of
    its packets, one call a run. run_packets: a run's length at most. most_bytes: of a message.
    """

    path: Path
    rank: int
    ranks: Sequence[int]
    dialect: Dialect
    limits: Limits
    control: Callable[[], CongestionControl]
    ports: Callable[[int], Callable[[], int]]
    run_packets: int
    data_bytes: int  # of the header of a chunk
    most_bytes: int


class BoundedEndpoint(ConnectedEndpoint[Flow]):
    """A `testbed.transport.endpoint.Endpoint`, `Informed` and, if its dialect wants to know, `Learning`.

    counters.extra: probes_sent, bitmaps_sent, stops_sent; repair_rounds: how often holes of a message were sent again;
    unexpected: packets of messages nobody asked for yet; cnps_received; and for each kind of bad packet `bad_...`.
    """

    learned: Callable[[Mapping[str, float]], None]

    def __init__(self, making: Making) -> None:
        ranks = frozenset(making.ranks) - {making.rank}
        super().__init__(ranks, Counters(extra=making.dialect.counts), once=False)
        self._making = making
        self._dialect = making.dialect
        if making.dialect.learned is not None:
            self.learned = making.dialect.learned
        self._line = Line(making.path.rate_bps)

    def begin(self, operation: Operation, now: int) -> None:
        self._now = now
        self._dialect.begin(operation)
        for flow in self._connections.values():
            flow.forget()

    def start(self, now: int) -> None:
        self._now = now

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        self._now = now
        view = as_bytes(buffer)
        if not 0 <= tag < 1 << 32 or view.nbytes > self._making.most_bytes:
            most_bytes = self._making.most_bytes
            raise ValueError(
                f"a message of {view.nbytes} bytes, tag {tag}: tags have 32 bits, messages {most_bytes} bytes"
            )
        self._connection(peer).post_send(id, tag, view, now)

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        """`completion` may ask for less than all: then its fraction stands for the transport's own bound."""
        self._now = now
        if completion.deadline_ns is not None:
            raise ValueError("a message with a bound on its loss ends when enough of it is there, not at an instant")
        bound = self._dialect.bound(id) if completion == ALL else 1 - completion.fraction
        self._connection(peer).post_receive(id, tag, as_bytes(buffer), bound)

    def _connect(self, peer: int) -> Flow:
        making = self._making
        full_bytes = self._dialect.chunk_bytes + making.data_bytes + making.limits.frame_bytes
        listener = Listener(
            making.control(),
            Flights(self._line, 8 * full_bytes),
            RetransmissionTimeout(making.limits.patience.timeout_ns, making.path.base_rtt_ns),
        )
        return Flow(
            peer,
            self._dialect,
            making.limits,
            listener,
            making.ports(peer),
            self._line.leave,
            self.counters,
            self._events,
            run_packets=min(making.run_packets, making.limits.burst_packets),
        )
