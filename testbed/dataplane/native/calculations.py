"""Hashes and checksums: a C function for each calculation, which lays its inputs out as bytes and runs the algorithm."""

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


def calculation(layout: Layout, name: str, algorithm: str, inputs: Sequence[Term]) -> list[str]:
    """`static uint64_t NAME(s, c, payload, rest)`: the value over the inputs, and over `rest` bytes where they say so."""
    head = f"static inline uint64_t {name}(struct p4_instance *s, const struct context *c, const uint8_t *payload, size_t rest)"
    if algorithm == "random":
        return [head, "{", "    (void)c, (void)payload, (void)rest;", "    return random64(s);", "}", ""]
    if algorithm not in ALGORITHMS:
        raise JsonError(f"unknown hash algorithm {algorithm!r}")
    with_payload = any(t.kind == "payload" for t in inputs)
    groups = _groups(layout, inputs)
    room = sum(g.bits for g in groups) // 8 + 8
    checksum = ALGORITHMS[algorithm] == "hash_csum16"
    appended = with_payload and not checksum
    lines = [f"    uint8_t bytes[{room}{' + rest' if appended else ''}];"]
    if all(g.bits % 8 == 0 for g in groups):
        lines += ["    size_t n = 0;", *_whole_bytes(groups)]
    else:
        lines = [*lines[:-1], lines[-1].replace(";", "") + ";", "    memset(bytes, 0, sizeof bytes);", *_bits(groups)]
    if appended:
        lines += ["    memcpy(bytes + n, payload, rest);", "    n += rest;"]
    lines += ["    (void)s, (void)c;" if groups else "    (void)s, (void)c;"]
    if not with_payload:
        lines.append("    (void)payload, (void)rest;")
    if checksum:
        lines.append(f"    return hash_csum16(bytes, n, {'payload, rest' if with_payload else 'NULL, 0'});")
    else:
        lines.append(f"    return {ALGORITHMS[algorithm]}(bytes, n);")
    return [head, "{", *lines, "}", ""]


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
