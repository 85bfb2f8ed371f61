"""How headers and metadata lie in memory: C structs of native words.

Everything of one packet is a `struct context *c`: `c->m` metadata, `c->h` headers, `c->progress` the runtime's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from testbed.dataplane.bmv2model import Field, Header, HeaderType, JsonError, Program
from testbed.dataplane.native.names import Scope
from testbed.dataplane.native.numbers import modular, stored
from testbed.dataplane.native.usage import Usage, usage_of


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
    usage: Usage = field(init=False)
    types: Scope = field(default_factory=Scope)
    places: dict[str, Place] = field(default_factory=dict)
    stacks: dict[str, str] = field(default_factory=dict)  # header and union stacks: path of the array
    unions: dict[str, str] = field(default_factory=dict)
    _members: list[str] = field(default_factory=list)
    _metadata: list[str] = field(default_factory=list)
    _fields: dict[str, Scope] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.usage = usage_of(self.program)
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
            elif any(self.usage.keeps(header.type, f) for f in header.type.fields):
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
        scope = self._fields.setdefault(header_type.name, Scope("at", "valid"))
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

    def standard(self, name: str) -> str | None:
        """The path of a field of standard metadata; None: this program has none, or does not use it."""
        place = self.program.standard(name)
        if place is None:
            return None
        path, own = self.field(*place)
        return path if self.usage.keeps(self.place(place[0]).type, own) else None

    def used_types(self) -> list[HeaderType]:
        return list({p.type.name: p.type for p in self.places.values() if p.type.fields or not p.metadata}.values())

    def parsed(self, header_type: HeaderType) -> bool:
        """Whether such headers come from packets only, so that fields not in use stay there."""
        return header_type.name not in self.usage.whole

    def declarations(self) -> list[str]:
        """The structs of header types, headers and metadata."""
        metadata = {p.type.name for p in self.places.values() if p.metadata}
        lines = []
        for header_type in self.used_types():
            members = self._struct_members(header_type)
            if header_type.name not in metadata:
                members += ["uint32_t at; /* in the frame */"] if self.parsed(header_type) else []
                members.append("uint8_t valid;")
            lines += [f"{self.struct(header_type)} {{", *(f"    {m}" for m in members), "};", ""] if members else []
        for name, members in (("metadata", self._metadata), ("headers", self._members)):
            lines += [f"struct {name} {{", *(f"    {m}" for m in members), "};", ""]
        return lines

    def _struct_members(self, header_type: HeaderType) -> list[str]:
        """The fields that are kept, the largest first."""
        members = []
        for f in sorted(header_type.fields, key=lambda f: -f.bits):
            name = self.field_name(header_type, f.name)
            if f.varbit:
                members += [f"uint16_t {name}_bytes;", f"uint8_t {name}[{max(f.bits // 8, 1)}];"]
            elif self.usage.keeps(header_type, f):
                members.append(f"{stored(kept_bits(f))} {name}; /* {f.bits} bits{', signed' * f.signed} */")
        return members

    def changes(self, header_type: HeaderType) -> bool:
        """Whether any field of such headers may differ from what was parsed."""
        return any(self.usage.writes(header_type, f) for f in header_type.fields)

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
