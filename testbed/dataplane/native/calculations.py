"""Hashes and checksums: a C function for each calculation, over its inputs laid out as bytes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from testbed.dataplane.bmv2model import JsonError, Term
from testbed.dataplane.native.layout import Layout, pattern
from testbed.dataplane.native.numbers import modular
from testbed.dataplane.native.wire import Piece, load_bits, runs, store_lines

_WIDE_BITS = 128  # of numbers of which there may be many: each is added at once
ALGORITHMS = {
    "crc16": "hash_crc16",
    "crc16_custom": "hash_crc16",
    "crc32": "hash_crc32",
    "crc32_custom": "hash_crc32",
    "crcCCITT": "hash_crc_ccitt",
    "csum16": "hash_csum16",
    "cksum16": "hash_csum16",
    "xor16": "hash_xor16",
    "identity": "hash_identity",
}


@dataclass(frozen=True, slots=True)
class _InPacket(Piece):
    """Bits that are read from the packet: where the header begins in it, and their offset there."""

    header: str
    offset: int


@dataclass(frozen=True, slots=True)
class _Group:
    """Inputs that are there together: those of one header, or some that are always there."""

    valid: str  # C for whether they are; empty: always
    pieces: tuple[Piece, ...]
    varbit: str = ""  # path of a varbit field, whose group has nothing else

    @property
    def bits(self) -> int:
        return sum(p.bits for p in self.pieces)

    def where_there(self, lines: Sequence[str]) -> list[str]:
        """Lines of C that are carried out if the inputs are there, as a function's body has them."""
        if not self.valid:
            return [f"    {line}" for line in lines]
        return [f"    if ({self.valid}) {{", *(f"        {line}" for line in lines), "    }"]


_PARAMETERS = "struct p4_instance *s, const struct context *c, const struct p4_packet *packet"


def calculation(layout: Layout, name: str, algorithm: str, inputs: Sequence[Term], at_hand: bool) -> list[str]:
    """`static uint64_t NAME(s, c, packet)`: the value over the inputs. Unless the packet is at hand, it is NULL."""
    head = f"static inline uint64_t {name}({_PARAMETERS})"
    if algorithm == "random":
        return [head, "{", "    (void)c, (void)packet;", "    return random64(s);", "}", ""]
    if algorithm not in ALGORITHMS:
        raise JsonError(f"unknown hash algorithm {algorithm!r}")
    with_payload = at_hand and any(t.kind == "payload" for t in inputs)
    groups = _groups(layout, inputs, at_hand)
    lines = ["    (void)s, (void)c, (void)packet;"]
    if with_payload:
        lines += ["    const uint8_t *payload = packet->data + c->progress.payload;"]
        lines += ["    size_t rest = packet->length - c->progress.payload;"]
    if ALGORITHMS[algorithm] == "hash_csum16" and all(g.bits % 16 == 0 and not g.varbit for g in groups):
        return [head, "{", *lines, *_sum(groups, with_payload), "}", ""]
    if ALGORITHMS[algorithm] == "hash_crc32" and not with_payload and all(_packs(g) for g in groups):
        return [head, "{", *lines, *_crc32(groups), "}", ""]
    room = sum(g.bits for g in groups) // 8 + 8
    lines += [f"    uint8_t bytes[{room}{' + rest' if with_payload else ''}];"]
    if all(g.bits % 8 == 0 for g in groups):
        lines += ["    size_t n = 0;", *_whole_bytes(groups)]
    else:
        lines += ["    memset(bytes, 0, sizeof bytes);", *_bits(groups)]
    if with_payload:
        lines += ["    memcpy(bytes + n, payload, rest);", "    n += rest;"]
    value = f"{ALGORITHMS[algorithm]}(bytes, n)"
    if ALGORITHMS[algorithm] == "hash_csum16":
        value = "hash_csum16(hash_sum16(bytes, n))"
    return [head, "{", *lines, f"    return {value};", "}", ""]


def _sum(groups: Sequence[_Group], with_payload: bool) -> list[str]:
    """The ones' complement sum straight from the fields, each with the weight of its place in a 16-bit word."""
    lines = [f"    uint64_t sum = {'hash_sum16(payload, rest)' if with_payload else '0'};"]
    total = "sum"
    if any(piece.bits == _WIDE_BITS for group in groups for piece in group.pieces):
        lines.append("    struct hash_wide_sum wide = {0};")
        total = "sum + hash_total128(&wide)"
    for group in groups:
        end, added = 0, []
        for piece in _words(group.pieces):
            end += piece.bits
            if piece.bits == _WIDE_BITS and end % 16 == 0:
                added.append(f"hash_add128(&wide, {piece.code});")
            else:
                added += [f"sum += {addend};" for addend in _addends(piece, -end % 16)]
        lines += group.where_there(added)
    return [*lines, f"    return hash_csum16({total});"]


