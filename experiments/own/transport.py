"""A transport of one's own: every packet says where it belongs, and is acknowledged and repeated by itself.

Order does not matter to it, which go-back-N cannot say: it is made for `routing: spray`. In a spec:
`kind: transport.py:SCATTER`. On the wire each packet is a RoCEv2 WRITE of its own whose RETH holds the place in the
message, the message's tag and its length. It never gives up: the run's `limits.stall` does, and says who waits.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from testbed.transport import Path, Peer, Settings, Transport
from testbed.transport.endpoint import (
    ALL,
    ECN_NOT_ECT,
    Arrival,
    Buffer,
    Burst,
    Completion,
    Counters,
    Event,
    Received,
    Sent,
    as_bytes,
)
from testbed.transport.parameters import Parameter, whole
from testbed.transport.roce.address import Address, address
from testbed.wire import MalformedError
from testbed.wire.roce import (
    ACKNOWLEDGE,
    CREDITS_UNLIMITED,
    PSN_MODULUS,
    WRITE_ONLY,
    Aeth,
    Header,
    Reth,
    decode,
    encode,
    pad_bytes,
    psn_difference,
)


@dataclass(frozen=True, slots=True)
class Packet:
    """One to send; `message` is the id of the send it belongs to."""

    psn: int
    message: int
    header: bytes
    payload: memoryview


@dataclass(slots=True)
class Message:
    """One to receive, and how many of its packets have not come."""

    id: int
    buffer: memoryview
    left: int


@dataclass(slots=True)
class Flow:
    """This rank's business with one peer."""

    address: Address
    next_psn: int = 0
    waiting: deque[Packet] = field(default_factory=deque)
    flying: dict[int, tuple[Packet, int]] = field(default_factory=dict)  # by PSN: sent, and to be repeated at; in order
    unsent: dict[int, int] = field(default_factory=dict)  # by send: packets not acknowledged
    receives: dict[int, Message] = field(default_factory=dict)  # by tag
    expected: int = 0  # all PSNs before were heard
    heard: set[int] = field(default_factory=set)  # PSNs beyond it
    owed: deque[int] = field(default_factory=deque)  # PSNs to acknowledge


