"""Reads pcapng files as the draft has them (draft-ietf-opsawg-pcapng), apart from the code that writes them."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

INBOUND, OUTBOUND = 1, 2  # section 4.3.1, bits 0-1 of epb_flags
SECTION, INTERFACE, STATISTICS, PACKET = 0x0A0D0D0A, 1, 5, 6


@dataclass(frozen=True, slots=True)
class Record:
    at_ns: int
    direction: int
    frame: bytes
    length: int


@dataclass(slots=True)
class Capture:
    """A section with one interface; counts are None until its statistics block was read."""

    application: str = ""
    interface: str = ""
    comment: str = ""
    link_type: int = 0
    snap_bytes: int = 0
    received: int | None = None
    dropped: int | None = None
    records: list[Record] = field(default_factory=list)


def read_pcapng(path: Path) -> Capture:
    """A whole file; fails where it is not as the draft has it."""
    capture = Capture()
    for kind, body in _blocks(path.read_bytes()):
        if kind == SECTION:
            magic, major, minor = struct.unpack_from("<IHH", body)
            assert (magic, major, minor) == (0x1A2B3C4D, 1, 0)
            capture.application = _options(body[16:])[4].decode()
        elif kind == INTERFACE:
            capture.link_type, _, capture.snap_bytes = struct.unpack_from("<HHI", body)
            options = _options(body[8:])
            capture.interface, capture.comment = options.get(2, b"").decode(), options.get(1, b"").decode()
            assert options[9] == b"\x09"  # nanoseconds
        elif kind == PACKET:
            interface, high, low, kept, length = struct.unpack_from("<IIIII", body)
            assert interface == 0
            (flags,) = struct.unpack("<I", _options(body[20 + (kept + 3) // 4 * 4 :])[2])
            capture.records.append(Record(high << 32 | low, flags & 3, body[20 : 20 + kept], length))
        else:
            assert kind == STATISTICS
            counts = _options(body[12:])
            capture.received, capture.dropped = (int.from_bytes(counts[code], "little") for code in (4, 5))
    return capture


def _blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset < len(data):
        kind, length = struct.unpack_from("<II", data, offset)
        assert length % 4 == 0
        assert struct.unpack_from("<I", data, offset + length - 4) == (length,)
        yield kind, data[offset + 8 : offset + length - 4]
        offset += length


def _options(data: bytes) -> dict[int, bytes]:
    options, offset = {}, 0
    while True:
        code, length = struct.unpack_from("<HH", data, offset)
        if code == 0:
            assert offset + 4 == len(data)
            return options
        options[code] = data[offset + 4 : offset + 4 + length]
        offset += 4 + (length + 3) // 4 * 4
