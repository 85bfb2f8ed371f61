"""DLCP: bounded loss per tensor, layers and magnitudes that switches see, packets that may take any path.

Source: Wang et al., "Domain-specific Communication Optimization for Distributed DNN Training", arXiv 2008.08445 (DLCP),
published as MLT at NSDI 2024; what a detail is from is told where it is. No code of it is public.

Its three parts: the transport (`testbed.transport.bounded`), whose bound on the loss of a message is `bound` where
what comes is added up (push) and `pull_bound` where it is copied; what a packet's DSCP tells switches (`classes`),
which the program `gradient_drop` acts on; and a source port for each packet (`ports`), in place of switches that spray.

What it has not: rate control by TIMELY is MLT's, and is there as any other (`congestion: timely`).
"""

from testbed.transport.dlcp.endpoint import endpoint
from testbed.transport.dlcp.parameters import FRAMING, PARAMETERS
from testbed.transport.kind import Transport

DLCP = Transport(
    "dlcp",
    "bounded loss per tensor, layers and magnitudes that switches see, any path (DLCP, MLT)",
    PARAMETERS,
    endpoint,
    early=True,  # STOP comes while packets fly
    lossy=True,
    fill="keep",
    framing=FRAMING,
    congestion="dctcp",
)

__all__ = ["DLCP"]
