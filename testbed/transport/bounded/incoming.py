"""One message at its receiver: what of it has come, and whether that is enough."""

import math

from testbed.transport.bounded.bitmap import Bitmap

_ROUNDING = 1e-9  # of a bound as a fraction


class Incoming:
    """The receive `id` into `view`, of which a share of `bound` may be missing: of its bytes, or of its chunks."""

    def __init__(self, id: int, view: memoryview, chunk_bytes: int, bound: float, *, by_bytes: bool) -> None:
        self.id = id
        self.view = view
        self.there = Bitmap(view.nbytes, chunk_bytes)
        self._by_bytes = by_bytes and view.nbytes > 0
        whole = view.nbytes if self._by_bytes else self.there.chunks
        self._lacks = max(1, math.ceil(whole * (1 - bound) - _ROUNDING))

    @property
    def content(self) -> bool:
        return self._lacks <= 0

    def fits(self, chunk: int, payload_bytes: int) -> bool:
        """Whether a chunk of the message is so long."""
        if not 0 <= chunk < self.there.chunks:
            return False
        first, last = self.there.span(chunk)
        return last - first == payload_bytes

    def take(self, chunk: int, payload: memoryview) -> bool:
        """Take in a chunk that fits; whether it had not come before."""
        if not self.there.add(chunk):
            return False
        first, last = self.there.span(chunk)
        self.view[first:last] = payload
        self._lacks -= last - first if self._by_bytes else 1
        return True
