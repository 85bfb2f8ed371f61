"""What an expression stands for while lowering: a place among BMv2's headers and fields, or what goes there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from testbed.dataplane import types
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.terms import Atom, Term


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, bool, enum, error or varbit: a place (`term` is a field or runtime data) or the value `term`.

    Runtime data are read as the control plane's bits, without sign even where the parameter is signed: so does the
    reference pair, and programs are tested against that.
    """

    term: Term
    type: types.Type
    is_place: bool = True

    def read(self) -> Term:
        plain = types.plain(self.type)
        if not self.is_place or terms.is_constant(self.term):
            return self.term
        if isinstance(plain, types.Bool):
            return terms.to_truth(self.term)
        return self.term


@dataclass(frozen=True, slots=True)
class Text:
    value: str


@dataclass(frozen=True, slots=True)
class Header:
    """A header instance."""

    name: str
    type: types.StructType
    members: "Mapping[str, Value]"


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct or tuple, taken apart: its members have no place in common."""

    type: types.Type
    members: "Mapping[str, Value]"


@dataclass(frozen=True, slots=True)
class Union:
    name: str
    type: types.StructType
    members: "Mapping[str, Value]"


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack of headers or of unions."""

    name: str
    type: types.Stack
    elements: "tuple[Header | Union, ...]"

    @property
    def holds_unions(self) -> bool:
        return types.is_union(self.type.element)


@dataclass(frozen=True, slots=True)
class Last:
    """`stack.last` in a parser: its fields are read through the stack, the whole of it is one of `stack`'s elements."""

    stack: Stack
    type: types.Type
    members: "Mapping[str, Value]"


@dataclass(frozen=True, slots=True)
class Next:
    """`stack.next` in a parser, or a member of it where the stack holds unions."""

    stack: Stack
    type: types.Type
    member: str | None = None


@dataclass(frozen=True, slots=True)
class Indexed:
    """The one of `options` that `index` (a field or constant) names when the packet is here."""

    index: Term
    options: "tuple[Value, ...]"
    type: types.Type


@dataclass(frozen=True, slots=True)
class Bitslice:
    """Bits of a scalar place as an lvalue."""

    base: "Value"
    base_type: types.Bits
    high: int
    low: int


@dataclass(frozen=True, slots=True)
class Fresh:
    """A value for a header, written out: valid, with these members."""

    type: types.StructType
    members: "Mapping[str, Value]"


@dataclass(frozen=True, slots=True)
class Elements:
    """A value for a stack, written out."""

    items: "tuple[Value, ...]"


@dataclass(frozen=True, slots=True)
class Invalid:
    """`{#}`."""


Value: TypeAlias = (
    Scalar | Text | Header | Struct | Union | Stack | Last | Next | Indexed | Bitslice | Fresh | Elements | Invalid
)


def atoms(value: Value) -> Iterator[Atom]:
    """What of headers and fields `value` lies in or reads."""
    match value:
        case Scalar(term=term):
            yield from terms.atoms(term)
        case Header(name=name):
            yield name, terms.WHOLE
        case Struct(members=members) | Union(members=members) | Fresh(members=members):
            for member in members.values():
                yield from atoms(member)
        case Stack(name=name, elements=elements):
            yield name, terms.WHOLE
            for element in elements:
                yield from atoms(element)
        case Last(stack=stack) | Next(stack=stack):
            yield from atoms(stack)
        case Indexed(index=index, options=options):
            yield from terms.atoms(index)
            for option in options:
                yield from atoms(option)
        case Bitslice(base=base):
            yield from atoms(base)
        case Elements(items=items):
            for item in items:
                yield from atoms(item)


def overlap(one: set[Atom], other: set[Atom]) -> bool:
    """Whether a write to what `one` names may change what `other` names."""
    if one & other:
        return True
    whole = {header for header, name in one if name == terms.WHOLE}
    if any(header in whole for header, _ in other):
        return True
    return any(name == terms.WHOLE and any(header == mine for mine, _ in one) for header, name in other)


def headers_of(value: Value) -> Iterator[Header]:
    match value:
        case Header():
            yield value
        case Struct(members=members) | Union(members=members):
            for member in members.values():
                yield from headers_of(member)
        case Stack(elements=elements):
            for element in elements:
                yield from headers_of(element)


def scalars_of(value: Value) -> Iterator[Scalar]:
    """The scalars of a value in order; those of headers too."""
    match value:
        case Scalar():
            yield value
        case (
            Struct(members=members)
            | Header(members=members)
            | Union(members=members)
            | Fresh(members=members)
            | Last(members=members)
        ):
            for member in members.values():
                yield from scalars_of(member)
        case Stack(elements=items) | Elements(items=items):
            for item in items:
                yield from scalars_of(item)
