"""One rank's end of the RoCE transport: its queue pairs, and the packets between them and the driver."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.transport.congestion import CongestionControl
from testbed.transport.endpoint import (
    ALL,
    ECN_CE,
    ECN_NOT_ECT,
    Arrival,
    Buffer,
    Burst,
    Completion,
    Counters,
    Event,
    Failed,
    Path,
    Peer,
    as_bytes,
)
from testbed.transport.roce.address import Address, address
from testbed.transport.roce.flights import Line
from testbed.transport.roce.parameters import FRAME_BYTES, Constants
from testbed.transport.roce.requester import Requester, Sending
from testbed.transport.roce.responder import Receiving, Responder
from testbed.transport.settings import Settings
from testbed.wire import MalformedError
from testbed.wire.roce import (
    ACKNOWLEDGE,
    CNP,
    DEFAULT_PKEY,
    WRITE_ONLY_IMMEDIATE,
    cnp,
    consecutive,
    decode,
    pad_bytes,
    whole_message,
)

_NOTHING = memoryview(b"")


@dataclass(slots=True)
class _QueuePair:
    address: Address
    requester: Requester
    responder: Responder
    congestion: CongestionControl
    notify: bool = False  # a CNP is due

    @property
    def speaks(self) -> bool:
        """A CNP or an acknowledgement is due."""
        return self.notify or self.responder.speaks


class RoceEndpoint:
    """A `testbed.transport.endpoint.Endpoint` of reliable connections with go-back-N.

    counters.naks (without RNR NAKs) and .cnps count those sent; extra has rnr_naks (sent), naks_received, cnps_received
    and, for each kind of bad packet, `bad_...`; all of these last are in counters.malformed.
    """

    def __init__(self, path: Path, rank: int, peers: Sequence[Peer], settings: Settings, seed: int) -> None:
        self.counters = Counters()
        self._path = path
        self._rank = rank
        self._peers = tuple(peers)
        self._ranks = frozenset(peer.rank for peer in peers) - {rank}
        self._settings = settings
        self._seed = seed
        self._constants = Constants.of(path, settings.values)
        self._line = Line(path.rate_bps)
        self._queue_pairs: dict[int, _QueuePair] = {}
        self._active: dict[int, _QueuePair] = {}  # those with something to send or to wait for, the next to serve first
        self._events: list[Event] = []
        self._now = 0
        self._deadline_ns: int | None = None
        self._settled = False  # nothing has happened since that was worked out

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        self._now, self._settled = now, False
        queue_pair = self._queue_pair(peer)
        queue_pair.requester.post(id, tag, buffer, now)
        self._active[peer] = queue_pair

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        """`completion` other than all of it is for transports that lose; here all comes."""
        self._now, self._settled = now, False
        if completion is not ALL and completion != ALL:
            raise ValueError("a reliable connection completes a receive only as a whole")
        queue_pair = self._queue_pair(peer)
        if queue_pair.requester.failure:
            self._events.append(Failed(id, peer, queue_pair.requester.failure))
        else:
            queue_pair.responder.post(id, tag, as_bytes(buffer))

    def receive(self, arrival: Arrival, now: int) -> None:
        self._now, self._settled = now, False
        count = len(arrival.headers)
        self.counters.received_packets += count
        if arrival.ecn == ECN_CE:
            self.counters.ecn_marked += count
        if arrival.peer not in self._ranks:
            self.counters.refuse("bad_peer", count)
            return
        queue_pair = self._queue_pair(arrival.peer)
        self._active[arrival.peer] = queue_pair
        payload, segment_bytes = memoryview(arrival.payload), arrival.segment_bytes
        start = count if count > 1 and self._take_message(queue_pair, arrival, payload, now) else 0
        while start < count:
            taken = consecutive(arrival.headers, start) if count > 1 else 1
            end = start + taken
            piece = payload[start * segment_bytes : end * segment_bytes if end < count else len(payload)]
            problem = self._take(queue_pair, arrival.headers[start:end], arrival.ecn, piece, now)
            if problem:
                self.counters.refuse(problem, taken)
            start = end
        self._settle(queue_pair)

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        self._now, self._settled = now, False
        bursts: list[Burst] = []
        left = budget_packets
        for queue_pair in self._active.values():
            if queue_pair.speaks:
                control = self._control(queue_pair, now, left)
                bursts += control
                left -= len(control)
        waiting = list(self._active.values())
        while waiting and left > 0:
            queue_pair = waiting.pop(0)
            ready_ns = queue_pair.requester.ready_ns(now)
            if ready_ns is None or ready_ns > now:
                continue
            bursts.append(queue_pair.requester.run(now, ready_ns, left))
            left -= bursts[-1].packets
            waiting.append(queue_pair)
            peer = queue_pair.address.peer
            self._active[peer] = self._active.pop(peer)  # to the end: the next call begins with the others
        return bursts

    def deadline(self) -> int | None:
        if self._settled:
            return self._deadline_ns
        earliest: int | None = None
        for peer, queue_pair in list(self._active.items()):
            at = self._now if queue_pair.speaks else queue_pair.requester.deadline(self._now)
            if at is None:
                del self._active[peer]
            elif earliest is None or at < earliest:
                earliest = at
        self._deadline_ns, self._settled = earliest, True
        return earliest

    def on_deadline(self, now: int) -> None:
        self._now, self._settled = now, False
        for queue_pair in self._active.values():
            queue_pair.requester.on_deadline(now)
            self._settle(queue_pair)

    def events(self) -> Sequence[Event]:
        if not self._events:
            return ()
        events = tuple(self._events)
        self._events.clear()
        return events

    def idle(self) -> bool:
        return not any(pair.requester.busy or pair.speaks for pair in self._queue_pairs.values())

    def resume(
        self, queue_pairs: Iterable[tuple[int, Sending, Receiving]], active: Iterable[int], events: Iterable[Event]
    ) -> None:
        """Go on, as one that has done nothing yet, from what another has come to without anything lost.

        active: peers to whom something is to be sent or of whom something is awaited, the next to be served first.
        events: those that are not told of. Receives that wait for a message are then posted, and counters set.
        """
        for peer, sending, receiving in queue_pairs:
            queue_pair = self._queue_pair(peer)
            queue_pair.requester.resume(sending)
            queue_pair.responder.resume(receiving)
        self._active = {peer: self._queue_pairs[peer] for peer in active}
        self._events += events
        self._settled = False

    def _queue_pair(self, peer: int) -> _QueuePair:
        """That to `peer`, made when first asked for."""
        queue_pair = self._queue_pairs.get(peer)
        if queue_pair is None:
            own = address(self._rank, peer, self._peers, self._seed)
            congestion = self._settings.congestion.make(self._path, self._settings.congestion_values)
            queue_pair = self._queue_pairs[peer] = _QueuePair(
                own,
                Requester(self._constants, own, congestion, self.counters, self._events, self._line),
                Responder(self._constants, own, self.counters, self._events, congestion.run_packets is not None),
                congestion,
            )
        return queue_pair

    def _take_message(self, queue_pair: _QueuePair, arrival: Arrival, payload: memoryview, now: int) -> bool:
        """Take a run in at once if it is a whole message, and nothing is odd about it; else do nothing."""
        whole = whole_message(arrival.headers)
        if whole is None or arrival.segment_bytes != self._constants.mtu_bytes or queue_pair.requester.failure:
            return False
        first, last = whole
        if first.destination_qp != queue_pair.address.local_qp or first.pkey != DEFAULT_PKEY:
            return False
        marked, count = arrival.ecn == ECN_CE, len(arrival.headers)
        if first.pad or last.pad != pad_bytes(len(payload)):
            return False
        if not queue_pair.responder.take_message(first, last, count, last.ack_request, payload, marked):
            return False
        if marked and queue_pair.congestion.on_marked(now):
            queue_pair.notify = True
        return True

    def _take(
        self, queue_pair: _QueuePair, headers: Sequence[bytes], ecn: int, payload: memoryview, now: int
    ) -> str | None:
        """Take packets in, more than one only if `consecutive`; what is bad about them, if anything."""
        try:
            header = decode(headers[0])
        except MalformedError:
            return "bad_header"
        if header.destination_qp != queue_pair.address.local_qp or header.pkey != DEFAULT_PKEY:
            return "bad_queue_pair"
        if queue_pair.requester.failure:
            return None
        if header.opcode == CNP:
            self.counters.extra["cnps_received"] = self.counters.extra.get("cnps_received", 0) + 1
            queue_pair.congestion.on_cnp(now)
            return None
        if header.opcode == ACKNOWLEDGE:
            return queue_pair.requester.acknowledge(header, now)
        if ecn == ECN_CE and queue_pair.congestion.on_marked(now):
            queue_pair.notify = True
        if header.pad != pad_bytes(len(payload)):
            return "bad_padding"
        asks, marked, responder = headers[-1][8] > 0x7F, ecn == ECN_CE, queue_pair.responder
        if header.opcode == WRITE_ONLY_IMMEDIATE and responder.take_message(header, header, 1, asks, payload, marked):
            return None
        return responder.take(header, len(headers), asks, payload, marked)

    def _control(self, queue_pair: _QueuePair, now: int, budget_packets: int) -> list[Burst]:
        """The CNP and the acknowledgement that are due."""
        packets: list[tuple[int, bytes]] = []
        if queue_pair.notify and budget_packets > 0:
            queue_pair.notify = False
            self.counters.cnps += 1
            packets.append((self._constants.cnp_dscp, cnp(queue_pair.address.remote_qp)))
        while queue_pair.responder.speaks and budget_packets > len(packets):
            packets.append((self._constants.dscp, queue_pair.responder.acknowledgement()))
        self.counters.sent_packets += len(packets)
        for _, header in packets:
            self._line.leave(now, 8 * (len(header) + FRAME_BYTES))
        own = queue_pair.address
        return [
            Burst(own.peer, own.source_port, dscp, ECN_NOT_ECT, now, 0, (header,), _NOTHING) for dscp, header in packets
        ]

    def _settle(self, queue_pair: _QueuePair) -> None:
        """A failed requester takes the responder with it."""
        if queue_pair.requester.failure:
            queue_pair.responder.fail(queue_pair.requester.failure)
            queue_pair.notify = False
