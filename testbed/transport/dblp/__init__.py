"""DBLP: bounded loss whose bound follows the phase of the training.

Source: Ma et al., "Phase-Aware Bounded-Loss Transport for Burst-Resilient Distributed ML Training" (arXiv 2605.01989,
2026), and the public repository of its authors, whose wire behaviour this has: chunks with a CRC each, the signals P, S
and B, sent at a steady rate, a bitmap that tells nothing new only probed again (`testbed.transport.bounded`), missing
chunks zeros. What the paper's policy is in numbers is not known to us; `phases` has both generations of the repository.

What it has not: the repository's selection of values below a threshold ("v-threshold"), and its TIMELY branch, which is
optional there: these packets tell no round trip but a PROBE's, and what that branch takes its samples from is not known
to us.
"""

from testbed.transport.dblp.endpoint import endpoint
from testbed.transport.dblp.parameters import FRAMING, PARAMETERS
from testbed.transport.kind import Transport

DBLP = Transport(
    "dblp",
    "bounded loss that follows the phase of the training",
    PARAMETERS,
    endpoint,
    early=True,  # STOP comes while packets fly
    lossy=True,
    framing=FRAMING,
    clock="sends at a rate of its own",
)

__all__ = ["DBLP"]
