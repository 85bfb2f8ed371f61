"""In-network aggregation as SwitchML has it, members send chunks to the job's switches, which send back the sums; or as
ATP has it, with a server that adds up what finds no room there."""

from testbed.transport.aggregation.endpoint import AggregationEndpoint
from testbed.transport.aggregation.parameters import PARAMETERS, packet_bytes
from testbed.transport.aggregation.reduction import rounds
from testbed.transport.aggregation.seam import AGGREGATOR, MakeReduce, Member, Reduced, ReduceEndpoint, ReduceEvent
from testbed.transport.aggregation.server import AggregationServer

__all__ = [
    "AGGREGATOR", "PARAMETERS", "AggregationEndpoint", "AggregationServer", "MakeReduce",
    "Member", "ReduceEndpoint", "ReduceEvent", "Reduced", "packet_bytes", "rounds",
]  # fmt: skip
