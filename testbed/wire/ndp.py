"""NDP's packets: a header that is still read when a switch has cut what follows it. Encode and decode only, no state.

    data     kind, PSN   target 16   tag 32   offset 32   length 32   check 32                       22 bytes
    control  kind, PSN   syndrome, PSN   pulls 16   waiting 16   check 32                            16 bytes

All is big-endian; a kind (and a syndrome) has 8 bits, the PSN behind it 24. Data says where in which message it belongs
and up to which pull its sender wants to be pulled; its payload follows in UDP, whose checksum guards it. With Ethernet,
IPv4 and UDP a header has 64 bytes, to which NDP's switches cut. They leave no UDP checksum, so that headers have one of
their own: CRC-32 over what goes before it, from the CRC of the queue pair's number on, which is thus checked too.

Control has the PSN that is expected (all before it is there), then by kind

    ACK      the packet that came
    NACK     the packet whose header came
    PULL     nothing
    REFUSAL  the syndrome, as RoCE's AETH has it, of why something cannot be taken

and in all of them how many packets were pulled so far, and how many senders wait for a pull.

Source: ACK, NACK and PULL with its cumulative count are NDP's (Handley et al., SIGCOMM 2017; a pull number in every
answer, as public htsim has it). The layout is our choice, and so are `target`, of the kind that EQDS and Ultra Ethernet
have (recalled), and `waiting`.
"""

import struct
import zlib
from typing import NamedTuple

from testbed.wire import MalformedError

UDP_PORT = 4795  # our choice
DATA, ACK, NACK, PULL, REFUSAL = range(0xE0, 0xE5)
COUNTS = 1 << 16  # pulls and targets are counted modulo this
MOST_WAITING = COUNTS - 1

_DATA = struct.Struct(">IHIII")
_CONTROL = struct.Struct(">IIHH")
_CHECK = struct.Struct(">I")
_PSN_MASK = 0xFFFFFF

DATA_BYTES = _DATA.size + _CHECK.size
CONTROL_BYTES = _CONTROL.size + _CHECK.size
HEADERS = bytes(DATA_BYTES if kind == DATA else CONTROL_BYTES if ACK <= kind <= REFUSAL else 0 for kind in range(256))
"""Bytes of the header by its first byte, as `testbed.transport.framing.Framing` wants them."""


class Data(NamedTuple):
    """A packet with a piece of a message of `length` bytes."""

    psn: int
    target: int
    tag: int
    offset: int
    length: int


class Control(NamedTuple):
    """What a receiver says. `came`: of an ACK or a NACK."""

    kind: int
    expected: int
    pulls: int
    waiting: int
    came: int = 0
    syndrome: int = 0


def checked_from(queue_pair: int) -> int:
    """What the checks of headers to that queue pair begin with."""
    return zlib.crc32(queue_pair.to_bytes(4, "big"))


def encode_data(start: int, data: Data) -> bytes:
    """`start` as `checked_from` has it."""
    head = _DATA.pack(DATA << 24 | data.psn & _PSN_MASK, data.target % COUNTS, data.tag, data.offset, data.length)
    return head + _CHECK.pack(zlib.crc32(head, start))


def encode_control(start: int, control: Control) -> bytes:
    """`start` as `checked_from` has it."""
    head = _CONTROL.pack(
        control.kind << 24 | control.expected & _PSN_MASK,
        control.syndrome << 24 | control.came & _PSN_MASK,
        control.pulls % COUNTS,
        min(control.waiting, MOST_WAITING),
    )
    return head + _CHECK.pack(zlib.crc32(head, start))


def decode(start: int, header: bytes) -> Data | Control:
    """What a header says that comes to the queue pair of `start`; raises MalformedError, also if it is for another."""
    if not header or not HEADERS[header[0]] or HEADERS[header[0]] != len(header):
        raise MalformedError(f"{len(header)} bytes are no header of NDP's")
    head = header[: -_CHECK.size]
    if zlib.crc32(head, start) != _CHECK.unpack_from(header, len(head))[0]:
        raise MalformedError("the check of the header is wrong")
    if header[0] == DATA:
        first, target, tag, offset, length = _DATA.unpack(head)
        return Data(first & _PSN_MASK, target, tag, offset, length)
    first, second, pulls, waiting = _CONTROL.unpack(head)
    return Control(header[0], first & _PSN_MASK, pulls, waiting, second & _PSN_MASK, second >> 24)


def count_difference(a: int, b: int) -> int:
    """`a - b` of two counts as the shortest signed way round, from -2^15 to 2^15 - 1."""
    half = COUNTS >> 1
    return (a - b + half) % COUNTS - half
