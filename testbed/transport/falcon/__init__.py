"""A Falcon-like transport: delay-based, over several paths a connection, with losses found early.

A connection has up to four *paths*, each with a flow label (here: a UDP source port, which switches hash), a congestion
control of its own, by default Swift, and a share of the packets that is weighted by its window (`paths`). The receiver
answers for each path every tenth packet or after a few microseconds, with a bitmap of what came ahead of a gap, the
stamp of the last packet and how long that was held (`receiver`), so that the sender knows the fabric's delay.

The sender finds losses path by path, since on one path packets keep their order (`flights`): a packet is lost once one
that left three places later on its path is there (OOO distance); or a later one is, and a round trip and a quarter has
passed (RACK); a probe of the first packet when nothing was heard for two round trips (TLP); and the timeout. A loss
found early is no sign of congestion; delay is, and a timeout. A path whose delay stays too high is left for another
(PLB), and so is one that timed out (Protective ReRoute).

Sources: Google's Falcon simulator (its constants; RACK and TLP, which it leaves off, as its third generation has them),
RFC 8985, Swift (SIGCOMM 2020), PLB (SIGCOMM 2022, recalled), Protective ReRoute (SIGCOMM 2023, recalled). Our readings:
distance is counted along a path and by transmissions, so that paths of different lengths bring no false alarms; a path
begins with its share of the initial window; a timeout doubles until something is heard (RFC 6298); the window of the
NIC (ncwnd), resource credits and transactions are left out, and whoever wants more than the bitmap spans waits.
"""

from testbed.transport.falcon.endpoint import falcon_endpoint
from testbed.transport.falcon.parameters import FRAMING, PARAMETERS
from testbed.transport.kind import Transport

FALCON = Transport(
    "falcon",
    "several paths a connection, each with its delay-based window; losses found early by path (Falcon-like)",
    PARAMETERS,
    falcon_endpoint,
    framing=FRAMING,
    congestion="swift",
)

__all__ = ["FALCON"]
