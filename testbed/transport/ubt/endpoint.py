"""One rank's end of UBT.

It is told of each collective before that begins, and so knows its stages. What comes is placed where it says; a message
is received when all of it is there, or when its stage ends without. Packets of what is over are thrown away, and what a
peer is known to be past is not sent to it (our choice: nobody would look at it). In warm-up, or in the first collective
if there is none, nothing is lost, unless t_B is given: see `repeating`.
"""

from collections import deque
from collections.abc import Iterable, Sequence

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
    Operation,
    Path,
    Peer,
    Received,
    Sent,
    as_bytes,
)
from testbed.transport.roce.address import address
from testbed.transport.roce.flights import Line
from testbed.transport.settings import Settings
from testbed.transport.ubt.bounds import Bounds, Ending, Silence
from testbed.transport.ubt.flow import Flow
from testbed.transport.ubt.incast import Incast
from testbed.transport.ubt.outgoing import Outgoing
from testbed.transport.ubt.parameters import Constants
from testbed.transport.ubt.places import Place, bucket_of, places
from testbed.transport.ubt.receiving import Inbox, Incoming
from testbed.transport.ubt.safeguard import Safeguard
from testbed.transport.ubt.sending import Outbox
from testbed.transport.ubt.stages import Course, Stage
from testbed.wire import MalformedError
from testbed.wire.ethernet import UDP_WIRE_BYTES
from testbed.wire.ubt import FEEDBACK, HEADER_BYTES, LAST, MOST_TIMEOUT, NOTICE, Header, decode, encode

_NOTHING = memoryview(b"")


