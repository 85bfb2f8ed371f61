"""Checks a whole P4_16 program and makes the typed tree that lowering reads."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from testbed.dataplane import ast, types
from testbed.dataplane.check_parsers import ParserChecker
from testbed.dataplane.check_statements import always_returns
from testbed.dataplane.checked import Checked
from testbed.dataplane.cursor import deep_trees
from testbed.dataplane.diagnostics import Diagnostics
from testbed.dataplane.lexer import Token
from testbed.dataplane.names import Place
from testbed.dataplane.parser import parse
from testbed.dataplane.preprocess import preprocess
from testbed.dataplane.types import UNKNOWN, VOID, Type

_NO_DIRECTION = (types.ExternType, types.BlockType, types.Integer, types.String)


def front_end(path: Path, defines: Mapping[str, str] | None = None, include_dirs: Iterable[Path] = ()) -> Checked:
    """The typed tree of the program in `path`; its warnings are in `diagnostics`.

    Raises `P4Errors` with all errors that were found, `UsageError` if the file cannot be read.
    """
    diagnostics = Diagnostics()
    return front_end_of(preprocess(path, diagnostics, defines, include_dirs), diagnostics)


def front_end_of(tokens: list[Token], diagnostics: Diagnostics) -> Checked:
    """The typed tree of a program's tokens. Raises `P4Errors`."""
    program = parse(tokens, diagnostics)
    diagnostics.raise_errors()
    checked = check(program, diagnostics)
    diagnostics.raise_errors()
    return checked


def check(program: ast.Program, diagnostics: Diagnostics) -> Checked:
    """The typed tree; errors go to `diagnostics`, and what they concern has the type `Unknown`."""
    checked = Checked(program, diagnostics)
    with deep_trees():
        _ProgramChecker(checked).program(program)
    return checked


