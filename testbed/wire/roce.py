"""RoCEv2 packets: BTH with its extension headers, CNP, PSN arithmetic, padding and ICRC. Encode and decode, no state.

A packet in UDP (port 4791) is `header | payload | 0-3 bytes of padding | ICRC`, where `header` is the BTH (12 bytes)
and what its opcode calls for: RETH (16) on the first or only packet of a WRITE, ImmDt (4) on the last or only packet of
a message with immediate data, AETH (4) on an acknowledgement, 16 reserved bytes on a CNP. All but the ICRC is
big-endian. Bad bytes raise `MalformedError`. Source of the layouts: InfiniBand Architecture volume 1, chapter 9, and
its annex A17 (RoCEv2), as the public headers of Linux's soft-RoCE have them; of the CNP: a ConnectX-4 Lx capture.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from functools import lru_cache
from typing import NamedTuple

from testbed.wire import MalformedError

UDP_PORT = 4791
PROBE_PORT = UDP_PORT + 1  # not RoCE: next to it a run sends its own probes, which no program takes for the job's
BTH_BYTES = 12
RETH_BYTES = 16
AETH_BYTES = 4
IMMEDIATE_BYTES = 4
CNP_RESERVED_BYTES = 16
ICRC_BYTES = 4
MTUS = (256, 512, 1024, 2048, 4096)
DEFAULT_PKEY = 0xFFFF
PSN_MODULUS = 1 << 24
CREDITS_UNLIMITED = 0x1F  # AETH of an ACK: the responder does not count credits
NAK_SEQUENCE = 0x60
NAK_INVALID_REQUEST = 0x61
NAK_REMOTE_ACCESS = 0x62
NAK_REMOTE_OPERATION = 0x63
RNR_NAK = 0x20  # low five bits: an index of RNR_TIMER_NS

# Source: the timer table of the RNR NAK (IBTA table 45, as in soft-RoCE), in nanoseconds by code.
RNR_TIMER_NS = tuple(
    microseconds * 1000
    for microseconds in (
        *(655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120, 7680, 10240),
        *(15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520),
    )
)

_BTH = struct.Struct(">BBHII")
_ACKNOWLEDGEMENT = struct.Struct(">BBHIII")
_ONLY_WRITE = struct.Struct(">BBHIIQIII")
_RETH = struct.Struct(">QII")
_WORD = struct.Struct(">I")
_ACK_REQUEST = 1 << 31
_FECN = 1 << 31
_BECN = 1 << 30


class Verb(IntEnum):
    """What a data packet does at the responder."""

    SEND = auto()
    WRITE = auto()


class Position(IntEnum):
    """Where in its message a data packet stands."""

    FIRST = auto()
    MIDDLE = auto()
    LAST = auto()
    ONLY = auto()


@dataclass(frozen=True, slots=True)
class Operation:
    """What an opcode stands for. `verb` and `position` are None for what carries no data."""

    name: str
    verb: Verb | None
    position: Position | None
    immediate: bool
    header_bytes: int
    ends: bool  # the last packet of a message


def _data_operations() -> dict[int, Operation]:
    layout = (
        (
            0x00,
            Verb.SEND,
            (Position.FIRST, Position.MIDDLE, Position.LAST, Position.LAST, Position.ONLY, Position.ONLY),
        ),
        (
            0x06,
            Verb.WRITE,
            (Position.FIRST, Position.MIDDLE, Position.LAST, Position.LAST, Position.ONLY, Position.ONLY),
        ),
    )
    operations = {}
    for base, verb, positions in layout:
        for offset, position in enumerate(positions):
            immediate = offset in (3, 5)
            reth = verb is Verb.WRITE and position in (Position.FIRST, Position.ONLY)
            size = BTH_BYTES + (RETH_BYTES if reth else 0) + (IMMEDIATE_BYTES if immediate else 0)
            name = f"{verb.name} {position.name}{' with immediate' if immediate else ''}"
            ends = position in (Position.LAST, Position.ONLY)
            operations[base + offset] = Operation(name, verb, position, immediate, size, ends)
    return operations


SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMMEDIATE, SEND_ONLY, SEND_ONLY_IMMEDIATE = range(0x00, 0x06)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMMEDIATE, WRITE_ONLY, WRITE_ONLY_IMMEDIATE = range(0x06, 0x0C)
_BEGINS, _ENDS = bytes((WRITE_FIRST,)), bytes((WRITE_LAST_IMMEDIATE,))
ACKNOWLEDGE = 0x11
CNP = 0x81

OPERATIONS: dict[int, Operation] = {
    **_data_operations(),
    ACKNOWLEDGE: Operation("ACKNOWLEDGE", None, None, False, BTH_BYTES + AETH_BYTES, False),
    CNP: Operation("CNP", None, None, False, BTH_BYTES + CNP_RESERVED_BYTES, False),
}
_WITH_RETH = frozenset((WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMMEDIATE))

# For `testbed.netcore`: by opcode, the bytes of the header (0: unknown), bit 7 where it begins a run, and bit 6 where
# more packets of its message follow.
_RUN_BITS = {Position.FIRST: 0xC0, Position.MIDDLE: 0x40, Position.LAST: 0x00}
OPCODES: bytes = bytes(
    operation.header_bytes | (_RUN_BITS.get(operation.position, 0x80) if operation.position else 0x80)
    if (operation := OPERATIONS.get(opcode))
    else 0
    for opcode in range(256)
)


class Reth(NamedTuple):
    """RDMA extended transport header: where a WRITE goes and how long the whole message is."""

    address: int
    key: int
    length: int


class Aeth(NamedTuple):
    """Acknowledgement extended transport header: the syndrome, and the count of completed messages (MSN)."""

    syndrome: int
    msn: int


class Header(NamedTuple):
    """A BTH and its extensions. `pad` is how many bytes of padding follow the payload."""

    opcode: int
    destination_qp: int
    psn: int
    ack_request: bool = False
    pad: int = 0
    reth: Reth | None = None
    aeth: Aeth | None = None
    immediate: int | None = None
    solicited: bool = False
    migration: bool = False
    fecn: bool = False
    becn: bool = False
    pkey: int = DEFAULT_PKEY

    @property
    def operation(self) -> Operation:
        return OPERATIONS[self.opcode]


def encode(header: Header) -> bytes:
    """The bytes of `header`; raises `MalformedError` when it has not just the extensions that its opcode calls for."""
    operation = OPERATIONS.get(header.opcode)
    if operation is None:
        raise MalformedError(f"opcode {header.opcode:#04x} is not known")
    flags = header.solicited << 7 | header.migration << 6 | header.pad << 4
    destination = header.fecn << 31 | header.becn << 30 | header.destination_qp
    parts = [_BTH.pack(header.opcode, flags, header.pkey, destination, header.ack_request << 31 | header.psn)]
    if header.reth is not None:
        parts.append(_RETH.pack(header.reth.address, header.reth.key, header.reth.length))
    if header.aeth is not None:
        parts.append(_WORD.pack(header.aeth.syndrome << 24 | header.aeth.msn))
    if header.immediate is not None:
        parts.append(_WORD.pack(header.immediate))
    if header.opcode == CNP:
        parts.append(bytes(CNP_RESERVED_BYTES))
    encoded = b"".join(parts)
    if (
        len(encoded) != operation.header_bytes
        or (header.reth is not None) != (header.opcode in _WITH_RETH)
        or (header.immediate is not None) != operation.immediate
    ):
        raise MalformedError(f"{operation.name} has other extension headers than those given")
    return encoded


def decode(data: bytes) -> Header:
    """The header whose bytes are exactly `data`; reserved bits are ignored, as IBTA asks of a receiver."""
    if len(data) < BTH_BYTES:
        raise MalformedError(f"{len(data)} bytes are no BTH ({BTH_BYTES})")
    opcode, flags, pkey, destination, sequence = _BTH.unpack_from(data)
    operation = OPERATIONS.get(opcode)
    if operation is None:
        raise MalformedError(f"opcode {opcode:#04x} is not known")
    if flags & 0xF:
        raise MalformedError(f"transport header version {flags & 0xF} is not 0")
    if len(data) != operation.header_bytes:
        raise MalformedError(f"{operation.name} has a header of {operation.header_bytes} bytes, not {len(data)}")
    reth = aeth = immediate = None
    if opcode in _WITH_RETH:
        reth = Reth(*_RETH.unpack_from(data, BTH_BYTES))
    if opcode == ACKNOWLEDGE:
        word = _WORD.unpack_from(data, BTH_BYTES)[0]
        aeth = Aeth(word >> 24, word & 0xFFFFFF)
    if operation.immediate:
        immediate = _WORD.unpack_from(data, operation.header_bytes - IMMEDIATE_BYTES)[0]
    return Header(
        opcode,
        destination & 0xFFFFFF,
        sequence & 0xFFFFFF,
        sequence >= _ACK_REQUEST,
        flags >> 4 & 3,
        reth,
        aeth,
        immediate,
        flags >= 0x80,
        flags & 0x40 != 0,
        destination >= _FECN,
        destination & _BECN != 0,
        pkey,
    )


def cnp(destination_qp: int) -> bytes:
    """A congestion notification packet for the sender whose queue pair is `destination_qp`."""
    return encode(Header(CNP, destination_qp, psn=0, becn=True))


def acknowledgement(destination_qp: int, psn: int, aeth: Aeth, becn: bool) -> bytes:
    """What `encode` makes of an ACKNOWLEDGE with these, at a fraction of the time."""
    destination = becn << 30 | destination_qp
    word = aeth.syndrome << 24 | aeth.msn
    return _ACKNOWLEDGEMENT.pack(ACKNOWLEDGE, 0, DEFAULT_PKEY, destination, psn, word)


def only_write(destination_qp: int, psn: int, ack_request: bool, size_bytes: int, key: int) -> bytes:
    """What `encode` makes of a WRITE ONLY with immediate data, at a fraction of the time: a message of `size_bytes`
    that is one packet and goes to the start of what `key` names, which is its immediate data too.
    """
    sequence = ack_request << 31 | psn
    flags = pad_bytes(size_bytes) << 4
    return _ONLY_WRITE.pack(
        WRITE_ONLY_IMMEDIATE, flags, DEFAULT_PKEY, destination_qp, sequence, 0, key, size_bytes, key
    )


def middle_headers(opcode: int, destination_qp: int, psn: int, count: int, ack_request: bool) -> list[bytes]:
    """`count` headers without extensions and with consecutive PSNs; `ack_request` is for the last of them."""
    psn &= 0xFFFFFF
    before_wrap = min(count, PSN_MODULUS - psn)
    first = int.from_bytes(_BTH.pack(opcode, 0, DEFAULT_PKEY, destination_qp, psn), "big")
    run = _run(before_wrap)
    number = first * run.ones + run.steps | (_ACK_REQUEST if ack_request and before_wrap == count else 0)
    headers = list(run.cut.unpack(number.to_bytes(BTH_BYTES * before_wrap, "big")))
    if before_wrap < count:
        headers += middle_headers(opcode, destination_qp, 0, count - before_wrap, ack_request)
    return headers


def consecutive(headers: Sequence[bytes], start: int) -> int:
    """How many of `headers` from `start` on are those of middle packets that differ by one PSN after the other alone.

    Only the last of them may ask for an acknowledgement, and none wraps around, so that the first one describes all.
    """
    first = headers[start]
    if len(first) != BTH_BYTES or first[0] not in (SEND_MIDDLE, WRITE_MIDDLE) or first[8] & 0x80:
        return 1
    value = int.from_bytes(first, "big")
    count = len(headers) - start
    if len(headers[start + count - 1]) != BTH_BYTES or headers[start + count - 1][0] != first[0]:
        count -= 1  # the last packet of the message
    joined = b"".join(headers[start : start + count])
    if len(joined) == BTH_BYTES * count:
        run = _run(count)
        if int.from_bytes(joined, "big") - value * run.ones - run.steps in (0, _ACK_REQUEST):
            return count
    count = 1
    while start + count < len(headers) and headers[start + count] == (value + count).to_bytes(BTH_BYTES, "big"):
        count += 1
    return count


def whole_message(headers: Sequence[bytes]) -> tuple[Header, Header] | None:
    """The first and the last of `headers` if they are all those of one WRITE of several packets, one PSN after the
    other without wrapping around, of which only the last may ask for an acknowledgement; None: they are not, or bad.
    """
    count = len(headers)
    if headers[0][:1] != _BEGINS or headers[-1][:1] != _ENDS:
        return None
    try:
        first, last = decode(headers[0]), decode(headers[-1])
    except MalformedError:
        return None
    if headers[0][2:8] != headers[-1][2:8] or first.ack_request:
        return None
    if last.psn != first.psn + count - 1:
        return None
    if count > 2 and (
        headers[1] != _BTH.pack(WRITE_MIDDLE, headers[0][1], first.pkey, first.destination_qp, first.psn + 1)
        or consecutive(headers, 1) != count - 2
        or headers[-2][8] & 0x80
    ):
        return None
    return first, last


class _Run(NamedTuple):
    """`count` BTHs laid end to end are one number, `first * ones + steps`: each is the one before plus 1 (its PSN)."""

    ones: int
    steps: int
    cut: struct.Struct


@lru_cache(maxsize=256)
def _run(count: int) -> _Run:
    shifts = [8 * BTH_BYTES * (count - 1 - index) for index in range(count)]
    return _Run(
        ones=sum(1 << shift for shift in shifts),
        steps=sum(index << shift for index, shift in enumerate(shifts)),
        cut=struct.Struct(f"{BTH_BYTES}s" * count),
    )


def psn_difference(a: int, b: int) -> int:
    """`a - b` of two PSNs as the shortest signed way round, from -2^23 to 2^23 - 1."""
    return ((a - b + 0x800000) & 0xFFFFFF) - 0x800000


def pad_bytes(payload_bytes: int) -> int:
    """The padding after a payload of `payload_bytes`."""
    return -payload_bytes & 3


def packet(header: bytes, payload: bytes | memoryview) -> bytes:
    """What goes into UDP, without the ICRC. The padding must be what `header` says."""
    return b"".join((header, payload, bytes(header[1] >> 4 & 3)))


def split(data: bytes | memoryview) -> tuple[bytes, memoryview]:
    """Header and payload of what came in UDP, already without its ICRC; undoes `packet`."""
    view = memoryview(data)
    if len(view) < BTH_BYTES:
        raise MalformedError(f"{len(view)} bytes are no BTH ({BTH_BYTES})")
    operation = OPERATIONS.get(view[0])
    if operation is None:
        raise MalformedError(f"opcode {view[0]:#04x} is not known")
    end = len(view) - (view[1] >> 4 & 3)
    if end < operation.header_bytes:
        raise MalformedError(f"{len(view)} bytes are too short for {operation.name}")
    return bytes(view[: operation.header_bytes]), view[operation.header_bytes : end]


def icrc(headers: bytes | memoryview, data: bytes | memoryview) -> int:
    """The invariant CRC of one packet; it goes on the wire in little-endian order, unlike all else.

    headers: the IPv4 and UDP headers (28 bytes), whose lengths already count the ICRC. data: BTH to padding. CRC-32
    over 8 bytes of ones (in place of the LRH) and the packet, with what routers change set to ones: type of service,
    time to live, both checksums, and the FECN/BECN byte of the BTH. Source: IBTA annex A17, as soft-RoCE has it.
    """
    if len(headers) != 28 or headers[0] != 0x45 or len(data) < BTH_BYTES:
        raise MalformedError("an ICRC needs an IPv4 header without options, a UDP header and a BTH")
    masked = bytearray(headers)
    masked[1] = masked[8] = 0xFF
    masked[10:12] = masked[26:28] = b"\xff\xff"
    crc = zlib.crc32(masked, zlib.crc32(b"\xff" * 8))
    crc = zlib.crc32(b"\xff", zlib.crc32(data[:4], crc))
    return zlib.crc32(data[5:], crc)
