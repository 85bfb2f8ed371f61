"""The constants of UBT, and what an endpoint makes of them."""

from dataclasses import dataclass

from testbed.transport.endpoint import Path
from testbed.transport.parameters import Parameter, Value, Values, real, whole
from testbed.wire.ethernet import UDP_WIRE_BYTES
from testbed.wire.ubt import HEADER_BYTES, MOST_INCAST

_MTU_ROOM_BYTES = 80  # as RoCE's, so that packets of both are as long
_TICKS_A_RTT = 4
_REPEAT_RTTS = 4
_WINDOW_BDPS = 3
_WINDOW_PACKETS_MOST = 4_096
_BURST_PACKETS = 32

_NOTE = "paper, by a reading note"
_RECALLED = "recalled"


def packet_bits(mtu_bytes: int) -> int:
    """A full packet on the wire."""
    return 8 * (mtu_bytes + HEADER_BYTES + UDP_WIRE_BYTES)


def _packet_ns(path: Path, values: Values) -> int:
    return max(1, packet_bits(whole(values, "mtu")) * 10**9 // path.rate_bps)


def _mtu(path: Path, _: Values) -> Value:
    return 1 << (max(64, path.mtu_bytes - _MTU_ROOM_BYTES).bit_length() - 1)


def _tick(path: Path, _: Values) -> Value:
    return max(1, path.base_rtt_ns // _TICKS_A_RTT)


def _burst(path: Path, values: Values) -> Value:
    in_flight = -(-path.base_rtt_ns // _packet_ns(path, values))
    return max(4, min(_BURST_PACKETS, in_flight, path.max_burst_packets))


def _window(path: Path, values: Values) -> Value:
    packets = _WINDOW_BDPS * -(-path.base_rtt_ns // _packet_ns(path, values))
    return min(max(packets, 2 * path.max_burst_packets, 16), _WINDOW_PACKETS_MOST)


def _repeat(path: Path, values: Values) -> Value:
    window_ns = whole(values, "window") * _packet_ns(path, values)
    return _REPEAT_RTTS * path.base_rtt_ns + path.queueing_ns + window_ns


PARAMETERS = (
    Parameter(
        "mtu",
        "payload bytes of a full packet",
        1024,
        "MTU bytes",
        "public code: at most 1024 on an Ethernet MTU of 1500",
        f"the largest power of two that leaves {_MTU_ROOM_BYTES} bytes in the links' MTU",
        _mtu,
        least=64,
        most=1 << 15,
    ),
    Parameter(
        "bound",
        "t_B: a stage ends after so long at the latest; 0: measured in warm-up, which then loses nothing",
        0,
        "ns",
        "public code: GLOO_DPDK_TIMEOUT, 135 to 370 ms by model",
    ),
    Parameter(
        "percentile",
        "t_B is this percentile of how long stages took in warm-up, by nearest rank",
        0.95,
        "fraction",
        f"{_NOTE}: of 20 runs over TCP with the largest bucket",
    ),
    Parameter(
        "early",
        "whether stages end early, by t_C: on or off",
        "on",
        "",
        "our choice, to tell what it brings",
        choices=("on", "off"),
    ),
    Parameter(
        "idle",
        "x at the start: a stage ends early when nothing has come for this share of t_C",
        0.1,
        "fraction",
        f"public code; that it moves: {_RECALLED}",
    ),
    Parameter("idle_least", "x is never less", 0.01, "fraction", "our choice"),
    Parameter("idle_most", "x is never more", 0.5, "fraction", _RECALLED),
    Parameter("idle_step", "by how much x falls after a stage that lost little", 0.01, "fraction", _RECALLED),
    Parameter("loss_high", "x doubles after a stage that lost more than this", 0.001, "fraction", _RECALLED),
    Parameter("loss_low", "x falls after a stage that lost less than this", 0.0001, "fraction", _RECALLED),
    Parameter(
        "smoothing",
        "weight of a new median in t_C",
        0.95,
        "fraction",
        f"{_NOTE}: a moving average; the weight, and that it is the new one's: {_RECALLED}",
    ),
    Parameter("last", "the end of a message that is marked as its last", 0.01, "fraction", "public code"),
    Parameter(
        "tick",
        "unit of the timeout that packets carry",
        1_000_000,
        "ns",
        "public code: milliseconds",
        f"the base RTT / {_TICKS_A_RTT}",
        _tick,
        least=1,
    ),
    Parameter(
        "incast",
        "how many senders at a time a receiver asks for at the start",
        1,
        "senders",
        _RECALLED,
        least=1,
        most=MOST_INCAST,
    ),
    Parameter(
        "incast_most",
        "and at most: it grows by one with a stage that lost nothing, and is halved by one that did",
        MOST_INCAST,
        "senders",
        f"the header's four bits; that it moves: {_NOTE}; by how much: {_RECALLED}",
        least=1,
        most=MOST_INCAST,
    ),
    Parameter(
        "burst",
        "packets that leave at a time, shared by the receivers that are sent to",
        _BURST_PACKETS,
        "packets",
        "public code",
        f"what the line carries in a base RTT, from 4 to {_BURST_PACKETS}",
        _burst,
        least=1,
    ),
    Parameter(
        "feedback_every",
        "a receiver answers every so many packets of a sender, if the congestion control asks for round trips",
        10,
        "packets",
        _RECALLED,
        least=1,
    ),
    Parameter(
        "window",
        "warm-up: at most so many packets are not acknowledged",
        128,
        "packets",
        "our choice: as RoCE's",
        f"{_WINDOW_BDPS} BDP, at least two runs and 16, at most {_WINDOW_PACKETS_MOST}",
        _window,
        least=1,
    ),
    Parameter(
        "repeat",
        "warm-up: a packet is sent again if it is not acknowledged in so long, twice that the next time, and so on",
        200_000_000,
        "ns",
        "Linux: TCP's least timeout, since the authors warm up over TCP",
        f"{_REPEAT_RTTS} base RTTs, the fullest queue and a window at the NIC's rate",
        _repeat,
        least=1,
    ),
    Parameter("retries", "warm-up: so many times before a peer is given up", 15, "", "Linux: tcp_retries2", least=1),
    Parameter(
        "skip",
        "safeguard: an update of which a rank has lost more than this is left out; 0: never",
        0.1,
        "fraction",
        f"that there is one: {_NOTE}; the threshold is our choice",
    ),
    Parameter(
        "halt",
        "safeguard: the run ends after so many in a row that were left out; 0: never",
        3,
        "updates",
        f"that there is one: {_NOTE}; how many is our choice",
    ),
    Parameter("dscp", "DSCP of all packets", 0, "", "our choice: best effort", most=63),
)


@dataclass(frozen=True, slots=True)
class Constants:
    """The values as one endpoint uses them."""

    mtu_bytes: int
    bound_ns: int | None  # None: measured
    percentile: float
    early: bool
    idle: float
    idle_least: float
    idle_most: float
    idle_step: float
    loss_high: float
    loss_low: float
    smoothing: float
    last: float
    tick_ns: int
    incast: int
    incast_most: int
    burst_packets: int
    feedback_every: int
    window_packets: int
    repeat_ns: int
    retries: int
    skip: float
    halt: int
    dscp: int

    @classmethod
    def of(cls, path: Path, values: Values) -> "Constants":
        return cls(
            mtu_bytes=whole(values, "mtu"),
            bound_ns=whole(values, "bound") or None,
            percentile=real(values, "percentile"),
            early=values["early"] == "on",
            idle=real(values, "idle"),
            idle_least=real(values, "idle_least"),
            idle_most=real(values, "idle_most"),
            idle_step=real(values, "idle_step"),
            loss_high=real(values, "loss_high"),
            loss_low=real(values, "loss_low"),
            smoothing=real(values, "smoothing"),
            last=real(values, "last"),
            tick_ns=whole(values, "tick"),
            incast=whole(values, "incast"),
            incast_most=whole(values, "incast_most"),
            burst_packets=min(whole(values, "burst"), path.max_burst_packets),
            feedback_every=whole(values, "feedback_every"),
            window_packets=whole(values, "window"),
            repeat_ns=whole(values, "repeat"),
            retries=whole(values, "retries"),
            skip=real(values, "skip"),
            halt=whole(values, "halt"),
            dscp=whole(values, "dscp"),
        )
