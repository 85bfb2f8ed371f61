"""The constants of IRN and SRNIC, and what a connection makes of them."""

from collections.abc import Callable
from dataclasses import dataclass

from testbed.transport.congestion.scaling import bdp_packets
from testbed.transport.endpoint import Path
from testbed.transport.parameters import Parameter, Value, Values, whole
from testbed.transport.roce.parameters import of_roce, rnr_retries

IRN_RTT_NS = 24_000  # of the published values: 40 Gb/s, 110 packets of 1,000 bytes in flight
_RTO_LOW_NS = 100_000
_RTO_HIGH_NS = 320_000
_SLOW_PATH_NS = 20_000
_ACK_EVERY_MOST = 16
_AROUND = 3  # what is not answered yet, and a run at each end that packets and answers wait for
_SHARE = 8  # of a BDP that is acknowledged at once

_IRN = "IRN, section 4.1 (recalled)"


def in_rtts(published_ns: int) -> Callable[[Path, Values], Value]:
    """As many base RTTs as the published value is of IRN's."""
    return lambda path, _: max(1, published_ns * path.base_rtt_ns // IRN_RTT_NS)


def _ack_every(path: Path, values: Values) -> Value:
    return min(_ACK_EVERY_MOST, max(1, bdp_packets(path, values) // _SHARE))


def _window(path: Path, values: Values) -> Value:
    return bdp_packets(path, values) + _AROUND * whole(values, "ack_every")


def _rto_high(path: Path, _: Values) -> Value:
    return max(_RTO_HIGH_NS * path.base_rtt_ns // IRN_RTT_NS, path.base_rtt_ns + path.queueing_ns)


IRN_PARAMETERS = (
    of_roce("mtu"),
    Parameter(
        "ack_every",
        "an acknowledgement is due at least every so many packets in order; one ahead of a gap is answered at once",
        1,
        "packets",
        "public models of IRN answer every packet",
        f"1/{_SHARE} BDP, at most {_ACK_EVERY_MOST}",
        _ack_every,
        least=1,
        most=1 << 22,
    ),
    Parameter(
        "window",
        "BDP-FC: most packets in flight, from the first that is not acknowledged on",
        110,
        "packets",
        _IRN,
        f"1 BDP, and {_AROUND} times the packets of an acknowledgement, which wait for each other at the ends",
        _window,
        least=1,
        most=1 << 22,
    ),
    Parameter(
        "rto_low",
        "retransmission timer while few packets are in flight",
        _RTO_LOW_NS,
        "ns",
        _IRN,
        f"as many base RTTs as published of {IRN_RTT_NS // 1000} us",
        in_rtts(_RTO_LOW_NS),
        least=1,
    ),
    Parameter(
        "rto_high",
        "retransmission timer else: the longest path and its fullest queue",
        _RTO_HIGH_NS,
        "ns",
        _IRN,
        f"as many base RTTs as published of {IRN_RTT_NS // 1000} us, at least one and the fullest queue",
        _rto_high,
        least=1,
    ),
    Parameter("rto_low_packets", "N: at most so many in flight are few", 3, "packets", _IRN),
    Parameter(
        "retries",
        "a peer is given up at a timeout after which so many and one of rto_high have passed without news",
        7,
        "",
        "our choice: as RoCE's, whose timeouts are all long; IRN names none",
    ),
    of_roce("rnr_retries"),
    of_roce("rnr_timer"),
    of_roce("dscp"),
    of_roce("cnp_dscp"),
)

SRNIC_PARAMETERS = (
    *IRN_PARAMETERS,
    Parameter(
        "slow_path",
        "how long software takes for what has to do with a gap: to answer at the receiver, to act at the sender",
        _SLOW_PATH_NS,
        "ns",
        "a ConnectX-5's slow path at a jump of PSNs, as a user measured it (NVIDIA's forum, 358441); SRNIC's own "
        "figure was not found (our choice)",
        f"as many base RTTs as published of {IRN_RTT_NS // 1000} us",
        in_rtts(_SLOW_PATH_NS),
    ),
)


@dataclass(frozen=True, slots=True)
class Constants:
    """The values as one endpoint uses them."""

    mtu_bytes: int
    window_packets: int
    ack_every_packets: int
    rto_low_ns: int
    rto_high_ns: int
    rto_low_packets: int
    silence_ns: int
    rnr_retries: int | None  # None: for ever
    rnr_timer: int
    slow_path_ns: int
    dscp: int
    cnp_dscp: int
    burst_packets: int

    @classmethod
    def of(cls, path: Path, values: Values) -> "Constants":
        return cls(
            mtu_bytes=whole(values, "mtu"),
            window_packets=whole(values, "window"),
            ack_every_packets=whole(values, "ack_every"),
            rto_low_ns=whole(values, "rto_low"),
            rto_high_ns=whole(values, "rto_high"),
            rto_low_packets=whole(values, "rto_low_packets"),
            silence_ns=(whole(values, "retries") + 1) * whole(values, "rto_high"),
            rnr_retries=rnr_retries(values),
            rnr_timer=whole(values, "rnr_timer"),
            slow_path_ns=whole(values, "slow_path") if "slow_path" in values else 0,
            dscp=whole(values, "dscp"),
            cnp_dscp=whole(values, "cnp_dscp"),
            burst_packets=path.max_burst_packets,
        )
