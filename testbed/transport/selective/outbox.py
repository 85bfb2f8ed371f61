"""What was posted to one peer and is not done: messages as whole sequence numbers, one a packet, that never wrap."""

from bisect import bisect_right
from typing import NamedTuple

from testbed.transport.endpoint import Buffer, Event, Failed, Sent, as_bytes

_LARGEST_MESSAGE_BYTES = 1 << 31  # source: IBTA 9.7.2, message size


class Outgoing(NamedTuple):
    """A message; `first` is the number of its first packet."""

    id: int
    tag: int
    view: memoryview
    first: int
    packets: int
    after: int  # it may begin once all before this is acknowledged


class Outbox:
    """acknowledged <= next <= end: what the peer has all before, what is sent next for the first time, what was posted.

    Two messages of one tag are never under way together: packets that come in any order could not tell them apart.
    """

    def __init__(self, first: int, mtu_bytes: int, peer: int, events: list[Event]) -> None:
        self.acknowledged = self.next = self.end = first
        self._mtu_bytes = mtu_bytes
        self._peer = peer
        self._events = events
        self._messages: list[Outgoing] = []
        self._firsts: list[int] = []
        self._ends: dict[int, int] = {}  # by tag: where the last message of it ends

    def __bool__(self) -> bool:
        """Something is not acknowledged yet."""
        return bool(self._messages)

    @property
    def in_flight(self) -> int:
        return self.next - self.acknowledged

    def post(self, id: int, tag: int, buffer: Buffer) -> None:
        view = as_bytes(buffer)
        if not 0 <= tag < 1 << 32 or view.nbytes > _LARGEST_MESSAGE_BYTES:
            raise ValueError(f"a message of {view.nbytes} bytes with tag {tag}: tags have 32 bits, messages 2 GiB")
        packets = max(1, -(-view.nbytes // self._mtu_bytes))
        self._messages.append(Outgoing(id, tag, view, self.end, packets, self._ends.get(tag, self.acknowledged)))
        self._firsts.append(self.end)
        self.end += packets
        self._ends[tag] = self.end

    @property
    def may_begin(self) -> bool:
        """There is something that was never sent, and it need not wait for another message of its tag."""
        return self.next < self.end and self.message(self.next).after <= self.acknowledged

    def message(self, sequence: int) -> Outgoing:
        """The message that the packet `sequence` is of."""
        return self._messages[bisect_right(self._firsts, sequence) - 1]

    def payload(self, message: Outgoing, first: int, end: int) -> memoryview:
        """The bytes of the packets [first, end) of a message."""
        begin = first - message.first
        return message.view[begin * self._mtu_bytes : (end - message.first) * self._mtu_bytes]

    def acknowledge(self, acknowledged: int) -> None:
        """The peer has all before `acknowledged`."""
        self.acknowledged = acknowledged
        self.next = max(self.next, acknowledged)
        done = 0
        for message in self._messages:
            if message.first + message.packets > acknowledged:
                break
            done += 1
            self._events.append(Sent(message.id))
            if self._ends[message.tag] == message.first + message.packets:
                del self._ends[message.tag]
        if done:
            del self._messages[:done], self._firsts[:done]

    def fail(self, reason: str) -> None:
        """End all messages with `reason`."""
        self._events += [Failed(message.id, self._peer, reason) for message in self._messages]
        self._messages.clear()
        self._firsts.clear()
        self._ends.clear()
        self.acknowledged = self.next = self.end
