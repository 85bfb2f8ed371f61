"""OptiReduce's Unreliable Bounded Transport (NSDI 2025, arXiv 2310.06993): every stage of a collective ends in time.

Nothing is sent again. A rank ends a stage when all has come, or at its bound t_B, or early: when the end of every
message has been seen and nothing has come for a share of t_C, which the ranks agree on by the median of how long they
took. What has not come by then never will: it is added as zeros, and where it would be copied a rank keeps its own.

`endpoint` says how it works; the parts are `stages` (when a stage ends), `bounds` (t_B, t_C and the share), `incast`
(how many senders at a time), `sending`, `receiving`, `repeating` (warm-up loses nothing) and `safeguard`.

Sources: the authors' public repositories, and a reading note of the paper; what is recalled or read by us says so at
its place. Two defects of the public code are not taken over: its integer divisions, by which no packet is ever marked
as the last and every stage counts as complete, so that only t_B acts.
"""

from testbed.transport import framing
from testbed.transport.kind import Transport
from testbed.transport.ubt.endpoint import UbtEndpoint
from testbed.transport.ubt.parameters import PARAMETERS
from testbed.wire.ubt import HEADER_BYTES, UDP_PORT

FRAMING = framing.plain(UDP_PORT, HEADER_BYTES)

UBT = Transport(
    "ubt",
    "OptiReduce's UBT: stages end in bounded time, and what is lost stays lost",
    PARAMETERS,
    UbtEndpoint,
    early=True,
    lossy=True,
    fill="keep",
    framing=FRAMING,
)

__all__ = ["UBT", "UbtEndpoint"]
