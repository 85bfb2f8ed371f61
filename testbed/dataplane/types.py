"""The types of P4_16 as values: equal when they are the same type, shown as P4 writes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from testbed.dataplane import ast


@dataclass(frozen=True, slots=True)
class Unknown:
    """The type of what is wrong; it agrees with every other so that one error is told once."""

    def __str__(self) -> str:
        return "unknown"


@dataclass(frozen=True, slots=True)
class Void:
    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class Bool:
    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True, slots=True)
class String:
    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True, slots=True)
class Integer:
    """`int`, of any size; only constants have it."""

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True, slots=True)
class Bits:
    """`bit<width>` or `int<width>`."""

    width: int
    is_signed: bool = False

    def __str__(self) -> str:
        return f"{'int' if self.is_signed else 'bit'}<{self.width}>"

    def wrapped(self, value: int) -> int:
        """`value` cut to this width, two's complement."""
        cut = value & ((1 << self.width) - 1)
        return cut - (1 << self.width) if self.is_signed and cut >> (self.width - 1) else cut

    @property
    def least(self) -> int:
        return -(1 << (self.width - 1)) if self.is_signed else 0

    @property
    def greatest(self) -> int:
        return (1 << (self.width - self.is_signed)) - 1


@dataclass(frozen=True, slots=True)
class Varbits:
    """`varbit<width>`: up to `width` bits."""

    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True, slots=True)
class Error:
    def __str__(self) -> str:
        return "error"


@dataclass(frozen=True, slots=True)
class MatchKind:
    def __str__(self) -> str:
        return "match_kind"


@dataclass(frozen=True, slots=True)
class EnumType:
    """An enum; `underlying` is None unless it is serialisable, and then its values are those of that type."""

    declaration: ast.Enum
    underlying: Bits | None = None

    def __str__(self) -> str:
        return self.declaration.name


@dataclass(frozen=True, slots=True)
class NewType:
    """`type underlying name;`: its values are those of `underlying`."""

    declaration: ast.Typedef
    underlying: "Type"

    def __str__(self) -> str:
        return self.declaration.name


@dataclass(frozen=True, slots=True)
class StructType:
    """A struct, header or header union, with the arguments of its type parameters; `fields` in order."""

    declaration: ast.Struct
    arguments: "tuple[Type, ...]" = ()
    fields: "tuple[tuple[str, Type], ...]" = field(default=(), compare=False, repr=False)

    @property
    def kind(self) -> ast.StructKind:
        return self.declaration.kind

    def field(self, name: str) -> "Type | None":
        return next((type_ for known, type_ in self.fields if known == name), None)

    def __str__(self) -> str:
        return self.declaration.name + _shown(self.arguments)


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack of headers or header unions."""

    element: "Type"
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True, slots=True)
class Tuple:
    elements: "tuple[Type, ...]"

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


@dataclass(frozen=True, slots=True)
class Record:
    """What `{a = 1, b = 2}` is before it is given to something that has a named type."""

    fields: "tuple[tuple[str, Type], ...]"

    def __str__(self) -> str:
        return "{" + ", ".join(f"{name} = {type_}" for name, type_ in self.fields) + "}"


@dataclass(frozen=True, slots=True)
class InvalidHeaderType:
    """What `{#}` is before it is given to a header."""

    def __str__(self) -> str:
        return "an invalid header"


@dataclass(frozen=True, slots=True)
class RestType:
    """What `...` is before it is given to something."""

    def __str__(self) -> str:
        return "a default value"


@dataclass(frozen=True, slots=True)
class List:
    """`list<element>`: any number of them, constant."""

    element: "Type"

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True, slots=True)
class Set:
    """A set of values: labels with a mask or range, value sets."""

    element: "Type"

    def __str__(self) -> str:
        return f"set<{self.element}>"


@dataclass(frozen=True, slots=True)
class TypeVariable:
    """A type parameter inside its declaration, or (numbered) one that a call has yet to settle."""

    declaration: ast.TypeParameter
    number: int = 0

    def __str__(self) -> str:
        return self.declaration.name


@dataclass(frozen=True, slots=True)
class ExternType:
    declaration: ast.Extern
    arguments: "tuple[Type, ...]" = ()

    def __str__(self) -> str:
        return self.declaration.name + _shown(self.arguments)


@dataclass(frozen=True, slots=True)
class BlockType:
    """A parser, control or package, or the signature of one."""

    declaration: ast.Parser | ast.Control | ast.ParserType | ast.ControlType | ast.Package
    arguments: "tuple[Type, ...]" = ()

    def __str__(self) -> str:
        return self.declaration.name + _shown(self.arguments)


@dataclass(frozen=True, slots=True)
class TableType:
    declaration: ast.Table

    def __str__(self) -> str:
        return f"table {self.declaration.name}"


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What `table.apply()` gives: `hit`, `miss` and `action_run`."""

    table: ast.Table

    def __str__(self) -> str:
        return f"result of {self.table.name}.apply()"


