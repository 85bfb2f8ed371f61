"""The constants that transports with bounded loss share, and what a flow makes of them."""

from testbed.transport.bounded.flow import Limits
from testbed.transport.bounded.outgoing import Patience
from testbed.transport.endpoint import Path
from testbed.transport.framing import Framing
from testbed.transport.parameters import Parameter, Value, Values, whole
from testbed.wire.ethernet import UDP_WIRE_BYTES

_IPV4_AND_UDP_BYTES = 28
_WORD_BYTES = 8  # payloads hold whole numbers of any type
_MOST_BYTES = 1 << 14  # of a payload
_ROUND_TRIPS = 4


def mtu(framing: Framing, default: int, source: str) -> Parameter:
    """`mtu`, the payload bytes of a full packet."""
    around = framing.data_bytes + framing.trailer_bytes

    def fitting(path: Path, _: Values) -> Value:
        return min(_MOST_BYTES, (path.mtu_bytes - _IPV4_AND_UDP_BYTES - around) // _WORD_BYTES * _WORD_BYTES)

    return Parameter(
        "mtu",
        "payload bytes of a full packet: a chunk",
        default,
        "MTU bytes",
        source,
        f"what fits in the links' MTU, a multiple of {_WORD_BYTES}, at most {_MOST_BYTES}",
        fitting,
        least=_WORD_BYTES,
        most=_MOST_BYTES,
    )


def probe_timeout(default_ns: int, source: str) -> Parameter:
    """`probe_timeout`, how long an answer is waited for."""
    return Parameter(
        "probe_timeout",
        "how long an answer to a PROBE is waited for at the most, as long as round trips are not known to be longer",
        default_ns,
        "ns",
        source,
        f"{_ROUND_TRIPS} base RTTs and the fullest queue",
        lambda path, _: _ROUND_TRIPS * path.base_rtt_ns + path.queueing_ns,
        least=1,
    )


PROBES = Parameter(
    "probes",
    "PROBEs in a row that nobody answers before a message fails",
    64,
    "",
    "our choice: neither system ever gives up",
    least=1,
)


def limits(path: Path, values: Values, framing: Framing, *, fruitless: int) -> Limits:
    """Of the values as resolved. fruitless: see `Patience`."""
    return Limits(
        burst_packets=path.max_burst_packets,
        frame_bytes=UDP_WIRE_BYTES + framing.trailer_bytes,
        base_rtt_ns=path.base_rtt_ns,
        patience=Patience(whole(values, "probe_timeout"), whole(values, "probes"), fruitless),
    )
