"""The constants of the RoCE transport, and what an endpoint makes of them."""

from dataclasses import dataclass

from testbed.transport.endpoint import Path
from testbed.transport.parameters import Parameter, Value, Values, whole
from testbed.wire.ethernet import UDP_WIRE_BYTES
from testbed.wire.roce import ICRC_BYTES, MTUS, RNR_TIMER_NS, Verb

FRAME_BYTES = UDP_WIRE_BYTES + ICRC_BYTES
_MTU_ROOM_BYTES = 80  # source: soft-RoCE takes the largest MTU that leaves this in the link's
_TIMEOUT_UNIT_NS = 4_096
_TIMEOUT_RTTS = 4
_WINDOW_BDPS = 3
_WINDOW_PACKETS_MOST = 4_096
_RNR_RETRIES_FOR_EVER = 7  # source: IBTA (recalled)


def timeout_ns(exponent: int) -> int | None:
    """4.096 us x 2^exponent; None: never (exponent 0). Source: IBTA 9.7.6.1.3."""
    return _TIMEOUT_UNIT_NS << exponent if exponent else None


def _packet_ns(path: Path, mtu_bytes: int) -> int:
    return max(1, (mtu_bytes + FRAME_BYTES + 12) * 8 * 10**9 // path.rate_bps)


def _scaled_mtu(path: Path, _: Values) -> Value:
    return max((mtu for mtu in MTUS if mtu + _MTU_ROOM_BYTES <= path.mtu_bytes), default=MTUS[0])


def _scaled_window(path: Path, values: Values) -> Value:
    packet_ns = _packet_ns(path, whole(values, "mtu"))
    packets = _WINDOW_BDPS * -(-path.base_rtt_ns // packet_ns)
    return min(max(packets, 2 * path.max_burst_packets, 16), _WINDOW_PACKETS_MOST)


def _scaled_ack_every(_: Path, values: Values) -> Value:
    return min(64, max(1, whole(values, "window") // 4))


def _scaled_timeout(path: Path, values: Values) -> Value:
    window_ns = whole(values, "window") * _packet_ns(path, whole(values, "mtu"))
    least_ns = _TIMEOUT_RTTS * path.base_rtt_ns + path.queueing_ns + window_ns
    return next((t for t in range(1, 31) if _TIMEOUT_UNIT_NS << t >= least_ns), 31)


def _scaled_rnr_timer(path: Path, _: Values) -> Value:
    return next((code for code in range(1, 32) if RNR_TIMER_NS[code] >= path.base_rtt_ns), 31)


PARAMETERS = (
    Parameter(
        "verb",
        "what carries a message: write (RDMA WRITE with immediate) or send (takes receives in the order of posting)",
        "write",
        "",
        "our choice: what NCCL uses",
        choices=("write", "send"),
    ),
    Parameter(
        "mtu",
        "payload bytes of a full packet: 256, 512, 1024, 2048 or 4096",
        1024,
        "MTU bytes",
        "soft-RoCE's choice on an Ethernet MTU of 1500",
        f"the largest that leaves {_MTU_ROOM_BYTES} bytes in the links' MTU",
        _scaled_mtu,
        choices=MTUS,
    ),
    Parameter(
        "window",
        "most unacknowledged packets of a queue pair",
        128,
        "packets",
        "soft-RoCE: at most 128 unacknowledged PSNs",
        f"{_WINDOW_BDPS} BDP, at least two runs and 16, at most {_WINDOW_PACKETS_MOST}",
        _scaled_window,
        least=1,
        most=1 << 22,
    ),
    Parameter(
        "ack_every",
        "an acknowledgement is due at least every so many packets",
        64,
        "packets",
        "soft-RoCE: at least every 64 packets",
        "a quarter of the window, at most 64",
        _scaled_ack_every,
        least=1,
        most=1 << 22,
    ),
    Parameter(
        "timeout",
        "retransmission timer as an exponent t: 4.096 us x 2^t; 0: never",
        20,
        "",
        "NCCL_IB_TIMEOUT's default (recalled); IBTA 9.7.6.1.3",
        f"the least t that covers {_TIMEOUT_RTTS} base RTTs, the fullest queue and a window at the NIC's rate",
        _scaled_timeout,
        most=31,
    ),
    Parameter(
        "retries",
        "timeouts in a row before the queue pair fails",
        7,
        "",
        "NCCL_IB_RETRY_CNT's default (recalled)",
        most=7,
    ),
    Parameter(
        "rnr_retries",
        "RNR NAKs in a row before the queue pair fails; 7: never",
        7,
        "",
        "NCCL's choice (recalled)",
        most=7,
    ),
    Parameter(
        "rnr_timer",
        "code of the wait that an RNR NAK asks for (IBTA table 45: 1 is 10 us, 12 is 640 us, 31 is 491.52 ms)",
        12,
        "",
        "NCCL's choice (recalled)",
        "the least code whose wait covers the base RTT",
        _scaled_rnr_timer,
        most=31,
    ),
    Parameter("dscp", "DSCP of data and acknowledgements", 26, "", "common practice for RoCE (recalled)", most=63),
    Parameter(
        "cnp_dscp", "DSCP of CNPs", 48, "", "ConnectX default (recalled), as in the ConnectX-4 Lx capture", most=63
    ),
)


def of_roce(name: str) -> Parameter:
    """One of `PARAMETERS`, for transports that have the same."""
    return next(parameter for parameter in PARAMETERS if parameter.name == name)


def rnr_retries(values: Values) -> int | None:
    """None: for ever."""
    retries = whole(values, "rnr_retries")
    return None if retries == _RNR_RETRIES_FOR_EVER else retries


@dataclass(frozen=True, slots=True)
class Constants:
    """The values as one endpoint uses them."""

    verb: Verb
    mtu_bytes: int
    window_packets: int
    ack_every_packets: int
    timeout_ns: int | None
    retries: int
    rnr_retries: int | None  # None: for ever
    rnr_timer: int
    dscp: int
    cnp_dscp: int
    burst_packets: int

    @classmethod
    def of(cls, path: Path, values: Values) -> "Constants":
        return cls(
            verb=Verb.SEND if values["verb"] == "send" else Verb.WRITE,
            mtu_bytes=whole(values, "mtu"),
            window_packets=whole(values, "window"),
            ack_every_packets=whole(values, "ack_every"),
            timeout_ns=timeout_ns(whole(values, "timeout")),
            retries=whole(values, "retries"),
            rnr_retries=rnr_retries(values),
            rnr_timer=whole(values, "rnr_timer"),
            dscp=whole(values, "dscp"),
            cnp_dscp=whole(values, "cnp_dscp"),
            burst_packets=path.max_burst_packets,
        )
