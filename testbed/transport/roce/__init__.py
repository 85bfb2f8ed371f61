"""Reliable connections over RoCEv2 with go-back-N, as RDMA NICs have them; `machine` is the theory of operation."""

from testbed.transport.kind import Transport
from testbed.transport.roce.address import queue_pairs
from testbed.transport.roce.endpoint import RoceEndpoint
from testbed.transport.roce.parameters import PARAMETERS

ROCE = Transport("roce", "RoCEv2 reliable connections with go-back-N, as RDMA NICs have them", PARAMETERS, RoceEndpoint)

__all__ = ["ROCE", "RoceEndpoint", "queue_pairs"]
