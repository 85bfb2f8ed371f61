"""In-network aggregation packets: our 16-byte header, the values behind it, RoCE framing. Encode and decode, no state.

A packet in UDP (port 48864, SwitchML's first) is `header | values`; all of it is big-endian. The header:

    kind 8 | job 8 | worker 16 | version 1, slot 15 | values 16 | chunk 32 | exponent 8, signed | flags 8 | reserved 16

Values are int32, as many as the header says: 0 (a round of exponents alone) or 32, 64 .. 256, the same number in all
packets of a job that have any; a last chunk is padded with zeros. `worker` is the sender's index among the children of
the switch that receives the packet, and 0 in a result. Flags and the reserved bits are 0, but with a server.

With a server (ATP's protocol, NSDI 2021; p4/aggregate_besteffort.p4) a contribution that is sent again says so (AGAIN).
What a switch has of a chunk goes to the server (PARTIAL) when it is whole or has to, with a bitmap of the workers whose
contributions it is the sum of: the lower half in place of `worker`, the upper half in place of the reserved bits. The
server sends the sum to the switch (SUM), which makes it the result; `worker` is 0 then, or with the flag ALONE the one
that it is for. The flag CONGESTED is set where a queue was deep on any contribution's way, and comes with the result.

With RoCE framing (port 4791) a BTH (UC SEND ONLY) stands before the header and an ICRC behind the values.

What the switches rely on (SwitchML's protocol, NSDI 2021, section 3.5, and what follows from chunks with numbers):
  - A slot takes one chunk after the other, with versions 0 and 1 by turns and numbers that grow (modulo 2^32, by less
    than 2^31). They go on from one message of a job to the next, so that a late duplicate is known by its number.
  - A worker sends a slot's next chunk only when it has the result of the one before.
  - A worker that lacks a result sends its packet again, unchanged.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from testbed.wire import MalformedError, roce

UDP_PORT = 48864  # 0xBEE0, the first of SwitchML's ports (its public p4 sources)
HEADER_BYTES = 16
VALUE_BYTES = 4
BLOCK_VALUES = 32
MOST_VALUES = 256  # SwitchML's larger packet
MOST_SLOTS = 1 << 15
MOST_WORKERS = 32  # children of one switch: the width of its bitmaps
LEAST_EXPONENT, MOST_EXPONENT = -128, 127
UC_SEND_ONLY = 0x24  # IBTA volume 1, table 38: unreliable connection 0x20, SEND ONLY 4

LAYOUT = struct.Struct(">BBHHHIbBH")
_VERSION_BIT = 1 << 15
_BTH = struct.Struct(">BBHII")


class Kind(IntEnum):
    """What a packet is: a child's contribution on its way up, or the sum on its way down; and, with a server, the same
    contribution again, what goes from the switch to the server, and what comes back."""

    ADD = 1
    RESULT = 2
    AGAIN = 3
    PARTIAL = 4
    SUM = 5


class Flag(IntFlag):
    """What `flags` has of a job with a server."""

    CONGESTED = 1
    ALONE = 2


@dataclass(frozen=True, slots=True)
class Header:
    """`values` counts those that follow; `exponent` is of the slot's next chunk, in a result the children's largest.

    upper: the reserved bits.
    """

    kind: Kind
    job: int
    worker: int
    slot: int
    version: int
    values: int
    chunk: int
    exponent: int = 0
    flags: int = 0
    upper: int = 0


def encode(header: Header) -> bytes:
    """The 16 bytes of `header`; raises `MalformedError` for a number that does not fit its field."""
    _check_values(header.values)
    if not 0 <= header.slot < MOST_SLOTS or header.version not in (0, 1):
        raise MalformedError(f"slot {header.slot}, version {header.version}: there are {MOST_SLOTS} slots, 2 versions")
    place = header.version << 15 | header.slot
    try:
        return LAYOUT.pack(
            header.kind, header.job, header.worker, place, header.values,
            header.chunk & 0xFFFFFFFF, header.exponent, header.flags, header.upper,
        )  # fmt: skip
    except struct.error as error:
        raise MalformedError(f"an aggregation header: {error}") from None


def decode(data: bytes | memoryview) -> Header:
    """The header at the head of `data`. Raises `MalformedError`."""
    if len(data) < HEADER_BYTES:
        raise MalformedError(f"{len(data)} bytes are no aggregation header ({HEADER_BYTES})")
    kind, job, worker, place, values, chunk, exponent, flags, upper = LAYOUT.unpack_from(data)
    if kind not in Kind.__members__.values():
        raise MalformedError(f"kind {kind} of an aggregation packet is not known")
    _check_values(values)
    slot, version = place & _VERSION_BIT - 1, place >> 15
    return Header(Kind(kind), job, worker, slot, version, values, chunk, exponent, flags, upper)


def split(data: bytes | memoryview) -> tuple[Header, memoryview]:
    """Header and values (big-endian int32) of what came in UDP. Raises `MalformedError`."""
    header = decode(data)
    values = memoryview(data)[HEADER_BYTES:]
    if len(values) != header.values * VALUE_BYTES:
        raise MalformedError(f"{len(values)} bytes behind an aggregation header are not {header.values} values")
    return header, values


def bth(queue_pair: int, psn: int) -> bytes:
    """The 12 bytes before a header in RoCE framing. `psn` is taken modulo 2^24."""
    return _BTH.pack(UC_SEND_ONLY, 0, roce.DEFAULT_PKEY, queue_pair, psn % roce.PSN_MODULUS)


def without_bth(data: bytes | memoryview) -> memoryview:
    """What follows the BTH of a packet in RoCE framing, given without its ICRC. Raises `MalformedError`."""
    if len(data) < roce.BTH_BYTES or data[0] != UC_SEND_ONLY:
        raise MalformedError("no UC SEND ONLY packet")
    return memoryview(data)[roce.BTH_BYTES :]


def _check_values(values: int) -> None:
    if values not in range(0, MOST_VALUES + 1, BLOCK_VALUES):
        raise MalformedError(f"{values} values: a packet has a multiple of {BLOCK_VALUES}, at most {MOST_VALUES}")
