"""In-network aggregation as SwitchML has it: members send chunks to the job's switches, which send back the sums."""

from testbed.transport.aggregation.endpoint import AggregationEndpoint
from testbed.transport.aggregation.parameters import PARAMETERS, packet_bytes
from testbed.transport.aggregation.reduction import rounds
from testbed.transport.aggregation.seam import AGGREGATOR, MakeReduce, Member, Reduced, ReduceEndpoint, ReduceEvent

__all__ = [
    "AGGREGATOR", "PARAMETERS", "AggregationEndpoint", "MakeReduce", "Member", "ReduceEndpoint", "ReduceEvent",
    "Reduced", "packet_bytes", "rounds",
]  # fmt: skip
