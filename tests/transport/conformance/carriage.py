"""Messages through a network, and the rules that all transports are held to while they are carried.

- Each send ends in one `Sent` or `Failed`, each receive in one `Received` or `Failed`, within the time that is stated;
  but who waits for a peer that has given up need not learn of it, and a transport may halt the run instead (an id < 0).
- What is received is bit-exact; of a transport that is lossy, every byte outside of the ranges that are missing, which
  are in order, apart, and within the message.
- Nothing is written beyond a buffer, nor into it once it was received; nothing is read of one once it was sent: all are
  written over at that instant. `Sent` comes before the peer has the bytes only of a transport that says so (`early`);
  it has them in a buffer of its own as long as no receive is posted (TCP).
- In the end all is idle and nothing is due; packets sent, less those lost and with those doubled, are those received.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from hypothesis import strategies as st

from testbed.transport import Endpoint, Path
from testbed.transport.endpoint import Failed, Informed, Message, Operation, Received, Sent
from tests.transport.conformance.network import Mangle, Watched
from tests.transport.conformance.subjects import Subject
from tests.transport.pump import PATH, Fate

MTU = 256
GUARD = b"\xa5" * 64
WITHIN_NS = 60 * 10**9  # each case ends in so much model time: a thousand times what any of them takes


class Parcel(NamedTuple):
    """A message of so many bytes from a rank to another; its receive is posted so late."""

    source: int
    target: int
    tag: int
    size: int
    late_ns: int = 0


SIZES = st.sampled_from([0, 1, 2, 3, MTU - 1, MTU, MTU + 1, 3 * MTU, 7 * MTU - 3, 20 * MTU + 1]) | st.integers(
    0, 12 * MTU
)


@st.composite
def parcels(draw: st.DrawFn, late: bool = False) -> tuple[Parcel, ...]:
    """Some among up to four ranks, with many tags in any order."""
    ranks = draw(st.integers(2, 4))
    pairs = [(source, target) for source in range(ranks) for target in range(ranks) if source != target]
    sizes = draw(st.lists(st.tuples(st.sampled_from(pairs), SIZES), min_size=1, max_size=8))
    tags = draw(st.permutations(range(len(sizes))))
    delays = st.sampled_from([0, 0, 30_000, 200_000]) if late else st.just(0)
    return tuple(Parcel(*pair, tag, size, draw(delays)) for (pair, size), tag in zip(sizes, tags, strict=True))


@dataclass
class Carried:
    """A parcel under way: its bytes, where they come from and go to, and what has happened to it."""

    parcel: Parcel
    data: bytes
    source: bytearray
    arena: bytearray
    posted: bool = False  # its receive
    sent: bool = False
    received: Received | None = None
    failures: list[Failed] = field(default_factory=list)

    @property
    def buffer(self) -> memoryview:
        return memoryview(self.arena)[len(GUARD) : len(self.arena) - len(GUARD)]


class Carriage:
    """Carries `parcels`, posted in this order, to the end of what happens; `check` what became of them then.

    forged: packets may come that nobody sent, or that are not as they were sent, and look right.
    """

    def __init__(
        self,
        subject: Subject,
        parcels: Sequence[Parcel],
        fate: Fate,
        *,
        seed: int = 1,
        budget_packets: int = 1000,
        burst_packets: int = 64,
        mangle: Mangle = lambda run: run,
        forged: bool = False,
        within_ns: int = WITHIN_NS,
        ends: Sequence[Endpoint] | None = None,
        begin_ns: int = 0,
        number: int = 0,
    ) -> None:
        self.subject = subject
        self.forged = forged
        self.halted = False
        ranks = 1 + max((max(each.source, each.target) for each in parcels), default=1)
        path = Path(PATH.rate_bps, PATH.base_rtt_ns, PATH.mtu_bytes, burst_packets)
        self.ends = ends or subject.ends(max(2, ranks), path, seed)
        self.network = Watched(
            self.ends,
            fate,
            now=begin_ns,
            until_ns=begin_ns + within_ns,
            early=subject.transport.early,
            most_packets=burst_packets,
            mangle=mangle,
            looks=self._look,
        )
        random = Random(seed)
        self.carried = [self._carried(parcel, random) for parcel in parcels]
        self._budget_packets = budget_packets
        self._seen = [0] * len(self.ends)
        self._begin(begin_ns, number, random)

    def run(self) -> "Carriage":
        self.network.run(self._budget_packets)
        return self

    def check(self, *, may_fail: bool = False, strangers: bool = False) -> None:
        """may_fail: messages may end as failed. strangers: packets came that nobody sent, and counts do not balance."""
        complete = not self.halted and (self.subject.gives_up or not may_fail)
        assert may_fail or not self.halted
        for each in self.carried:
            assert each.arena[: len(GUARD)] == each.arena[-len(GUARD) :] == GUARD, "written beyond the buffer"
            for failed in each.failures:
                assert failed.reason
            unsent, unreceived = ([failed.id % 2 == half for failed in each.failures] for half in (0, 1))
            if complete:
                assert each.sent or any(unsent), f"{each.parcel}: not sent"
                assert each.received or any(unreceived) or any(unsent), f"{each.parcel}: not received"
            assert may_fail or not each.failures, each.failures
            if each.received:
                assert bytes(each.buffer) == b"\xdd" * each.parcel.size, "written once it was received"
        if complete:
            self._check_end()
            if not strangers:
                self._check_counts()

    def missing_bytes(self) -> int:
        return sum(last - first for each in self.carried if each.received for first, last in each.received.missing)

    def _check_end(self) -> None:
        assert all(end.idle() for end in self.ends)
        assert [end.deadline() for end in self.ends] == [None] * len(self.ends)

    def _check_counts(self) -> None:
        network, total = self.network, self.network.totals()
        assert total["sent_packets"] == sum(burst.packets for _, _, burst in network.log)
        assert total["sent_bytes"] <= sum(len(burst.payload) for _, _, burst in network.log)  # control has some too
        assert total["sent_packets"] - network.lost + network.doubled == total["received_packets"]
        assert total["retransmitted_packets"] <= total["sent_packets"]
        assert total["malformed"] == 0
        if self.subject.reliable and not any(each.failures for each in self.carried):
            assert total["received_bytes"] == sum(each.parcel.size for each in self.carried)

    def _carried(self, parcel: Parcel, random: Random) -> Carried:
        data = random.randbytes(parcel.size)
        return Carried(parcel, data, bytearray(data), bytearray(GUARD + b"\xcc" * parcel.size + GUARD))

    def _begin(self, now: int, number: int, random: Random) -> None:
        """Tell those that want to know, post receives in any order, then sends. Ids: sends even, receives odd."""
        for rank, end in enumerate(self.ends):
            if isinstance(end, Informed):
                end.begin(self._operation(rank, number), now)
        receives = list(enumerate(self.carried))
        random.shuffle(receives)
        for index, each in receives:
            parcel = each.parcel

            def post(at: int, index: int = index, each: Carried = each, parcel: Parcel = parcel) -> None:
                each.posted = True
                self.ends[parcel.target].post_receive(2 * index + 1, parcel.source, parcel.tag, each.buffer, at)

            if parcel.late_ns:
                self.network.at(now + parcel.late_ns, post)
            else:
                post(now)
        for end in self.ends:
            if isinstance(end, Informed):
                end.start(now)
        for index, each in enumerate(self.carried):
            parcel = each.parcel
            self.ends[parcel.source].post_send(2 * index, parcel.target, parcel.tag, memoryview(each.source), now)

    def _operation(self, rank: int, number: int) -> Operation:
        """What a rank sends and receives, laid end to end in its gradient, as bytes that are copied."""
        messages, size = [], 0
        for index, parcel in enumerate(each.parcel for each in self.carried):
            for send, own, other in ((True, parcel.source, parcel.target), (False, parcel.target, parcel.source)):
                if own == rank:
                    message = Message(2 * index + (not send), send, False, other, parcel.tag, 0, size, parcel.size)
                    messages.append(message)
                    size += parcel.size
        return Operation(number, False, tuple(messages), 1, "uint8", (0,))

    def _look(self, _: int) -> None:
        """Note what has been completed, and write over what may be."""
        for rank, events in enumerate(self.network.events):
            for event in events[self._seen[rank] :]:
                if event.id >= 0:
                    self._note(rank, event)
                else:
                    assert isinstance(event, Failed)
                    self.halted = True
            self._seen[rank] = len(events)

    def _note(self, rank: int, event: Sent | Received | Failed) -> None:
        each = self.carried[event.id // 2]
        parcel = each.parcel
        assert rank == (parcel.target if event.id % 2 else parcel.source)
        if isinstance(event, Failed):
            assert event.id not in [failed.id for failed in each.failures]
            assert not (each.received if event.id % 2 else each.sent)
            each.failures.append(event)
        elif isinstance(event, Sent):
            assert event.id % 2 == 0
            assert not each.sent
            each.sent = True
            if self.subject.reliable and not self.subject.transport.early and not self.forged and each.posted:
                assert each.received or bytes(each.buffer) == each.data, f"{parcel}: sent, and is not there"
            each.source[:] = b"\xee" * parcel.size
        else:
            assert event.id % 2 == 1
            assert not each.received
            self._check_received(each, event)
            each.received = event
            each.buffer[:] = b"\xdd" * parcel.size

    def _check_received(self, each: Carried, event: Received) -> None:
        at = 0
        for first, last in event.missing:
            assert at <= first < last <= each.parcel.size, event.missing
            assert self.forged or each.buffer[at:first] == each.data[at:first], f"{each.parcel}: wrong bytes"
            at = last
        assert self.forged or each.buffer[at:] == each.data[at:], f"{each.parcel}: wrong bytes"
        assert self.forged or not (self.subject.reliable and event.missing)
