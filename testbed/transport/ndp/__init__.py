"""NDP (Handley et al., SIGCOMM 2017): receivers pull, switches cut what they have no room for, packets take all paths.

A sender begins with what fills a round trip. Where a queue is full, a switch cuts packets to their headers and sends
these first (`switches: {trim: 64B}`), so that a receiver knows at once who wants to send what, and a loss costs no
timeout: it answers with a NACK, and pulls all that its senders have, one packet at a time at its line's rate
(`pulls`, `receiver`, `sender`). Every packet has an entropy of its own, by which switches spread it (`spraying`). Where
switches drop, a timeout finds what was lost.

Source: the paper and public htsim, by our notes and recalled. What differs. Ours: the layout of packets
(`testbed.wire.ndp`), the target that a sender wants to be pulled to, and one connection for all that a rank sends to
another. Left out: paths are not left when they lose more than others; and switches send nothing back to the sender, so
that a header for which there is no room is lost, and its packet times out. Our switches cut what comes to a full
queue, where NDP's throw a coin between that and the last in the queue.
"""

from testbed.transport.kind import Transport
from testbed.transport.ndp.endpoint import NdpEndpoint
from testbed.transport.ndp.parameters import FRAMING, PARAMETERS

NDP = Transport(
    "ndp",
    "receivers pull at their line's rate; what switches trim is asked for at once; packets take all paths (NDP)",
    PARAMETERS,
    NdpEndpoint,
    framing=FRAMING,
    clock="is clocked by its receivers' pulls",
)

__all__ = ["NDP", "NdpEndpoint"]
