"""The typed tree: a syntax tree and, beside it, what the checker found out about its nodes. Lowering reads this.

Implicit casts leave no node. A literal or other expression of type `int` has, in the table, the type of the place it
is used in (`type_of` of the `1` in `h.x + 1` is the type of `h.x`) and a constant that fits this type; a list or record
has the type of the struct, header or tuple it is given to. So a pass asks `constant` first, then `type_of`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from testbed.dataplane import ast
from testbed.dataplane.diagnostics import Diagnostics
from testbed.dataplane.types import Bindings, Type

Callee: TypeAlias = (
    ast.Function
    | ast.Action
    | ast.Method
    | ast.Extern
    | ast.Parser
    | ast.Control
    | ast.ParserType
    | ast.ControlType
    | ast.Package
    | ast.Table
)
Declaration: TypeAlias = (
    ast.Declaration
    | ast.TypeParameter
    | ast.Parameter
    | ast.Variable
    | ast.Field
    | ast.EnumMember
    | ast.State
    | ast.ValueSet
    | ast.Table
)


@dataclass(frozen=True, slots=True)
class EnumValue:
    """A member of an enum without underlying type, of `error` (`enum` is None), or of `match_kind`."""

    enum: ast.Enum | None
    name: str


@dataclass(frozen=True, slots=True)
class DontCare:
    """The constant of `_` and `default` among labels."""


@dataclass(frozen=True, slots=True)
class MaskValue:
    """The constant of `value &&& mask`."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class RangeValue:
    """The constant of `low .. high`, both inside."""

    low: int
    high: int


# Values of serialisable enums and of new types are those of the underlying type; tuples are lists and structs in the
# order of the fields.
Value: TypeAlias = int | bool | str | EnumValue | DontCare | MaskValue | RangeValue | tuple["Value", ...]


class CallKind(Enum):
    FUNCTION = "function"
    ACTION = "action"
    EXTERN_FUNCTION = "extern function"
    EXTERN_METHOD = "method"
    PARSER = "parser"
    CONTROL = "control"
    TABLE = "table"
    BUILTIN = "built-in"  # isValid, setValid, setInvalid, push_front, pop_front, minSizeInBits, ...
    CONSTRUCTOR = "constructor"


@dataclass(frozen=True, slots=True)
class Passed:
    """What a call gives to one parameter: `value` is None for `_` and where the parameter is left out; `type` is
    the parameter's with the call's type arguments put in."""

    parameter: ast.Parameter
    value: ast.Expression | None
    type: Type


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a call does.

    `callee` is the declaration: for an extern method or function the Method, for a constructor the Parser, Control,
    Package or Extern (`constructor` is then its Method), for a built-in None; for `apply` of a constructor parameter
    the ParserType or ControlType that this has. `receiver` is what stands before the
    dot: a header, a stack, an instance, a parameter of extern type; None for `apply` of a type and for plain calls.
    `passed` has all parameters in order. `type_arguments` binds the type parameters of the callee and, for methods
    and constructors, those of its extern.
    """

    kind: CallKind
    name: str
    callee: Callee | None
    receiver: ast.Expression | None
    type_arguments: Bindings
    passed: tuple[Passed, ...]
    result: Type
    constructor: ast.Method | None = None


@dataclass(slots=True)
class Checked:
    """The answers. In the body of a generic function types may hold type variables: `types.substitute` them with the
    `type_arguments` of the call."""

    program: ast.Program
    diagnostics: Diagnostics
    errors: list[str] = field(default_factory=list)  # all errors in order of declaration: core.p4's come first
    main: ast.Instance | None = None
    types: dict[ast.Node, Type] = field(default_factory=dict)
    constants: dict[ast.Node, Value] = field(default_factory=dict)
    declarations: dict[ast.Node, Declaration] = field(default_factory=dict)
    calls: dict[ast.Node, Invocation] = field(default_factory=dict)

    def type_of(self, node: ast.Expression | ast.TypeSyntax | ast.Declared) -> Type:
        """The type of an expression; what a type as written means; the type of a variable, constant, parameter,
        field, instance, value set, enum or struct (of these the type they declare) or of an action's parameter."""
        return self.types[node]

    def constant(self, expression: ast.Expression | ast.Constant | ast.EnumMember) -> Value | None:
        """The value of what is known when compiling; None otherwise (constructor parameters and what uses them too:
        `constants.evaluate` takes their values)."""
        return self.constants.get(expression)

    def declaration(self, use: ast.Node) -> Declaration | None:
        """What a Name, a Member (a field, a member of an enum or error) or a NamedType means; None: nothing
        declared (the states accept and reject; `hit`, `next`, `lastIndex` and other built-in members)."""
        return self.declarations.get(use)

    def call(self, node: ast.Call | ast.Instance) -> Invocation:
        """What a call or a declaration of an instance calls."""
        return self.calls[node]


Known: TypeAlias = Mapping[ast.Node, Value]
