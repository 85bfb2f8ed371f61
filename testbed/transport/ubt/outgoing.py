"""A message to send."""

from testbed.transport.bounded.bitmap import Bitmap
from testbed.transport.ubt.places import Place


class Outgoing:
    """Chunks of it leave in order; `next` is the first that never has.

    acknowledged: which are there; None: nobody tells. repeated: those that were sent more than once.
    """

    __slots__ = (
        "acknowledged",
        "bucket",
        "chunks",
        "first",
        "id",
        "last_from",
        "mtu_bytes",
        "next",
        "peer",
        "repeated",
        "stage",
        "view",
    )

    def __init__(self, place: Place, view: memoryview, mtu_bytes: int, last: float, *, reliable: bool) -> None:
        self.id = place.message.id
        self.peer = place.message.peer
        self.stage = place.message.step
        self.bucket = place.bucket
        self.first = place.first
        self.view = view
        self.mtu_bytes = mtu_bytes
        self.chunks = max(1, -(-len(view) // mtu_bytes))
        self.next = 0
        self.acknowledged = Bitmap(len(view), mtu_bytes) if reliable else None
        self.repeated: set[int] = set()
        # Packets that begin in the last share of it are marked; its last packet always is, or short ones had no end.
        self.last_from = self.first + min((self.chunks - 1) * mtu_bytes, len(view) - int(last * len(view)))

    @property
    def done(self) -> bool:
        """Nothing of it will be sent (again)."""
        if self.acknowledged is None:
            return self.next == self.chunks
        return self.acknowledged.there == self.chunks

    def offsets(self, chunk: int, count: int) -> range:
        """Where `count` packets from `chunk` on begin, as they say."""
        begin = self.first + chunk * self.mtu_bytes
        return range(begin, begin + count * self.mtu_bytes, self.mtu_bytes)

    def payload(self, chunk: int, count: int) -> memoryview:
        return self.view[chunk * self.mtu_bytes : (chunk + count) * self.mtu_bytes]

    def chunk_at(self, offset: int) -> int | None:
        """Which of its packets says `offset`."""
        chunk, rest = divmod(offset - self.first, self.mtu_bytes)
        return chunk if not rest and 0 <= chunk < self.chunks else None
