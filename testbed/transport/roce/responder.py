"""The receiving half of a queue pair: packets in sequence into posted buffers, acknowledgements back."""

from dataclasses import dataclass
from typing import NamedTuple

from testbed.transport.endpoint import Counters, Event, Failed, Received
from testbed.transport.roce.address import Address
from testbed.transport.roce.machine import FOLLOWS, RESPONDER, Met, Reaction, ResponderState
from testbed.transport.roce.parameters import Constants
from testbed.wire.roce import (
    CREDITS_UNLIMITED,
    NAK_INVALID_REQUEST,
    NAK_REMOTE_ACCESS,
    NAK_SEQUENCE,
    RNR_NAK,
    Aeth,
    Header,
    Operation,
    Position,
    Verb,
    acknowledgement,
    psn_difference,
)


@dataclass(slots=True)
class _Receive:
    id: int
    tag: int
    view: memoryview


@dataclass(slots=True)
class _Incoming:
    """A message under way: where it goes, how long it is (SEND: at most), and how much of it is there."""

    verb: Verb
    receive: _Receive
    first: int
    length: int
    filled: int = 0


class Receiving(NamedTuple):
    """What a responder has come to without anything lost."""

    expected: int  # sequence number
    messages: int
    since_acknowledged: int
    incoming: tuple[int, int, memoryview, int] | None  # the WRITE under way: id, tag, all of its receive, bytes there
    acknowledge: bool


class _RefusedError(Exception):
    """A packet in sequence that cannot be executed; answered by a NAK with this syndrome."""

    def __init__(self, syndrome: int, reason: str) -> None:
        super().__init__(reason)
        self.syndrome = syndrome
        self.reason = reason


