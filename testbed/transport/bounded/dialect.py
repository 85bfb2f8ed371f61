"""What transports with bounded loss differ in: how packets look, how they go, how much may be missing."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from testbed.transport.endpoint import Buffer, Operation
from testbed.wire.bounded import Heard


class Treatment(NamedTuple):
    """How the packets of a message go. priority: the lowest is sent first. classes: of each chunk, an index of `tos`;
    None: all have class 0. tos: (DSCP, ECN field) of each class. layer: which of the gradient."""

    priority: int = 0
    classes: Sequence[int] | None = None
    tos: Sequence[tuple[int, int]] = ((0, 0),)
    layer: int = 0


class Dialect(Protocol):
    """Of one endpoint. Messages are told by the ids they are posted with."""

    chunk_bytes: int
    by_bytes: bool
    """Whether a bound is on the bytes that are missing; else on the chunks."""

    counts: dict[str, int]
    """What it counts besides what the endpoint does, which goes on in it."""

    learned: Callable[[Mapping[str, float]], None] | None
    """See `testbed.transport.endpoint.Learning`; None: it does not want to know."""

    control_tos: tuple[int, int]
    """DSCP and ECN field of what a receiver answers."""

    def data(self, tag: int, chunk: int, payload: Buffer, treatment: Treatment, sequence: int, *, asks: bool) -> bytes:
        """The header of a chunk."""

    def probe(self, tag: int, number: int) -> bytes: ...

    def stop(self, tag: int) -> bytes: ...

    def holes(self, tag: int, first: int, number: int, packed_bytes: int) -> bytes: ...

    def feedback(self, sequence: int, *, marked: bool) -> bytes:
        """Only where a congestion control wants to hear of round trips or marks."""

    def notice(self) -> bytes:
        """Likewise, of notifications."""

    def decode(self, header: bytes, payload: Buffer) -> Heard:
        """Raises MalformedError."""

    def begin(self, operation: Operation) -> None:
        """See `testbed.transport.endpoint.Informed`; may never be called."""

    def treatment(self, id: int, view: memoryview) -> Treatment:
        """Of a message about to be sent."""

    def bound(self, id: int) -> float:
        """The share of a message about to be received that may be missing, below 1."""

    def received(self, id: int, view: memoryview, missing: Sequence[tuple[int, int]]) -> None:
        """A message has come."""