class _ProgramChecker(ParserChecker):
    def program(self, node: ast.Program) -> None:
        for declaration in node.declarations:
            self._declaration(declaration)
        found = self.all_of("main")
        if not found:
            last = node.declarations[-1].span if node.declarations else node.span
            hint = "a v1model program ends in V1Switch(...) main;"
            self.diagnostics.error(last, "the program has no 'main'", hint)
        elif isinstance(found[0], ast.Instance):
            self.checked.main = found[0]
            made = self.checked.types.get(found[0], UNKNOWN)
            is_package = isinstance(made, types.BlockType) and isinstance(made.declaration, ast.Package)
            if made is not UNKNOWN and not is_package:
                self.diagnostics.error(found[0].span, f"'main' is a package, and this is {made}")
        else:
            self.diagnostics.error(found[0].name_span, "'main' is not the instance of a package")
        self.checked.errors = list(self.error_members)

    def _declaration(self, node: ast.Declaration) -> None:
        self._annotations(node)
        match node:
            case ast.Constant():
                self.constant(node)
            case ast.Instance():
                self.instance(node)
            case ast.Struct():
                self.struct(node)
                for field in node.fields:
                    self._annotations(field)
            case ast.Enum():
                self.enum(node)
            case ast.MemberList():
                self._member_list(node)
            case ast.Typedef():
                self.typedef(node)
            case ast.Method():
                self._method(node)
                self.declare(node)
            case ast.Extern():
                self._extern(node)
            case ast.Function():
                self._function(node)
                self.declare(node)
            case ast.Action():
                self._action_declaration(node)
            case ast.ParserType() | ast.ControlType() | ast.Package():
                with self.scope():
                    for parameter in node.type_parameters:
                        self.declare(parameter)
                    self._parameters(node.parameters)
                self.declare(node)
            case ast.Parser():
                self._parser(node)
            case ast.Control():
                self._control(node)

    def _annotations(self, node: ast.Declared) -> None:
        """Type the expressions in annotations; names that mean nothing here are left alone: tools read them too."""
        for annotation in node.annotations:
            for expression in (*annotation.expressions, *(value for _, value in annotation.pairs)):
                is_literal = isinstance(expression, ast.IntLiteral | ast.StringLiteral | ast.BoolLiteral)
                if is_literal or (isinstance(expression, ast.Name) and self.all_of(expression.name)):
                    self.expression(expression)

    def _member_list(self, node: ast.MemberList) -> None:
        is_error = node.name == "error"
        known = self.error_members if is_error else self.match_kinds
        for member in node.members:
            if member.name in known:
                hint = f"the first time is at {known[member.name].name_span}"
                self.diagnostics.error(member.name_span, f"{member.name!r} is declared twice", hint)
            known.setdefault(member.name, member)
            self.checked.types[member] = types.ERROR if is_error else types.MATCH_KIND

    # ---- signatures ----

    def _parameters(self, parameters: Sequence[ast.Parameter]) -> None:
        """Type the parameters and make their names known."""
        for parameter in parameters:
            type_ = self.value_type(parameter.type, "a parameter")
            if parameter.direction is not ast.Direction.NONE and isinstance(type_, _NO_DIRECTION):
                message = f"a parameter of type {type_} has no direction"
                self.diagnostics.error(parameter.span, message, f"drop {parameter.direction.value!r}")
            self.checked.types[parameter] = type_
            if parameter.default is not None:
                self.expected(parameter.default, type_, f"the parameter {parameter.name!r}")
                if parameter.direction in (ast.Direction.OUT, ast.Direction.INOUT):
                    self.diagnostics.error(parameter.default.span, "a parameter that is written has no default value")
            self.declare(parameter)

    def _method(self, node: ast.Method) -> None:
        with self.scope():
            for parameter in node.type_parameters:
                self.declare(parameter)
            if node.result is not None:
                self.type(node.result)
            self._parameters(node.parameters)

    def _extern(self, node: ast.Extern) -> None:
        self.declare(node)
        with self.scope():
            for parameter in node.type_parameters:
                self.declare(parameter)
            for constructor in node.constructors:
                self.extern_of[constructor] = node
                self._method(constructor)
            for method in node.methods:
                self._method(method)

    # ---- bodies ----

    def _function(self, node: ast.Function) -> None:
        with self.scope(Place.FUNCTION):
            for parameter in node.type_parameters:
                self.declare(parameter)
            result = self.type(node.result)
            self._parameters(node.parameters)
            self.static_parameters.update(one for one in node.parameters if one.direction is ast.Direction.NONE)
            with self.returning(result):
                self.block(node.body)
        if result not in (VOID, UNKNOWN) and not always_returns(node.body):
            self.diagnostics.error(node.name_span, f"not every way through {node.name} returns a value")

    def _action_declaration(self, node: ast.Action) -> None:
        with self.scope(Place.ACTION):
            self._parameters(node.parameters)
            self._check_action_parameters(node)
            with self.returning(VOID):
                self.block(node.body)
        self.declare(node)

    def _check_action_parameters(self, node: ast.Action) -> None:
        data = None
        for parameter in node.parameters:
            type_ = self.checked.types[parameter]
            if isinstance(type_, types.Integer | types.ExternType | types.BlockType | types.String):
                self.diagnostics.error(parameter.span, f"an action cannot have a parameter of type {type_}")
            if parameter.direction is ast.Direction.NONE:
                data = parameter
            elif data is not None:
                message = f"parameters without direction, as {data.name!r}, come last"
                self.diagnostics.error(parameter.span, message)

    def _block_parameters(self, node: ast.Parser | ast.Control) -> None:
        self._parameters(node.parameters)
        for parameter in node.parameters:
            if isinstance(self.checked.types[parameter], types.BlockType):
                what = "a parser or control is given to a constructor, not to apply"
                self.diagnostics.error(parameter.span, what)
        self._parameters(node.constructor_parameters)
        for parameter in node.constructor_parameters:
            if parameter.direction is not ast.Direction.NONE:
                self.diagnostics.error(parameter.span, "a constructor's parameter has no direction")
        self.static_parameters.update(node.constructor_parameters)

    def _parser(self, node: ast.Parser) -> None:
        with self.scope(Place.PARSER):
            self._block_parameters(node)
            with self.scope():
                for member in node.locals:
                    self._parser_local(member)
                self.states(node)
        self.declare(node)

    def _parser_local(self, node: ast.ParserLocal) -> None:
        self._annotations(node)
        match node:
            case ast.Constant():
                self.constant(node)
            case ast.Variable():
                self.variable(node)
            case ast.Instance():
                self.instance(node)
            case ast.ValueSet():
                self._value_set(node)

    def _value_set(self, node: ast.ValueSet) -> None:
        element: Type = self.value_type(node.type, "a value set")
        self.size(node.size, "the size of a value set", 1, (1 << 31) - 1)
        self.checked.types[node] = types.Set(element)
        self.declare(node)

    def _control(self, node: ast.Control) -> None:
        with self.scope(Place.CONTROL):
            self._block_parameters(node)
            with self.scope():
                for member in node.locals:
                    self._control_local(member)
                with self.scope(Place.APPLY), self.returning(VOID):
                    self.block(node.body)
        self.declare(node)

    def _control_local(self, node: ast.ControlLocal) -> None:
        self._annotations(node)
        match node:
            case ast.Constant():
                self.constant(node)
            case ast.Variable():
                self.variable(node)
            case ast.Instance():
                self.instance(node)
            case ast.Action():
                self._action_declaration(node)
            case ast.Table():
                self.table(node)

    def abstract_member(self, node: ast.Function | ast.Instance) -> None:
        if isinstance(node, ast.Instance):
            self.instance(node)
        else:
            self._function(node)
