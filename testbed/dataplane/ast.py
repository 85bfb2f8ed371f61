"""The syntax tree of a P4_16 program: frozen nodes, each with its place; nodes are equal only to themselves.

What an expression's type is, which declaration a name means and what a call calls stands in `checked.Checked`.
"""

from dataclasses import dataclass
from enum import Enum as _Enum
from typing import TypeAlias

from testbed.dataplane.diagnostics import Span


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Annotation(Node):
    """`@name`, `@name(expression, ...)`, `@name(key = value, ...)` or `@name[...]`; `text` is what stood inside."""

    name: str
    expressions: "tuple[Expression, ...]"
    pairs: "tuple[tuple[str, Expression], ...]"
    text: str


# ---- types as written ----


@dataclass(frozen=True, slots=True, eq=False)
class BaseType(Node):
    """`bool`, `error`, `string`, `int` (of any size), `match_kind`, `void`, or `_` where a type may be left out."""

    keyword: str


@dataclass(frozen=True, slots=True, eq=False)
class SizedType(Node):
    """`bit<w>`, `int<w>`, `varbit<w>`."""

    keyword: str
    width: "Expression"


@dataclass(frozen=True, slots=True, eq=False)
class NamedType(Node):
    """`name` or `name<arguments>`, looked up from the top if written `.name`."""

    name: str
    is_global: bool
    arguments: "tuple[TypeSyntax, ...]"


@dataclass(frozen=True, slots=True, eq=False)
class StackSyntax(Node):
    element: "TypeSyntax"
    size: "Expression"


@dataclass(frozen=True, slots=True, eq=False)
class TupleSyntax(Node):
    """`tuple<...>`; with `is_list` it is `list<element>`."""

    elements: "tuple[TypeSyntax, ...]"
    is_list: bool = False


TypeSyntax: TypeAlias = BaseType | SizedType | NamedType | StackSyntax | TupleSyntax


# ---- expressions ----


@dataclass(frozen=True, slots=True, eq=False)
class IntLiteral(Node):
    """`width` is None for a literal of any size."""

    value: int
    width: int | None = None
    is_signed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class BoolLiteral(Node):
    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class StringLiteral(Node):
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Name(Node):
    """A name that stands for a value, a type (`Kind` in `Kind.Ack`) or something callable; `error` and `this` too."""

    name: str
    is_global: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Member(Node):
    target: "Expression"
    name: str
    name_span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Index(Node):
    target: "Expression"
    index: "Expression"


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Node):
    """`target[high:low]`, both ends inside."""

    target: "Expression"
    high: "Expression"
    low: "Expression"


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Node):
    """`operator` is one of `! ~ - +`."""

    operator: str
    operand: "Expression"


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Node):
    """`operator` is one of `* / % + - |+| |-| ++ << >> & ^ | < <= > >= == != && ||`."""

    operator: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Node):
    condition: "Expression"
    if_true: "Expression"
    if_false: "Expression"


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Node):
    type: TypeSyntax
    operand: "Expression"


@dataclass(frozen=True, slots=True, eq=False)
class Argument(Node):
    """`value` or `name = value`; None is `_`, the argument nobody wants."""

    name: str | None
    value: "Expression | None"


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """A call of a function, method, action, `apply`, or (as in `Prs()` given to a package) of a constructor."""

    callee: "Expression"
    type_arguments: tuple[TypeSyntax, ...]
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListExpression(Node):
    """`{a, b, c}` and, as a label of several keys, `(a, b, c)`; with `has_rest` it ends in `...`."""

    items: "tuple[Expression, ...]"
    has_rest: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RecordExpression(Node):
    """`{a = 1, b = 2}`; with `has_rest` it ends in `...`, with `type` it is `(type){...}` written as a cast."""

    fields: "tuple[tuple[str, Expression], ...]"
    has_rest: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class InvalidHeader(Node):
    """`{#}`."""


@dataclass(frozen=True, slots=True, eq=False)
class Rest(Node):
    """`...` alone: the default value of its type."""


