"""The constants of OptiNIC, and what an endpoint makes of them."""

from dataclasses import dataclass

from testbed.transport.endpoint import Path
from testbed.transport.optinic.parity import Parity
from testbed.transport.parameters import Parameter, Value, Values, real, whole
from testbed.transport.roce.parameters import of_roce

_CONTROL_RTTS = 4


def _control_timeout(path: Path, _: Values) -> Value:
    return _CONTROL_RTTS * path.base_rtt_ns + path.queueing_ns


PARAMETERS = (
    of_roce("mtu"),
    Parameter(
        "slack",
        "a receive waits so many times what its step has cost the ranks by median",
        1.25,
        "",
        "our choice (a reading note's guess is 1.1 to 1.25)",
        least=1,
    ),
    Parameter(
        "weight",
        "a: weight of the last collective in the moving average of the cost",
        0.2,
        "fraction",
        "our choice: not found in the paper's notes",
    ),
    Parameter(
        "first_slack",
        "timers of warm-up: so many times what a step costs; before that is known, all ranks' bytes on a link",
        4.0,
        "",
        "our choice",
        least=1,
    ),
    Parameter(
        "parity",
        "k: data packets that share an XOR parity packet; 0: none",
        0,
        "packets",
        "our reading of the erasure coding that the paper names; 8 to 32 are common",
        most=1024,
    ),
    Parameter("interleave", "groups of parity that take turns", 8, "", "our choice", least=1, most=1024),
    Parameter(
        "control_timeout",
        "a control message that is not acknowledged is sent again after so long",
        1_000_000,
        "ns",
        "our choice",
        f"{_CONTROL_RTTS} base RTTs and the fullest queue",
        _control_timeout,
        least=1,
    ),
    Parameter(
        "control_retries",
        "how often, until the peer counts as gone; then collectives go on without it",
        7,
        "",
        "our choice: as RoCE's retries",
    ),
    of_roce("dscp"),
    of_roce("cnp_dscp"),
)


@dataclass(frozen=True, slots=True)
class Constants:
    """The values as one endpoint uses them."""

    mtu_bytes: int
    slack: float
    weight: float
    first_slack: float
    parity: Parity | None
    control_timeout_ns: int
    control_retries: int
    dscp: int
    cnp_dscp: int
    burst_packets: int

    @classmethod
    def of(cls, path: Path, values: Values) -> "Constants":
        mtu_bytes, size = whole(values, "mtu"), whole(values, "parity")
        return cls(
            mtu_bytes=mtu_bytes,
            slack=real(values, "slack"),
            weight=real(values, "weight"),
            first_slack=real(values, "first_slack"),
            parity=Parity(size, whole(values, "interleave"), mtu_bytes) if size else None,
            control_timeout_ns=whole(values, "control_timeout"),
            control_retries=whole(values, "control_retries"),
            dscp=whole(values, "dscp"),
            cnp_dscp=whole(values, "cnp_dscp"),
            burst_packets=path.max_burst_packets,
        )
