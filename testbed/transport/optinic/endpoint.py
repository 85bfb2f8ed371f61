"""One rank's end of OptiNIC: its queue pairs, its timers, and the timings that ranks tell each other.

What a collective needs is told by `begin` and `start` (`testbed.transport.endpoint.Informed`): a receive is then waited
for as long as `timeout` says. One that belongs to no collective is waited for from its posting on, as long as a first
collective over all that is posted would be.
"""

import heapq
from collections.abc import Sequence
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
    Operation,
    Path,
    Peer,
    as_bytes,
)
from testbed.transport.optinic.control import Control
from testbed.transport.optinic.parameters import Constants
from testbed.transport.optinic.receiver import End, Receive, Receiver
from testbed.transport.optinic.sender import Sender
from testbed.transport.optinic.timeout import Costs, First, Stopwatch
from testbed.transport.roce.address import Address, address
from testbed.transport.roce.flights import Line
from testbed.transport.roce.parameters import FRAME_BYTES
from testbed.transport.settings import Settings
from testbed.wire import MalformedError
from testbed.wire.optinic import (
    CONTROL_BIT,
    MOST_TIMINGS,
    UC_WRITE_ONLY_IMMEDIATE,
    Timings,
    decode_data,
    decode_other,
    decode_timings,
    encode_timings,
)
from testbed.wire.roce import ACKNOWLEDGE, CNP, SEND_ONLY, cnp, pad_bytes

_NOTHING = memoryview(b"")


@dataclass(slots=True)
class _QueuePair:
    address: Address
    sender: Sender
    receiver: Receiver
    control: Control
    congestion: CongestionControl
    notify: bool = False  # a CNP is due

    def deadline(self, now: int) -> int | None:
        if self.notify or self.receiver.speaks:
            return now
        times = (self.sender.deadline(now), self.control.deadline(now))
        return min((at for at in times if at is not None), default=None)


