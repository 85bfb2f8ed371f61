"""DLCP's packets: every one says which tensor, layer and place its bytes belong to. Encode and decode, no state.

    byte  0     1            2-3    4-7     8                  9-11  12-15   16-17   18-19
    data  kind  pad, class   layer  tensor  asks, sequence...        offset  length  0
    else  kind  pad, marked  probe  tensor  word

All is big-endian; the sequence has 31 bits after the bit that asks. `probe` is the number of a PROBE, which the BITMAP
that answers repeats, else 0; `word` the first chunk of a BITMAP, the sequence of FEEDBACK, else 0. The bits of a BITMAP
are its payload. After the payload come padding to 4 bytes and a CRC, as in
RoCEv2. Source: the fields of a data packet but `sequence`, `asks` are DLCP's (arXiv 2008.08445, as our notes have it);
their order and widths, the other packets and all numbers are our choice, since neither it nor MLT gives a layout.
"""

import struct

from testbed.wire import MalformedError
from testbed.wire.bounded import SEQUENCES, Data, Feedback, Heard, Holes, Notice, Probe, Stop

UDP_PORT = 4793  # our choice
DATA_BYTES = 20
CONTROL_BYTES = 12
DATA, PROBE, STOP, BITMAP, FEEDBACK, NOTICE = range(0xD0, 0xD6)

LARGE, SMALL = 0, 1  # classes of magnitude

_ALONE = 0x80  # told of at once, each by itself
HEADERS = bytes(
    _ALONE | DATA_BYTES if kind == DATA else _ALONE | CONTROL_BYTES if PROBE <= kind <= NOTICE else 0
    for kind in range(256)
)
"""Bytes of the header by its first byte, as `testbed.transport.framing.Framing` wants them."""

PROBES = 1 << 16  # numbers repeat after so many
_ASKS = SEQUENCES
_MARKED = 1
_DATA = struct.Struct(">BBHIIIHH")
_CONTROL = struct.Struct(">BBHII")


def data(tag: int, layer: int, offset: int, length: int, sequence: int, *, asks: bool, magnitude: int) -> bytes:
    """Of `length` bytes at `offset` of the message `tag`."""
    flags = (-length & 3) << 4 | magnitude
    return _DATA.pack(DATA, flags, layer, tag, sequence % SEQUENCES + asks * _ASKS, offset, length, 0)


def probe(tag: int, number: int) -> bytes:
    return _CONTROL.pack(PROBE, 0, number % PROBES, tag, 0)


def stop(tag: int) -> bytes:
    return _CONTROL.pack(STOP, 0, 0, tag, 0)


def holes(tag: int, first: int, number: int, packed_bytes: int) -> bytes:
    """Of a bitmap of so many bytes."""
    return _CONTROL.pack(BITMAP, (-packed_bytes & 3) << 4, number % PROBES, tag, first)


def feedback(sequence: int, *, marked: bool) -> bytes:
    return _CONTROL.pack(FEEDBACK, _MARKED if marked else 0, 0, 0, sequence % SEQUENCES)


def notice() -> bytes:
    return _CONTROL.pack(NOTICE, 0, 0, 0, 0)


def decode(header: bytes, payload_bytes: int, chunk_bytes: int) -> Heard:
    """What a packet says whose message is cut into chunks of `chunk_bytes`; raises MalformedError."""
    kind = header[0] if header else -1
    if kind == DATA and len(header) == DATA_BYTES:
        _, _, _, tag, sequence, offset, length, _ = _DATA.unpack(header)
        if length != payload_bytes or offset % chunk_bytes:
            raise MalformedError(f"{payload_bytes} bytes at {offset} are no chunk of {length} bytes")
        return Data(tag, offset // chunk_bytes, sequence % SEQUENCES, sequence >= _ASKS)
    if not PROBE <= kind <= NOTICE or len(header) != CONTROL_BYTES:
        raise MalformedError(f"{len(header)} bytes that begin with {kind:#04x} are no header")
    _, flags, number, tag, word = _CONTROL.unpack(header)
    if kind == BITMAP:
        return Holes(tag, word, number)
    if payload_bytes:
        raise MalformedError(f"{payload_bytes} bytes follow a packet that has no payload")
    if kind == PROBE:
        return Probe(tag, number)
    if kind == STOP:
        return Stop(tag)
    return Feedback(word % SEQUENCES, flags & _MARKED != 0) if kind == FEEDBACK else Notice()
