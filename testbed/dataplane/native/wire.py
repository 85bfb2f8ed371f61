"""Headers on the wire: C that reads their fields from bytes and writes them to bytes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.dataplane.bmv2model import Field, HeaderType, JsonError
from testbed.dataplane.native.layout import Layout, pattern
from testbed.dataplane.native.numbers import modular, stored


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bits of a byte string: where they are kept (`code`, an lvalue when read into; empty: nowhere)."""

    code: str
    bits: int


def runs(pieces: Sequence[Piece]) -> Iterable[tuple[int, list[Piece]]]:
    """Runs of pieces that begin and end on whole bytes, each with its offset in bits."""
    offset = start = 0
    run: list[Piece] = []
    for piece in pieces:
        run.append(piece)
        offset += piece.bits
        if (offset - start) % 8 == 0:
            yield start, run
            start, run = offset, []
    if run:
        yield start, run


def _mask(bits: int) -> str:
    return f"{(1 << bits) - 1:#x}ul"


def load_lines(pieces: Sequence[Piece], base: str) -> list[str]:
    """Statements that set the pieces from the bytes at `base`."""
    lines = []
    for start, run in runs(pieces):
        total = sum(p.bits for p in run)
        at = f"{base} + {start // 8}" if start else base
        if len(run) > 1 and total <= 64 and total % 8 == 0 and any(p.code for p in run):
            lines.append(f"chunk = load_be({at}, {total // 8});")
            shift = total
            for piece in run:
                shift -= piece.bits
                shifted = f"chunk >> {shift}" if shift else "chunk"
                if piece.code:
                    lines.append(f"{piece.code} = ({stored(piece.bits)})({shifted} & {_mask(piece.bits)});")
            continue
        offset = start
        for piece in run:
            if piece.code:
                lines.append(f"{piece.code} = {load_bits(base, offset, piece.bits)};")
            offset += piece.bits
    return lines


def load_bits(base: str, offset: int, bits: int) -> str:
    """An expression for any bits of the bytes at `base`, in the type that stores them."""
    if bits > 128:
        return f"wide_load({base}, {offset}, {bits})"
    if offset % 8 == 0 and bits % 8 == 0:
        function = "load_be" if bits <= 64 else "load_be128"
        return f"({stored(bits)}){function}({base}{f' + {offset // 8}' if offset else ''}, {bits // 8})"
    return f"({stored(bits)})load_bits{'128' if bits > 64 else ''}({base}, {offset}, {bits})"


def store_lines(pieces: Sequence[Piece], base: str) -> list[str]:
    """Statements that write the pieces to the bytes at `base`."""
    lines = []
    for start, run in runs(pieces):
        total = sum(p.bits for p in run)
        at = f"{base} + {start // 8}" if start else base
        if len(run) == 1 and total % 8 == 0 and total <= 128:
            if run[0].code:
                lines.append(f"store_be{'128' if total > 64 else ''}({at}, {total // 8}, {run[0].code});")
        elif total <= 64 and total % 8 == 0 and all(p.code for p in run):
            shift = total
            parts = []
            for piece in run:
                shift -= piece.bits
                parts.append(f"(uint64_t){piece.code} << {shift}" if shift else piece.code)
            lines.append(f"store_be({at}, {total // 8}, {' | '.join(parts)});")
        else:
            offset = start
            for piece in run:
                function = "wide_store" if piece.bits > 128 else f"store_bits{'128' if piece.bits > 64 else ''}"
                if piece.code:
                    lines.append(f"{function}({base}, {offset}, {piece.bits}, {piece.code});")
                offset += piece.bits
    return lines