@dataclass(frozen=True, slots=True)
class ActionRun:
    """An action of the table, as `action_run` names it."""

    table: ast.Table

    def __str__(self) -> str:
        return f"action of table {self.table.name}"


@dataclass(frozen=True, slots=True)
class Callable:
    """Something to be called, or the name of a type or state: no value. `what` says it in words."""

    what: str

    def __str__(self) -> str:
        return self.what


Type: TypeAlias = (
    Unknown
    | Void
    | Bool
    | String
    | Integer
    | Bits
    | Varbits
    | Error
    | MatchKind
    | EnumType
    | NewType
    | StructType
    | Stack
    | Tuple
    | Record
    | InvalidHeaderType
    | RestType
    | List
    | Set
    | TypeVariable
    | ExternType
    | BlockType
    | TableType
    | ApplyResult
    | ActionRun
    | Callable
)
Bindings: TypeAlias = Mapping[TypeVariable, Type]

UNKNOWN, VOID, BOOL, STRING, INTEGER, ERROR, MATCH_KIND = (
    Unknown(),
    Void(),
    Bool(),
    String(),
    Integer(),
    Error(),
    MatchKind(),
)


def _shown(arguments: tuple[Type, ...]) -> str:
    return f"<{', '.join(map(str, arguments))}>" if arguments else ""


def substitute(type_: Type, bindings: Bindings) -> Type:
    """`type_` with the type variables of `bindings` replaced, to any depth."""
    if not bindings:
        return type_
    match type_:
        case TypeVariable():
            bound = bindings.get(type_)
            return type_ if bound is None else substitute(bound, bindings) if bound != type_ else bound
        case StructType(declaration, arguments, fields) if arguments:
            return StructType(
                declaration,
                tuple(substitute(one, bindings) for one in arguments),
                tuple((name, substitute(one, bindings)) for name, one in fields),
            )
        case ExternType(declaration, arguments) if arguments:
            return ExternType(declaration, tuple(substitute(one, bindings) for one in arguments))
        case BlockType(declaration, arguments) if arguments:
            return BlockType(declaration, tuple(substitute(one, bindings) for one in arguments))
        case Stack(element, size):
            return Stack(substitute(element, bindings), size)
        case Tuple(elements):
            return Tuple(tuple(substitute(one, bindings) for one in elements))
        case Record(fields):
            return Record(tuple((name, substitute(one, bindings)) for name, one in fields))
        case List(element):
            return List(substitute(element, bindings))
        case Set(element):
            return Set(substitute(element, bindings))
    return type_


def has_variables(type_: Type) -> bool:
    """Whether a type variable stands anywhere in `type_`."""
    match type_:
        case TypeVariable():
            return True
        case StructType() | ExternType() | BlockType():
            return any(has_variables(one) for one in type_.arguments)
        case Stack(element) | List(element) | Set(element):
            return has_variables(element)
        case Tuple(elements):
            return any(has_variables(one) for one in elements)
        case Record(fields):
            return any(has_variables(one) for _, one in fields)
    return False


def is_header(type_: Type) -> bool:
    return isinstance(type_, StructType) and type_.kind is ast.StructKind.HEADER


def is_union(type_: Type) -> bool:
    return isinstance(type_, StructType) and type_.kind is ast.StructKind.UNION


def plain(type_: Type) -> Type:
    """The type whose values those of `type_` are: a `type`'s or serialisable enum's underlying one, else itself."""
    while True:
        match type_:
            case NewType(underlying=inner):
                type_ = inner
            case EnumType(underlying=Bits() as inner):
                type_ = inner
            case _:
                return type_


def width_bits(type_: Type) -> int | None:
    """The number of bits of a value (of a varbit the most; of a union the widest member); None: it has no size."""
    match plain(type_):
        case Bits(width) | Varbits(width):
            return width
        case Bool():
            return 1
        case StructType(fields=fields, declaration=declaration):
            sizes = [width_bits(one) for _, one in fields]
            known = [size for size in sizes if size is not None]
            if len(known) < len(sizes):
                return None
            return max(known, default=0) if declaration.kind is ast.StructKind.UNION else sum(known)
        case Tuple(elements):
            sizes = [width_bits(one) for one in elements]
            known = [size for size in sizes if size is not None]
            return sum(known) if len(known) == len(sizes) else None
        case Stack(element, size):
            one = width_bits(element)
            return None if one is None else one * size
    return None
