"""OptiNIC's packets in RoCEv2 framing: data that says by itself where it goes, and what beside it is small. No state.

Every data packet is an unreliable-connection RDMA WRITE ONLY with immediate data, so that a NIC could take any of them
without the one before: the RETH has the offset in the message (address), the message's tag (key) and the bytes of this
packet, the immediate data the sequence number of the work request (`wqe_seq`). That each packet has a full RETH is the
paper's, and so is this way to have them of present NICs (a reading note of arXiv 2512.22743); which field holds what is
our choice. A parity packet is such a WRITE too, with the address's top bit set.

What is small and best-effort goes to the same queue pair: CNPs, and hints, which are ACKNOWLEDGEs that name the last
packet they tell of and, in place of the count of messages, how many packets they tell of; BECN: those came marked. The
control messages that have to come (timings) go, as SEND ONLY, to a queue pair of their own, the number of the other
one with bit 23 set, and are acknowledged there as in RoCE. Both are our reading of "hints" and of "a reliable queue
pair".

A timings message: collective 32 | bytes of it 64 | n 16 | n times (step 32 | elapsed 64 | usual 64), in nanoseconds.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from testbed.wire import MalformedError
from testbed.wire.roce import (
    ACKNOWLEDGE,
    BTH_BYTES,
    CNP,
    CREDITS_UNLIMITED,
    DEFAULT_PKEY,
    IMMEDIATE_BYTES,
    OPCODES,
    RETH_BYTES,
    SEND_ONLY,
    Aeth,
    Header,
    acknowledgement,
    decode,
    encode,
    pad_bytes,
)

UC_WRITE_ONLY_IMMEDIATE = 0x2B  # IBTA volume 1, table 38: unreliable connection 0x20, WRITE ONLY with immediate 0x0b
DATA_BYTES = BTH_BYTES + RETH_BYTES + IMMEDIATE_BYTES
CONTROL_BIT = 1 << 23  # of queue pair numbers
MOST_TIMINGS = 48  # in one message: 974 bytes, which fit in any packet that holds a KiB

_DATA = struct.Struct(">BBHIIQIII")
_PARITY = 1 << 63
_ASKS = 1 << 31
_KNOWN = (ACKNOWLEDGE, CNP, SEND_ONLY)
_TIMINGS = struct.Struct(">IQH")
_TIMING = struct.Struct(">IQQ")

# As in `testbed.wire.roce.OPCODES`: every packet is told at once, as a run of its own.
HEADERS = bytes(
    0x80 | DATA_BYTES if opcode == UC_WRITE_ONLY_IMMEDIATE else OPCODES[opcode] if opcode in _KNOWN else 0
    for opcode in range(256)
)


class Data(NamedTuple):
    """A data packet's header. offset: in the message, of the first byte; of a parity packet, that of its first member.

    asks: a hint is wanted. sequence: of the work request (32 bits). bytes: of the payload.
    """

    queue_pair: int
    psn: int
    asks: bool
    parity: bool
    offset: int
    tag: int
    bytes: int
    sequence: int


class Timings(NamedTuple):
    """What a rank measured of the collective `number` over `bytes`: by step, the nanoseconds since its start, and how
    many it would usually take (0: not known yet)."""

    number: int
    bytes: int
    steps: Sequence[tuple[int, int, int]]


def encode_data(data: Data) -> bytes:
    address = data.offset | (_PARITY if data.parity else 0)
    flags = pad_bytes(data.bytes) << 4
    sequence = data.psn | (_ASKS if data.asks else 0)
    return _DATA.pack(
        UC_WRITE_ONLY_IMMEDIATE, flags, DEFAULT_PKEY, data.queue_pair, sequence, address, data.tag, data.bytes,
        data.sequence,
    )  # fmt: skip


def decode_data(header: bytes) -> Data:
    """Of a header that begins with `UC_WRITE_ONLY_IMMEDIATE`; raises MalformedError."""
    if len(header) != DATA_BYTES:
        raise MalformedError(f"a data packet has a header of {DATA_BYTES} bytes, not {len(header)}")
    _, flags, pkey, queue_pair, psn, address, tag, size, sequence = _DATA.unpack(header)
    if flags & 0xF or flags >> 4 & 3 != pad_bytes(size) or pkey != DEFAULT_PKEY:
        raise MalformedError("a data packet with another version, padding or partition key")
    return Data(
        queue_pair & 0xFFFFFF,
        psn & 0xFFFFFF,
        psn >= _ASKS,
        address >= _PARITY,
        address & _PARITY - 1,
        tag,
        size,
        sequence,
    )


def decode_other(header: bytes) -> Header:
    """Of a hint, a CNP, a control message or its acknowledgement; raises MalformedError."""
    decoded = decode(header)
    if decoded.opcode not in _KNOWN or decoded.pkey != DEFAULT_PKEY:
        raise MalformedError(f"no packet of OptiNIC's has opcode {decoded.opcode:#04x}")
    return decoded


def hint(queue_pair: int, psn: int, packets: int, marked: bool) -> bytes:
    """Tells the sender that so many packets came, the last of them `psn`, and whether they were marked."""
    return acknowledgement(queue_pair, psn, Aeth(CREDITS_UNLIMITED, packets & 0xFFFFFF), marked)


def control(queue_pair: int, number: int, size: int) -> bytes:
    """The header of control message `number` (24 bits) of `size` bytes to the reliable queue pair beside another."""
    return encode(Header(SEND_ONLY, queue_pair | CONTROL_BIT, number, ack_request=True, pad=pad_bytes(size)))


def control_acknowledgement(queue_pair: int, number: int) -> bytes:
    """That control message `number` came."""
    return acknowledgement(queue_pair | CONTROL_BIT, number, Aeth(CREDITS_UNLIMITED, 0), False)


def encode_timings(timings: Timings) -> bytes:
    """At most `MOST_TIMINGS` steps."""
    parts = [_TIMINGS.pack(timings.number, timings.bytes, len(timings.steps))]
    return b"".join([*parts, *(_TIMING.pack(*step) for step in timings.steps)])


def decode_timings(data: bytes | memoryview) -> Timings:
    """Raises MalformedError."""
    if len(data) < _TIMINGS.size:
        raise MalformedError(f"{len(data)} bytes are no timings")
    number, size, count = _TIMINGS.unpack_from(data)
    if len(data) != _TIMINGS.size + count * _TIMING.size:
        raise MalformedError(f"{len(data)} bytes are not {count} timings")
    return Timings(number, size, [_TIMING.unpack_from(data, _TIMINGS.size + i * _TIMING.size) for i in range(count)])
