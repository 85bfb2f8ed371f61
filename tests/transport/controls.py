"""Congestion controls by name, alone, with the constants of their papers."""

from testbed.spec.model import TransportSpec
from testbed.transport import Path, settle
from testbed.transport.congestion import CongestionControl

LINE = 10_000_000_000
PATH = Path(rate_bps=LINE, base_rtt_ns=20_000, mtu_bytes=1500, max_burst_packets=64)


def published(kind: str, path: Path = PATH, **keys: object) -> CongestionControl:
    """Without scaling; `keys` replace constants."""
    settings = settle(TransportSpec(kind="roce", scale="none", congestion={"kind": kind, **keys}), path)
    return settings.congestion.make(path, settings.congestion_values)


def scaled(kind: str, path: Path, **transport: object) -> dict[str, object]:
    """Its constants by the rules, on `path`."""
    return dict(settle(TransportSpec(kind="roce", congestion=kind, **transport), path).congestion_values)
