"""Header types, instances, stacks and unions of the JSON, and the scalars that hold all that is no header."""

from collections.abc import Callable
from typing import Any

from testbed.dataplane import ast, types
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.values import Header, Scalar, Stack, Struct, Union, Value

ENUM_BITS = 32  # of enums without an underlying type, and of errors
STANDARD = "standard_metadata"
_SCALARS = "scalars"


class Unsupported(Exception):
    """Something cannot be lowered; the caller knows where it stands."""


class Layout:
    """Gives every variable its place. Names are those of the program, made unique with a number."""

    def __init__(self) -> None:
        self._header_types: dict[str, dict[str, Any]] = {}
        self._type_names: dict[types.Type, str] = {}
        self._headers: list[dict[str, Any]] = []
        self._stacks: list[dict[str, Any]] = []
        self._union_types: dict[str, dict[str, Any]] = {}
        self._unions: list[dict[str, Any]] = []
        self._union_stacks: list[dict[str, Any]] = []
        self._scalars: dict[str, tuple[int, bool]] = {}
        self._used: set[str] = {_SCALARS, STANDARD}
        self._enums: dict[str, list[str]] = {}
        self._aliases: list[list[Any]] = []

    def place(self, name: str, type_: types.Type) -> Value:
        """A new variable. Raises `Unsupported`."""
        plain = types.plain(type_)
        match plain:
            case types.StructType(fields=fields) if plain.kind is ast.StructKind.STRUCT:
                return Struct(plain, {key: self.place(_joined(name, key), one) for key, one in fields})
            case types.StructType() if plain.kind is ast.StructKind.HEADER:
                return self._header(self._unique(name), plain)
            case types.StructType():
                return self._union(self._unique(name), plain)
            case types.Tuple(elements):
                return Struct(
                    plain, {str(at): self.place(_joined(name, str(at)), one) for at, one in enumerate(elements)}
                )
            case types.Stack():
                return self._stack(self._unique(name), plain)
        return self._scalar(name, type_)

    def standard_metadata(self, type_: types.StructType) -> Struct:
        """The instance that the switch itself reads and writes."""
        members: dict[str, Value] = {}
        for field in type_.declaration.fields:
            inner = type_.field(field.name)
            assert inner is not None
            members[field.name] = Scalar(terms.field(STANDARD, field.name), inner)
            alias = ast.annotation(field, "alias")
            if alias is not None and alias.expressions and isinstance(alias.expressions[0], ast.StringLiteral):
                self._aliases.append([alias.expressions[0].value, [STANDARD, field.name]])
        self._add_type(STANDARD, [[name, self.bits(one), False] for name, one in type_.fields])
        self._add_header(STANDARD, STANDARD, is_metadata=True)
        return Struct(type_, members)

    def bits(self, type_: types.Type) -> int:
        """The width of a scalar in a field. Raises `Unsupported`."""
        plain = types.plain(type_)
        match plain:
            case types.Bits(width) | types.Varbits(width):
                return width
            case types.Bool():
                return 1
            case types.EnumType() | types.Error():
                if isinstance(plain, types.EnumType):
                    self._enums.setdefault(plain.declaration.name, [one.name for one in plain.declaration.members])
                return ENUM_BITS
        raise Unsupported(f"a value of type {type_} cannot be held by this target")

    def field_bits(self, header: str, name: str) -> int:
        """The width of a field of an instance."""
        if header == _SCALARS:
            return self._scalars[name][0]
        if name == "$valid$":
            return 1
        type_name: str = next(one["header_type"] for one in self._headers if one["name"] == header)
        return int(next(bits for known, bits, *_ in self._header_types[type_name]["fields"] if known == name))

    def _scalar(self, name: str, type_: types.Type) -> Scalar:
        plain = types.plain(type_)
        if isinstance(plain, types.Varbits):
            return self._varbit(name, type_, plain)
        key = name
        count = 0
        while key in self._scalars:
            key, count = f"{name}_{count}", count + 1
        self._scalars[key] = (self.bits(type_), isinstance(plain, types.Bits) and plain.is_signed)
        return Scalar(terms.field(_SCALARS, key), type_)

    def _varbit(self, name: str, type_: types.Type, plain: types.Varbits) -> Scalar:
        """A varbit outside of a header, in one of its own: BMv2 has them nowhere else."""
        if plain.width % 8:
            raise Unsupported(f"a variable of type {type_} has no whole bytes")
        type_name = f"varbit<{plain.width}>"  # no name that a program could give
        if type_name not in self._header_types:
            self._add_type(type_name, [["value", "*"]], plain.width // 8)
        header = self._unique(name)
        self._add_header(header, type_name, is_metadata=False)
        return Scalar(terms.field(header, "value"), type_)

    def _header(self, name: str, type_: types.StructType) -> Header:
        self._add_header(name, self._type_of(type_), is_metadata=False)
        return Header(name, type_, _members(type_, lambda path: terms.field(name, path)))

    def _union(self, name: str, type_: types.StructType) -> Union:
        members = {
            key: self._header(f"{name}.{key}", one) for key, one in type_.fields if isinstance(one, types.StructType)
        }
        known = self._type_names.get(type_)
        if known is None:
            known = self._type_names[type_] = self._type_name(type_, self._union_types)
            pairs = [[key, self._type_of(one.type)] for key, one in members.items()]
            self._union_types[known] = {"name": known, "id": len(self._union_types), "headers": pairs}
        ids = [self._id_of(one.name) for one in members.values()]
        self._unions.append(
            {"name": name, "id": len(self._unions), "union_type": known, "header_ids": ids, "pi_omit": True}
        )
        return Union(name, type_, dict(members))

    def _stack(self, name: str, type_: types.Stack) -> Stack:
        element = type_.element
        assert isinstance(element, types.StructType)
        if types.is_union(element):
            unions = tuple(self._union(f"{name}[{at}]", element) for at in range(type_.size))
            self._union_stacks.append(
                {
                    "name": name,
                    "id": len(self._union_stacks),
                    "union_type": self._type_names[element],
                    "size": type_.size,
                    "header_union_ids": [one["id"] for one in self._unions[-type_.size :]],
                }
            )
            return Stack(name, type_, unions)
        headers = tuple(self._header(f"{name}[{at}]", element) for at in range(type_.size))
        self._stacks.append(
            {
                "name": name,
                "id": len(self._stacks),
                "header_type": self._type_of(element),
                "size": type_.size,
                "header_ids": [self._id_of(one.name) for one in headers],
            }
        )
        return Stack(name, type_, headers)

    @staticmethod
    def last_members(stack: Stack, element: types.StructType) -> dict[str, Value]:
        """The members of `stack.last`, read through the stack."""
        return _members(element, lambda path: {"type": "stack_field", "value": [stack.name, path]})

    def _id_of(self, name: str) -> int:
        return int(next(one["id"] for one in reversed(self._headers) if one["name"] == name))

    def _unique(self, name: str) -> str:
        key, count = name, 0
        while key in self._used:
            key, count = f"{name}_{count}", count + 1
        self._used.add(key)
        return key

    def _add_header(self, name: str, type_name: str, *, is_metadata: bool) -> None:
        self._headers.append(
            {
                "name": name,
                "id": len(self._headers) + 1,  # the scalars come first
                "header_type": type_name,
                "metadata": is_metadata,
                "pi_omit": True,
            }
        )

    def _add_type(self, name: str, fields: list[list[Any]], max_length: int | None = None) -> None:
        described: dict[str, Any] = {"name": name, "id": len(self._header_types) + 1, "fields": fields}
        if max_length is not None:
            described["max_length"] = max_length
        self._header_types[name] = described

    def _type_name(self, type_: types.StructType, taken: dict[str, Any]) -> str:
        name = type_.declaration.name
        key, count = name, 0
        while key in taken or key in (STANDARD, f"{_SCALARS}_0"):
            key, count = f"{name}_{count}", count + 1
        return key

    def _type_of(self, type_: types.StructType) -> str:
        known = self._type_names.get(type_)
        if known is not None:
            return known
        name = self._type_names[type_] = self._type_name(type_, self._header_types)
        fields: list[list[Any]] = []
        total, has_varbit = 0, False
        for path, one in _flat(type_, ""):
            plain = types.plain(one)
            width = self.bits(one)
            total += width
            if isinstance(plain, types.Varbits):
                has_varbit = True
                fields.append([path, "*"])
            else:
                fields.append([path, width, isinstance(plain, types.Bits) and plain.is_signed])
        if total % 8:
            raise Unsupported(f"header {type_} has {total} bits; this target needs whole bytes")
        self._add_type(name, fields, total // 8 if has_varbit else None)
        return name

    def document(self) -> dict[str, Any]:
        """The part of the JSON that describes headers."""
        fields: list[list[Any]] = [[name, bits, signed] for name, (bits, signed) in self._scalars.items()]
        described = [{"name": f"{_SCALARS}_0", "id": 0, "fields": _padded(fields)}]
        for one in self._header_types.values():
            described.append({**one, "fields": _padded(one["fields"])} if one["name"] == STANDARD else one)
        scalars = {"name": _SCALARS, "id": 0, "header_type": f"{_SCALARS}_0", "metadata": True, "pi_omit": True}
        return {
            "header_types": described,
            "headers": [scalars, *self._headers],
            "header_stacks": self._stacks,
            "header_union_types": list(self._union_types.values()),
            "header_unions": self._unions,
            "header_union_stacks": self._union_stacks,
            "enums": [
                {"name": name, "entries": [[member, at] for at, member in enumerate(members)]}
                for name, members in self._enums.items()
            ],
            "field_aliases": self._aliases,
        }


def _padded(fields: list[list[Any]]) -> list[list[Any]]:
    """`fields` and what is missing to whole bytes."""
    rest = -sum(one[1] for one in fields) % 8
    return [*fields, ["_padding", rest, False]] if rest else fields


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _flat(type_: types.Type, prefix: str) -> list[tuple[str, types.Type]]:
    """The scalars of a header, those of structs inside it under a dotted name."""
    if isinstance(type_, types.StructType):
        return [pair for name, one in type_.fields for pair in _flat(one, _joined(prefix, name))]
    return [(prefix, type_)]


def _members(type_: types.StructType, place: Callable[[str], terms.Term], prefix: str = "") -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, one in type_.fields:
        path = _joined(prefix, name)
        if isinstance(one, types.StructType):
            found[name] = Struct(one, _members(one, place, path))
        else:
            found[name] = Scalar(place(path), one)
    return found