class Scatter:
    """A `testbed.transport.endpoint.Endpoint`."""

    def __init__(self, path: Path, rank: int, peers: Sequence[Peer], settings: Settings, seed: int) -> None:  # noqa: ARG002
        self.counters = Counters()
        self._mtu_bytes, self._window, self._timeout_ns = (whole(settings.values, p.name) for p in PARAMETERS)
        self._flows = {p.rank: Flow(address(rank, p.rank, peers, seed)) for p in peers if p.rank != rank}
        self._events: list[Event] = []
        self._now = 0

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        self._now = now
        flow, view = self._flows[peer], as_bytes(buffer)
        offsets = range(0, max(1, len(view)), self._mtu_bytes)
        for offset in offsets:
            payload = view[offset : offset + self._mtu_bytes]
            place = Reth(offset, tag, len(view))
            header = Header(WRITE_ONLY, flow.address.remote_qp, flow.next_psn, pad=pad_bytes(len(payload)), reth=place)
            flow.waiting.append(Packet(flow.next_psn, id, encode(header), payload))
            flow.next_psn = (flow.next_psn + 1) % PSN_MODULUS
        flow.unsent[id] = len(offsets)

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        self._now = now
        if completion != ALL:
            raise ValueError("scatter completes a receive only as a whole")
        view = as_bytes(buffer)
        self._flows[peer].receives[tag] = Message(id, view, max(1, -(-len(view) // self._mtu_bytes)))

    def receive(self, arrival: Arrival, now: int) -> None:
        self._now = now
        size = arrival.segment_bytes
        flow = self._flows.get(arrival.peer)
        for index, data in enumerate(arrival.headers):
            self.counters.received_packets += 1
            if flow is None or not self._take(flow, data, arrival.payload[index * size : (index + 1) * size]):
                self.counters.malformed += 1

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        self._now = now
        bursts: list[Burst] = []
        for flow in self._flows.values():
            while flow.owed and len(bursts) < budget_packets:
                header = Header(
                    ACKNOWLEDGE, flow.address.remote_qp, flow.owed.popleft(), aeth=Aeth(CREDITS_UNLIMITED, 0)
                )
                bursts.append(self._burst(flow, encode(header), b""))
            while flow.waiting and len(flow.flying) < self._window and len(bursts) < budget_packets:
                packet = flow.waiting.popleft()
                flow.flying[packet.psn] = packet, now + self._timeout_ns
                bursts.append(self._burst(flow, packet.header, packet.payload))
        return bursts

    def deadline(self) -> int | None:
        flows = self._flows.values()
        if any(flow.owed or (flow.waiting and len(flow.flying) < self._window) for flow in flows):
            return self._now
        return min((next(iter(flow.flying.values()))[1] for flow in flows if flow.flying), default=None)

    def on_deadline(self, now: int) -> None:
        self._now = now
        for flow in self._flows.values():
            for psn in [psn for psn, (_, at) in flow.flying.items() if at <= now]:
                flow.waiting.appendleft(flow.flying.pop(psn)[0])
                self.counters.retransmitted_packets += 1
                self.counters.timeouts += 1

    def events(self) -> Sequence[Event]:
        events, self._events = self._events, []
        return events

    def idle(self) -> bool:
        return not any(flow.waiting or flow.flying or flow.owed for flow in self._flows.values())

    def _take(self, flow: Flow, data: bytes, payload: Buffer) -> bool:
        """Take one packet in; whether it was well made."""
        try:
            header = decode(data)
        except MalformedError:
            return False
        if header.destination_qp != flow.address.local_qp:
            return False
        if header.opcode == ACKNOWLEDGE:
            self._acknowledged(flow, header.psn)
            return True
        return (
            header.opcode == WRITE_ONLY and header.reth is not None and self._land(flow, header, header.reth, payload)
        )

    def _acknowledged(self, flow: Flow, psn: int) -> None:
        packet, _ = flow.flying.pop(psn, (None, 0))
        if packet is None:
            packet = next((packet for packet in flow.waiting if packet.psn == psn), None)  # about to be repeated
            if packet is None:
                return
            flow.waiting.remove(packet)
        flow.unsent[packet.message] -= 1
        if not flow.unsent[packet.message]:
            del flow.unsent[packet.message]
            self._events.append(Sent(packet.message))

    def _land(self, flow: Flow, header: Header, place: Reth, payload: Buffer) -> bool:
        ahead = psn_difference(header.psn, flow.expected)
        if ahead < 0 or header.psn in flow.heard:
            self.counters.duplicates += 1
            flow.owed.append(header.psn)
            return True
        message = flow.receives.get(place.key)
        if message is None:
            return True  # nobody asked for it yet: without an acknowledgement it will come again
        end = place.address + len(payload)
        if place.length != len(message.buffer) or end > place.length:
            return False
        message.buffer[place.address : end] = payload
        self.counters.received_bytes += len(payload)
        flow.heard.add(header.psn)
        while flow.expected in flow.heard:
            flow.heard.remove(flow.expected)
            flow.expected = (flow.expected + 1) % PSN_MODULUS
        flow.owed.append(header.psn)
        message.left -= 1
        if not message.left:
            del flow.receives[place.key]
            self._events.append(Received(message.id))
        return True

    def _burst(self, flow: Flow, header: bytes, payload: Buffer) -> Burst:
        self.counters.sent_packets += 1
        self.counters.sent_bytes += len(payload)
        own = flow.address
        return Burst(own.peer, own.source_port, 0, ECN_NOT_ECT, self._now, len(payload), (header,), payload)


def _bdp(path: Path, _: object) -> int:
    return max(16, -(-path.base_rtt_ns * path.rate_bps // (8 * 10**9 * path.mtu_bytes)))


PARAMETERS = (
    Parameter("mtu", "payload bytes of a full packet", 1024, "MTU bytes", "our choice", least=256, most=4096),
    Parameter(
        "window",
        "most unacknowledged packets to a peer",
        64,
        "packets",
        "our choice",
        "1 BDP, at least 16",
        _bdp,
        least=1,
    ),
    Parameter(
        "timeout",
        "when a packet is repeated",
        1_000_000,
        "ns",
        "our choice",
        "4 base RTTs and the fullest queue",
        lambda path, _: 4 * path.base_rtt_ns + path.queueing_ns,
        least=1,
    ),
)
SCATTER = Transport("scatter", "every packet placed, acknowledged and repeated by itself", PARAMETERS, Scatter)