@dataclass(frozen=True, slots=True, eq=False)
class Anything(Node):
    """`_` or `default` as a label."""

    is_default: bool


@dataclass(frozen=True, slots=True, eq=False)
class Mask(Node):
    """`value &&& mask`."""

    value: "Expression"
    mask: "Expression"


@dataclass(frozen=True, slots=True, eq=False)
class Range(Node):
    """`low .. high`, both ends inside."""

    low: "Expression"
    high: "Expression"


Expression: TypeAlias = (
    IntLiteral
    | BoolLiteral
    | StringLiteral
    | Name
    | Member
    | Index
    | Slice
    | Unary
    | Binary
    | Conditional
    | Cast
    | Call
    | ListExpression
    | RecordExpression
    | InvalidHeader
    | Rest
    | Anything
    | Mask
    | Range
)


# ---- statements ----


@dataclass(frozen=True, slots=True, eq=False)
class Block(Node):
    annotations: tuple[Annotation, ...]
    statements: "tuple[Statement, ...]"


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Node):
    """`target = value`; `target += x` is read as `target = target + x`, with one node for the two targets."""

    target: Expression
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class CallStatement(Node):
    call: Call


@dataclass(frozen=True, slots=True, eq=False)
class If(Node):
    condition: Expression
    if_true: "Statement"
    if_false: "Statement | None"


@dataclass(frozen=True, slots=True, eq=False)
class SwitchCase(Node):
    """`label` is `Anything(is_default=True)` for `default`; `body` is None where the case falls through to the next."""

    label: Expression
    body: Block | None


@dataclass(frozen=True, slots=True, eq=False)
class Switch(Node):
    subject: Expression
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True, slots=True, eq=False)
class For(Node):
    """`for (initial; condition; updates) body`."""

    annotations: tuple[Annotation, ...]
    initial: "tuple[Statement, ...]"
    condition: Expression
    updates: "tuple[Statement, ...]"
    body: "Statement"


@dataclass(frozen=True, slots=True, eq=False)
class ForIn(Node):
    """`for (variable in collection) body`; the collection is a `Range`, a stack or a list."""

    annotations: tuple[Annotation, ...]
    variable: "Variable"
    collection: Expression
    body: "Statement"