class UbtEndpoint:
    """A `testbed.transport.endpoint.Endpoint` that is `Informed` and `Guarded`.

    counters.timeouts are stages that ended at t_B, and timers of packets in warm-up; extra has `ended_early` (stages),
    `late` (packets of what is over), `unposted` (of what is to come), `unsent` (messages, part of which nobody waited
    for any more), `skipped` (updates) and each kind of bad packet.
    """

    def __init__(self, path: Path, rank: int, peers: Sequence[Peer], settings: Settings, seed: int) -> None:
        self.counters = Counters()
        self._path = path
        self._rank = rank
        self._peers = tuple(peers)
        self._ranks = frozenset(peer.rank for peer in peers) - {rank}
        self._settings = settings
        self._seed = seed
        self._constants = constants = Constants.of(path, settings.values)
        self._line = Line(path.rate_bps)
        self._bounds = Bounds(constants)
        self._silence = Silence(constants)
        self._incast = Incast(constants, len(self._ranks))
        self._safeguard = Safeguard(constants)
        self._outbox = Outbox(
            constants, self._flow, lambda: self._incast.receivers, self._stamp, self._sent, self.counters
        )
        self._inbox = Inbox((), constants.mtu_bytes)
        self._course = self._course_of((), bounded=False)
        self._sends: dict[int, Place] = {}
        self._receivers: dict[int, list[int]] = {}  # by stage, whom this rank sends to
        self._reliable = False
        self._begun = False  # there was a collective
        self._number = 0
        self._owed: deque[tuple[int, Header]] = deque()
        self._reached: dict[int, int] = {}  # by peer: the latest stage that it is known to have come to
        self._unanswered: dict[int, int] = {}  # packets of a peer since it was answered
        self._lost: dict[int, str] = {}  # peers that were given up, and why
        self._events: list[Event] = []
        self._now = 0

    # --- the collective

    def begin(self, operation: Operation, now: int) -> None:
        self._now = now
        self._reliable = self._constants.bound_ns is None and (operation.warmup or not self._begun)
        self._begun, self._number = True, operation.number
        sends = [message for message in operation.messages if message.send]
        receives = [message for message in operation.messages if not message.send]
        self._sends = {place.message.id: place for place in places(operation.number, sends)}
        self._inbox = Inbox(places(operation.number, receives), self._constants.mtu_bytes)
        self._receivers = {}
        for message in sends:
            self._receivers.setdefault(message.step, []).append(message.peer)
        stages = [Stage(number) for number in range(1 + max((each.step for each in operation.messages), default=-1))]
        for message in receives:
            stage = stages[message.step]
            stage.absent.add(message.peer)
            stage.left += 1
            stage.unmarked += 1
            stage.expected_bytes += message.bytes
        self._course = self._course_of(stages, bounded=not self._reliable)
        self._unanswered.clear()
        self._reached.clear()
        self._outbox.begin()

    def start(self, now: int) -> None:
        self._now = now
        self._course.start(now)
        self._advance()

    def skips(self) -> bool:
        return self._safeguard.skips

    def post_send(self, id: int, peer: int, tag: int, buffer: Buffer, now: int) -> None:  # noqa: ARG002
        """Raises ValueError for what was not announced by `begin`."""
        self._now = now
        place, view = self._sends.get(id), as_bytes(buffer)
        if place is None or len(view) != place.message.bytes:
            raise ValueError(f"send {id} of {len(view)} bytes is none of the collective that was announced")
        if self._reliable and peer in self._lost:
            self._events.append(Failed(id, peer, self._lost[peer]))
            return
        if place.message.step < self._reached.get(peer, 0) and not self._reliable:
            self._count("unsent")
            self._sent(id)
            return
        message = Outgoing(place, view, self._constants.mtu_bytes, self._constants.last, reliable=self._reliable)
        self._outbox.post(message)

    def post_receive(
        self,
        id: int,
        peer: int,
        tag: int,  # noqa: ARG002
        buffer: memoryview,
        now: int,
        completion: Completion = ALL,
    ) -> None:
        """Raises ValueError for what was not announced by `begin`. `completion`: a stage ends as it ends."""
        self._now = now
        if completion != ALL:
            raise ValueError("UBT ends receives by its own bounds")
        message = self._inbox.post(id, as_bytes(buffer))
        if message.over:
            self._events.append(Received(id, message.missing))
        elif self._reliable and peer in self._lost:
            self._fail(message, self._lost[peer])

    # --- packets

    def receive(self, arrival: Arrival, now: int) -> None:
        self._now = now
        count, size = len(arrival.headers), arrival.segment_bytes
        self.counters.received_packets += count
        if arrival.ecn == ECN_CE:
            self.counters.ecn_marked += count
        if arrival.peer not in self._ranks:
            self.counters.refuse("bad_peer", count)
            return
        payload = memoryview(arrival.payload)
        for index, header in enumerate(arrival.headers):
            end = (index + 1) * size if index + 1 < count else len(payload)
            try:
                problem = self._take(arrival.peer, decode(header), payload[index * size : end])
            except MalformedError:
                problem = "bad_header"
            if problem:
                self.counters.refuse(problem, 1)

    def transmit(self, now: int, budget_packets: int) -> Sequence[Burst]:
        self._now = now
        bursts: list[Burst] = []
        while self._owed and len(bursts) < budget_packets:
            bursts.append(self._control(*self._owed.popleft()))
        bursts += self._outbox.transmit(now, budget_packets - len(bursts))
        return bursts

    def deadline(self) -> int | None:
        if self._owed:
            return self._now
        at = [each for each in (self._outbox.deadline(self._now), self._course.deadline()) if each is not None]
        return min(at, default=None)

    def on_deadline(self, now: int) -> None:
        self._now = now
        for peer in self._outbox.on_deadline(now):
            self._give_up(peer)
        self._advance(due=True)

    def events(self) -> Sequence[Event]:
        if not self._events:
            return ()
        events = tuple(self._events)
        self._events.clear()
        return events

    def idle(self) -> bool:
        return self._outbox.idle and not self._owed

    # --- inside

    def _take(self, peer: int, header: Header, payload: memoryview) -> str | None:
        """Take a packet in; what is bad about it, if anything."""
        if header.mark == FEEDBACK:
            self._heed(peer, header)
            packets = 1 if self._reliable else self._constants.feedback_every
            self._outbox.answered(peer, header.bucket, header.offset, packets, self._now)
            return None
        if header.mark == NOTICE:
            if header.bucket != bucket_of(self._number, copies=False) or header.offset >= len(self._course.stages):
                self._count("late")
                return None
            self._heed(peer, header, header.offset)
            self._came(peer, header.offset)
            self._is_past(peer, header.offset)
            return None
        message = self._inbox.find(peer, header.bucket, header.offset)
        if message is None:
            self._count("late")
            return None
        if not message.fits(header.offset, len(payload)):
            return "bad_place"
        self._place(message, header, payload)
        return None

    def _place(self, message: Incoming, header: Header, payload: memoryview) -> None:
        if message.view is None and not message.over:
            self._count("unposted")  # nor acknowledged: it is sent again, or lost
            return
        self._answer(message, header)
        if message.over:
            if self._reliable:
                self.counters.duplicates += 1
            else:
                self._count("late")
            return
        stage = self._course.stages[message.stage]
        stage.heard_ns = self._now
        if header.mark == LAST and not message.marked:
            message.marked = True
            stage.unmarked -= 1
            self._heed(message.peer, header, message.stage)
        if not message.put(header.offset, payload):
            self.counters.duplicates += 1
            return
        self.counters.received_bytes += len(payload)
        stage.received_bytes += len(payload)
        if message.whole:
            self._end(message, stage)
            self._events.append(Received(message.id))
        if not stage.left or message.peer in stage.absent:
            self._came(message.peer, message.stage)

    def _answer(self, message: Incoming, header: Header) -> None:
        """Acknowledge a packet, or tell of it for its round trip, if it is time to."""
        peer = message.peer
        if not self._reliable:
            if not self._outbox.flow(peer).asks:
                return
            self._unanswered[peer] = self._unanswered.get(peer, 0) + 1
            if self._unanswered[peer] < self._constants.feedback_every:
                return
            self._unanswered[peer] = 0
        self._owed.append((peer, Header(header.bucket, header.offset, mark=FEEDBACK, incast=self._incast.asked)))

    def _heed(self, peer: int, header: Header, stage: int | None = None) -> None:
        """What a header says of its sender: how many it asks for, and how long it took for the stage before."""
        self._incast.heard(peer, header.incast)
        if stage is not None and header.timeout:
            before = (stage - 1) % len(self._course.stages)
            self._bounds.stamped(before, peer, header.timeout * self._constants.tick_ns)

    def _came(self, peer: int, stage: int) -> None:
        self._course.present(peer, stage)
        self._advance()

    def _is_past(self, peer: int, stage: int) -> None:
        """A peer has come to a stage, and waits for nothing of those before."""
        self._reached[peer] = max(stage, self._reached.get(peer, 0))
        if not self._reliable:
            for each in self._outbox.drop(peer, stage):
                self._count("unsent")
                self._sent(each)

    def _advance(self, *, due: bool = False) -> None:
        """Let stages end that do by now, and tell those who wait for this rank in the next."""
        ended = self._course.advance(self._now, due=due)
        for stage, ending in ended:
            self._count_ending(ending)
            for message in self._inbox.messages:
                if message.stage == stage.number and not message.over:
                    self._end(message, stage)
                    if message.view is not None:
                        self._events.append(Received(message.id, message.missing))
            if stage.expected_bytes and not self._reliable:
                self._incast.ended(stage.expected_bytes - stage.received_bytes)
            following = stage.number + 1
            timeout, incast = self._stamp(following)
            bucket = bucket_of(self._number, copies=False)
            for peer in self._receivers.get(following, ()):
                if peer not in self._lost:
                    self._owed.append((peer, Header(bucket, following, timeout, NOTICE, incast)))
        if ended and self._course.over:
            self._finish()

    def _finish(self) -> None:
        """The collective has ended at this rank."""
        stages = self._course.stages
        expected = sum(stage.expected_bytes for stage in stages)
        reason = self._safeguard.ended(expected, expected - sum(stage.received_bytes for stage in stages))
        if self._safeguard.skips:
            self._count("skipped")
        if reason is not None:
            self._events.append(Failed(-1, self._rank, f"{reason}; {self._bounds.origin}"))

    def _end(self, message: Incoming, stage: Stage) -> None:
        message.over = True
        stage.left -= 1
        if not message.marked:
            message.marked = True
            stage.unmarked -= 1

    def _give_up(self, peer: int) -> None:
        """A peer acknowledges nothing."""
        reason = f"rank {peer} acknowledges nothing, after {self._constants.retries} retransmissions"
        self._lost[peer] = reason
        self._events += [Failed(each, peer, reason) for each in self._outbox.give_up(peer)]
        for message in self._inbox.messages:
            if message.peer == peer and not message.over and message.view is not None:
                self._fail(message, reason)
        self._advance()

    def _fail(self, message: Incoming, reason: str) -> None:
        self._end(message, self._course.stages[message.stage])
        self._events.append(Failed(message.id, message.peer, reason))

    def _sent(self, id: int) -> None:
        self._events.append(Sent(id))

    def _count_ending(self, ending: Ending) -> None:
        if ending is Ending.BOUND:
            self.counters.timeouts += 1
        elif ending is Ending.EARLY:
            self._count("ended_early")

    def _count(self, what: str, packets: int = 1) -> None:
        self.counters.extra[what] = self.counters.extra.get(what, 0) + packets

    def _stamp(self, stage: int) -> tuple[int, int]:
        """Timeout and incast for headers of packets of a stage: c of the one before, in ticks, rounded up."""
        cost_ns = self._bounds.cost_ns((stage - 1) % max(1, len(self._course.stages)))
        return min(MOST_TIMEOUT, -(-cost_ns // self._constants.tick_ns)), self._incast.asked

    def _control(self, peer: int, header: Header) -> Burst:
        self.counters.sent_packets += 1
        self._line.leave(self._now, 8 * (HEADER_BYTES + UDP_WIRE_BYTES))
        port = self._outbox.flow(peer).source_port
        return Burst(peer, port, self._constants.dscp, ECN_NOT_ECT, self._now, 0, (encode(header),), _NOTHING)

    def _flow(self, peer: int) -> Flow:
        control = self._settings.congestion.make(self._path, self._settings.congestion_values)
        port = address(self._rank, peer, self._peers, self._seed).source_port
        return Flow(port, control, self._line, self._constants.mtu_bytes)

    def _course_of(self, stages: Iterable[Stage], *, bounded: bool) -> Course:
        early, rtt_ns = self._constants.early, self._path.base_rtt_ns
        return Course(list(stages), self._bounds, self._silence, rtt_ns, bounded=bounded, early=early)
