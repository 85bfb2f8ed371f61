"""Selective repeat over packets that say where they belong: IRN and SRNIC; see `scoreboard` for how losses are found.

A connection joins two ranks. Each direction numbers its packets as RoCE does, but every packet is a WRITE of its own
whose RETH holds its place in the message, the message's tag and its length, so that it is placed in whatever order it
comes (IRN adds the RETH to every packet for this). The receiver keeps which packets came ahead of a gap (`inbox`) and
answers each of them with the one it expects and the one that came; the sender (`sender`) sends again what is missing.

- **IRN** (Mittal et al., SIGCOMM 2018) keeps that bitmap in the NIC, and bounds what is in flight by the BDP.
- **SRNIC** (Wang et al., NSDI 2023) keeps it in the host's memory: whatever has to do with a gap goes through software,
  which answers `slow_path` later at the receiver and sends again `slow_path` later at the sender.
"""

from testbed.transport.kind import Transport
from testbed.transport.selective.endpoint import selective_endpoint
from testbed.transport.selective.packets import FRAMING
from testbed.transport.selective.parameters import IRN_PARAMETERS, SRNIC_PARAMETERS

IRN = Transport(
    "irn",
    "selective repeat by a bitmap in the NIC, a BDP in flight, two timeouts; needs no PFC (IRN)",
    IRN_PARAMETERS,
    selective_endpoint,
    framing=FRAMING,
)

SRNIC = Transport(
    "srnic",
    "selective repeat by a bitmap in the host's memory: gaps go through software (SRNIC)",
    SRNIC_PARAMETERS,
    selective_endpoint,
    framing=FRAMING,
)

__all__ = ["IRN", "SRNIC"]
