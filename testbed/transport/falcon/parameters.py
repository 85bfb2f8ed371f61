"""The constants of the Falcon-like transport, and what a connection makes of them."""

from collections.abc import Callable
from dataclasses import dataclass

from testbed.transport.congestion.scaling import bdp_packets
from testbed.transport.endpoint import Path
from testbed.transport.framing import Framing
from testbed.transport.parameters import Parameter, Value, Values, real, whole
from testbed.transport.roce.parameters import of_roce, rnr_retries
from testbed.wire.falcon import ACK_BYTES, BITMAP_BITS, DATA_BYTES, HEADERS, UDP_PORT

FRAMING = Framing(UDP_PORT, HEADERS, "icrc", DATA_BYTES, ACK_BYTES)
_RTT_NS = 16_667  # of the published values: Swift's base target of 25 us is 1.5 of it
_RTO_LEAST_NS = 250_000
_WINDOW = 128

_DEFAULT = "Falcon simulator's default"
_IN_RTTS = "as many base RTTs as published of 16.7 us (Swift's base target of 25 us is 1.5)"


def _in_rtts(published_ns: int) -> Callable[[Path, Values], Value]:
    return lambda path, _: max(1, published_ns * path.base_rtt_ns // _RTT_NS)


def _rto_least(path: Path, _: Values) -> Value:
    return max(_RTO_LEAST_NS * path.base_rtt_ns // _RTT_NS, path.base_rtt_ns + path.queueing_ns)


PARAMETERS = (
    of_roce("mtu"),
    Parameter("paths", "flow labels of a connection", 4, "", "Falcon simulator, second generation", least=1, most=8),
    Parameter(
        "window",
        "most packets from the first that is not acknowledged on: what the bitmap of an answer tells of",
        _WINDOW,
        "packets",
        "Falcon's window of data (recalled)",
        f"2 BDP, at least as published, at most {BITMAP_BITS}",
        lambda path, values: min(BITMAP_BITS, max(_WINDOW, 2 * bdp_packets(path, values))),
        least=1,
        most=BITMAP_BITS,
    ),
    Parameter("ack_every", "an answer is due every so many packets of a path", 10, "packets", _DEFAULT, least=1),
    Parameter(
        "ack_timeout",
        "an answer is due so long after the first packet that it is for",
        8_000,
        "ns",
        _DEFAULT,
        _IN_RTTS,
        _in_rtts(8_000),
    ),
    Parameter(
        "ack_request_every",
        "one in so many packets of a path asks for an answer at once",
        10,
        "packets",
        f"{_DEFAULT}: one in ten, by chance",
        least=1,
    ),
    Parameter(
        "ack_request_window", "with a window of at most this every run asks for an answer", 2, "packets", _DEFAULT
    ),
    Parameter(
        "ooo_distance",
        "a packet is lost once one that left so many places later on its path is there",
        3,
        "packets",
        _DEFAULT,
        least=1,
    ),
    Parameter(
        "early_retransmits", "how often a packet is sent again before its timeout", 16, "", f"{_DEFAULT} (threshold)"
    ),
    Parameter(
        "rack_factor",
        "round trips beyond that of a later packet after which an earlier one is lost",
        0.25,
        "",
        "Falcon simulator (RACK is off by default)",
    ),
    Parameter(
        "tlp_factor",
        "round trips without an answer until the first packet is sent again",
        2.0,
        "",
        "Falcon simulator (TLP is off by default); RFC 8985",
    ),
    Parameter(
        "tlp_least", "but at least this", 50_000, "ns", "Falcon simulator: 2 base targets", _IN_RTTS, _in_rtts(50_000)
    ),
    Parameter("rto_factor", "timeout: so many smoothed round trips", 2.0, "", _DEFAULT, least=1),
    Parameter(
        "rto_least",
        "but at least this",
        _RTO_LEAST_NS,
        "ns",
        _DEFAULT,
        f"{_IN_RTTS}, at least one and the fullest queue",
        _rto_least,
        least=1,
    ),
    Parameter(
        "rto_initial",
        "timeout before a round trip is known",
        1_000_000,
        "ns",
        _DEFAULT,
        _IN_RTTS,
        _in_rtts(1_000_000),
        least=1,
    ),
    Parameter("rtt_smoothing", "weight of what was in the smoothed round trip", 0.75, "fraction", _DEFAULT),
    Parameter("plb_delay", "a round trip above so many targets is congested", 1.01, "", _DEFAULT),
    Parameter("plb_share", "and a round is, with more than this share of such", 0.5, "fraction", _DEFAULT),
    Parameter("plb_rounds", "after so many congested rounds in a row the path changes", 5, "", _DEFAULT, least=1),
    of_roce("retries"),
    of_roce("rnr_retries"),
    of_roce("rnr_timer"),
    of_roce("dscp"),
    of_roce("cnp_dscp"),
)


@dataclass(frozen=True, slots=True)
class Constants:
    """The values as one endpoint uses them."""

    mtu_bytes: int
    paths: int
    window_packets: int
    ack_every: int
    ack_timeout_ns: int
    ack_request_every: int
    ack_request_window: int
    ooo_distance: int
    early_retransmits: int
    rack_factor: float
    tlp_factor: float
    tlp_least_ns: int
    rto_factor: float
    rto_least_ns: int
    rto_initial_ns: int
    rtt_smoothing: float
    plb_delay: float
    plb_share: float
    plb_rounds: int
    retries: int
    rnr_retries: int | None  # None: for ever
    rnr_timer: int
    dscp: int
    cnp_dscp: int
    burst_packets: int

    @classmethod
    def of(cls, path: Path, values: Values) -> "Constants":
        return cls(
            mtu_bytes=whole(values, "mtu"),
            paths=whole(values, "paths"),
            window_packets=whole(values, "window"),
            ack_every=whole(values, "ack_every"),
            ack_timeout_ns=whole(values, "ack_timeout"),
            ack_request_every=whole(values, "ack_request_every"),
            ack_request_window=whole(values, "ack_request_window"),
            ooo_distance=whole(values, "ooo_distance"),
            early_retransmits=whole(values, "early_retransmits"),
            rack_factor=real(values, "rack_factor"),
            tlp_factor=real(values, "tlp_factor"),
            tlp_least_ns=whole(values, "tlp_least"),
            rto_factor=real(values, "rto_factor"),
            rto_least_ns=whole(values, "rto_least"),
            rto_initial_ns=whole(values, "rto_initial"),
            rtt_smoothing=real(values, "rtt_smoothing"),
            plb_delay=real(values, "plb_delay"),
            plb_share=real(values, "plb_share"),
            plb_rounds=whole(values, "plb_rounds"),
            retries=whole(values, "retries"),
            rnr_retries=rnr_retries(values),
            rnr_timer=whole(values, "rnr_timer"),
            dscp=whole(values, "dscp"),
            cnp_dscp=whole(values, "cnp_dscp"),
            burst_packets=path.max_burst_packets,
        )
