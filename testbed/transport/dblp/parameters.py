"""The constants of DBLP."""

from testbed.transport.bounded.parameters import PROBES, mtu, probe_timeout
from testbed.transport.framing import Framing
from testbed.transport.parameters import Parameter
from testbed.wire import dblp

FRAMING = Framing(dblp.UDP_PORT, dblp.HEADERS, "udp", dblp.DATA_BYTES, dblp.SIGNAL_BYTES)
STATIC, ACCURACY, CRITICAL = "static", "accuracy", "critical"

_REPOSITORY = "the repository of DBLP's authors"
_UNSET = f"{_REPOSITORY}: all 0 as committed, swept by hand"


def _bound(name: str, phase: str) -> Parameter:
    return Parameter(name, f"the same with `phases: accuracy`, {phase}", 0.0, "fraction", _UNSET)


PARAMETERS = (
    mtu(FRAMING, 8192, f"{_REPOSITORY}: CHUNK_SIZE"),
    Parameter(
        "rate",
        "data leave so fast at most (wire bits)",
        100_000_000,
        "bps",
        f"{_REPOSITORY}: UDP_RATE, of links of 100 Mb/s",
        "the NIC's rate",
        lambda path, _: path.rate_bps,
        least=1,
    ),
    Parameter(
        "phases",
        "what the bound follows: static, accuracy, or critical (learning regimes)",
        CRITICAL,
        "",
        f"{_REPOSITORY}: branch jinyan-gradnorm; which of the two the paper has is not known",
        choices=(STATIC, ACCURACY, CRITICAL),
    ),
    Parameter(
        "bound",
        "theta: the share of a message's chunks that may be missing; with `phases: critical` in normal regimes",
        0.1,
        "fraction",
        "inferred: the repository has 0.001 and 0.03, and sweeps of 0.4 and more",
    ),
    Parameter(
        "critical_bound",
        "the same in critical regimes; never more than `bound`",
        0.0,
        "fraction",
        f"{_REPOSITORY}: branch jinyan-gradnorm",
    ),
    Parameter(
        "every",
        "operations between two checks of the phase",
        10,
        "",
        f"{_REPOSITORY}: CLR_freq (10 and, in an older commit, 1000)",
        least=1,
    ),
    Parameter("eta", "a norm that changes by such a share is critical", 0.5, "", f"{_REPOSITORY}, after ACCORDION"),
    _bound("begin_bound", "in the beginning"),
    _bound("middle_bound", "in the middle"),
    _bound("end_bound", "at the end"),
    Parameter("middle_accuracy", "the beginning ends above this accuracy", 0.5, "fraction", _REPOSITORY),
    Parameter("middle_gain", "and where a check gains at most this", 0.07, "fraction", _REPOSITORY),
    Parameter("end_gain", "the end begins where it gains less", 0.03, "fraction", _REPOSITORY),
    Parameter(
        "fruitless",
        "bitmaps in a row that tell nothing new before the holes are sent again anyway",
        10,
        "",
        f"{_REPOSITORY}: 10 rounds",
    ),
    Parameter("dscp", "DSCP of all packets", 0, "", "our choice: the repository sets none", most=63),
    probe_timeout(1_000_000_000, f"{_REPOSITORY}: 1 s a try"),
    PROBES,
)
