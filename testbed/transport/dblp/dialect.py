"""DBLP's packets, and how much of a message may be missing in the present phase."""

from collections.abc import Callable, Mapping, Sequence

from testbed.transport.bounded import Treatment
from testbed.transport.dblp.norm import Norm
from testbed.transport.dblp.phases import Phases
from testbed.transport.endpoint import ECN_NOT_ECT, Buffer, Operation
from testbed.wire import dblp
from testbed.wire.bounded import Heard

_ACCURACY = "accuracy"


class DblpDialect:
    """A `testbed.transport.bounded.Dialect`. counts has lossless_operations: those whose bound was 0."""

    by_bytes = False

    def __init__(self, phases: Phases, chunk_bytes: int, dscp: int) -> None:
        self.chunk_bytes = chunk_bytes
        self.control_tos = (dscp, ECN_NOT_ECT)
        self.learned: Callable[[Mapping[str, float]], None] | None = self._learn if phases.wants_accuracy else None
        self._phases = phases
        self._treatment = Treatment(tos=(self.control_tos,))
        self._norm: Norm | None = None
        self.counts = {"lossless_operations": 0}

    def data(
        self,
        tag: int,
        chunk: int,
        payload: Buffer,
        treatment: Treatment,  # noqa: ARG002
        sequence: int,  # noqa: ARG002
        *,
        asks: bool,  # noqa: ARG002
    ) -> bytes:
        return dblp.data(tag, chunk, payload)

    def probe(self, tag: int, number: int) -> bytes:  # noqa: ARG002
        return dblp.probe(tag)

    def stop(self, tag: int) -> bytes:
        return dblp.stop(tag)

    def holes(self, tag: int, first: int, number: int, packed_bytes: int) -> bytes:  # noqa: ARG002
        return dblp.holes(tag, first)

    def feedback(self, sequence: int, *, marked: bool) -> bytes:
        raise NotImplementedError("DBLP sends at a steady rate and asks for no feedback")

    def notice(self) -> bytes:
        raise NotImplementedError("DBLP sends at a steady rate and takes no notifications")

    def decode(self, header: bytes, payload: Buffer) -> Heard:
        return dblp.decode(header, payload)

    def begin(self, operation: Operation) -> None:
        if self._norm is not None:
            self._phases.normed(self._norm.value)
        self._phases.begin()
        self.counts["lossless_operations"] += self._phases.bound == 0
        self._norm = Norm(operation) if self._phases.wants_norm else None

    def treatment(self, id: int, view: memoryview) -> Treatment:
        if self._norm is not None:
            self._norm.add(id, view)
        return self._treatment

    def bound(self, id: int) -> float:  # noqa: ARG002
        return self._phases.bound

    def received(self, id: int, view: memoryview, missing: Sequence[tuple[int, int]]) -> None:
        if self._norm is not None:
            self._norm.add(id, view, missing)

    def _learn(self, metrics: Mapping[str, float]) -> None:
        if _ACCURACY in metrics:
            self._phases.learned(metrics[_ACCURACY])
