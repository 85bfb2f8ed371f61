"""One rank's end of OptiNIC: its queue pairs, its timers, and the timings that ranks tell each other.

What a collective needs is told by `begin` and `start` (`testbed.transport.endpoint.Informed`): a receive is then waited
for as long as `timeout` says. One that belongs to no collective is waited for from its posting on, as long as a first
collective over all that is posted would be.
"""

import heapq
from collections.abc import Sequence

from testbed.transport.connected import ConnectedEndpoint
from testbed.transport.endpoint import (
    ALL,
    Arrival,
    Buffer,
    Completion,
    Counters,
    Operation,
    Path,
    Peer,
    as_bytes,
)
from testbed.transport.optinic.control import Control
from testbed.transport.optinic.parameters import Constants
from testbed.transport.optinic.queue_pair import QueuePair
from testbed.transport.optinic.receiver import End, Receive, Receiver
from testbed.transport.optinic.sender import Sender
from testbed.transport.optinic.timeout import Costs, First, Stopwatch
from testbed.transport.roce.address import address
from testbed.transport.roce.flights import Line
from testbed.transport.settings import Settings
from testbed.wire.optinic import (
    MOST_TIMINGS,
    Timings,
    encode_timings,
)


class OptinicEndpoint(ConnectedEndpoint[QueuePair]):
    """A `testbed.transport.endpoint.Endpoint`, and `Informed`; lossy, and early.

    counters.timeouts are receives that the timer ended, .retransmitted_packets control messages. extra has late_packets
    (of messages that are over), preempted and partial (receives), expired (sends), parity_packets (sent),
    repaired_packets, gone_peers, cnps_received, and `bad_...` by kind of bad packet.
    """

    def __init__(self, path: Path, rank: int, peers: Sequence[Peer], settings: Settings, seed: int) -> None:
        super().__init__(frozenset(peer.rank for peer in peers) - {rank}, Counters(), once=False)
        self._path = path
        self._rank = rank
        self._peers = tuple(peers)
        self._settings = settings
        self._seed = seed
        self._constants = Constants.of(path, settings.values)
        self._line = Line(path.rate_bps)
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
        self._connection(peer).sender.post(id, tag, buffer, expires_ns, now)

    def post_receive(
        self, id: int, peer: int, tag: int, buffer: memoryview, now: int, completion: Completion = ALL
    ) -> None:
        self._now = now
        view, watch = as_bytes(buffer), self._watch
        packets = max(1, -(-view.nbytes // self._constants.mtu_bytes))
        step = watch.receives.get((peer, tag)) if watch is not None else None
        receive = Receive(id, tag, view, completion, packets, watch if step is not None else None, step)
        self._connection(peer).receiver.post(receive)
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
        super().receive(arrival, now)
        self._tell()

    def deadline(self) -> int | None:
        while self._timers and not self._timers[0][3].open:
            heapq.heappop(self._timers)
        times = (self._timers[0][0] if self._timers else None, super().deadline())
        return min((at for at in times if at is not None), default=None)

    def on_deadline(self, now: int) -> None:
        super().on_deadline(now)
        while self._timers and self._timers[0][0] <= now:
            _, _, peer, receive = heapq.heappop(self._timers)
            if receive.open:
                self._connections[peer].receiver.end(receive, now, End.CUT)
        self._tell()

    def _connect(self, peer: int) -> QueuePair:
        own, counters, events = address(self._rank, peer, self._peers, self._seed), self.counters, self._events
        congestion = self._settings.congestion.make(self._path, self._settings.congestion_values)
        hints = congestion.run_packets is not None
        return QueuePair(
            self._constants,
            own,
            Sender(self._constants, own, congestion, counters, events, self._line, self._path.base_rtt_ns),
            Receiver(self._constants, own.remote_qp, counters, events, hints=hints),
            Control(self._constants, own.remote_qp, counters),
            congestion,
            counters,
            self._line,
            self._hear,
        )

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
                self._connection(peer).control.post(encode_timings(part), self._now)
