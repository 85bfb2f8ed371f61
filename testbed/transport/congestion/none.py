"""No congestion control: the line's rate always; data packets are not ECN-capable."""

from testbed.transport.congestion.control import Congestion
from testbed.transport.endpoint import ECN_NOT_ECT, Path
from testbed.transport.parameters import Values


class Uncontrolled:
    """Hears all and does nothing."""

    ecn = ECN_NOT_ECT

    def on_sent(self, now: int, wire_bytes: int) -> None:
        pass

    def on_ack(self, now: int, packets: int) -> None:
        pass

    def on_cnp(self, now: int) -> None:
        pass

    def on_timeout(self, now: int) -> None:
        pass

    def on_marked(self, now: int) -> bool:  # noqa: ARG002
        return False

    def rate_bps(self, now: int) -> int | None:  # noqa: ARG002
        return None

    def deadline(self) -> int | None:
        return None


def _make(path: Path, values: Values) -> Uncontrolled:  # noqa: ARG001
    return Uncontrolled()


NONE = Congestion("none", "no congestion control: line rate, bounded by the window alone", (), _make)
