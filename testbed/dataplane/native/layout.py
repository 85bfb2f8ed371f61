"""How headers and metadata lie in memory: C structs of native words; and the code between them and bytes on the wire.

Everything of one packet is a `struct context *c`: `c->m` metadata, `c->h` headers, `c->progress` the runtime's own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from testbed.dataplane.bmv2json import Field, Header, HeaderType, JsonError, Program
from testbed.dataplane.native.names import Scope
from testbed.dataplane.native.numbers import modular, stored


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bits of a byte string: where they are kept (`code`, an lvalue when read into)."""

    code: str
    bits: int


def chunks(pieces: Sequence[Piece]) -> Iterable[tuple[int, list[Piece]]]:
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


def kept_bits(field: Field) -> int:
    """The bits in which a field is kept. A signed one has one more: BMv2 keeps an unsigned number that is written into
    it as it is, as long as it fits the width, so that it holds -2^(n-1) to 2^n - 1."""
    return field.bits + field.signed


def pattern(path: str, field: Field) -> str:
    """C for the bits of a field as they are on the wire and in keys."""
    if not field.signed:
        return path
    if field.bits > 128:
        return f"wide_truncate({path}, {field.bits})"
    return f"({stored(field.bits)})({path} & {modular(field.bits).literal((1 << field.bits) - 1)})"


def _mask(bits: int) -> str:
    return f"{(1 << bits) - 1:#x}ul"


def load_lines(pieces: Sequence[Piece], base: str) -> list[str]:
    """Statements that set the pieces from the bytes at `base`."""
    lines = []
    for start, run in chunks(pieces):
        total = sum(p.bits for p in run)
        at = f"{base} + {start // 8}" if start else base
        if len(run) == 1 and total % 8 == 0 and total <= 128:
            load = "load_be" if total <= 64 else "load_be128"
            lines.append(f"{run[0].code} = ({stored(total)}){load}({at}, {total // 8});")
        elif total <= 64 and total % 8 == 0:
            lines.append(f"chunk = load_be({at}, {total // 8});")
            shift = total
            for piece in run:
                shift -= piece.bits
                shifted = f"chunk >> {shift}" if shift else "chunk"
                lines.append(f"{piece.code} = ({stored(piece.bits)})({shifted} & {_mask(piece.bits)});")
        else:
            offset = start
            for piece in run:
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
    for start, run in chunks(pieces):
        total = sum(p.bits for p in run)
        at = f"{base} + {start // 8}" if start else base
        if len(run) == 1 and total % 8 == 0 and total <= 128:
            lines.append(f"store_be{'128' if total > 64 else ''}({at}, {total // 8}, {run[0].code});")
        elif total <= 64 and total % 8 == 0:
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
                lines.append(f"{function}({base}, {offset}, {piece.bits}, {piece.code});")
                offset += piece.bits
    return lines


@dataclass(frozen=True, slots=True)
class Place:
    """Where a header instance is: the path below `c->`, and the paths of the union members that exclude it."""

    path: str
    type: HeaderType
    metadata: bool
    siblings: tuple[str, ...] = ()


