"""DLCP's packets, how they are treated, and how much of a message may be missing."""

from collections.abc import Callable, Mapping, Sequence

from testbed.transport.bounded import Treatment
from testbed.transport.dlcp.classes import Classes
from testbed.transport.endpoint import ECN_NOT_ECT, Buffer, Operation
from testbed.wire import dlcp
from testbed.wire.bounded import Heard


class DlcpDialect:
    """A `testbed.transport.bounded.Dialect`. A pull never loses more than a push may."""

    by_bytes = True
    learned: Callable[[Mapping[str, float]], None] | None = None

    def __init__(self, classes: Classes, chunk_bytes: int, bound: float, pull_bound: float, control_dscp: int) -> None:
        self.chunk_bytes = chunk_bytes
        self.control_tos = (control_dscp, ECN_NOT_ECT)
        self.counts: dict[str, int] = {}
        self._classes = classes
        self._bound = bound
        self._pull_bound = min(bound, pull_bound)

    def data(self, tag: int, chunk: int, payload: Buffer, treatment: Treatment, sequence: int, *, asks: bool) -> bytes:
        magnitude = dlcp.LARGE if treatment.classes is None else treatment.classes[chunk]
        offset = chunk * self.chunk_bytes
        return dlcp.data(tag, treatment.layer, offset, len(payload), sequence, asks=asks, magnitude=magnitude)

    def probe(self, tag: int, number: int) -> bytes:
        return dlcp.probe(tag, number)

    def stop(self, tag: int) -> bytes:
        return dlcp.stop(tag)

    def holes(self, tag: int, first: int, number: int, packed_bytes: int) -> bytes:
        return dlcp.holes(tag, first, number, packed_bytes)

    def feedback(self, sequence: int, *, marked: bool) -> bytes:
        return dlcp.feedback(sequence, marked=marked)

    def notice(self) -> bytes:
        return dlcp.notice()

    def decode(self, header: bytes, payload: Buffer) -> Heard:
        return dlcp.decode(header, len(payload), self.chunk_bytes)

    def begin(self, operation: Operation) -> None:
        self._classes.begin(operation)

    def treatment(self, id: int, view: memoryview) -> Treatment:
        return self._classes.treatment(id, view)

    def bound(self, id: int) -> float:
        return self._pull_bound if self._classes.copies(id) else self._bound

    def received(self, id: int, view: memoryview, missing: Sequence[tuple[int, int]]) -> None:
        pass
