"""Transports: sans-IO endpoints behind one seam (`endpoint`), registered here with their constants.

Who holds a spec calls `problems` to check its `transport` section without a network, `settle` to work it out for one,
and `TRANSPORTS[kind].make` for the endpoint of a rank, or `.reduce` for that of an aggregation's member (neither: the
kernel's sockets carry it).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.plugins import PluginError, is_reference, load
from testbed.spec.model import TransportSpec
from testbed.transport import parameters, settings
from testbed.transport.aggregation import PARAMETERS as AGGREGATION_PARAMETERS
from testbed.transport.aggregation import AggregationEndpoint, MakeReduce, Member, ReduceEndpoint
from testbed.transport.aggregation.optical import OpticalEndpoint
from testbed.transport.aggregation.optical_parameters import OPTICAL_PARAMETERS
from testbed.transport.dblp import FRAMING as DBLP_FRAMING
from testbed.transport.dblp import PARAMETERS as DBLP_PARAMETERS
from testbed.transport.dblp import endpoint as dblp_endpoint
from testbed.transport.dlcp import FRAMING as DLCP_FRAMING
from testbed.transport.dlcp import PARAMETERS as DLCP_PARAMETERS
from testbed.transport.dlcp import endpoint as dlcp_endpoint
from testbed.transport.endpoint import Endpoint, Fill, Path, Peer
from testbed.transport.falcon import FRAMING as FALCON_FRAMING
from testbed.transport.falcon import PARAMETERS as FALCON_PARAMETERS
from testbed.transport.falcon import falcon_endpoint
from testbed.transport.framing import ROCE as ROCE_FRAMING
from testbed.transport.framing import Framing
from testbed.transport.optinic import FRAMING as OPTINIC_FRAMING
from testbed.transport.optinic import PARAMETERS as OPTINIC_PARAMETERS
from testbed.transport.optinic import OptinicEndpoint
from testbed.transport.parameters import Parameter, ParameterError
from testbed.transport.roce import PARAMETERS as ROCE_PARAMETERS
from testbed.transport.roce import RoceEndpoint, queue_pairs
from testbed.transport.selective import FRAMING as SELECTIVE_FRAMING
from testbed.transport.selective import IRN_PARAMETERS, SRNIC_PARAMETERS, selective_endpoint
from testbed.transport.settings import Settings
from testbed.transport.tcp_model import PARAMETERS as TCP_PARAMETERS
from testbed.transport.tcp_model import TcpEndpoint
from testbed.transport.tcp_model.segment import FRAMING as TCP_FRAMING
from testbed.transport.ubt import FRAMING as UBT_FRAMING
from testbed.transport.ubt import PARAMETERS as UBT_PARAMETERS
from testbed.transport.ubt import UbtEndpoint
from testbed.wire.protocols import OPTICAL, SLOTS

Make = Callable[[Path, int, Sequence[Peer], Settings, int], Endpoint]


@dataclass(frozen=True, slots=True)
class Transport:
    """A registered transport. `make(path, rank, peers, settings, seed)`: `peers` has all ranks, this one too, and all
    ranks have the same `seed`. `reduce(path, member, settings)`: switches add up what members send. Neither: kernel
    sockets, for which `model`, made as by `make`, stands in simulation.

    early: `Sent` may come before the peer has the bytes, as soon as all bursts of it were given out, and the buffer be
    written again while packets fly. lossy: what is received may be partial; then `nmse` and `missing_bytes` tell of it,
    and values count neither as wrong nor do they end a run, though ranks come to differ. fill: what missing bytes of a
    message that is copied leave in a rank's buffer, zeros or what was there; one that is added adds zeros there. An
    element of which a byte is missing is missing. framing: how packets of `make` or `model` lie in UDP. steady: it
    sends at a rate of its own, which no congestion control changes. congestion: its control where the spec names none.
    """

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    make: Make | None = None
    reduce: MakeReduce | None = None
    model: Make | None = None
    early: bool = False
    lossy: bool = False
    fill: Fill = "zero"
    framing: Framing = ROCE_FRAMING
    steady: bool = False
    congestion: str = "none"

    @property
    def own_control(self) -> str:
        """What it has in place of a congestion control of the spec; empty if it takes one."""
        if self.make:
            return "sends at a rate of its own" if self.steady else ""
        return "is clocked by its slots" if self.reduce else "has the kernel's congestion control"


ROCE = Transport(
    "roce", "RoCEv2 reliable connections with go-back-N, as RDMA NICs have them", ROCE_PARAMETERS, RoceEndpoint
)
IRN = Transport(
    "irn",
    "selective repeat by a bitmap in the NIC, a BDP in flight, two timeouts; needs no PFC (IRN)",
    IRN_PARAMETERS,
    selective_endpoint,
    framing=SELECTIVE_FRAMING,
)
SRNIC = Transport(
    "srnic",
    "selective repeat by a bitmap in the host's memory: gaps go through software (SRNIC)",
    SRNIC_PARAMETERS,
    selective_endpoint,
    framing=SELECTIVE_FRAMING,
)
FALCON = Transport(
    "falcon",
    "several paths a connection, each with its delay-based window; losses found early by path (Falcon-like)",
    FALCON_PARAMETERS,
    falcon_endpoint,
    framing=FALCON_FRAMING,
    congestion="swift",
)
TCP = Transport(
    "tcp", "the kernel's TCP; in simulation a model of it", TCP_PARAMETERS, model=TcpEndpoint, framing=TCP_FRAMING
)

DLCP = Transport(
    "dlcp",
    "bounded loss per tensor, layers and magnitudes that switches see, any path (DLCP, MLT)",
    DLCP_PARAMETERS,
    dlcp_endpoint,
    early=True,  # STOP comes while packets fly
    lossy=True,
    fill="keep",
    framing=DLCP_FRAMING,
    congestion="dctcp",
)
DBLP = Transport(
    "dblp",
    "bounded loss that follows the phase of the training",
    DBLP_PARAMETERS,
    dblp_endpoint,
    early=True,  # STOP comes while packets fly
    lossy=True,
    framing=DBLP_FRAMING,
    steady=True,
)


UBT = Transport(
    "ubt",
    "OptiReduce's UBT: stages end in bounded time, and what is lost stays lost",
    UBT_PARAMETERS,
    UbtEndpoint,
    early=True,
    lossy=True,
    fill="keep",
    framing=UBT_FRAMING,
)


OPTINIC = Transport(
    "optinic",
    "best effort: packets placed in any order, sent once, waited for as long as collectives cost (OptiNIC, Celeris)",
    OPTINIC_PARAMETERS,
    OptinicEndpoint,
    early=True,
    lossy=True,
    framing=OPTINIC_FRAMING,
)


def _member(path: Path, member: Member, settings: Settings) -> ReduceEndpoint:
    make = OpticalEndpoint if settings.values["protocol"] == OPTICAL else AggregationEndpoint
    return make(path, member, settings)


AGGREGATION = Transport(
    "aggregation",
    "SwitchML's slots: switches add up the ranks' chunks",
    AGGREGATION_PARAMETERS + OPTICAL_PARAMETERS,
    reduce=_member,
)

TRANSPORTS: Mapping[str, Transport] = {
    transport.name: transport for transport in (ROCE, IRN, SRNIC, FALCON, TCP, UBT, OPTINIC, DLCP, DBLP, AGGREGATION)
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
    if transport.own_control and settings.congestion_of(spec.congestion)[0] != "none":
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
