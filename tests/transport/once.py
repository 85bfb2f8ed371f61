"""A transport that sends every packet once: what is lost is missing. For tests of what partial results lead to.

In a spec: `kind: FILE.py:ONCE`. Each packet is a WRITE of its own whose RETH holds the place
in the message, its tag and its length. A message ends when all of it is there, or `patience` after its first packet.
`omit` names packets that rank 0 does not even send, by their number since the collective began.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

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
    Failed,
    Operation,
    Received,
    Sent,
    as_bytes,
)
from testbed.transport.framing import ROCE, plain
from testbed.transport.parameters import Parameter, whole
from testbed.transport.roce.address import address
from testbed.wire.roce import BTH_BYTES, RETH_BYTES, WRITE_ONLY, Header, Reth, decode, encode, pad_bytes


@dataclass(slots=True)
class Incoming:
    """A message to receive; `came`: which of its packets are there."""

    id: int
    buffer: memoryview
    came: set[int] = field(default_factory=set)
    ends_ns: int | None = None


class Once:
    """A `testbed.transport.endpoint.Endpoint` that is `Informed` and `Guarded`."""

    def __init__(self, path: Path, rank: int, peers: Sequence[Peer], settings: Settings, seed: int) -> None:
        self.counters = Counters()
        self.counters.extra["collectives"] = 0
        self.operations: list[Operation] = []
        self.started_ns: list[int] = []
        values = settings.values
        self._rank = rank
        self._mtu, self._omit, self._patience_ns, self._halt_after, self._skip_after = (
            whole(values, parameter.name) for parameter in PARAMETERS
        )
        self._byte_ps = 8 * 10**12 // path.rate_bps
        self._addresses = {p.rank: address(rank, p.rank, peers, seed) for p in peers if p.rank != rank}
        self._waiting: deque[Burst] = deque()
        self._receives: dict[tuple[int, int], Incoming] = {}
        self._events: list[Event] = []
        self._sent = 0  # packets, since the collective began
        self._now = 0

    def begin(self, operation: Operation, now: int) -> None:
        self._now, self._sent = now, 0
        self.operations.append(operation)
        self.counters.extra["collectives"] += 1

    def start(self, now: int) -> None:
        self.started_ns.append(now)
        whole_ns = 2 * self._patience_ns
        for each in self.operations[-1].messages:
            message = self._receives.get((each.peer, each.tag))
            if message is not None and message.ends_ns is None and not each.send:
                message.ends_ns = now + (each.step + 1) * whole_ns  # if nothing of it comes
        if self._halt_after and len(self.started_ns) > self._halt_after and self._rank == 0:
            self._events.append(Failed(-1, 0, f"enough after {self._halt_after} collectives"))

    def skips(self) -> bool:
        return 0 < self._skip_after < len(self.started_ns)

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        self._now = now
        own, view = self._addresses[peer], as_bytes(buffer)
        for offset in range(0, len(view), self._mtu):
            payload = view[offset : offset + self._mtu]
            place = Reth(offset, tag, len(view))
            header = encode(Header(WRITE_ONLY, own.remote_qp, 0, pad=pad_bytes(len(payload)), reth=place))
            self._sent += 1
            if not (self._rank == 0 and self._sent == self._omit):
                self._waiting.append(
                    Burst(peer, own.source_port, 0, ECN_NOT_ECT, now, len(payload), (header,), payload)
                )
        self._events.append(Sent(id))

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        self._now = now
        assert completion == ALL
        self._receives[peer, tag] = Incoming(id, as_bytes(buffer))

    def receive(self, arrival: Arrival, now: int) -> None:
        self._now = now
        size = arrival.segment_bytes
        for index, data in enumerate(arrival.headers):
            self.counters.received_packets += 1
            place = decode(data).reth
            message = self._receives.get((arrival.peer, place.key)) if place else None
            if place is None or message is None:
                continue
            payload = arrival.payload[index * size : (index + 1) * size]
            message.buffer[place.address : place.address + len(payload)] = payload
            self.counters.received_bytes += len(payload)
            if not message.came:
                message.ends_ns = now + self._patience_ns + len(message.buffer) * self._byte_ps // 500
            message.came.add(place.address)
            if len(message.came) == len(self._offsets(message)):
                self._end(arrival.peer, place.key)

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        self._now = now
        bursts = []
        while self._waiting and len(bursts) < budget_packets:
            bursts.append(self._waiting.popleft())
            self.counters.sent_packets += 1
            self.counters.sent_bytes += len(bursts[-1].payload)
        return bursts

    def deadline(self) -> int | None:
        if self._waiting:
            return self._now
        return min((m.ends_ns for m in self._receives.values() if m.ends_ns is not None), default=None)

    def on_deadline(self, now: int) -> None:
        self._now = now
        for key in [key for key, m in self._receives.items() if m.ends_ns is not None and m.ends_ns <= now]:
            self._end(*key)

    def events(self) -> Sequence[Event]:
        events, self._events = self._events, []
        return events

    def idle(self) -> bool:
        return not self._waiting

    def _offsets(self, message: Incoming) -> range:
        return range(0, len(message.buffer), self._mtu)

    def _end(self, peer: int, tag: int) -> None:
        message = self._receives.pop((peer, tag))
        size = len(message.buffer)
        missing = tuple((at, min(at + self._mtu, size)) for at in self._offsets(message) if at not in message.came)
        self._events.append(Received(message.id, missing))


PARAMETERS = (
    Parameter("mtu", "payload bytes of a full packet", 1024, "MTU bytes", "for tests", least=256, most=4096),
    Parameter("omit", "which packet rank 0 leaves out; 0: none", 0, "the how manieth", "for tests"),
    Parameter("patience", "how long a message is waited for beyond twice its time", 1_000_000, "ns", "for tests"),
    Parameter("halt", "after how many collectives rank 0 halts the run; 0: never", 0, "collectives", "for tests"),
    Parameter("skip", "after how many collectives results are not used; 0: never", 0, "collectives", "for tests"),
)
ONCE = Transport("once", "every packet once, RoCE-framed", PARAMETERS, Once, early=True, lossy=True)
KEEPS = replace(ONCE, name="keeps", fill="keep")
PLAIN = replace(ONCE, name="plain", framing=plain(11000, BTH_BYTES + RETH_BYTES))
RELIABLE = replace(ONCE, name="reliable", lossy=False, framing=ROCE)  # which it is not: its losses are wrong values