@dataclass(slots=True)
class Layout:
    """The structs of a program, and the way to everything in them."""

    program: Program
    types: Scope = field(default_factory=Scope)
    places: dict[str, Place] = field(default_factory=dict)
    stacks: dict[str, str] = field(default_factory=dict)  # header and union stacks: path of the array
    unions: dict[str, str] = field(default_factory=dict)
    _members: list[str] = field(default_factory=list)
    _metadata: list[str] = field(default_factory=list)
    _fields: dict[str, Scope] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = Scope()
        for stack in self.program.stacks.values():
            name = self._stack(stack.name, names)
            self._members.append(f"{self.struct(stack.headers[0].type)} {name}[{len(stack.headers)}];")
            for i, header in enumerate(stack.headers):
                self._place(header, f"h.{name}[{i}]")
        for union_stack in self.program.union_stacks.values():
            name = self._stack(union_stack.name, names)
            body = self._union_body(union_stack.unions[0].members)
            self._members.append(f"struct {{ {body} }} {name}[{len(union_stack.unions)}];")
            for i, union in enumerate(union_stack.unions):
                self._union(union.name, union.members, f"h.{name}[{i}]")
        for union in self.program.unions.values():
            if union.name not in self.unions:
                name = names.name(("union", union.name), union.name)
                self._members.append(f"struct {{ {self._union_body(union.members)} }} {name};")
                self._union(union.name, union.members, f"h.{name}")
        for header in self.program.headers.values():
            if header.name in self.places:
                continue
            name = names.name(header.name, header.name)
            line = f"{self.struct(header.type)} {name};"
            if not header.metadata:
                self._members.append(line)
            elif header.type.fields:
                self._metadata.append(line)
            self._place(header, f"{'m' if header.metadata else 'h'}.{name}")

    def _stack(self, name: str, names: Scope) -> str:
        plain = names.name(("stack", name), name)
        following = names.name(("next", name), f"{plain}_next")
        self._members.append(f"uint32_t {following}; /* elements extracted */")
        self.stacks[name] = f"c->h.{plain}"
        self.stacks[f"{name}$next"] = f"c->h.{following}"
        return plain

    def _place(self, header: Header, path: str, siblings: tuple[str, ...] = ()) -> None:
        self.places[header.name] = Place(f"c->{path}", header.type, header.metadata, siblings)

    def _union_body(self, members: Sequence[tuple[str, Header]]) -> str:
        return " ".join(f"{self.struct(h.type)} {self.types.name(('member', n), n)};" for n, h in members)

    def _union(self, name: str, members: Sequence[tuple[str, Header]], path: str) -> None:
        self.unions[name] = f"c->{path}"
        paths = [f"{path}.{self.member(n)}" for n, _ in members]
        for i, (_, header) in enumerate(members):
            others = tuple(f"c->{p}" for k, p in enumerate(paths) if k != i)
            self._place(header, paths[i], others)

    def member(self, name: str) -> str:
        """The C name of a union's member."""
        return self.types.name(("member", name), name)

    def struct(self, header_type: HeaderType) -> str:
        return f"struct header_{self.type_name(header_type)}"

    def type_name(self, header_type: HeaderType) -> str:
        return self.types.name(("type", header_type.name), header_type.name)

    def field_name(self, header_type: HeaderType, name: str) -> str:
        scope = self._fields.setdefault(header_type.name, Scope("valid"))
        return scope.name(name, name)

    def place(self, header: str) -> Place:
        if header not in self.places:
            raise JsonError(f"there is no header {header!r}")
        return self.places[header]

    def field(self, header: str, name: str) -> tuple[str, Field]:
        """The path of a header's field, or of its validity as a field of one bit."""
        place = self.place(header)
        if name == "$valid$":
            return ("1" if place.metadata else f"{place.path}.valid"), Field("$valid$", 1)
        own = place.type.field(name)
        return f"{place.path}.{self.field_name(place.type, name)}", own

    def used_types(self) -> list[HeaderType]:
        return list({p.type.name: p.type for p in self.places.values() if p.type.fields or not p.metadata}.values())

    def declarations(self) -> list[str]:
        """The structs of header types, headers and metadata."""
        metadata = {p.type.name for p in self.places.values() if p.metadata}
        lines = []
        for header_type in self.used_types():
            lines.append(f"{self.struct(header_type)} {{")
            for f in sorted(header_type.fields, key=lambda f: -f.bits):
                name = self.field_name(header_type, f.name)
                if f.varbit:
                    lines += [f"    uint16_t {name}_bytes;", f"    uint8_t {name}[{max(f.bits // 8, 1)}];"]
                else:
                    lines.append(f"    {stored(kept_bits(f))} {name}; /* {f.bits} bits{', signed' * f.signed} */")
            if header_type.name not in metadata:
                lines.append("    uint8_t valid;")
            lines += ["};", ""]
        for name, members in (("metadata", self._metadata), ("headers", self._members)):
            lines += [f"struct {name} {{", *(f"    {m}" for m in members), "};", ""]
        return lines

    def _lines(self, header_type: HeaderType, fields: Sequence[Field], extract: bool) -> list[str]:
        """Statements between the fields of `h` and the bytes at `at`."""
        paths = [(f"h->{self.field_name(header_type, f.name)}", f) for f in fields]
        if not extract:
            return store_lines([Piece(pattern(path, f), f.bits) for path, f in paths], "at")
        lines = load_lines([Piece(path, f.bits) for path, f in paths], "at")
        for path, f in paths:
            if f.signed:
                number = modular(f.bits + 1)
                extended = (
                    f"signed{number.bits}({path}, {f.bits})" if not number.wide else f"wide_signed({path}, {f.bits})"
                )
                kept = number.literal((1 << (f.bits + 1)) - 1)
                lines.append(
                    f"{path} = wide_truncate({extended}, {f.bits + 1});"
                    if number.wide
                    else f"{path} = ({stored(f.bits + 1)})(({number.c}){extended} & {kept});"
                )
        return lines

    def fixed_bytes(self, header_type: HeaderType) -> int:
        """The size on the wire without a varbit field."""
        bits = sum(f.bits for f in header_type.fields if not f.varbit)
        if bits % 8:
            raise JsonError(f"header type {header_type.name} is not a whole number of bytes ({bits} bits)")
        return bits // 8

    def varbit(self, header_type: HeaderType) -> Field | None:
        return next((f for f in header_type.fields if f.varbit), None)

    def wire_bytes(self, header_type: HeaderType, base: str) -> str:
        """An expression for the size on the wire of the header at `base` (with its `.` or `->`)."""
        varbit = self.varbit(header_type)
        fixed = str(self.fixed_bytes(header_type))
        return f"{fixed} + {base}{self.field_name(header_type, varbit.name)}_bytes" if varbit else fixed

    def extractor(self, header_type: HeaderType) -> list[str]:
        """`extract_TYPE(h, at[, bytes of the varbit field])`."""
        return self._wire_function(header_type, True)

    def emitter(self, header_type: HeaderType) -> list[str]:
        """`emit_TYPE(h, at)`, which returns the end of what it wrote."""
        return self._wire_function(header_type, False)

    def _wire_function(self, header_type: HeaderType, extract: bool) -> list[str]:
        name, struct = self.type_name(header_type), self.struct(header_type)
        varbit = self.varbit(header_type)
        split = header_type.fields.index(varbit) if varbit else len(header_type.fields)
        before, after = header_type.fields[:split], header_type.fields[split + 1 :]
        before_bits = sum(f.bits for f in before)
        if before_bits % 8:
            raise JsonError(f"header type {header_type.name}: a varbit field must begin on a whole byte")
        body = self._lines(header_type, before, extract)
        if varbit:
            own = f"h->{self.field_name(header_type, varbit.name)}"
            if extract:
                body += [f"{own}_bytes = (uint16_t)bytes;", f"memcpy({own}, at + {before_bits // 8}, bytes);"]
                body += [f"at += {before_bits // 8} + bytes;"] if after else []
            else:
                body += [f"memcpy(at + {before_bits // 8}, {own}, {own}_bytes);"]
                body += [f"at += {before_bits // 8} + {own}_bytes;"]
            body += self._lines(header_type, after, extract)
        tail = sum(f.bits for f in after) // 8 if varbit else before_bits // 8
        if extract:
            size = ", uint32_t bytes" if varbit else ""
            head = f"static inline void extract_{name}({struct} *h, const uint8_t *at{size})"
            chunk = ["    uint64_t chunk;"] if any(line.startswith("chunk") for line in body) else []
            unused = [] if header_type.fields else ["    (void)at;"]
            lines = [*chunk, *unused, *(f"    {line}" for line in body), "    h->valid = 1;"]
        else:
            head = f"static inline uint8_t *emit_{name}(const {struct} *h, uint8_t *at)"
            unused = [] if header_type.fields else ["    (void)h;"]
            lines = [*unused, *(f"    {line}" for line in body), f"    return at + {tail};"]
        return [head, "{", *lines, "}", ""]