def _crc32(groups: Sequence[_Group]) -> list[str]:
    """CRC-32 straight from the fields, as many at a time as eight bytes take."""
    lines = ["    uint32_t crc = UINT32_MAX;"]
    for group in groups:
        words = [(_together(word), sum(p.bits for p in word) // 8) for word in _packed(group)]
        lines += group.where_there([f"crc = crc32_add(crc, {word}, {size});" for word, size in words])
    return [*lines, "    return (uint32_t)~crc;"]


def _packs(group: _Group) -> bool:
    """Whether the pieces can be put together to words of whole bytes."""
    words = _packed(group)
    return not group.varbit and all(sum(p.bits for p in word) in range(8, 65, 8) for word in words)


def _packed(group: _Group) -> list[list[Piece]]:
    """The pieces in words of up to 64 bits, each as long as whole bytes allow."""
    words: list[list[Piece]] = []
    for _, run in runs(group.pieces):
        if words and sum(p.bits for p in (*words[-1], *run)) <= 64:
            words[-1] += run
        else:
            words.append(list(run))
    return words


def _together(pieces: Sequence[Piece]) -> str:
    """The pieces as one number."""
    shift, parts = sum(p.bits for p in pieces), []
    for piece in pieces:
        shift -= piece.bits
        parts.append(f"(uint64_t){piece.code} << {shift}" if shift else piece.code)
    return " | ".join(parts)


def _words(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The same bits, those that lie side by side in the packet joined to words of 32 or 16 bits."""
    at = start = 0
    while at < len(pieces):
        for bits in (32, 16):
            count = _joined(pieces[at:], bits) if start % 16 == 0 else 0
            if count:
                first = pieces[at]
                assert isinstance(first, _InPacket)
                yield Piece(load_bits(first.header, first.offset, bits), bits)
                break
        else:
            count, bits = 1, pieces[at].bits
            yield pieces[at]
        at += count
        start += bits


def _joined(pieces: Sequence[Piece], bits: int) -> int:
    """How many of the first pieces lie side by side in the packet as whole bytes, and are that many bits; 0: none."""
    total, first = 0, pieces[0]
    for count, piece in enumerate(pieces, 1):
        if not isinstance(piece, _InPacket) or not isinstance(first, _InPacket) or first.offset % 8:
            return 0
        if piece.header != first.header or piece.offset != first.offset + total:
            return 0
        total += piece.bits
        if total >= bits:
            return count if total == bits else 0
    return 0


def _addends(piece: Piece, shift: int) -> list[str]:
    """The piece's value times 2^shift, in parts of 32 bits, so that many of them can be summed."""
    if piece.bits <= 32:
        return [f"(uint64_t){piece.code} << {shift}" if shift else piece.code]
    parts = []
    for low in range(0, piece.bits, 32):
        if piece.bits > 128:
            part = f"(uint32_t)({piece.code}.limb[{low // 64}] >> {low % 64})"
        else:
            part = f"(uint32_t)({piece.code} >> {low})" if low else f"(uint32_t){piece.code}"
        parts.append(f"(uint64_t){part} << {shift}" if shift else part)
    return parts


def _whole_bytes(groups: Sequence[_Group]) -> list[str]:
    lines = []
    for group in groups:
        if group.varbit:
            stored = [f"memcpy(bytes + n, {group.varbit}, {group.varbit}_bytes);", f"n += {group.varbit}_bytes;"]
        else:
            stored = [*store_lines(group.pieces, "bytes + n"), f"n += {group.bits // 8};"]
        lines += group.where_there(stored)
    return lines


def _bits(groups: Sequence[_Group]) -> list[str]:
    lines = ["    struct bit_string string = {bytes, 0};"]
    for group in groups:
        added = []
        if group.varbit:
            added.append(f"for (unsigned i = 0; i < {group.varbit}_bytes; i++)")
            added.append(f"    bits_add(&string, 8, {group.varbit}[i]);")
        for piece in group.pieces if not group.varbit else ():
            if piece.bits > 128:
                added.append(f"wide_store(bytes, string.bits, {piece.bits}, {piece.code});")
                added.append(f"string.bits += {piece.bits};")
            else:
                function = "bits_add" if piece.bits <= 64 else "bits_add128"
                added.append(f"{function}(&string, {piece.bits}, {piece.code});")
        lines += group.where_there(added)
    return [*lines, "    size_t n = (string.bits + 7) / 8;"]


def _groups(layout: Layout, inputs: Sequence[Term], at_hand: bool) -> list[_Group]:
    groups: list[_Group] = []
    for term in inputs:
        for group in _of(layout, term, at_hand):
            last = groups[-1] if groups else None
            if last and not last.varbit and not group.varbit and last.valid == group.valid:
                groups[-1] = _Group(group.valid, (*last.pieces, *group.pieces))
            else:
                groups.append(group)
    return groups


def _of(layout: Layout, term: Term, at_hand: bool) -> list[_Group]:
    match term.kind:
        case "payload":
            return []
        case "hexstr":
            return [_Group("", (Piece(modular(term.bits).literal(term.value), term.bits),))]
        case "field":
            header, name = term.value
            return [_field(layout, header, name, at_hand)]
        case "header":
            own = layout.place(term.value).type.fields
            return [_field(layout, term.value, f.name, at_hand) for f in own]
    raise JsonError(f"a {term.kind} as an input of a calculation")


def _field(layout: Layout, header: str, name: str, at_hand: bool) -> _Group:
    place = layout.place(header)
    path, own = layout.field(header, name)
    if place.metadata:
        return _Group("", (Piece(pattern(path, own), own.bits),))
    if at_hand and name != "$valid$" and not layout.usage.writes(place.type, own):
        before = place.type.fields[: place.type.fields.index(own)]
        base, offset = f"packet->data + {place.path}.at", sum(f.bits for f in before)
        piece = _InPacket(load_bits(base, offset, own.bits), own.bits, base, offset)
        return _Group(f"{place.path}.valid", (piece,))
    return _Group(f"{place.path}.valid", (Piece(pattern(path, own), own.bits),), path if own.varbit else "")