@dataclass(frozen=True, slots=True, eq=False)
class Return(Node):
    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Exit(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Break(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Continue(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Empty(Node):
    pass


# ---- declarations ----


class Direction(_Enum):
    NONE = ""
    IN = "in"
    OUT = "out"
    INOUT = "inout"


@dataclass(frozen=True, slots=True, eq=False)
class Declared(Node):
    """What has a name; `name_span` is the name alone."""

    name: str
    name_span: Span
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TypeParameter(Declared):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class Parameter(Declared):
    direction: Direction
    type: TypeSyntax
    default: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Declared):
    type: TypeSyntax
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Variable(Declared):
    type: TypeSyntax
    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Instance(Declared):
    """`type(arguments) name;` with, for an extern that has abstract methods, `= { functions }`."""

    type: NamedType
    arguments: tuple[Argument, ...]
    members: "tuple[Function | Instance, ...]"


@dataclass(frozen=True, slots=True, eq=False)
class Field(Declared):
    type: TypeSyntax


class StructKind(_Enum):
    STRUCT = "struct"
    HEADER = "header"
    UNION = "header_union"


@dataclass(frozen=True, slots=True, eq=False)
class Struct(Declared):
    kind: StructKind
    type_parameters: tuple[TypeParameter, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, eq=False)
class EnumMember(Declared):
    """A member of an enum (with `value` if that is serialisable), an error or a match kind."""

    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Enum(Declared):
    """Serialisable if it has an `underlying` type."""

    underlying: TypeSyntax | None
    members: tuple[EnumMember, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MemberList(Declared):
    """`error {...}` or `match_kind {...}` (the name says which); several of one name add up."""

    members: tuple[EnumMember, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Typedef(Declared):
    """`typedef type name;`, or `type type name;` if it `is_new`."""

    type: TypeSyntax
    is_new: bool


@dataclass(frozen=True, slots=True, eq=False)
class Method(Declared):
    """A method (or constructor: no `result`) of an extern, or an extern function."""

    result: TypeSyntax | None
    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]
    is_abstract: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Extern(Declared):
    type_parameters: tuple[TypeParameter, ...]
    constructors: tuple[Method, ...]
    methods: tuple[Method, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Function(Declared):
    result: TypeSyntax
    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class Action(Declared):
    parameters: tuple[Parameter, ...]
    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class SelectCase(Node):
    """One label (`ListExpression` where several keys are selected on) and the name of its state."""

    label: Expression
    state: Name


@dataclass(frozen=True, slots=True, eq=False)
class Select(Node):
    keys: tuple[Expression, ...]
    cases: tuple[SelectCase, ...]


@dataclass(frozen=True, slots=True, eq=False)
class State(Declared):
    """`transition` is None where there is none: the parser then rejects."""

    statements: "tuple[Statement, ...]"
    transition: Name | Select | None


@dataclass(frozen=True, slots=True, eq=False)
class ValueSet(Declared):
    type: TypeSyntax
    size: Expression


@dataclass(frozen=True, slots=True, eq=False)
class KeyElement(Node):
    expression: Expression
    match_kind: Name
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ActionRef(Node):
    """An action in a table's list with the arguments that the program binds; `name` resolves to the Action."""

    name: Name
    arguments: tuple[Argument, ...]
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Entry(Node):
    """`keys` has one label a key; `action` is a call with the arguments that the control plane would give."""

    keys: tuple[Expression, ...]
    action: ActionRef
    is_const: bool
    priority: Expression | None
    annotations: tuple[Annotation, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Property(Declared):
    """A property other than key, actions, entries and default_action: `size`, `implementation`, `counters`, ..."""

    value: Expression
    is_const: bool


@dataclass(frozen=True, slots=True, eq=False)
class Table(Declared):
    """`entries` is None where there is no such property; `default_action` likewise."""

    key: tuple[KeyElement, ...]
    actions: tuple[ActionRef, ...]
    default_action: ActionRef | None
    is_default_const: bool
    entries: tuple[Entry, ...] | None
    are_entries_const: bool
    properties: tuple[Property, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ParserType(Declared):
    """`parser name<...>(...);`, a signature."""

    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ControlType(Declared):
    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Package(Declared):
    """`package name<...>(constructor parameters);`."""

    type_parameters: tuple[TypeParameter, ...]
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Parser(Declared):
    parameters: tuple[Parameter, ...]
    constructor_parameters: tuple[Parameter, ...]
    locals: "tuple[ParserLocal, ...]"
    states: tuple[State, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Control(Declared):
    parameters: tuple[Parameter, ...]
    constructor_parameters: tuple[Parameter, ...]
    locals: "tuple[ControlLocal, ...]"
    body: Block


ParserLocal: TypeAlias = Constant | Variable | Instance | ValueSet
ControlLocal: TypeAlias = Constant | Variable | Instance | Action | Table
Statement: TypeAlias = (
    Block
    | Assign
    | CallStatement
    | If
    | Switch
    | For
    | ForIn
    | Return
    | Exit
    | Break
    | Continue
    | Empty
    | Constant
    | Variable
    | Instance
)
Declaration: TypeAlias = (
    Constant
    | Instance
    | Struct
    | Enum
    | MemberList
    | Typedef
    | Method
    | Extern
    | Function
    | Action
    | ParserType
    | ControlType
    | Package
    | Parser
    | Control
)


@dataclass(frozen=True, slots=True, eq=False)
class Program(Node):
    declarations: tuple[Declaration, ...]


def annotation(node: Declared | KeyElement | ActionRef | Entry | Block, name: str) -> Annotation | None:
    """The last annotation `@name` of `node`."""
    return next((one for one in reversed(node.annotations) if one.name == name), None)
