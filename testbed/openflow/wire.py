"""Messages as bytes: the header, what every message may be refused with, and reading that never runs off an end."""

from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple

from testbed.openflow.numbers import ERROR_TYPES, HEADER_BYTES, LONGEST_MESSAGE, VERSION, BadRequest, Kind

HEADER = Struct("!BBHI")  # version, type, length, xid
QUOTED_BYTES = 64  # of a refused message: the least that the specification allows
_ERROR = Struct("!HH")
_ELEMENT = Struct("!HH")
_BITMAP = 1  # OFPHET_VERSIONBITMAP


class Refusal(Exception):
    """A message cannot be carried out; `code` is a member of one of the enumerations of ERROR_TYPES."""

    def __init__(self, code: IntEnum, text: str = "") -> None:
        super().__init__(text or f"{type(code).__name__}.{code.name}")
        self.code = code
        self.text = text


class Message(NamedTuple):
    """A whole message as it came."""

    version: int
    kind: int
    xid: int
    data: bytes  # with the header

    @property
    def body(self) -> bytes:
        return self.data[HEADER_BYTES:]


def encode(kind: Kind, xid: int, *parts: bytes) -> bytes:
    """A message of these parts, one behind the other."""
    body = b"".join(parts)
    return HEADER.pack(VERSION, kind, HEADER_BYTES + len(body), xid) + body


def encode_error(refusal: Refusal, message: Message) -> bytes:
    """What a refused message is answered with; where the version is at fault, a text in place of the quotation."""
    data = refusal.text.encode() if refusal.text else message.data[:QUOTED_BYTES]
    return encode(Kind.ERROR, message.xid, _ERROR.pack(ERROR_TYPES[type(refusal.code)], refusal.code), data)


def encode_hello(xid: int) -> bytes:
    """A hello that says by its bitmap that this is OpenFlow 1.3 and nothing else."""
    return encode(Kind.HELLO, xid, _ELEMENT.pack(_BITMAP, 8), (1 << VERSION).to_bytes(4, "big"))


def speaks_our_version(hello: Message) -> bool:
    """Whether 1.3 comes out of the negotiation: by the bitmap if there is one, else the lower of the two versions."""
    offset, body = 0, hello.body
    while offset + _ELEMENT.size <= len(body):
        kind, length = _ELEMENT.unpack_from(body, offset)
        if length < _ELEMENT.size or offset + length > len(body):
            break
        if kind == _BITMAP:
            first = body[offset + _ELEMENT.size : offset + _ELEMENT.size + 4]
            return len(first) == 4 and bool(int.from_bytes(first, "big") & 1 << VERSION)
        offset += padded(length)
    return hello.version >= VERSION


class Inbox:
    """Cuts a stream into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        self._data += data

    @property
    def coming(self) -> int | None:
        """The type of the next message, as soon as that is here."""
        return self._data[1] if len(self._data) > 1 else None

    def take(self) -> Message | None:
        """The next message if it is here in full. Raises Refusal for a length that no message has: all is lost."""
        if len(self._data) < HEADER_BYTES:
            return None
        version, kind, length, xid = HEADER.unpack_from(self._data)
        if length < HEADER_BYTES:
            raise Refusal(BadRequest.BAD_LEN)
        if len(self._data) < length:
            return None
        message = Message(version, kind, xid, bytes(self._data[:length]))
        del self._data[:length]
        return message


def unpack(layout: Struct, data: bytes, offset: int, short: IntEnum) -> tuple[Any, ...]:
    """As `layout.unpack_from`; raises a Refusal by `short` where the data ends before."""
    if offset + layout.size > len(data):
        raise Refusal(short)
    return layout.unpack_from(data, offset)


def padded(length: int) -> int:
    """The next multiple of eight."""
    return (length + 7) // 8 * 8


def pad(data: bytes) -> bytes:
    """Zeros behind it, up to a multiple of eight."""
    return data + bytes(padded(len(data)) - len(data))


def in_parts(pieces: list[bytes], overhead: int) -> list[bytes]:
    """Join pieces into as few bodies as go into messages, with `overhead` bytes kept free in each; at least one."""
    bodies, current, room = [], bytearray(), LONGEST_MESSAGE - overhead
    for piece in pieces:
        if current and len(current) + len(piece) > room:
            bodies.append(bytes(current))
            current = bytearray()
        current += piece
    return [*bodies, bytes(current)]
