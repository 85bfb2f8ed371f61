"""What types as written mean, and whether declarations of types make sense."""

from abc import ABC, abstractmethod

from testbed.dataplane import ast, types
from testbed.dataplane.checked import Value
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lexer import MAX_WIDTH_BITS
from testbed.dataplane.names import Names
from testbed.dataplane.types import UNKNOWN, Bits, StructType, Type

_MAX_STACK = 1 << 16
_BASE: dict[str, Type] = {
    "bool": types.BOOL,
    "error": types.ERROR,
    "string": types.STRING,
    "int": types.INTEGER,
    "match_kind": types.MATCH_KIND,
    "void": types.VOID,
}


class TypeChecker(Names, ABC):
    @abstractmethod
    def expression(self, node: ast.Expression) -> Type:
        """Check an expression; its type."""

    @abstractmethod
    def converted(self, node: ast.Expression, wanted: Type, what: str, at: Span | None = None) -> bool:
        """Give a checked expression the type `wanted` if that is possible without a cast, else report (`at`)."""

    # ---- types as written ----

    def type(self, node: ast.TypeSyntax) -> Type:
        found = self._type(node)
        self.checked.types[node] = found
        return found

    def value_type(self, node: ast.TypeSyntax, what: str) -> Type:
        """The type of something that holds a value: no void, match_kind or `_`."""
        found = self.type(node)
        if found in (types.VOID, types.MATCH_KIND) or (isinstance(node, ast.BaseType) and node.keyword == "_"):
            self.diagnostics.error(node.span, f"{what} cannot have the type {node.span.text}")
            return UNKNOWN
        return found

    def _type(self, node: ast.TypeSyntax) -> Type:
        match node:
            case ast.BaseType(keyword=keyword):
                return _BASE.get(keyword, UNKNOWN)
            case ast.SizedType():
                return self._sized(node)
            case ast.TupleSyntax(elements=elements, is_list=is_list):
                inner = tuple(self.value_type(one, "an element") for one in elements)
                if is_list and len(inner) != 1:
                    self.diagnostics.error(node.span, f"a list has one type of element, not {len(inner)}")
                    return UNKNOWN
                return types.List(inner[0]) if is_list else types.Tuple(inner)
            case ast.StackSyntax():
                return self._stack(node)
            case ast.NamedType():
                return self._named(node)

    def size(self, node: ast.Expression, what: str, least: int, most: int) -> int | None:
        """A constant number in these bounds; None with an error otherwise."""
        type_ = self.expression(node)
        value = self.checked.constant(node)
        if type_ is UNKNOWN:
            return None
        if not isinstance(types.plain(type_), Bits | types.Integer):
            self.diagnostics.error(node.span, f"{what} is a number, not a value of type {type_}")
        elif not isinstance(value, int):
            self.diagnostics.error(node.span, f"{what} must be known when compiling")
        elif not least <= value <= most:
            self.diagnostics.error(node.span, f"{what} is {value}, but must be from {least} to {most}")
        else:
            return int(value)
        return None

    def _sized(self, node: ast.SizedType) -> Type:
        least = 1 if node.keyword == "int" else 0
        width = self.size(node.width, f"the width of {node.keyword}", least, MAX_WIDTH_BITS)
        if width is None:
            return UNKNOWN
        if node.keyword == "varbit":
            return types.Varbits(width)
        return Bits(width, node.keyword == "int")

    def _stack(self, node: ast.StackSyntax) -> Type:
        element = self.type(node.element)
        size = self.size(node.size, "the size of a stack", 1, _MAX_STACK)
        if element is UNKNOWN or size is None:
            return UNKNOWN
        if not (types.is_header(element) or types.is_union(element) or isinstance(element, types.TypeVariable)):
            self.diagnostics.error(node.span, f"a stack holds headers or header unions, not {element}")
            return UNKNOWN
        return types.Stack(element, size)

    def _named(self, node: ast.NamedType) -> Type:
        declaration = self.look_up(node, "type")
        arguments = tuple(self.type(one) for one in node.arguments)
        if declaration is None:
            return UNKNOWN
        if not isinstance(declaration, _DECLARES_TYPE):
            self.diagnostics.error(node.span, f"{node.name!r} is no type")
            return UNKNOWN
        parameters = getattr(declaration, "type_parameters", ())
        if len(arguments) != len(parameters):
            if arguments or isinstance(declaration, ast.Struct | ast.Extern):
                message = f"{node.name} takes {len(parameters)} type arguments, not {len(arguments)}"
                self.diagnostics.error(node.span, message)
                return UNKNOWN
            return self.named_type(declaration)
        found = self._with_arguments(self.named_type(declaration), parameters, arguments)
        if isinstance(found, StructType):
            for name, type_ in found.fields:
                if not _may_be_field(found.kind, type_):
                    message = f"a {found.kind.value} has no field of type {type_}, as {name!r} of {found} would be"
                    self.diagnostics.error(node.span, message)
                    return UNKNOWN
        return found

    def _with_arguments(
        self, found: Type, parameters: tuple[ast.TypeParameter, ...], arguments: tuple[Type, ...]
    ) -> Type:
        bindings = {types.TypeVariable(one): given for one, given in zip(parameters, arguments, strict=True)}
        return types.substitute(found, bindings)

    def named_type(self, declaration: "_DeclaresType") -> Type:
        """The type that a declaration makes, with its own type parameters as arguments."""
        match declaration:
            case ast.TypeParameter():
                return types.TypeVariable(declaration)
            case ast.Struct() | ast.Enum() | ast.Typedef():
                return self.checked.types.get(declaration, UNKNOWN)
            case ast.Extern(type_parameters=parameters):
                return types.ExternType(declaration, tuple(types.TypeVariable(one) for one in parameters))
            case ast.ParserType() | ast.ControlType() | ast.Package():
                variables = tuple(types.TypeVariable(one) for one in declaration.type_parameters)
                return types.BlockType(declaration, variables)
            case ast.Parser() | ast.Control():
                return types.BlockType(declaration)

    # ---- declarations of types ----

    def struct(self, node: ast.Struct) -> None:
        fields: list[tuple[str, Type]] = []
        with self.scope():
            for parameter in node.type_parameters:
                self.declare(parameter)
            known: dict[str, ast.Field] = {}
            for field in node.fields:
                type_ = self.value_type(field.type, "a field")
                if field.name in known:
                    hint = f"the first time is at {known[field.name].name_span}"
                    self.diagnostics.error(field.name_span, f"the field {field.name!r} is declared twice", hint)
                    continue
                known[field.name] = field
                if not _may_be_field(node.kind, type_):
                    self.diagnostics.error(field.type.span, f"a {node.kind.value} has no field of type {type_}")
                    type_ = UNKNOWN
                self.checked.types[field] = type_
                fields.append((field.name, type_))
        variables = tuple(types.TypeVariable(one) for one in node.type_parameters)
        self.checked.types[node] = StructType(node, variables, tuple(fields))
        self.declare(node)

    def enum(self, node: ast.Enum) -> None:
        underlying = None
        if node.underlying is not None:
            found = self.type(node.underlying)
            if isinstance(found, Bits):
                underlying = found
            elif found is not UNKNOWN:
                self.diagnostics.error(node.underlying.span, f"an enum is made of bit<w> or int<w>, not {found}")
        type_ = types.EnumType(node, underlying)
        self.checked.types[node] = type_
        self._members(node.members, type_)
        if not node.members:
            self.diagnostics.error(node.span, f"the enum {node.name} has no members")
        for member in node.members:
            if underlying is not None and member.value is not None:
                self.expression(member.value)
                self.converted(member.value, underlying, f"the value of {member.name}")
                self._note_member_value(member, self.checked.constant(member.value))
            elif node.underlying is not None and member.value is None:
                self.diagnostics.error(member.span, f"{member.name} needs a value, as in {member.name} = 1")
            elif node.underlying is None and member.value is not None:
                hint = f"write enum bit<8> {node.name}"
                self.diagnostics.error(member.span, f"only an enum with a type gives values to its members: {hint}")
        self.declare(node)

    def _note_member_value(self, member: ast.EnumMember, value: Value | None) -> None:
        if value is not None:
            self.checked.constants[member] = value
        elif member.value is not None and self.checked.types[member.value] is not UNKNOWN:
            self.diagnostics.error(member.value.span, f"the value of {member.name} must be known when compiling")

    def _members(self, members: tuple[ast.EnumMember, ...], type_: Type) -> None:
        known: dict[str, ast.EnumMember] = {}
        for member in members:
            if member.name in known:
                hint = f"the first time is at {known[member.name].name_span}"
                self.diagnostics.error(member.name_span, f"{member.name!r} is declared twice", hint)
            known.setdefault(member.name, member)
            self.checked.types[member] = type_

    def typedef(self, node: ast.Typedef) -> None:
        found = self.value_type(node.type, "a type")
        if not node.is_new:
            self.checked.types[node] = found
        elif isinstance(found, Bits | types.Bool | types.NewType | types.EnumType | types.Unknown | types.TypeVariable):
            self.checked.types[node] = UNKNOWN if found is UNKNOWN else types.NewType(node, found)
        else:
            self.diagnostics.error(node.type.span, f"a new type is made of bits, int or bool, not of {found}")
            self.checked.types[node] = UNKNOWN
        self.declare(node)


