"""The native core; see `__init__.pyi`."""

from testbed.netcore._core import (
    LONGEST_NS,
    MAX_DATAGRAM_BYTES,
    MAX_SEGMENTS,
    SLOT_BYTES,
    Fabric,
    icrc,
    open_tap,
    ppoll,
    prepare_udp,
    receive_segments,
    roce_decode,
    roce_encode,
    send_segments,
    set_running,
    set_timer_slack,
    socket_drops,
)

__all__ = [
    "LONGEST_NS",
    "MAX_DATAGRAM_BYTES",
    "MAX_SEGMENTS",
    "SLOT_BYTES",
    "Fabric",
    "icrc",
    "open_tap",
    "ppoll",
    "prepare_udp",
    "receive_segments",
    "roce_decode",
    "roce_encode",
    "send_segments",
    "set_running",
    "set_timer_slack",
    "socket_drops",
]