class OptinicEndpoint:
    """A `testbed.transport.endpoint.Endpoint`, and `Informed`; lossy, and early.

    counters.timeouts are receives that the timer ended, .retransmitted_packets control messages. extra has late_packets
    (of messages that are over), preempted and partial (receives), expired (sends), parity_packets (sent),
    repaired_packets, gone_peers, cnps_received, and `bad_...` by kind of bad packet.
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
        self._costs = Costs(self._constants.weight)
        self._first = First(path, len(peers), self._constants.first_slack)
        self._watch: Stopwatch | None = None
        self._told: dict[tuple[int, int, int], Timings] = {}  # by rank, collective and first step
        self._announced: list[tuple[int, Receive]] = []  # by peer: waiting for the start
        self._timers: list[tuple[int, int, int, Receive]] = []  # heap of (instant, order, peer, receive)
        self._order = 0
        self._loose: list[Receive] = []  # those that belong to no collective

    def begin(self, operation: Operation, now: int) -> None:
        self._now = now
        if self._watch is not None:
            number = self._watch.number
            others = [told for (rank, *_), told in self._told.items() if told.number == number and rank != self._rank]
            self._costs.learn(self._watch.timings(), others, warmup=self._watch.warmup)
            self._told = {key: told for key, told in self._told.items() if told.number > number}
        self._watch = Stopwatch(operation, self._costs, self._first, self._constants.slack)
        self._announced.clear()

    def start(self, now: int) -> None:
        self._now = now
        assert self._watch is not None
        self._watch.start_ns = now
        for peer, receive in self._announced:
            self._time(peer, receive)
        self._announced.clear()
        self._tell()

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:
        self._now = now
        expires_ns = self._watch.expires_ns if self._watch is not None else None
        self._queue_pair(peer).sender.post(id, tag, buffer, expires_ns, now)

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        self._now = now
        view, watch = as_bytes(buffer), self._watch
        packets = max(1, -(-view.nbytes // self._constants.mtu_bytes))
        step = watch.receives.get((peer, tag)) if watch is not None else None
        receive = Receive(id, tag, view, completion, packets, watch if step is not None else None, step)
        self._queue_pair(peer).receiver.post(receive)
        if completion.deadline_ns is not None:
            self._ring(completion.deadline_ns, peer, receive)
        if step is None:
            self._loose = [*(each for each in self._loose if each.open), receive]
            loose_bytes = sum(each.view.nbytes for each in self._loose)
            self._ring(now + self._first.timeout_ns(1, loose_bytes), peer, receive)
        elif watch is not None and watch.start_ns is not None:
            self._time(peer, receive)
        else:
            self._announced.append((peer, receive))

    def receive(self, arrival: Arrival, now: int) -> None:
        self._now = now
        count = len(arrival.headers)
        self.counters.received_packets += count
        if arrival.ecn == ECN_CE:
            self.counters.ecn_marked += count
        if arrival.peer not in self._ranks:
            self.counters.refuse("bad_peer", count)
            return
        queue_pair = self._queue_pair(arrival.peer)
        payload, size = memoryview(arrival.payload), arrival.segment_bytes
        for index, header in enumerate(arrival.headers):
            end = (index + 1) * size if index + 1 < count else len(payload)
            try:
                problem = self._take(queue_pair, header, payload[index * size : end], arrival.ecn == ECN_CE, now)
            except MalformedError:
                problem = "bad_header"
            if problem:
                self.counters.refuse(problem, 1)
            else:
                queue_pair.control.heard()
        self._tell()

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        self._now = now
        bursts: list[Burst] = []
        left = budget_packets
        for queue_pair in self._active.values():
            small = self._small(queue_pair, now, left)
            bursts += small
            left -= len(small)
        waiting = list(self._active.values())
        while waiting and left > 0:
            queue_pair = waiting.pop(0)
            ready_ns = queue_pair.sender.ready_ns(now)
            if ready_ns is None or ready_ns > now:
                continue
            bursts.append(queue_pair.sender.run(now, ready_ns, left))
            left -= bursts[-1].packets
            waiting.append(queue_pair)
            peer = queue_pair.address.peer
            self._active[peer] = self._active.pop(peer)  # to the end: the next call begins with the others
        return bursts

    def deadline(self) -> int | None:
        while self._timers and not self._timers[0][3].open:
            heapq.heappop(self._timers)
        earliest = self._timers[0][0] if self._timers else None
        for peer, queue_pair in list(self._active.items()):
            at = queue_pair.deadline(self._now)
            if at is None:
                del self._active[peer]
            elif earliest is None or at < earliest:
                earliest = at
        return earliest

    def on_deadline(self, now: int) -> None:
        self._now = now
        for queue_pair in self._active.values():
            queue_pair.sender.on_deadline(now)
            queue_pair.control.on_deadline(now)
        while self._timers and self._timers[0][0] <= now:
            _, _, peer, receive = heapq.heappop(self._timers)
            if receive.open:
                self._queue_pairs[peer].receiver.end(receive, now, End.CUT)
        self._tell()

    def events(self) -> Sequence[Event]:
        events = tuple(self._events)
        self._events.clear()
        return events

    def idle(self) -> bool:
        return not any(
            pair.sender.busy or pair.control.busy or pair.notify or pair.receiver.speaks
            for pair in self._queue_pairs.values()
        )

    def _queue_pair(self, peer: int) -> _QueuePair:
        """That to `peer`, made when first asked for; it may have something to do now."""
        queue_pair = self._queue_pairs.get(peer)
        if queue_pair is None:
            own, counters, events = address(self._rank, peer, self._peers, self._seed), self.counters, self._events
            congestion = self._settings.congestion.make(self._path, self._settings.congestion_values)
            hints = congestion.run_packets is not None
            queue_pair = self._queue_pairs[peer] = _QueuePair(
                own,
                Sender(self._constants, own, congestion, counters, events, self._line, self._path.base_rtt_ns),
                Receiver(self._constants, own.remote_qp, counters, events, hints=hints),
                Control(self._constants, own.remote_qp, counters),
                congestion,
            )
        self._active[peer] = queue_pair
        return queue_pair

    def _time(self, peer: int, receive: Receive) -> None:
        """Set the timer of a collective's receive, which has begun."""
        assert receive.watch is not None
        assert receive.step is not None
        at_ns = receive.watch.deadline_ns(receive.step)
        assert at_ns is not None
        self._ring(at_ns, peer, receive)

    def _ring(self, at_ns: int, peer: int, receive: Receive) -> None:
        self._order += 1
        heapq.heappush(self._timers, (at_ns, self._order, peer, receive))

    def _take(self, queue_pair: _QueuePair, encoded: bytes, payload: memoryview, marked: bool, now: int) -> str | None:
        """Take a packet in; what is bad about it, if anything. Raises MalformedError."""
        own = queue_pair.address
        if encoded[:1] == bytes((UC_WRITE_ONLY_IMMEDIATE,)):
            data = decode_data(encoded)
            if data.queue_pair != own.local_qp:
                return "bad_queue_pair"
            if marked and queue_pair.congestion.on_marked(now):
                queue_pair.notify = True
            return queue_pair.receiver.take(data, payload, marked, now)
        header = decode_other(encoded)
        if header.opcode != SEND_ONLY and header.destination_qp == own.local_qp:
            if header.opcode == ACKNOWLEDGE:
                return queue_pair.sender.hint(header, now)
            self._count("cnps_received")
            queue_pair.congestion.on_cnp(now)
            return None
        if header.opcode == CNP or header.destination_qp != own.local_qp | CONTROL_BIT:
            return "bad_queue_pair"
        if header.opcode == ACKNOWLEDGE:
            queue_pair.control.acknowledged(header.psn)
            return None
        if header.pad != pad_bytes(len(payload)):
            return "bad_padding"
        self._hear(own.peer, decode_timings(payload))
        queue_pair.control.came(header.psn)
        return None

    def _hear(self, rank: int, timings: Timings) -> None:
        """Keep what a rank measured of the present collective or of the next, which it may have begun before."""
        present = -1 if self._watch is None else self._watch.number
        if timings.steps and present <= timings.number <= present + 1:
            self._told[rank, timings.number, timings.steps[0][0]] = timings

    def _tell(self) -> None:
        """Once all that a collective was to bring is over: tell everyone what it took."""
        watch = self._watch
        if watch is None or watch.start_ns is None or not watch.over or watch.told:
            return
        watch.told = True
        timings = watch.timings()
        for first in range(0, len(timings.steps), MOST_TIMINGS):
            part = timings._replace(steps=timings.steps[first : first + MOST_TIMINGS])
            for peer in sorted(self._ranks):
                self._queue_pair(peer).control.post(encode_timings(part), self._now)

    def _small(self, queue_pair: _QueuePair, now: int, budget_packets: int) -> list[Burst]:
        """CNPs, hints and control messages that are due."""
        packets: list[tuple[int, bytes, Buffer]] = []
        if queue_pair.notify and budget_packets > 0:
            queue_pair.notify = False
            self.counters.cnps += 1
            packets.append((self._constants.cnp_dscp, cnp(queue_pair.address.remote_qp), _NOTHING))
        while queue_pair.receiver.speaks and budget_packets > len(packets):
            packets.append((self._constants.dscp, queue_pair.receiver.hint(), _NOTHING))
        due = queue_pair.control.due(now, budget_packets - len(packets))
        packets += [(self._constants.dscp, header, payload) for header, payload in due]
        self.counters.sent_packets += len(packets)
        for _, header, payload in packets:
            self._line.leave(now, 8 * (len(header) + len(payload) + pad_bytes(len(payload)) + FRAME_BYTES))
        own = queue_pair.address
        return [
            Burst(own.peer, own.source_port, dscp, ECN_NOT_ECT, now, len(payload), (header,), payload)
            for dscp, header, payload in packets
        ]

    def _count(self, name: str) -> None:
        self.counters.extra[name] = self.counters.extra.get(name, 0) + 1
