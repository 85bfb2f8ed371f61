"""How a transport's packets lie in UDP, which whoever drives an endpoint lays out and takes apart."""

from dataclasses import dataclass
from typing import Literal

from testbed.wire import aggregation, roce

HEADER_MASK = 0x3F
_FIRST_BYTES = 256


@dataclass(frozen=True, slots=True)
class Framing:
    """`headers[b]` tells of packets whose first byte is b: bits 0-5 are the bytes of the header, 0 if there is no such
    packet. `port` is the UDP port that they go to.

    checksum: `icrc`: a header begins as a BTH does (12 bytes or more: the payload's padding in bits 4-5 of the second
    byte, queue pair, PSN), and padding to 4 bytes and RoCEv2's ICRC follow the payload; bits 6 and 7 of `headers` are
    as in `testbed.wire.roce.OPCODES` (with bit 7 alone every packet is told of at once, as a run of its own). `udp`:
    header and payload are all there is, of any length, and UDP's checksum guards them; bits 6 and 7 mean nothing, and
    the packets of a run that comes may be of any messages.

    data_bytes, answer_bytes: of the header of a data packet, and of what answers one: what is predicted relies on them.
    """

    port: int
    headers: bytes
    checksum: Literal["icrc", "udp"]
    data_bytes: int
    answer_bytes: int

    def __post_init__(self) -> None:
        if len(self.headers) != _FIRST_BYTES:
            raise ValueError(f"a framing tells of {_FIRST_BYTES} first bytes, not {len(self.headers)}")
        if self.checksum == "icrc" and any(0 < size & HEADER_MASK < roce.BTH_BYTES for size in self.headers):
            raise ValueError(f"with an ICRC a header has {roce.BTH_BYTES} bytes at the least")

    @property
    def trailer_bytes(self) -> int:
        """What follows the payload, without padding."""
        return roce.ICRC_BYTES if self.checksum == "icrc" else 0


def plain(port: int, header_bytes: int) -> Framing:
    """All headers of one length, without an ICRC."""
    return Framing(port, bytes([header_bytes]) * _FIRST_BYTES, "udp", header_bytes, header_bytes)


ROCE = Framing(roce.UDP_PORT, roce.OPCODES, "icrc", roce.BTH_BYTES, roce.BTH_BYTES + roce.AETH_BYTES)


def of_aggregation(name: str) -> Framing:
    """That of in-network aggregation: `udp`, or `roce`, whose packets are messages of their own."""
    if name == "udp":
        return plain(aggregation.UDP_PORT, aggregation.HEADER_BYTES)
    size = roce.BTH_BYTES + aggregation.HEADER_BYTES
    headers = bytearray(_FIRST_BYTES)
    headers[aggregation.UC_SEND_ONLY] = 0x80 | size
    return Framing(roce.UDP_PORT, bytes(headers), "icrc", size, size)
