"""A rank's end of DBLP."""

from collections.abc import Sequence

from testbed.transport.bounded import BoundedEndpoint, Making
from testbed.transport.bounded.parameters import limits
from testbed.transport.bounded.ports import FIXED, ports
from testbed.transport.congestion.control import Indifferent
from testbed.transport.dblp.dialect import DblpDialect
from testbed.transport.dblp.parameters import ACCURACY, CRITICAL, FRAMING
from testbed.transport.dblp.phases import Accuracy, Critical, Phases, Static, Turns
from testbed.transport.endpoint import Path, Peer
from testbed.transport.parameters import Values, real, whole
from testbed.transport.settings import Settings
from testbed.wire.dblp import MOST_CHUNKS


class Steady(Indifferent):
    """A rate that never changes."""

    def __init__(self, rate_bps: int, line_bps: int) -> None:
        self._rate_bps = rate_bps if rate_bps < line_bps else None

    def rate_bps(self, now: int) -> int | None:  # noqa: ARG002
        return self._rate_bps


def phases(values: Values) -> Phases:
    """The policy that `values` name."""
    bound, every = real(values, "bound"), whole(values, "every")
    if values["phases"] == CRITICAL:
        return Critical(bound, min(bound, real(values, "critical_bound")), real(values, "eta"), every)
    if values["phases"] == ACCURACY:
        begin, middle, end = (real(values, f"{name}_bound") for name in ("begin", "middle", "end"))
        turns = Turns(*(real(values, name) for name in ("middle_accuracy", "end_gain", "middle_gain")))
        return Accuracy((begin, middle, end), turns, every)
    return Static(bound)


def endpoint(path: Path, rank: int, peers: Sequence[Peer], settings: Settings, seed: int) -> BoundedEndpoint:
    """See `testbed.transport.Make`."""
    values, chunk_bytes = settings.values, whole(settings.values, "mtu")
    return BoundedEndpoint(
        Making(
            path=path,
            rank=rank,
            ranks=[peer.rank for peer in peers],
            dialect=DblpDialect(phases(values), chunk_bytes, whole(values, "dscp")),
            limits=limits(path, values, FRAMING, fruitless=whole(values, "fruitless")),
            control=lambda: Steady(whole(values, "rate"), path.rate_bps),
            ports=lambda peer: ports(FIXED, 1, rank, peer, len(peers), seed),
            run_packets=path.max_burst_packets,
            data_bytes=FRAMING.data_bytes,
            most_bytes=min(MOST_CHUNKS * chunk_bytes, (1 << 32) - 1),
        )
    )
