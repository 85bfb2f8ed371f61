"""What a flow matches: all packets, or IPv4 by a prefix of the destination."""

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address
from struct import Struct

from testbed.openflow.numbers import BadMatch, Oxm
from testbed.openflow.wire import Refusal, pad, padded, unpack

_OXM_MATCH = 1  # OFPMT_OXM
_BASIC = 0x8000  # OFPXMC_OPENFLOW_BASIC
_MATCH = Struct("!HH")
_OXM = Struct("!HBB")  # class, field and whether there is a mask, bytes that follow
_IPV4 = 0x0800
_ALL_ONES = 0xFFFFFFFF
_WIDTHS = {Oxm.ETH_TYPE: 2, Oxm.IPV4_DST: 4}


@dataclass(frozen=True, slots=True)
class Match:
    """`ipv4` False: all packets, whatever they are; else IPv4 to what begins with `length` bits of `address`."""

    ipv4: bool
    address: int = 0
    length: int = 0

    @property
    def prefix(self) -> str:
        """As plans write it: 10.0.0.0/24."""
        return f"{IPv4Address(self.address)}/{self.length}"

    def covers(self, other: "Match") -> bool:
        """Whether every packet that `other` matches is matched by this one too."""
        if not self.ipv4:
            return True
        return other.ipv4 and self.length <= other.length and not (self.address ^ other.address) & mask(self.length)

    def encode(self) -> bytes:
        """As on the wire, padded."""
        fields = b""
        if self.ipv4:
            fields += oxm(Oxm.ETH_TYPE, _IPV4, 2)
        if self.length == 32:
            fields += oxm(Oxm.IPV4_DST, self.address, 4)
        elif self.length:
            fields += _OXM.pack(_BASIC, Oxm.IPV4_DST << 1 | 1, 8)
            fields += self.address.to_bytes(4, "big") + mask(self.length).to_bytes(4, "big")
        return encode_fields(fields)


def mask(length: int) -> int:
    """The netmask of a prefix of so many bits."""
    return _ALL_ONES << 32 - length & _ALL_ONES


def oxm(field: Oxm, value: int, width: int) -> bytes:
    """A field without a mask."""
    return oxm_id(field, width) + value.to_bytes(width, "big")


def oxm_id(field: Oxm, width: int, *, masked: bool = False) -> bytes:
    """A field's header alone, as features list them."""
    return _OXM.pack(_BASIC, field << 1 | masked, width << masked)


def encode_fields(fields: bytes) -> bytes:
    """A match of these fields, padded."""
    return pad(_MATCH.pack(_OXM_MATCH, _MATCH.size + len(fields)) + fields)


def decode_match(data: bytes, offset: int, short: IntEnum) -> tuple[Match, int]:
    """The match at an offset and the offset behind it; raises Refusal for one that the tables cannot hold."""
    kind, length = unpack(_MATCH, data, offset, short)
    if kind != _OXM_MATCH:
        raise Refusal(BadMatch.BAD_TYPE)
    end = offset + length
    if length < _MATCH.size or offset + padded(length) > len(data):
        raise Refusal(BadMatch.BAD_LEN)
    seen: dict[int, tuple[int, int]] = {}
    position = offset + _MATCH.size
    while position < end:
        of_class, field, width = unpack(_OXM, data[:end], position, BadMatch.BAD_LEN)
        position += _OXM.size
        payload = data[position : min(position + width, end)]
        if len(payload) < width:
            raise Refusal(BadMatch.BAD_LEN)
        position += width
        number, masked = field >> 1, field & 1
        if of_class != _BASIC or number not in _WIDTHS:
            raise Refusal(BadMatch.BAD_FIELD)
        if width != _WIDTHS[Oxm(number)] << masked:
            raise Refusal(BadMatch.BAD_LEN)
        if number in seen:
            raise Refusal(BadMatch.DUP_FIELD)
        ones = (1 << 8 * _WIDTHS[Oxm(number)]) - 1
        value, of = int.from_bytes(payload, "big"), ones
        if masked:
            value, of = value >> width * 4, value & ones
        if value & ~of:
            raise Refusal(BadMatch.BAD_WILDCARDS)
        if number == Oxm.IPV4_DST and Oxm.ETH_TYPE not in seen:
            raise Refusal(BadMatch.BAD_PREREQ)
        if number == Oxm.ETH_TYPE:
            if of != ones:
                raise Refusal(BadMatch.BAD_MASK)
            if value != _IPV4:
                raise Refusal(BadMatch.BAD_VALUE)
        seen[number] = value, of
    return _from_fields(seen), offset + padded(length)


def _from_fields(seen: dict[int, tuple[int, int]]) -> Match:
    if Oxm.IPV4_DST not in seen:
        return Match(Oxm.ETH_TYPE in seen)
    address, of = seen[Oxm.IPV4_DST]
    length = of.bit_count()
    if of != mask(length):
        raise Refusal(BadMatch.BAD_NW_ADDR_MASK)
    return Match(True, address, length)