_DECLARES_TYPE = (
    ast.TypeParameter,
    ast.Struct,
    ast.Enum,
    ast.Typedef,
    ast.Extern,
    ast.ParserType,
    ast.ControlType,
    ast.Package,
    ast.Parser,
    ast.Control,
)
_DeclaresType = (
    ast.TypeParameter
    | ast.Struct
    | ast.Enum
    | ast.Typedef
    | ast.Extern
    | ast.ParserType
    | ast.ControlType
    | ast.Package
    | ast.Parser
    | ast.Control
)


def _may_be_field(kind: ast.StructKind, type_: Type) -> bool:
    if type_ is UNKNOWN or isinstance(type_, types.TypeVariable):
        return True
    match kind:
        case ast.StructKind.UNION:
            return types.is_header(type_)
        case ast.StructKind.HEADER:
            return _fits_header(type_)
    no_field = (types.Integer, types.String, types.ExternType, types.BlockType, types.Set, types.List)
    return not isinstance(type_, no_field)


def _fits_header(type_: Type) -> bool:
    match types.plain(type_):
        case Bits() | types.Varbits() | types.Bool() | types.TypeVariable() | types.Unknown():
            return True
        case StructType(declaration=declaration, fields=fields):
            return declaration.kind is ast.StructKind.STRUCT and all(_fits_header(one) for _, one in fields)
    return False