def extractor(layout: Layout, header_type: HeaderType) -> list[str]:
    """`extract_TYPE(h, at[, bytes of the varbit field])`: sets the fields that are kept."""
    before, varbit, after = _split(header_type)
    body = _loads(layout, header_type, before)
    if varbit:
        own, size = f"h->{layout.field_name(header_type, varbit.name)}", sum(f.bits for f in before) // 8
        body += [f"{own}_bytes = (uint16_t)bytes;", f"memcpy({own}, at + {size}, bytes);"]
        body += [f"at += {size} + bytes;"] if after else []
        body += _loads(layout, header_type, after)
    head = f"static inline void extract_{layout.type_name(header_type)}({layout.struct(header_type)} *h, "
    return [
        f"{head}const uint8_t *at{', uint32_t bytes' if varbit else ''})",
        "{",
        *(["    uint64_t chunk;"] if any(line.startswith("chunk") for line in body) else []),
        *([] if body else ["    (void)at;"]),
        *(f"    {line}" for line in body),
        "    h->valid = 1;",
        "}",
        "",
    ]


def emitter(layout: Layout, header_type: HeaderType) -> list[str]:
    """`emit_TYPE(h, at)`, which returns the end of what it wrote. For parsed headers `emit_TYPE(h, frame, at)`,
    which copies from the frame what was not kept, and `write_TYPE(h, at)` for the fields that may have changed."""
    name, struct = layout.type_name(header_type), layout.struct(header_type)
    before, varbit, after = _split(header_type)
    size = sum(f.bits for f in before) // 8
    body = _stores(layout, header_type, before)
    lines, frame = [], ""
    if varbit:
        own = f"h->{layout.field_name(header_type, varbit.name)}"
        body += [f"memcpy(at + {size}, {own}, {own}_bytes);", f"at += {size} + {own}_bytes;"]
        body += _stores(layout, header_type, after)
        size = sum(f.bits for f in after) // 8
    if layout.parsed(header_type):
        head, frame = f"static inline void write_{name}(const {struct} *h, uint8_t *at)", "const uint8_t *frame, "
        lines = [head, "{", *(f"    {line}" for line in body), "}", ""] if body else []
        body = [f"memcpy(at, frame + h->at, {size});", *([f"write_{name}(h, at);"] if body else [])]
    elif not body:
        body = ["(void)h;"]
    head = f"static inline uint8_t *emit_{name}(const {struct} *h, {frame}uint8_t *at)"
    return [*lines, head, "{", *(f"    {line}" for line in body), f"    return at + {size};", "}", ""]


def _split(header_type: HeaderType) -> tuple[Sequence[Field], Field | None, Sequence[Field]]:
    """The fields before the varbit field, that one, and those after it."""
    all_fields = header_type.fields
    at = next((i for i, f in enumerate(all_fields) if f.varbit), None)
    if at is None:
        return all_fields, None, ()
    if sum(f.bits for f in all_fields[:at]) % 8:
        raise JsonError(f"header type {header_type.name}: a varbit field must begin on a whole byte")
    return all_fields[:at], all_fields[at], all_fields[at + 1 :]


def _loads(layout: Layout, header_type: HeaderType, fields: Sequence[Field]) -> list[str]:
    paths = [(f"h->{layout.field_name(header_type, f.name)}" * layout.usage.keeps(header_type, f), f) for f in fields]
    lines = load_lines([Piece(path, f.bits) for path, f in paths], "at")
    for path, f in paths:
        if f.signed and path:
            lines.append(_extended(path, f))
    return lines


def _extended(path: str, field: Field) -> str:
    """A signed field is kept with one bit more than it has on the wire."""
    number = modular(field.bits + 1)
    if number.wide:
        return f"{path} = wide_truncate(wide_signed({path}, {field.bits}), {field.bits + 1});"
    ones = number.literal((1 << (field.bits + 1)) - 1)
    extended = f"({number.c})signed{number.bits}({path}, {field.bits})"
    return f"{path} = ({stored(field.bits + 1)})({extended} & {ones});"


def _stores(layout: Layout, header_type: HeaderType, fields: Sequence[Field]) -> list[str]:
    pieces = []
    for f in fields:
        path = pattern(f"h->{layout.field_name(header_type, f.name)}", f)
        pieces.append(Piece(path if layout.usage.writes(header_type, f) else "", f.bits))
    return store_lines(pieces, "at")
