"""The constants of DLCP."""

from testbed.transport.bounded.parameters import PROBES, mtu, probe_timeout
from testbed.transport.bounded.ports import FIXED, RANDOM, ROUND_ROBIN
from testbed.transport.framing import Framing
from testbed.transport.parameters import Parameter
from testbed.wire import dlcp

FRAMING = Framing(dlcp.UDP_PORT, dlcp.HEADERS, "icrc", dlcp.DATA_BYTES, dlcp.CONTROL_BYTES)
_OURS = "our choice"

PARAMETERS = (
    mtu(FRAMING, 1024, f"{_OURS}: RoCE's on an Ethernet MTU of 1500"),
    Parameter(
        "bound",
        "p: the share of a message's bytes that may be missing where what comes is added up (push); 0: reliable",
        0.1,
        "fraction",
        "MLT's evaluation (our notes; DLCP: 0.6-3.5 % over ten models)",
    ),
    Parameter(
        "pull_bound",
        "the same where what comes is copied (pull); never more than `bound`",
        0.01,
        "fraction",
        "our choice: MLT has it lower than `bound`, and does not say by how much",
    ),
    Parameter(
        "small",
        "packets whose mean magnitude is below this quantile of their tensor's are small: dropped early; 0: none",
        0.5,
        "fraction",
        "DLCP: the median (our notes)",
    ),
    Parameter(
        "front_dscp", "DSCP of large gradients of front layers; small ones: 4 more", 34, "", f"{_OURS}: AF41", most=59
    ),
    Parameter("behind_dscp", "the same of layers behind", 26, "", f"{_OURS}: AF31", most=59),
    Parameter("control_dscp", "DSCP of STOP, BITMAP and feedback", 48, "", f"{_OURS}: as of RoCE's CNPs", most=63),
    Parameter(
        "ports",
        "the UDP source port of a flow's packets: fixed, or random or round-robin for each",
        FIXED,
        "",
        "DLCP: packets of a flow take random or round-robin paths",
        choices=(FIXED, RANDOM, ROUND_ROBIN),
    ),
    Parameter("entropies", "different ports of a flow that are not fixed", 16, "", _OURS, least=1, most=1 << 14),
    probe_timeout(1_000_000, _OURS),
    PROBES,
)
