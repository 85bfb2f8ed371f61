"""A transport without acknowledgements, windows or retransmissions, for closed forms: what is posted leaves at once.

Each packet is a RoCEv2 WRITE of its own, whose RETH holds the place in the message, the message's tag and its length.
All packets of a message whose length is a multiple of the MTU are of one size on the wire.
"""

from collections import deque
from collections.abc import Sequence

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
)
from testbed.wire.ethernet import UDP_WIRE_BYTES
from testbed.wire.roce import BTH_BYTES, ICRC_BYTES, RETH_BYTES, UDP_PORT, WRITE_ONLY, Header, Reth, decode, encode

MTU_BYTES = 1024
WIRE_BYTES = (
    UDP_WIRE_BYTES + BTH_BYTES + RETH_BYTES + MTU_BYTES + ICRC_BYTES
)  # of one packet, gap and preamble included


class Plain:
    """A `testbed.transport.endpoint.Endpoint`."""

    def __init__(self, path: Path, rank: int, peers: Sequence[Peer], settings: Settings, seed: int) -> None:  # noqa: ARG002
        self.counters = Counters()
        self._waiting: deque[tuple[int, Burst]] = deque()  # runs of one message, in the order posted
        self._most = path.max_burst_packets
        self._receives: dict[tuple[int, int], tuple[int, memoryview]] = {}
        self._left: dict[tuple[int, int], int] = {}  # bytes of a message that have not come
        self._events: list[Event] = []
        self._now = 0

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        self._now = now
        view = memoryview(buffer).cast("B")
        size = self._most * MTU_BYTES
        for first in range(0, len(view), size):
            part = view[first : first + size]
            headers = tuple(
                encode(Header(WRITE_ONLY, 0, 0, reth=Reth(first + offset, tag, len(view))))
                for offset in range(0, len(part), MTU_BYTES)
            )
            last = first + size >= len(view)
            burst = Burst(peer, UDP_PORT, 0, ECN_NOT_ECT, now, MTU_BYTES, headers, part)
            self._waiting.append((id if last else -1, burst))

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        assert completion == ALL
        self._now = now
        self._receives[peer, tag] = id, memoryview(buffer).cast("B")
        self._left.setdefault((peer, tag), len(buffer))

    def receive(self, arrival: Arrival, now: int) -> None:
        self._now = now
        for index, data in enumerate(arrival.headers):
            reth = decode(data).reth
            assert reth is not None
            payload = arrival.payload[index * MTU_BYTES : (index + 1) * MTU_BYTES]
            key = arrival.peer, reth.key
            receive, buffer = self._receives[key]
            buffer[reth.address : reth.address + len(payload)] = payload
            self._left[key] -= len(payload)
            self.counters.received_packets += 1
            if not self._left[key]:
                self._events.append(Received(receive))

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:  # noqa: ARG002
        if not self._waiting:
            return ()
        sent, burst = self._waiting.popleft()
        if sent >= 0:
            self._events.append(Sent(sent))
        return (burst,)

    def deadline(self) -> int | None:
        return self._now if self._waiting or self._events else None

    def on_deadline(self, now: int) -> None:
        self._now = now

    def events(self) -> Sequence[Event]:
        events, self._events = self._events, []
        return events

    def idle(self) -> bool:
        return not self._waiting


PLAIN = Transport("plain", "no acknowledgements", (), Plain, early=True)
