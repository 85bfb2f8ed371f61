"""OptiNIC (arXiv 2512.22743; its short form is Celeris, arXiv 2510.16606): best-effort RDMA for collectives.

Packets say where they belong and are sent once; a receive ends when all is there, when the next message begins, or when
its timer runs out, which follows what collectives have cost the ranks. Source of the mechanism: third parties' reading
notes, as no full text of the papers could be read; what these leave open is our reading, and said where it stands.
"""

from testbed.transport.framing import Framing
from testbed.transport.kind import Transport
from testbed.transport.optinic.endpoint import OptinicEndpoint
from testbed.transport.optinic.parameters import PARAMETERS
from testbed.wire.optinic import DATA_BYTES, HEADERS
from testbed.wire.roce import AETH_BYTES, BTH_BYTES, UDP_PORT

FRAMING = Framing(UDP_PORT, HEADERS, "icrc", DATA_BYTES, BTH_BYTES + AETH_BYTES)

OPTINIC = Transport(
    "optinic",
    "best effort: packets placed in any order, sent once, waited for as long as collectives cost (OptiNIC, Celeris)",
    PARAMETERS,
    OptinicEndpoint,
    early=True,
    lossy=True,
    framing=FRAMING,
)

__all__ = ["OPTINIC", "OptinicEndpoint"]
