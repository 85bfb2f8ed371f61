"""The types of expressions: names, members, elements, literals."""

from abc import abstractmethod

from testbed.dataplane import ast, types
from testbed.dataplane.check_operators import OperatorChecker
from testbed.dataplane.checked import Checked, EnumValue
from testbed.dataplane.constants import fitted, fold
from testbed.dataplane.diagnostics import did_you_mean
from testbed.dataplane.names import Place
from testbed.dataplane.types import BOOL, INTEGER, UNKNOWN, Bits, EnumType, Stack, StructType, Type, plain

_VALUE_DECLARATIONS = (ast.Variable, ast.Parameter, ast.Constant, ast.Instance, ast.ValueSet, ast.Table)
_STACK_MEMBERS = ("next", "last", "lastIndex", "size")
_STACK_INDEX = Bits(32)


class ExpressionChecker(OperatorChecker):
    def __init__(self, checked: Checked) -> None:
        super().__init__(checked)
        self.error_members: dict[str, ast.EnumMember] = {}
        self.in_switch_subject = False

    @abstractmethod
    def call(self, node: ast.Call) -> Type:
        """Check a call; the type of its result."""

    def expression(self, node: ast.Expression) -> Type:
        found = self._expression(node)
        self.checked.types[node] = found
        if found is not UNKNOWN:
            value = fold(self.checked, node, self.checked.constants.get)
            if value is not None:
                self.checked.constants[node] = fitted(value, found)
        return found

    def _expression(self, node: ast.Expression) -> Type:
        match node:
            case ast.IntLiteral(width=width, is_signed=is_signed):
                return INTEGER if width is None else Bits(width, is_signed)
            case ast.BoolLiteral():
                return BOOL
            case ast.StringLiteral():
                return types.STRING
            case ast.Name():
                return self._name(node)
            case ast.Member():
                return self._member(node)
            case ast.Index():
                return self._index(node)
            case ast.Slice():
                return self._slice(node)
            case ast.Unary():
                return self.unary(node)
            case ast.Binary():
                return self.binary(node)
            case ast.Conditional():
                return self.conditional(node)
            case ast.Cast():
                return self.cast(node)
            case ast.Call():
                return self.call(node)
            case ast.ListExpression(items=items):
                return types.Tuple(tuple(self.value(item) for item in items))
            case ast.RecordExpression():
                return self._record(node)
            case ast.InvalidHeader():
                return types.InvalidHeaderType()
            case ast.Rest():
                return types.RestType()
            case ast.Anything() | ast.Mask() | ast.Range():
                self.diagnostics.error(node.span, f"{node.span.text!r} is a set of values and stands in labels only")
                return UNKNOWN

    def value(self, node: ast.Expression) -> Type:
        """The type of an expression that must be a value: no function, type or table."""
        found = self.expression(node)
        if isinstance(found, types.Callable | types.TableType | types.ApplyResult | types.Void):
            what = "a call without a result" if found is types.VOID else f"{found}"
            self.diagnostics.error(node.span, f"{node.span.text!r} is {what} and no value")
            self.checked.types[node] = UNKNOWN
            return UNKNOWN
        return found

    # ---- names and members ----

    def _name(self, node: ast.Name) -> Type:
        if node.name == "error":
            return types.Callable("the type error")
        declaration = self.look_up(node)
        if declaration is None:
            return UNKNOWN
        if isinstance(declaration, _VALUE_DECLARATIONS):
            return self.checked.types.get(declaration, UNKNOWN)
        if isinstance(declaration, ast.Function | ast.Method):
            return types.Callable("a function")
        if isinstance(declaration, ast.Action):
            return types.Callable("an action")
        return types.Callable("a type")

    def _member(self, node: ast.Member) -> Type:
        if isinstance(node.target, ast.Name):
            if node.target.name == "error":
                self.checked.types[node.target] = types.Callable("the type error")
                return self._error_member(node)
            found = self.all_of(node.target.name, node.target.is_global)
            declared = self.checked.types.get(found[0]) if found else None
            if found and isinstance(found[0], ast.Enum | ast.Typedef) and isinstance(declared, EnumType):
                self.checked.declarations[node.target] = found[0]
                self.checked.types[node.target] = types.Callable("a type")
                return self._enum_member(node, declared)
        target = self.expression(node.target)
        match plain(target):
            case StructType() as struct:
                return self._field(node, struct)
            case Stack() as stack:
                return self._stack_member(node, stack)
            case types.ApplyResult(table):
                if node.name in ("hit", "miss"):
                    return BOOL
                if node.name == "action_run":
                    if not self.in_switch_subject:
                        hint = "switch (table.apply().action_run) { ... }"
                        self.diagnostics.error(node.span, "'action_run' is for switch only", hint)
                    return types.ActionRun(table)
                self._no_member(node, target, ("hit", "miss", "action_run"))
            case types.Unknown():
                pass
            case types.Callable(what) if what == "a type":
                self.diagnostics.error(node.span, f"the type {node.target.span.text} has no member {node.name!r}")
            case _:
                self._no_member(node, target, ())
        return UNKNOWN

    def _no_member(self, node: ast.Member, target: Type, known: tuple[str, ...]) -> None:
        message = f"{target} has no member {node.name!r}"
        self.diagnostics.error(node.name_span, message, did_you_mean(node.name, known))

    def _error_member(self, node: ast.Member) -> Type:
        found = self.error_members.get(node.name)
        if found is None:
            hint = did_you_mean(node.name, self.error_members)
            self.diagnostics.error(node.name_span, f"there is no error {node.name!r}", hint)
            return UNKNOWN
        self.checked.declarations[node] = found
        self.checked.constants[node] = EnumValue(None, node.name)
        return types.ERROR

    def _enum_member(self, node: ast.Member, enum: EnumType) -> Type:
        members = {member.name: member for member in enum.declaration.members}
        if node.name not in members:
            self._no_member(node, enum, tuple(members))
            return UNKNOWN
        self.checked.declarations[node] = members[node.name]
        return enum

    def _field(self, node: ast.Member, struct: StructType) -> Type:
        found = struct.field(node.name)
        if found is None:
            self._no_member(node, struct, tuple(name for name, _ in struct.fields))
            return UNKNOWN
        self.checked.declarations[node] = next(one for one in struct.declaration.fields if one.name == node.name)
        return found

    def _stack_member(self, node: ast.Member, stack: Stack) -> Type:
        if node.name in ("next", "last", "lastIndex") and self.place is not Place.STATE:
            self.diagnostics.error(node.name_span, f"{node.name!r} of a stack is for parser states only")
            return UNKNOWN
        if node.name in ("next", "last"):
            return stack.element
        if node.name in ("size", "lastIndex"):
            return _STACK_INDEX
        self._no_member(node, stack, _STACK_MEMBERS)
        return UNKNOWN

    def _index(self, node: ast.Index) -> Type:
        target = self.expression(node.target)
        index = self.value(node.index)
        elements: tuple[Type, ...] = ()
        match plain(target):
            case types.Unknown():
                return UNKNOWN
            case Stack(element, size):
                limit = size
            case types.Tuple(elements):
                limit = len(elements)
            case types.List(element):
                limit = 1 << 31
            case _:
                self.diagnostics.error(node.span, f"a value of type {target} has no elements to index")
                return UNKNOWN
        if index is UNKNOWN:
            return UNKNOWN if elements else element
        if not isinstance(plain(index), Bits | types.Integer):
            self.diagnostics.error(node.index.span, f"an index is a number, not a value of type {index}")
            return UNKNOWN
        value = self.checked.constant(node.index)
        if isinstance(value, int):
            if not 0 <= value < limit:
                message = f"the index {value} is outside of {target}, whose elements are 0 to {limit - 1}"
                self.diagnostics.error(node.index.span, message)
                return UNKNOWN
            if index is INTEGER:
                self.converted(node.index, _STACK_INDEX, "the index")
        elif elements or isinstance(target, types.Tuple | types.List):
            self.diagnostics.error(node.index.span, f"the index into {target} must be known when compiling")
            return UNKNOWN
        return elements[int(value)] if elements and isinstance(value, int) else element

    def _slice(self, node: ast.Slice) -> Type:
        target = self.value(node.target)
        high = self.size(node.high, "the end of a slice", 0, 1 << 20)
        low = self.size(node.low, "the end of a slice", 0, 1 << 20)
        inner = plain(target)
        if target is UNKNOWN or high is None or low is None:
            return UNKNOWN
        if not isinstance(inner, Bits) or isinstance(target, types.NewType):
            hint = "give the number a width, as in 8w5" if inner is INTEGER else ""
            self.diagnostics.error(node.target.span, f"a value of type {target} has no bits to slice", hint)
        elif high >= inner.width:
            self.diagnostics.error(
                node.high.span, f"bit {high} is outside of {target}: its bits are 0 to {inner.width - 1}"
            )
        elif high < low:
            self.diagnostics.error(node.high.span, f"the slice [{high}:{low}] has its ends reversed")
        else:
            return Bits(high - low + 1)
        return UNKNOWN

    def _record(self, node: ast.RecordExpression) -> Type:
        fields: dict[str, Type] = {}
        for name, value in node.fields:
            if name in fields:
                self.diagnostics.error(value.span, f"the field {name!r} is given twice")
            fields[name] = self.value(value)
        return types.Record(tuple(fields.items()))
