"""Values of P4 types as P4Runtime's P4Data, and as the numbers that a switch keeps of them, one a leaf.

Bit strings, signed ones, booleans, serializable enums, new types, and structs and tuples of these.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from finsy.proto import p4d, p4t

from testbed.dataplane.p4runtime.refusal import invalid, unsupported
from testbed.dataplane.p4runtime.values import number, shortest, shortest_signed, signed_number

_MOST, _DEEPEST = 1024, 32  # parts of a type, and how deep they are: a P4Info that says more goes in circles


Kind = Literal["unsigned", "signed", "bool", "enum"]


@dataclass(frozen=True, slots=True)
class Leaf:
    kind: Kind
    bits: int


@dataclass(frozen=True, slots=True)
class Type:
    """A leaf, or a struct or tuple of members."""

    what: Leaf | Literal["struct", "tuple"]
    members: "tuple[Type, ...]" = ()

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        if isinstance(self.what, Leaf):
            return (self.what,)
        return tuple(leaf for member in self.members for leaf in member.leaves)

    def encode(self, values: Sequence[int]) -> p4d.P4Data:
        """`values`: one a leaf."""
        return self._encode(iter(values))

    def _encode(self, values: Iterator[int]) -> p4d.P4Data:
        if not isinstance(self.what, Leaf):
            like = p4d.P4StructLike(members=[member._encode(values) for member in self.members])
            return p4d.P4Data(struct=like) if self.what == "struct" else p4d.P4Data(tuple=like)
        value = next(values)
        match self.what.kind:
            case "unsigned":
                return p4d.P4Data(bitstring=shortest(value))
            case "signed":
                return p4d.P4Data(bitstring=shortest_signed(value, self.what.bits))
            case "bool":
                return p4d.P4Data(bool=bool(value))
            case "enum":
                return p4d.P4Data(enum_value=shortest(value))

    def decode(self, data: p4d.P4Data, what: str) -> list[int]:
        """One value a leaf. Raises Refusal: INVALID_ARGUMENT for another type, OUT_OF_RANGE."""
        given = data.WhichOneof("data")
        if not isinstance(self.what, Leaf):
            members = (data.struct if self.what == "struct" else data.tuple).members
            if given != self.what or len(members) != len(self.members):
                raise invalid(f"{what}: a {self.what} of {len(self.members)} is wanted")
            return [v for own, one in zip(self.members, members, strict=True) for v in own.decode(one, what)]
        wanted = {"bool": "bool", "enum": "enum_value"}.get(self.what.kind, "bitstring")
        if given != wanted:
            raise invalid(f"{what}: a {wanted} is wanted, and not {given or 'nothing'}")
        match self.what.kind:
            case "unsigned":
                return [number(data.bitstring, self.what.bits, what)]
            case "signed":
                return [signed_number(data.bitstring, self.what.bits, what)]
            case "bool":
                return [int(data.bool)]
            case "enum":
                return [number(data.enum_value, self.what.bits, what)]


def type_of(spec: p4t.P4DataTypeSpec, info: p4t.P4TypeInfo, what: str) -> Type:
    """The type that P4Info tells of. Raises Refusal for one that is not supported."""
    return _Reader(info, what).read(spec)


@dataclass(slots=True)
class _Reader:
    info: p4t.P4TypeInfo
    what: str
    parts: int = 0

    def read(self, spec: p4t.P4DataTypeSpec, depth: int = 0) -> Type:
        self.parts += 1
        if self.parts > _MOST or depth > _DEEPEST:
            raise invalid(f"{self.what}: a type that is too large, or goes in circles")
        kind = spec.WhichOneof("type_spec")
        match kind:
            case "bitstring" if spec.bitstring.WhichOneof("type_spec") == "bit":
                return self._leaf("unsigned", spec.bitstring.bit.bitwidth)
            case "bitstring" if spec.bitstring.WhichOneof("type_spec") == "int":
                return self._leaf("signed", spec.bitstring.int.bitwidth)
            case "bool":
                return self._leaf("bool", 1)
            case "serializable_enum" if spec.serializable_enum.name in self.info.serializable_enums:
                return self._leaf(
                    "enum", self.info.serializable_enums[spec.serializable_enum.name].underlying_type.bitwidth
                )
            case "new_type" if spec.new_type.name in self.info.new_types:
                new = self.info.new_types[spec.new_type.name]
                if new.WhichOneof("representation") == "original_type":
                    return self.read(new.original_type, depth + 1)
                return self._leaf("unsigned", new.translated_type.sdn_bitwidth)
            case "struct" if spec.struct.name in self.info.structs:
                members = self.info.structs[spec.struct.name].members
                return Type("struct", tuple(self.read(member.type_spec, depth + 1) for member in members))
            case "tuple":
                return Type("tuple", tuple(self.read(member, depth + 1) for member in spec.tuple.members))
        raise unsupported(f"{self.what}: a type {kind or 'that is not told'}")

    def _leaf(self, kind: Kind, bits: int) -> Type:
        if bits <= 0:
            raise unsupported(f"{self.what}: values that are strings, or without a width")
        return Type(Leaf(kind, bits))