class Responder:
    """Executes what comes in sequence; `acknowledgement` is what it then has to say.

    echoes: each acknowledgement says by its BECN bit whether the packets that it covers came marked. Packets that did
    and packets that did not are never covered by one, so that the sender can count them, as DCTCP's receiver sees to
    (RFC 8257, section 3.2). The bit is our choice: InfiniBand's congestion control may set it in an acknowledgement
    (IBTA annex A10, recalled); RoCEv2 knows it in CNPs alone.
    """

    def __init__(
        self, constants: Constants, address: Address, counters: Counters, events: list[Event], echoes: bool
    ) -> None:
        self._constants = constants
        self._address = address
        self._counters = counters
        self._events = events
        self._state = ResponderState.LISTENING
        self._posted: dict[int, list[_Receive]] = {}  # by tag; with SEND, which names none, all by 0
        self._expected = address.peer_first_psn
        self._messages = 0
        self._incoming: _Incoming | None = None
        self._since_acknowledged = 0
        self._acknowledge = False
        self._nak: int | None = None
        self._echoes = echoes
        self._marked = False  # the last packet in sequence came so
        self._owed: list[bytes] = []  # acknowledgements of what came before the marks changed

    @property
    def speaks(self) -> bool:
        """An acknowledgement is due."""
        return self._acknowledge or self._nak is not None or bool(self._owed)

    def post(self, id: int, tag: int, view: memoryview) -> None:
        """Post a receive."""
        receive, key = _Receive(id, tag, view), self._key(tag)
        if (queue := self._posted.get(key)) is not None:
            queue.append(receive)
        else:
            self._posted[key] = [receive]

    def resume(self, receiving: Receiving) -> None:
        """Go on, as one to which nothing came yet, from what another has come to."""
        self._expected, self._messages = receiving.expected, receiving.messages
        self._since_acknowledged, self._acknowledge = receiving.since_acknowledged, receiving.acknowledge
        if receiving.incoming is not None:
            number, tag, view, filled = receiving.incoming
            receive = _Receive(number, tag, view)
            self._incoming = _Incoming(Verb.WRITE, receive, 0, receive.view.nbytes, filled)

    def fail(self, reason: str) -> None:
        """End all receives with `reason`."""
        waiting = [self._incoming.receive] if self._incoming else []
        waiting += [receive for queue in self._posted.values() for receive in queue]
        self._events += [Failed(receive.id, self._address.peer, reason) for receive in waiting]
        self._posted.clear()
        self._owed.clear()
        self._incoming = self._nak = None
        self._acknowledge = False

    def acknowledgement(self) -> bytes:
        """The packet that is due."""
        if self._owed:
            return self._owed.pop(0)
        syndrome, psn = CREDITS_UNLIMITED, self._expected - 1
        if self._nak is not None:
            syndrome, psn = self._nak, self._expected
            if syndrome >> 5 == RNR_NAK >> 5:
                self._counters.extra["rnr_naks"] = self._counters.extra.get("rnr_naks", 0) + 1
            else:
                self._counters.naks += 1
        self._acknowledge, self._nak, self._since_acknowledged = False, None, 0
        return self._packet(syndrome, psn)

    def take(self, header: Header, count: int, asks: bool, payload: memoryview, marked: bool) -> str | None:
        """Take in `count` packets that go on from `header` (more than one: middle ones); what is bad, if anything.

        asks: the last of them asks for an acknowledgement. marked: all of them came so.
        """
        ahead = psn_difference(header.psn, self._expected & 0xFFFFFF)
        if ahead > 0:
            self._react(Met.AHEAD)
            self._counters.out_of_order += count
            return None
        if ahead < 0:
            self._react(Met.BEHIND)
            self._counters.duplicates += min(count, -ahead)
            if count + ahead <= 0:
                return None
        if self._echoes and marked != self._marked:
            self._turn(marked)
        if ahead:
            count, payload = count + ahead, payload[-ahead * self._constants.mtu_bytes :]
        return self._execute(header, count, asks, payload)

    def take_message(
        self, first: Header, last: Header, count: int, asks: bool, payload: memoryview, marked: bool
    ) -> bool:
        """Take in all packets of a WRITE at once, if they are expected and fit; else do nothing, and say False.

        For the rest as `take`, which takes the first, the middle ones and the last of them one after another.
        """
        reth, size, mtu_bytes = first.reth, len(payload), self._constants.mtu_bytes
        if reth is None or self._constants.verb is not Verb.WRITE or self._incoming is not None:
            return False
        if first.psn != self._expected & 0xFFFFFF:
            return False
        queue = self._posted.get(reth.key)
        fits = not reth.address and reth.length == size and (count - 1) * mtu_bytes < size <= count * mtu_bytes
        if not queue or not fits or last.immediate != reth.key or queue[0].view.nbytes < size:
            return False
        if self._echoes and marked != self._marked:
            self._turn(marked)
        self._react(Met.EXPECTED)
        receive = queue[0]
        self._take_posted(receive)
        receive.view[:size] = payload
        self._count(count, size, asks)
        self._complete(receive, 0, size)
        return True

    def _turn(self, marked: bool) -> None:
        """What comes now is marked and what came before was not, or the other way round."""
        if self._since_acknowledged:
            self._owed.append(self._packet(CREDITS_UNLIMITED, self._expected - 1))
            self._acknowledge, self._since_acknowledged = False, 0
        self._marked = marked

    def _packet(self, syndrome: int, psn: int) -> bytes:
        aeth = Aeth(syndrome, self._messages & 0xFFFFFF)
        return acknowledgement(self._address.remote_qp, psn & 0xFFFFFF, aeth, self._marked)

    def _react(self, met: Met, refusal: int = NAK_INVALID_REQUEST) -> None:
        """Drive the table."""
        self._state, reaction = RESPONDER[self._state, met]
        match reaction:
            case Reaction.EXECUTE:
                self._nak = None
            case Reaction.ACKNOWLEDGE_AGAIN:
                self._acknowledge = True
            case Reaction.NAK_SEQUENCE:
                self._nak = NAK_SEQUENCE
            case Reaction.NAK_NOT_READY:
                self._nak = RNR_NAK | self._constants.rnr_timer
            case Reaction.NAK_REFUSED:
                self._nak = refusal

    def _execute(self, header: Header, count: int, asks: bool, payload: memoryview) -> str | None:
        operation = header.operation
        try:
            incoming = self._place(header, operation, count, len(payload))
        except _RefusedError as refused:
            self._react(Met.BROKEN, refused.syndrome)
            return refused.reason
        if incoming is None:
            self._react(Met.UNPOSTED)
            return None
        self._react(Met.EXPECTED)
        start = incoming.first + incoming.filled
        incoming.receive.view[start : start + len(payload)] = payload
        incoming.filled += len(payload)
        self._count(count, len(payload), asks)
        if operation.ends:
            self._incoming = None
            self._complete(incoming.receive, incoming.first, incoming.first + incoming.filled)
        return None

    def _count(self, count: int, size: int, asks: bool) -> None:
        """So many packets with so many bytes were executed."""
        self._counters.received_bytes += size
        self._expected += count
        self._since_acknowledged += count
        self._acknowledge = self._acknowledge or asks or self._since_acknowledged >= self._constants.ack_every_packets

    def _place(self, header: Header, operation: Operation, count: int, size: int) -> _Incoming | None:
        """The message that these packets are part of; None: no receive is posted for it. Raises _RefusedError."""
        verb, position, ends = operation.verb, operation.position, operation.ends
        assert verb is not None
        assert position is not None
        mtu_bytes = self._constants.mtu_bytes
        under_way = self._incoming.verb if self._incoming else None
        if verb is not self._constants.verb or (verb, position) not in FOLLOWS[under_way]:
            raise _RefusedError(NAK_INVALID_REQUEST, "bad_sequence")
        if ends and verb is Verb.WRITE and not operation.immediate:
            raise _RefusedError(NAK_INVALID_REQUEST, "bad_sequence")
        if (size > mtu_bytes or (position is Position.LAST and not size)) if ends else size != count * mtu_bytes:
            raise _RefusedError(NAK_INVALID_REQUEST, "bad_length")
        incoming = self._incoming or self._begin(header)
        if incoming is None:
            return None
        left = incoming.length - incoming.filled - size
        exact = verb is Verb.WRITE
        if left < 0 or (exact and (left > 0 if ends else left == 0)):
            raise _RefusedError(NAK_INVALID_REQUEST, "bad_length")
        if operation.immediate and header.immediate != incoming.receive.tag:
            raise _RefusedError(NAK_INVALID_REQUEST, "bad_tag")
        if self._incoming is None:
            self._take_posted(incoming.receive)
        self._incoming = incoming
        return incoming

    def _begin(self, header: Header) -> _Incoming | None:
        """The message that `header` begins, for the receive it goes to, which stays posted."""
        queue = self._posted.get(header.reth.key if header.reth else 0)
        if not queue:
            return None
        receive = queue[0]
        if header.reth is None:
            return _Incoming(Verb.SEND, receive, 0, receive.view.nbytes)
        if header.reth.address + header.reth.length > receive.view.nbytes:
            raise _RefusedError(NAK_REMOTE_ACCESS, "bad_access")
        return _Incoming(Verb.WRITE, receive, header.reth.address, header.reth.length)

    def _take_posted(self, receive: _Receive) -> None:
        queue = self._posted[self._key(receive.tag)]
        queue.pop(0)
        if not queue:
            del self._posted[self._key(receive.tag)]

    def _complete(self, receive: _Receive, begin: int, end: int) -> None:
        """A message has filled the bytes [begin, end) of a receive."""
        self._messages += 1
        size = receive.view.nbytes
        missing: tuple[tuple[int, int], ...] = ()
        if begin or end < size:
            missing = tuple((first, last) for first, last in ((0, begin), (end, size)) if first < last)
        self._events.append(Received(receive.id, missing))

    def _key(self, tag: int) -> int:
        return tag if self._constants.verb is Verb.WRITE else 0
