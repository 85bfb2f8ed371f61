"""The arguments of a call: which parameter each is for, whether it fits, and what may be written or must be known."""

from collections.abc import Sequence

from testbed.dataplane import ast, types
from testbed.dataplane.check_expressions import ExpressionChecker
from testbed.dataplane.checked import CallKind, Checked, Passed
from testbed.dataplane.diagnostics import did_you_mean
from testbed.dataplane.inference import Inference
from testbed.dataplane.types import UNKNOWN, Bindings, ExternType, Stack, Type, TypeVariable

Made = ast.Call | ast.Instance


class ArgumentChecker(ExpressionChecker):
    def __init__(self, checked: Checked) -> None:
        super().__init__(checked)
        self.static_parameters: set[ast.Parameter] = set()  # those whose values are known when compiling

    def bound(
        self, node: Made, name: str, parameters: Sequence[ast.Parameter], arguments: Sequence[ast.Argument]
    ) -> list[tuple[ast.Parameter, ast.Argument | None]] | None:
        """Each parameter with its argument; None, with an error, if they do not match."""
        by_name = {parameter.name: parameter for parameter in parameters}
        given: dict[str, ast.Argument] = {}
        for position, argument in enumerate(arguments):
            if argument.name is None and position >= len(parameters):
                message = f"{name} takes {len(parameters)} arguments, not {len(arguments)}"
                self.diagnostics.error(argument.span, message)
                return None
            key = argument.name if argument.name is not None else parameters[position].name
            if key not in by_name:
                hint = did_you_mean(key, by_name)
                self.diagnostics.error(argument.span, f"{name} has no parameter {key!r}", hint)
                return None
            if key in given:
                self.diagnostics.error(argument.span, f"the parameter {key!r} of {name} is given twice")
                return None
            given[key] = argument
        for parameter in parameters:
            if parameter.name not in given and not _may_be_left_out(parameter):
                self.diagnostics.error(node.span, f"{name} lacks an argument for its parameter {parameter.name!r}")
                return None
        return [(parameter, given.get(parameter.name)) for parameter in parameters]

    def explicit(
        self,
        node: Made,
        name: str,
        variables: Sequence[TypeVariable],
        written: Sequence[ast.TypeSyntax],
        inference: Inference,
    ) -> bool:
        """Take over the type arguments that are written out."""
        given = [self.type(one) for one in written]
        if not given:
            return True
        if len(given) != len(variables):
            self.diagnostics.error(node.span, f"{name} takes {len(variables)} type arguments, not {len(given)}")
            return False
        for variable, syntax, type_ in zip(variables, written, given, strict=True):
            if not (isinstance(syntax, ast.BaseType) and syntax.keyword == "_"):
                inference.bind(variable, type_)
        return True

    def passed(
        self,
        bound: Sequence[tuple[ast.Parameter, ast.Argument | None]],
        outer: Bindings,
        inference: Inference,
        name: str,
    ) -> list[tuple[ast.Parameter, ast.Expression | None, Type]]:
        """Check the arguments and let their types settle the type variables."""
        passed: list[tuple[ast.Parameter, ast.Expression | None, Type]] = []
        for parameter, argument in bound:
            formal = types.substitute(self.checked.types.get(parameter, UNKNOWN), outer)
            value = None if argument is None else argument.value
            if value is not None:
                actual = self.value(value)
                if not inference.agree(formal, actual):
                    what = f"the parameter {parameter.name!r} of {name}"
                    self.diagnostics.error(
                        value.span, f"{what} is {types.substitute(formal, inference.bindings)}, and this is {actual}"
                    )
                    self.checked.types[value] = UNKNOWN
                if actual is UNKNOWN:
                    formal = UNKNOWN
            elif argument is not None and parameter.direction is not ast.Direction.OUT:
                self.diagnostics.error(argument.span, f"'_' is for out parameters, and {parameter.name!r} is none")
            passed.append((parameter, value, formal))
        return passed

    def check_argument(self, passed: Passed, kind: CallKind, name: str) -> None:
        value, parameter = passed.value, passed.parameter
        if value is None or self.checked.types[value] is UNKNOWN:
            return
        what = f"the parameter {parameter.name!r} of {name}"
        if not isinstance(passed.type, types.BlockType) and not self.converted(value, passed.type, what):
            return
        is_generic = isinstance(self.checked.types.get(parameter), TypeVariable)
        takes_value = parameter.direction is not ast.Direction.NONE or kind is CallKind.FUNCTION
        if is_generic and takes_value and _lacks_width(passed.type):
            self.diagnostics.error(value.span, f"{what} needs a width: write numbers as 8w5")
        if is_generic and isinstance(passed.type, types.Record):
            self.diagnostics.error(value.span, f"{what} has no type", f"write {name}<type>(...)")
        if parameter.direction in (ast.Direction.OUT, ast.Direction.INOUT):
            self.check_assignable(value, f"for the {parameter.direction.value} parameter {parameter.name!r} of {name}")
        elif _wants_static(parameter, kind) and not self.is_static(value):
            self.diagnostics.error(value.span, f"{what} must be known when compiling")

    # ---- what may be assigned, what is known when compiling ----

    def check_assignable(self, node: ast.Expression, use: str = "") -> bool:
        """Whether a value can be put there; reports if not."""
        why = self._not_assignable(node)
        if why:
            self.diagnostics.error(node.span, f"{node.span.text!r} cannot be written{' ' + use if use else ''}: {why}")
        return not why

    def _not_assignable(self, node: ast.Expression) -> str:
        match node:
            case ast.Name():
                declaration = self.checked.declaration(node)
                if isinstance(declaration, ast.Parameter):
                    if declaration.direction is ast.Direction.IN:
                        return "it is an in parameter"
                    if declaration.direction is ast.Direction.NONE and not isinstance(
                        self.checked.types.get(declaration), ExternType
                    ):
                        return "it is a parameter without direction"
                    return ""
                if isinstance(declaration, ast.Constant):
                    return "it is a constant"
                return "" if declaration is None or isinstance(declaration, ast.Variable) else "it is no variable"
            case ast.Member(target=target, name=name):
                type_ = self.checked.types.get(target, UNKNOWN)
                if isinstance(type_, Stack) and name in ("size", "lastIndex"):
                    return f"{name!r} of a stack follows from the stack"
                if isinstance(type_, types.StructType | Stack | types.Unknown):
                    return self._not_assignable(target)
                return "it is no variable"
            case ast.Index(target=target) | ast.Slice(target=target):
                return self._not_assignable(target)
        return "it is no variable"

    def is_static(self, node: ast.Expression) -> bool:
        """Whether the value is known when compiling, constructor parameters included."""
        if self.checked.constant(node) is not None or self.checked.types.get(node, UNKNOWN) is UNKNOWN:
            return True
        match node:
            case ast.InvalidHeader() | ast.Rest():
                return True
            case ast.Name():
                declaration = self.checked.declaration(node)
                if isinstance(declaration, ast.Parameter):
                    is_extern = isinstance(self.checked.types.get(declaration), ExternType | types.BlockType)
                    return is_extern or declaration in self.static_parameters
                return isinstance(declaration, ast.Instance | ast.Constant)
            case ast.Call():
                made = self.checked.calls.get(node)
                return made is not None and made.kind is CallKind.CONSTRUCTOR
            case ast.Unary(operand=operand) | ast.Cast(operand=operand):
                return self.is_static(operand)
            case ast.Binary(left=left, right=right):
                return self.is_static(left) and self.is_static(right)
            case ast.Conditional():
                return all(self.is_static(one) for one in (node.condition, node.if_true, node.if_false))
            case ast.Member(target=target) | ast.Slice(target=target):
                return self.is_static(target)
            case ast.ListExpression(items=items):
                return all(self.is_static(one) for one in items)
            case ast.RecordExpression(fields=fields):
                return all(self.is_static(one) for _, one in fields)
        return False


def _may_be_left_out(parameter: ast.Parameter) -> bool:
    return parameter.default is not None or any(one.name == "optional" for one in parameter.annotations)


def _wants_static(parameter: ast.Parameter, kind: CallKind) -> bool:
    externs = (CallKind.EXTERN_FUNCTION, CallKind.EXTERN_METHOD)
    return kind is CallKind.CONSTRUCTOR or (parameter.direction is ast.Direction.NONE and kind in externs)


def accepts(parameters: Sequence[ast.Parameter], arguments: Sequence[ast.Argument]) -> bool:
    if len(arguments) > len(parameters):
        return False
    names = [parameter.name for parameter in parameters]
    given = {one.name if one.name is not None else names[position] for position, one in enumerate(arguments)}
    return given <= set(names) and all(one.name in given or _may_be_left_out(one) for one in parameters)


def _lacks_width(type_: Type) -> bool:
    match type_:
        case types.Integer():
            return True
        case types.Tuple(elements):
            return any(_lacks_width(one) for one in elements)
        case types.Record(fields):
            return any(_lacks_width(one) for _, one in fields)
    return False
