"""What is to come in a collective: which message a packet belongs to, and what has come of each."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from testbed.transport.bounded.bitmap import Bitmap
from testbed.transport.ubt.places import Place


class Incoming:
    """A message to receive. Packets that come before it is posted are not kept."""

    __slots__ = ("bytes", "first", "id", "marked", "mtu_bytes", "over", "peer", "stage", "there", "view")

    def __init__(self, place: Place, mtu_bytes: int) -> None:
        self.id = place.message.id
        self.peer = place.message.peer
        self.stage = place.message.step
        self.bytes = place.message.bytes
        self.first = place.first  # offset in packets
        self.mtu_bytes = mtu_bytes
        self.there = Bitmap(self.bytes, mtu_bytes)
        self.view: memoryview | None = None  # once posted
        self.marked = False  # its end has been seen
        self.over = False

    @property
    def whole(self) -> bool:
        return self.there.there == self.there.chunks

    @property
    def missing(self) -> tuple[tuple[int, int], ...]:
        """The bytes [first, last) that have not come."""
        return self.there.missing() if self.bytes else ()

    def fits(self, offset: int, payload_bytes: int) -> bool:
        """Whether a packet of it can be at `offset`, so long."""
        chunk, rest = divmod(offset - self.first, self.mtu_bytes)
        if rest or chunk >= self.there.chunks:
            return False
        first, end = self.there.span(chunk)
        return end - first == payload_bytes

    def put(self, offset: int, payload: memoryview) -> bool:
        """Take in a packet that fits; whether it is new. It is posted."""
        assert self.view is not None
        at = offset - self.first
        if not self.there.add(at // self.mtu_bytes):
            return False
        self.view[at : at + len(payload)] = payload
        return True


class Inbox:
    """The messages of one collective that a rank receives."""

    def __init__(self, places: Iterable[Place], mtu_bytes: int) -> None:
        self.messages = [Incoming(place, mtu_bytes) for place in places]
        self._by_id = {message.id: message for message in self.messages}
        self._streams: dict[tuple[int, int], tuple[list[int], list[Incoming]]] = defaultdict(lambda: ([], []))
        for place in places:
            firsts, messages = self._streams[place.message.peer, place.bucket]
            firsts.append(place.first)
            messages.append(self._by_id[place.message.id])

    def post(self, id: int, view: memoryview) -> Incoming:
        """Give a message its room; raises ValueError if it is none of those that were told of."""
        message = self._by_id.get(id)
        if message is None or len(view) != message.bytes:
            raise ValueError(f"receive {id} of {len(view)} bytes is none of the collective that was announced")
        message.view = view
        return message

    def find(self, peer: int, bucket: int, offset: int) -> Incoming | None:
        """That which a packet is of; None: of none of this collective."""
        if (peer, bucket) not in self._streams:
            return None
        firsts, messages = self._streams[peer, bucket]
        return messages[bisect_right(firsts, offset) - 1]
