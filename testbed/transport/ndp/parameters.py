"""The constants of NDP, and what a connection makes of them."""

from dataclasses import dataclass

from testbed.transport.endpoint import Path
from testbed.transport.framing import Framing
from testbed.transport.parameters import Parameter, Value, Values, whole
from testbed.transport.roce.parameters import of_roce, rnr_retries
from testbed.wire.ethernet import UDP_WIRE_BYTES
from testbed.wire.ndp import CONTROL_BYTES, DATA_BYTES, HEADERS, UDP_PORT

FRAMING = Framing(UDP_PORT, HEADERS, "udp", DATA_BYTES, CONTROL_BYTES)
_WINDOW_BDPS = 8
_WINDOW_PACKETS = 128
_HTSIM = "public htsim"


def packet_bits(mtu_bytes: int) -> int:
    """A full packet on the wire."""
    return 8 * (mtu_bytes + DATA_BYTES + UDP_WIRE_BYTES)


def _first_window(path: Path, values: Values) -> Value:
    packet_ns = packet_bits(whole(values, "mtu")) * 10**9
    return 1 + -(-path.base_rtt_ns * path.rate_bps // packet_ns)


def _window(_: Path, values: Values) -> Value:
    return max(_WINDOW_PACKETS, _WINDOW_BDPS * whole(values, "first_window"))


def _rto(path: Path, _: Values) -> Value:
    return 2 * (path.base_rtt_ns + path.queueing_ns)


PARAMETERS = (
    of_roce("mtu"),
    Parameter(
        "entropies",
        "different UDP source ports of a rank, which take turns in an order drawn anew each time; 1: one path",
        64,
        "",
        "Ultra Ethernet's simulator; NDP knows the paths themselves, and permutes them",
        least=1,
        most=1 << 10,
    ),
    Parameter(
        "first_window",
        "packets that leave before the first pull",
        15,
        "packets",
        f"{_HTSIM}; NDP: what fills a round trip (recalled)",
        "1 BDP, rounded up, and one",
        _first_window,
        least=1,
        most=1 << 14,
    ),
    Parameter(
        "window",
        "most packets from the first that is not acknowledged on",
        _WINDOW_PACKETS,
        "packets",
        "our choice: how far a packet that left no header lets the others go on; NDP names no bound",
        f"{_WINDOW_BDPS} first windows, at least {_WINDOW_PACKETS}",
        _window,
        least=1,
        most=1 << 22,
    ),
    Parameter(
        "rto",
        "a packet of which nothing is heard for so long is sent again unasked; twice as long the next time, and so on",
        20_000_000,
        "ns",
        f"{_HTSIM}: the first; never less than 5 ms",
        "twice the base RTT and the fullest queues, of packets and of headers",
        _rto,
        least=1,
    ),
    of_roce("retries"),
    of_roce("rnr_retries"),
    of_roce("rnr_timer"),
    of_roce("dscp"),
    Parameter(
        "control_dscp",
        "DSCP of ACKs, NACKs and PULLs",
        56,
        "",
        "our choice: what `ecn_priority`'s entries give the last priority, as NDP's switches do",
        most=63,
    ),
)


@dataclass(frozen=True, slots=True)
class Constants:
    """The values as one endpoint uses them. packet_ns: of a full packet on the NIC's line."""

    mtu_bytes: int
    entropies: int
    first_window_packets: int
    window_packets: int
    rto_ns: int
    retries: int
    rnr_retries: int | None  # None: for ever
    rnr_timer: int
    dscp: int
    control_dscp: int
    packet_ns: int

    @classmethod
    def of(cls, path: Path, values: Values) -> "Constants":
        mtu_bytes = whole(values, "mtu")
        return cls(
            mtu_bytes=mtu_bytes,
            entropies=whole(values, "entropies"),
            first_window_packets=whole(values, "first_window"),
            window_packets=whole(values, "window"),
            rto_ns=whole(values, "rto"),
            retries=whole(values, "retries"),
            rnr_retries=rnr_retries(values),
            rnr_timer=whole(values, "rnr_timer"),
            dscp=whole(values, "dscp"),
            control_dscp=whole(values, "control_dscp"),
            packet_ns=max(1, packet_bits(mtu_bytes) * 10**9 // path.rate_bps),
        )
