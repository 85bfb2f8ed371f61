"""In-network aggregation as SwitchML has it: members send chunks to the job's switches, which send back the sums."""

from testbed.transport.aggregation.seam import AGGREGATOR, MakeReduce, Member, Reduced, ReduceEndpoint, ReduceEvent

__all__ = ["AGGREGATOR", "MakeReduce", "Member", "ReduceEndpoint", "ReduceEvent", "Reduced"]
