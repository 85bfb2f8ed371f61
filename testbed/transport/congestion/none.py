"""No congestion control: the line's rate always; data packets are not ECN-capable."""

from testbed.transport.congestion.control import Congestion, Indifferent
from testbed.transport.endpoint import Path
from testbed.transport.parameters import Values


def _make(path: Path, values: Values) -> Indifferent:  # noqa: ARG001
    return Indifferent()


NONE = Congestion("none", "no congestion control: line rate, bounded by the window alone", (), _make, quiet=True)
