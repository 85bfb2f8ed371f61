"""In-network aggregation as SwitchML has it, members send chunks to the job's switches, which send back the sums; or as
ATP has it, with a server that adds up what finds no room there."""

from testbed.transport.aggregation.endpoint import AggregationEndpoint
from testbed.transport.aggregation.optical import OpticalEndpoint
from testbed.transport.aggregation.optical_parameters import OPTICAL_PARAMETERS
from testbed.transport.aggregation.parameters import PARAMETERS, packet_bytes
from testbed.transport.aggregation.reduction import rounds
from testbed.transport.aggregation.seam import AGGREGATOR, MakeReduce, Member, Reduced, ReduceEndpoint, ReduceEvent
from testbed.transport.aggregation.server import AggregationServer
from testbed.transport.endpoint import Path
from testbed.transport.kind import Transport
from testbed.transport.settings import Settings
from testbed.wire.protocols import OPTICAL


def _member(path: Path, member: Member, settings: Settings) -> ReduceEndpoint:
    make = OpticalEndpoint if settings.values["protocol"] == OPTICAL else AggregationEndpoint
    return make(path, member, settings)


AGGREGATION = Transport(
    "aggregation",
    "SwitchML's slots: switches add up the ranks' chunks",
    PARAMETERS + OPTICAL_PARAMETERS,
    reduce=_member,
)

__all__ = [
    "AGGREGATION", "AGGREGATOR", "AggregationEndpoint", "AggregationServer", "MakeReduce", "Member", "ReduceEndpoint",
    "ReduceEvent", "Reduced", "packet_bytes", "rounds",
]  # fmt: skip
