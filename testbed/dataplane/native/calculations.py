"""Hashes and checksums: a C function for each calculation, over its inputs laid out as bytes."""

from collections.abc import Sequence
from dataclasses import dataclass

from testbed.dataplane.bmv2json import JsonError, Term
from testbed.dataplane.native.layout import Layout, Piece, pattern, store_lines
from testbed.dataplane.native.numbers import modular

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
class _Group:
    """Inputs that are there together: those of one header, or some that are always there."""

    valid: str  # C for whether they are; empty: always
    pieces: tuple[Piece, ...]
    varbit: str = ""  # path of a varbit field, whose group has nothing else

    @property
    def bits(self) -> int:
        return sum(p.bits for p in self.pieces)


_PARAMETERS = "struct p4_instance *s, const struct context *c, const uint8_t *payload, size_t rest"


def calculation(layout: Layout, name: str, algorithm: str, inputs: Sequence[Term]) -> list[str]:
    """`static uint64_t NAME(s, c, payload, rest)`: the value over the inputs, and over `rest` bytes if they say so."""
    head = f"static inline uint64_t {name}({_PARAMETERS})"
    if algorithm == "random":
        return [head, "{", "    (void)c, (void)payload, (void)rest;", "    return random64(s);", "}", ""]
    if algorithm not in ALGORITHMS:
        raise JsonError(f"unknown hash algorithm {algorithm!r}")
    with_payload = any(t.kind == "payload" for t in inputs)
    groups = _groups(layout, inputs)
    unused = "    (void)s, (void)c;" if with_payload else "    (void)s, (void)c, (void)payload, (void)rest;"
    if ALGORITHMS[algorithm] == "hash_csum16" and all(g.bits % 16 == 0 and not g.varbit for g in groups):
        return [head, "{", unused, *_sum(groups, with_payload), "}", ""]
    room = sum(g.bits for g in groups) // 8 + 8
    lines = [unused, f"    uint8_t bytes[{room}{' + rest' if with_payload else ''}];"]
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
    for group in groups:
        indent = "    "
        if group.valid:
            lines.append(f"    if ({group.valid}) {{")
            indent = "        "
        end = 0
        for piece in group.pieces:
            end += piece.bits
            lines += [f"{indent}sum += {addend};" for addend in _addends(piece, -end % 16)]
        lines += ["    }"] if group.valid else []
    return [*lines, "    return hash_csum16(sum);"]


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
        indent = "    "
        if group.valid:
            lines.append(f"    if ({group.valid}) {{")
            indent = "        "
        if group.varbit:
            lines += [f"{indent}memcpy(bytes + n, {group.varbit}, {group.varbit}_bytes);"]
            lines += [f"{indent}n += {group.varbit}_bytes;"]
        else:
            lines += [indent + line for line in store_lines(group.pieces, "bytes + n")]
            lines += [f"{indent}n += {group.bits // 8};"]
        lines += ["    }"] if group.valid else []
    return lines


def _bits(groups: Sequence[_Group]) -> list[str]:
    lines = ["    struct bit_string string = {bytes, 0};"]
    for group in groups:
        indent = "    "
        if group.valid:
            lines.append(f"    if ({group.valid}) {{")
            indent = "        "
        if group.varbit:
            lines.append(f"{indent}for (unsigned i = 0; i < {group.varbit}_bytes; i++)")
            lines.append(f"{indent}    bits_add(&string, 8, {group.varbit}[i]);")
        for piece in group.pieces:
            if group.varbit:
                continue
            if piece.bits > 128:
                lines.append(f"{indent}wide_store(bytes, string.bits, {piece.bits}, {piece.code});")
                lines.append(f"{indent}string.bits += {piece.bits};")
            else:
                function = "bits_add" if piece.bits <= 64 else "bits_add128"
                lines.append(f"{indent}{function}(&string, {piece.bits}, {piece.code});")
        lines += ["    }"] if group.valid else []
    return [*lines, "    size_t n = (string.bits + 7) / 8;"]


def _groups(layout: Layout, inputs: Sequence[Term]) -> list[_Group]:
    groups: list[_Group] = []
    for term in inputs:
        for group in _of(layout, term):
            last = groups[-1] if groups else None
            if last and not last.varbit and not group.varbit and last.valid == group.valid:
                groups[-1] = _Group(group.valid, (*last.pieces, *group.pieces))
            else:
                groups.append(group)
    return groups


def _of(layout: Layout, term: Term) -> list[_Group]:
    match term.kind:
        case "payload":
            return []
        case "hexstr":
            return [_Group("", (Piece(modular(term.bits).literal(term.value), term.bits),))]
        case "field":
            place = layout.place(term.value[0])
            path, own = layout.field(*term.value)
            valid = "" if place.metadata else f"{place.path}.valid"
            return [_Group(valid, (Piece(pattern(path, own), own.bits),), path if own.varbit else "")]
        case "header":
            return [
                g
                for f in layout.place(term.value).type.fields
                for g in _of(layout, Term("field", (term.value, f.name)))
            ]
    raise JsonError(f"a {term.kind} as an input of a calculation")
