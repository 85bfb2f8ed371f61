"""Segments of the model: what stands for a TCP header, in a datagram that makes a frame as long as TCP's.

A TCP header with timestamps has 32 bytes; here 8 are UDP's, 20 these, and 4 the ICRC that the simulated NIC counts for
packets whose payload travels by reference. Sequence numbers count bytes from the connection's beginning and never wrap.
"""

import struct
from typing import NamedTuple

from testbed.transport.framing import Framing
from testbed.wire import MalformedError

UDP_PORT = 5000  # where the emulated ranks' ports begin
HEADER_BYTES = 20
OPCODE = 0xE0  # of no RoCE packet
_LAYOUT = struct.Struct(">BBHI6s6s")  # opcode, pad << 4, 0, 0 (what is told apart there is not), sequence, acknowledged

# For `testbed.netcore.Fabric.open_socket`: the bytes of the header by opcode; bit 7: a run of its own, told at once.
OPCODES = bytes(HEADER_BYTES | 0x80 if opcode == OPCODE else 0 for opcode in range(256))
FRAMING = Framing(UDP_PORT, OPCODES, "icrc", HEADER_BYTES, HEADER_BYTES)


class Segment(NamedTuple):
    """Where its payload begins in the stream, and up to where its sender has the other direction's."""

    sequence: int
    acknowledged: int


def encode(segment: Segment, payload_bytes: int) -> bytes:
    """Its header."""
    sequence, acknowledged = (number.to_bytes(6, "big") for number in segment)
    return _LAYOUT.pack(OPCODE, (-payload_bytes & 3) << 4, 0, 0, sequence, acknowledged)


def decode(header: bytes) -> Segment:
    """Undoes `encode`; raises MalformedError."""
    if len(header) != HEADER_BYTES or header[0] != OPCODE:
        raise MalformedError(f"{len(header)} bytes are no header of a segment")
    return Segment(int.from_bytes(header[8:14], "big"), int.from_bytes(header[14:20], "big"))
