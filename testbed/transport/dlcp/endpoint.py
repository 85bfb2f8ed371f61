"""A rank's end of DLCP."""

from collections.abc import Sequence

from testbed.transport.bounded import BoundedEndpoint, Making
from testbed.transport.bounded.parameters import limits
from testbed.transport.bounded.ports import FIXED, ports
from testbed.transport.dlcp.classes import Classes, CodePoints
from testbed.transport.dlcp.dialect import DlcpDialect
from testbed.transport.dlcp.parameters import FRAMING
from testbed.transport.endpoint import Path, Peer
from testbed.transport.parameters import real, whole
from testbed.transport.settings import Settings

_MOST_BYTES = 1 << 32  # offsets have 32 bits


def endpoint(path: Path, rank: int, peers: Sequence[Peer], settings: Settings, seed: int) -> BoundedEndpoint:
    """See `testbed.transport.Make`."""
    values, ranks = settings.values, len(peers)
    chunk_bytes, way = whole(values, "mtu"), str(values["ports"])
    code_points = CodePoints(whole(values, "front_dscp"), whole(values, "behind_dscp"))
    classes = Classes(code_points, real(values, "small"), chunk_bytes)
    return BoundedEndpoint(
        Making(
            path=path,
            rank=rank,
            ranks=[peer.rank for peer in peers],
            dialect=DlcpDialect(
                classes, chunk_bytes, real(values, "bound"), real(values, "pull_bound"), whole(values, "control_dscp")
            ),
            limits=limits(path, values, FRAMING, fruitless=0),
            control=lambda: settings.congestion.make(path, settings.congestion_values),
            ports=lambda peer: ports(way, whole(values, "entropies"), rank, peer, ranks, seed),
            run_packets=path.max_burst_packets if way == FIXED else 1,
            data_bytes=FRAMING.data_bytes,
            most_bytes=_MOST_BYTES,
        )
    )
