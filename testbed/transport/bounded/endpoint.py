"""One rank's end of a transport with bounded loss, in the dialect that it is given: its flows, and what drives them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from testbed.transport.bounded.dialect import Dialect
from testbed.transport.bounded.feedback import Listener
from testbed.transport.bounded.flow import Flow, Limits
from testbed.transport.congestion import CongestionControl
from testbed.transport.endpoint import (
    ALL,
    ECN_CE,
    Arrival,
    Buffer,
    Burst,
    Completion,
    Counters,
    Event,
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


class BoundedEndpoint:
    """A `testbed.transport.endpoint.Endpoint`, `Informed` and, if its dialect wants to know, `Learning`.

    counters.extra: probes_sent, bitmaps_sent, stops_sent; repair_rounds: how often holes of a message were sent again;
    unexpected: packets of messages nobody asked for yet; cnps_received; and for each kind of bad packet `bad_...`.
    """

    learned: Callable[[Mapping[str, float]], None]

    def __init__(self, making: Making) -> None:
        self.counters = Counters(extra=making.dialect.counts)
        self._making = making
        self._dialect = making.dialect
        if making.dialect.learned is not None:
            self.learned = making.dialect.learned
        self._peers = frozenset(making.ranks) - {making.rank}
        self._line = Line(making.path.rate_bps)
        self._flows: dict[int, Flow] = {}
        self._active: dict[int, Flow] = {}  # those with something to send or to wait for, the next to serve first
        self._events: list[Event] = []
        self._now = 0

    def begin(self, operation: Operation, now: int) -> None:
        self._now = now
        self._dialect.begin(operation)
        for flow in self._flows.values():
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
        self._flow(peer).post_send(id, tag, view, now)

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        """`completion` may ask for less than all: then its fraction stands for the transport's own bound."""
        self._now = now
        if completion.deadline_ns is not None:
            raise ValueError("a message with a bound on its loss ends when enough of it is there, not at an instant")
        bound = self._dialect.bound(id) if completion == ALL else 1 - completion.fraction
        self._flow(peer).post_receive(id, tag, as_bytes(buffer), bound)

    def receive(self, arrival: Arrival, now: int) -> None:
        self._now = now
        count, size = len(arrival.headers), arrival.segment_bytes
        self.counters.received_packets += count
        if arrival.ecn == ECN_CE:
            self.counters.ecn_marked += count
        if arrival.peer not in self._peers:
            self.counters.refuse("bad_peer", count)
            return
        flow, payload = self._flow(arrival.peer), memoryview(arrival.payload)
        for index, header in enumerate(arrival.headers):
            end = (index + 1) * size if index + 1 < count else len(payload)
            if problem := flow.receive(header, arrival.ecn, payload[index * size : end], now):
                self.counters.refuse(problem, 1)

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        self._now = now
        bursts: list[Burst] = []
        left = budget_packets
        for flow in self._active.values():
            if flow.speaks and left > 0:
                control = flow.control(now, left)
                bursts += control
                left -= len(control)
        waiting = list(self._active.items())
        while waiting and left > 0:
            peer, flow = waiting.pop(0)
            ready_ns = flow.ready_ns(now)
            if ready_ns is None or ready_ns > now:
                continue
            bursts.append(flow.run(now, ready_ns, left))
            left -= bursts[-1].packets
            waiting.append((peer, flow))
            self._active[peer] = self._active.pop(peer)  # to the end: the next call begins with the others
        return bursts

    def deadline(self) -> int | None:
        earliest: int | None = None
        for peer, flow in list(self._active.items()):
            at = flow.deadline(self._now)
            if at is None:
                del self._active[peer]
            elif earliest is None or at < earliest:
                earliest = at
        return earliest

    def on_deadline(self, now: int) -> None:
        self._now = now
        for flow in self._active.values():
            flow.on_deadline(now)

    def events(self) -> Sequence[Event]:
        if not self._events:
            return ()
        events = tuple(self._events)
        self._events.clear()
        return events

    def idle(self) -> bool:
        return not any(flow.busy for flow in self._flows.values())

    def _flow(self, peer: int) -> Flow:
        """That with `peer`, made when first asked for; it is active from now on."""
        flow = self._flows.get(peer)
        if flow is None:
            making = self._making
            full_bytes = self._dialect.chunk_bytes + making.data_bytes + making.limits.frame_bytes
            flights = Flights(self._line, 8 * full_bytes)
            flow = self._flows[peer] = Flow(
                peer,
                self._dialect,
                making.limits,
                Listener(
                    making.control(),
                    flights,
                    RetransmissionTimeout(making.limits.patience.timeout_ns, making.path.base_rtt_ns),
                ),
                making.ports(peer),
                self._line.leave,
                self.counters,
                self._events,
                run_packets=min(making.run_packets, making.limits.burst_packets),
            )
        self._active.setdefault(peer, flow)
        return flow
