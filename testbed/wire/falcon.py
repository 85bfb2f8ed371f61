"""The packets of the Falcon-like transport: encode and decode only.

A header begins as RoCEv2's BTH does (opcode, padding, partition, queue pair with BECN, ack request with PSN), with an
opcode that is its maker's (0xC0 and above are left to makers by IBTA), so that padding and the ICRC follow as RoCEv2's
do. After it, big-endian:

    data      t1 (32 bits, ns), label (8), 24 reserved, then a RETH: offset, tag, length of the whole message
    ack       t1 echoed, held (32, ns: from when that packet came), label, 24 reserved; the PSN is the expected one
    eack      an ack, and 256 bits: bit i (least significant first) tells of the packet i + 1 behind the expected one
    refusal   syndrome (8, an AETH's), 24 reserved; the PSN is the expected one

What is in them is Falcon's (packet and EACK of its specification, recalled); how it is laid out is our choice.
"""

import struct
from typing import NamedTuple

from testbed.wire import MalformedError
from testbed.wire.roce import CNP, DEFAULT_PKEY, OPCODES

UDP_PORT = 4791
DATA, ACK, EACK, REFUSAL = 0xF0, 0xF1, 0xF2, 0xF3
BITMAP_BITS = 256
TIME_MASK = 0xFFFFFFFF

_BTH = struct.Struct(">BBHII")
_DATA = struct.Struct(">BBHIIIB3xQII")
_ACK = struct.Struct(">BBHIIIIB3x")
_REFUSAL = struct.Struct(">BBHIIB3x")
_ASKS = 1 << 31
_BECN = 1 << 30
_MASK = 0xFFFFFF
_ALONE = 0x80  # every packet is told of by itself: see `testbed.wire.roce.OPCODES`

DATA_BYTES = _DATA.size
ACK_BYTES = _ACK.size
_SIZES = {DATA: DATA_BYTES, ACK: ACK_BYTES, EACK: ACK_BYTES + BITMAP_BITS // 8, REFUSAL: _REFUSAL.size}
HEADERS: bytes = bytes(
    _ALONE | _SIZES[first] if first in _SIZES else OPCODES[first] if first == CNP else 0 for first in range(256)
)


class Data(NamedTuple):
    """A packet with a piece of a message; asks: for an acknowledgement at once."""

    psn: int
    asks: bool
    pad: int
    t1: int
    label: int
    offset: int
    tag: int
    length: int


class Ack(NamedTuple):
    """All before the PSN is there, and what the bitmap tells of. marked: some came with a congestion mark."""

    psn: int
    t1: int
    held_ns: int
    label: int
    marked: bool
    bitmap: int


class Refusal(NamedTuple):
    """All before the PSN is there, and something cannot be taken, for a reason as an AETH's syndrome has it."""

    psn: int
    syndrome: int


def encode_data(queue_pair: int, data: Data) -> bytes:
    psn = data.asks << 31 | data.psn & _MASK
    return _DATA.pack(
        DATA, data.pad << 4, DEFAULT_PKEY, queue_pair, psn, data.t1 & TIME_MASK, data.label, data.offset, data.tag,
        data.length,
    )  # fmt: skip


def encode_ack(queue_pair: int, ack: Ack) -> bytes:
    """An eack if its bitmap tells of anything."""
    opcode, destination = EACK if ack.bitmap else ACK, ack.marked << 30 | queue_pair
    held_ns = min(ack.held_ns, TIME_MASK)
    head = _ACK.pack(opcode, 0, DEFAULT_PKEY, destination, ack.psn & _MASK, ack.t1 & TIME_MASK, held_ns, ack.label)
    return head + ack.bitmap.to_bytes(BITMAP_BITS // 8, "little") if ack.bitmap else head


def encode_refusal(queue_pair: int, refusal: Refusal) -> bytes:
    return _REFUSAL.pack(REFUSAL, 0, DEFAULT_PKEY, queue_pair, refusal.psn & _MASK, refusal.syndrome)


def decode(header: bytes) -> tuple[int, Data | Ack | Refusal]:
    """The queue pair that a header goes to, and what it says; raises MalformedError."""
    if not header or _SIZES.get(header[0]) != len(header):
        raise MalformedError(f"{len(header)} bytes are no header of the Falcon-like transport")
    opcode, flags, pkey, destination, sequence = _BTH.unpack_from(header)
    if pkey != DEFAULT_PKEY or flags & 0xF:
        raise MalformedError(f"partition {pkey:#06x}, version {flags & 0xF}")
    queue_pair, psn = destination & _MASK, sequence & _MASK
    if opcode == DATA:
        *_, t1, label, offset, tag, length = _DATA.unpack(header)
        return queue_pair, Data(psn, sequence >= _ASKS, flags >> 4 & 3, t1, label, offset, tag, length)
    if opcode == REFUSAL:
        return queue_pair, Refusal(psn, _REFUSAL.unpack(header)[-1])
    *_, t1, held_ns, label = _ACK.unpack_from(header)
    bitmap = int.from_bytes(header[ACK_BYTES:], "little")
    return queue_pair, Ack(psn, t1, held_ns, label, destination & _BECN != 0, bitmap)
