"""Transports: sans-IO endpoints behind one seam (`endpoint`), registered here with their constants.

Who holds a spec calls `problems` to check its `transport` section without a network, `settle` to work it out for one,
and `TRANSPORTS[kind].make` for the endpoint of a rank, or `.reduce` for that of an aggregation's member (neither: the
kernel's sockets carry it).
"""

from collections.abc import Mapping
from typing import Any

from testbed.plugins import PluginError, is_reference, load
from testbed.spec.model import TransportSpec
from testbed.transport import parameters, settings
from testbed.transport.aggregation import AGGREGATION
from testbed.transport.dblp import DBLP
from testbed.transport.dlcp import DLCP
from testbed.transport.endpoint import Endpoint, Path, Peer
from testbed.transport.falcon import FALCON
from testbed.transport.framing import Framing
from testbed.transport.kind import Make, Transport
from testbed.transport.ndp import NDP
from testbed.transport.optinic import OPTINIC
from testbed.transport.parameters import ParameterError
from testbed.transport.roce import ROCE, queue_pairs
from testbed.transport.selective import IRN, SRNIC
from testbed.transport.settings import Settings
from testbed.transport.tcp_model import TCP
from testbed.transport.ubt import UBT
from testbed.wire.protocols import OPTICAL, SLOTS

TRANSPORTS: Mapping[str, Transport] = {
    transport.name: transport
    for transport in (ROCE, IRN, SRNIC, FALCON, NDP, TCP, UBT, OPTINIC, DLCP, DBLP, AGGREGATION)
}


def find(kind: str) -> Transport:
    """The transport called `kind`, or one's own by FILE.py:NAME; raises ParameterError."""
    if is_reference(kind):
        try:
            own = load(kind)
        except PluginError as error:
            raise ParameterError({"kind": (error.message, error.hint)}) from error
        if not isinstance(own, Transport):
            raise ParameterError({"kind": (f"{kind} is not a Transport", "see experiments/own/transport.py for one")})
        return own
    if kind not in TRANSPORTS:
        raise ParameterError({"kind": (f"no transport is called {kind!r}", f"one of: {', '.join(TRANSPORTS)}")})
    return TRANSPORTS[kind]


def reduces(spec: TransportSpec) -> bool:
    """Whether switches add up what ranks send, so that these exchange no messages; raises ParameterError."""
    return find(spec.kind).reduce is not None


def loses(spec: TransportSpec) -> bool:
    """Whether results may be partial, as not all that is lost is sent again; raises ParameterError."""
    return find(spec.kind).lossy or protocol_of(spec) == OPTICAL


def protocol_of(spec: TransportSpec) -> str | None:
    """How switches add up what ranks send; None: they do not. Raises ParameterError."""
    return spec.parameters.get("protocol", SLOTS) if reduces(spec) else None


def problems(spec: TransportSpec) -> dict[str, tuple[str, str]]:
    """All that is wrong with `spec`: key below `transport` (e.g. `timeout`, `congestion.g`) -> (message, hint)."""
    try:
        transport = find(spec.kind)
    except ParameterError as error:
        return dict(error.problems)
    found = parameters.problems(transport.parameters, spec.parameters)
    if transport.own_control and parameters.kind_of(spec.congestion)[0] != "none":
        return found | {"congestion": (f"{spec.kind} {transport.own_control}", "leave it out")}
    return found | settings.congestion_problems(spec.congestion)


def settle(spec: TransportSpec, path: Path) -> Settings:
    """Every constant of `spec` on `path`; raises ParameterError."""
    if found := problems(spec):
        raise ParameterError(found)
    transport = find(spec.kind)
    return settings.settle(
        spec.kind,
        transport.parameters,
        spec.parameters,
        congestion=spec.congestion if "congestion" in spec.model_fields_set else transport.congestion,
        path=path,
        scale=spec.scale,
    )


def written(spec: TransportSpec, path: Path) -> dict[str, Any]:
    """The `transport` section of the resolved spec: every constant with its unit, and `scale: none`."""
    return settings.written(settle(spec, path), find(spec.kind).parameters)


__all__ = [
    "TRANSPORTS", "Endpoint", "Framing", "Make", "ParameterError", "Path", "Peer", "Settings", "Transport", "find",
    "loses", "problems", "protocol_of", "queue_pairs", "reduces", "settle", "written",
]  # fmt: skip
