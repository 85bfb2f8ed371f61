"""What the rules that scale published constants have in common: the packet, and the network that it travels."""

from testbed.transport.endpoint import Path
from testbed.transport.parameters import Values
from testbed.wire.ethernet import UDP_WIRE_BYTES
from testbed.wire.roce import BTH_BYTES, ICRC_BYTES

_MTU_BYTES = 1024  # of a transport without the key `mtu`
_FEEDBACK_RTTS = 10  # our choice: the least rate still sends a packet in so many round trips


def packet_bits(values: Values) -> int:
    """A full packet on the wire."""
    mtu_bytes = values.get("mtu", _MTU_BYTES)
    assert isinstance(mtu_bytes, int)
    return 8 * (mtu_bytes + BTH_BYTES + ICRC_BYTES + UDP_WIRE_BYTES)


def bdp_packets(path: Path, values: Values) -> int:
    """Full packets that fill the longest path, at least 1."""
    return max(1, round(path.rate_bps * path.base_rtt_ns / (10**9 * packet_bits(values))))


def within_queue(path: Path, delay_ns: float, share: float) -> int:
    """`delay_ns` of queueing, but at most `share` of the fullest queue: of more, nobody could ever hear."""
    return round(min(delay_ns, share * path.queueing_ns) if path.queueing_ns else delay_ns)


def least_rate_bps(path: Path, values: Values) -> int:
    """A full packet in ten base RTTs, at most the line's rate."""
    return min(path.rate_bps, max(1, packet_bits(values) * 10**9 // (_FEEDBACK_RTTS * path.base_rtt_ns)))
