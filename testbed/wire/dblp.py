"""DBLP's packets, as the public repository of its authors has them. Encode and decode, no state.

    data     chunk u32, round u32, payload length u32, CRC32 u32; then the payload
    P, S     signal u8, round u32: PROBE of the sender, STOP of the receiver
    B        signal u8, round u32, first chunk u32; then the bits of what has come, the lowest first

All is big-endian. `round` counts the messages that both ends share; here it is the message's tag. Source: the
repository, but for our readings: the CRC is of the payload; signals are packets as data are (there they go over a TCP
connection), so that data are told from them by their first byte and chunks are numbered below 2^30; a bitmap that no
packet holds goes in several, which is why B says where it begins.
"""

import struct
import zlib

from testbed.wire import MalformedError
from testbed.wire.bounded import Data, Heard, Holes, Probe, Stop

UDP_PORT = 4794  # our choice
DATA_BYTES = 16
SIGNAL_BYTES = 5
BITMAP_BYTES = 9
PROBE, STOP, BITMAP = b"PSB"
MOST_CHUNKS = 1 << 30

_DATA = struct.Struct(">IIII")
_SIGNAL = struct.Struct(">BI")
_BITMAP = struct.Struct(">BII")
_BY_SIGNAL = {PROBE: SIGNAL_BYTES, STOP: SIGNAL_BYTES, BITMAP: BITMAP_BYTES}
HEADERS = bytes(DATA_BYTES if first < MOST_CHUNKS >> 24 else _BY_SIGNAL.get(first, 0) for first in range(256))
"""Bytes of the header by its first byte, as `testbed.transport.framing.Framing` wants them."""


def data(tag: int, chunk: int, payload: bytes | bytearray | memoryview) -> bytes:
    return _DATA.pack(chunk, tag, len(payload), zlib.crc32(payload))


def probe(tag: int) -> bytes:
    return _SIGNAL.pack(PROBE, tag)


def stop(tag: int) -> bytes:
    return _SIGNAL.pack(STOP, tag)


def holes(tag: int, first: int) -> bytes:
    return _BITMAP.pack(BITMAP, tag, first)


def decode(header: bytes, payload: bytes | bytearray | memoryview) -> Heard:
    """What a packet says; raises MalformedError."""
    first = header[0] if header else 0xFF
    if not HEADERS[first] or len(header) != HEADERS[first]:
        raise MalformedError(f"{len(header)} bytes that begin with {first:#04x} are no header")
    if len(header) == DATA_BYTES:
        chunk, tag, length, checksum = _DATA.unpack(header)
        if length != len(payload) or checksum != zlib.crc32(payload):
            raise MalformedError(f"chunk {chunk} is not what its sender sent")
        return Data(tag, chunk)
    if first == BITMAP:
        return Holes(*_BITMAP.unpack(header)[1:])
    if len(payload):
        raise MalformedError(f"{len(payload)} bytes follow a signal")
    tag = _SIGNAL.unpack(header)[1]
    return Probe(tag) if first == PROBE else Stop(tag)
