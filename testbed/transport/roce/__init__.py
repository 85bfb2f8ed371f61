"""Reliable connections over RoCEv2 with go-back-N, as RDMA NICs have them; `machine` is the theory of operation."""

from testbed.transport.roce.address import queue_pairs
from testbed.transport.roce.endpoint import RoceEndpoint
from testbed.transport.roce.parameters import PARAMETERS

__all__ = ["PARAMETERS", "RoceEndpoint", "queue_pairs"]
