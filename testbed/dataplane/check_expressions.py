"""The types of expressions, and the implicit casts of the language."""

from abc import abstractmethod

from testbed.dataplane import ast, types
from testbed.dataplane.check_types import TypeChecker
from testbed.dataplane.checked import Checked, EnumValue
from testbed.dataplane.constants import default_value, fitted, fold
from testbed.dataplane.diagnostics import Span, did_you_mean
from testbed.dataplane.names import Place
from testbed.dataplane.types import BOOL, INTEGER, UNKNOWN, Bits, EnumType, Stack, StructType, Type, plain

_SAME_TYPE = ("+", "-", "*", "&", "|", "^", "|+|", "|-|", "/", "%")
_VALUE_DECLARATIONS = (ast.Variable, ast.Parameter, ast.Constant, ast.Instance, ast.ValueSet, ast.Table)
_STACK_MEMBERS = ("next", "last", "lastIndex", "size")
STACK_INDEX = Bits(32)


class ExpressionChecker(TypeChecker):
    def __init__(self, checked: Checked) -> None:
        super().__init__(checked)
        self.error_members: dict[str, ast.EnumMember] = {}
        self.in_switch_subject = False

    @abstractmethod
    def call(self, node: ast.Call) -> Type:
        """Check a call; the type of its result."""

    @abstractmethod
    def is_static(self, node: ast.Expression) -> bool:
        """Whether the value is known when compiling, constructor parameters included."""

    def expression(self, node: ast.Expression) -> Type:
        found = self._expression(node)
        self.checked.types[node] = found
        if found is not UNKNOWN:
            value = fold(self.checked, node, self.checked.constants.get)
            if value is not None:
                self.checked.constants[node] = fitted(value, found)
        return found

    def expected(self, node: ast.Expression, wanted: Type, what: str) -> bool:
        """Check an expression whose type is known beforehand; whether it has it."""
        self.expression(node)
        return self.converted(node, wanted, what)

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
                return self._unary(node)
            case ast.Binary():
                return self._binary(node)
            case ast.Conditional():
                return self._conditional(node)
            case ast.Cast():
                return self._cast(node)
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
            return STACK_INDEX
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
                self.converted(node.index, STACK_INDEX, "the index")
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

    # ---- operators ----

    def _operand(self, node: ast.Expression) -> Type:
        """The type of an operand: of a serialisable enum the underlying one."""
        found = self.value(node)
        return found.underlying if isinstance(found, EnumType) and found.underlying is not None else found

    def _unary(self, node: ast.Unary) -> Type:
        operand = self._operand(node.operand)
        if operand is UNKNOWN:
            return UNKNOWN
        if node.operator == "!":
            fits = operand is BOOL
        else:
            fits = isinstance(operand, Bits) or (operand is INTEGER and node.operator != "~")
        if fits:
            return operand
        hint = "compare it, as in x == 0" if node.operator == "!" and isinstance(operand, Bits) else ""
        if operand is INTEGER and node.operator == "~":
            hint = "give the number a width, as in 8w5"
        self.diagnostics.error(node.span, f"{node.operator!r} does not apply to a value of type {operand}", hint)
        return UNKNOWN

    def _binary(self, node: ast.Binary) -> Type:
        operator = node.operator
        if operator in ("==", "!="):
            return self._equality(node)
        left, right = self._operand(node.left), self._operand(node.right)
        if left is UNKNOWN or right is UNKNOWN:
            return BOOL if operator in ("&&", "||", "<", "<=", ">", ">=") else UNKNOWN
        if operator in ("&&", "||"):
            for side, type_ in ((node.left, left), (node.right, right)):
                if type_ is not BOOL:
                    hint = "compare it, as in x != 0" if isinstance(type_, Bits) else ""
                    self.diagnostics.error(side.span, f"{operator!r} joins bools, and this is {type_}", hint)
            return BOOL
        if operator in ("<<", ">>"):
            return self._shift(node, left, right)
        if operator == "++":
            return self._concatenation(node, left, right)
        found = self._same(node, left, right)
        return BOOL if operator not in _SAME_TYPE else found

    def _same(self, node: ast.Binary, left: Type, right: Type) -> Type:
        """The type of two operands that must be alike; a number without width takes that of the other one."""
        operator = node.operator
        for side, type_ in ((node.left, left), (node.right, right)):
            if not isinstance(type_, Bits | types.Integer):
                message = f"{operator!r} does not apply to a value of type {type_}"
                hint = "cast it to the type it is made of" if isinstance(type_, types.NewType) else ""
                self.diagnostics.error(side.span, message, hint)
                return UNKNOWN
        if operator in ("|+|", "|-|") and left is right is INTEGER:
            message = f"{operator!r} needs a width to saturate at"
            self.diagnostics.error(node.span, message, "give a number a width, as in 8w5")
            return UNKNOWN
        values = [self.checked.constant(side) for side in (node.left, node.right)]
        if operator in ("/", "%") and any(isinstance(value, int) and value < 0 for value in values):
            self.diagnostics.error(node.span, f"{operator!r} does not apply to negative numbers")
            return UNKNOWN
        if left is INTEGER and right is not INTEGER:
            self.converted(node.left, right, f"the operand of {operator!r}")
            left = right
        elif right is INTEGER and left is not INTEGER:
            self.converted(node.right, left, f"the operand of {operator!r}")
            right = left
        if left != right:
            assert isinstance(left, Bits)
            assert isinstance(right, Bits)
            why = "have different signs" if left.is_signed is not right.is_signed else "have different widths"
            message = f"the operands of {operator!r} {why}: {left} and {right}"
            self.diagnostics.error(node.span, message, "cast one of them")
            return UNKNOWN
        if operator in ("/", "%"):
            return self._division(node, left)
        return left

    def _division(self, node: ast.Binary, type_: Type) -> Type:
        if isinstance(type_, Bits) and type_.is_signed:
            self.diagnostics.error(node.span, f"{node.operator!r} does not apply to signed values ({type_})")
            return UNKNOWN
        left, right = self.checked.constant(node.left), self.checked.constant(node.right)
        if right == 0:
            self.diagnostics.error(node.right.span, "this divides by 0")
            return UNKNOWN
        is_power = isinstance(right, int) and right & (right - 1) == 0
        is_static = self.is_static(node.left) and self.is_static(node.right)
        if not (is_power or is_static or left == 0):
            message = f"{node.operator!r} applies to constants, or with a power of two on its right"
            self.diagnostics.error(node.span, message, "divide with a table, or multiply and shift")
            return UNKNOWN
        return type_

    def _shift(self, node: ast.Binary, left: Type, right: Type) -> Type:
        if not isinstance(left, Bits | types.Integer):
            self.diagnostics.error(node.left.span, f"{node.operator!r} does not apply to a value of type {left}")
            return UNKNOWN
        if not isinstance(right, Bits | types.Integer):
            self.diagnostics.error(node.right.span, f"a shift is by a number, not by a value of type {right}")
            return UNKNOWN
        by = self.checked.constant(node.right)
        if isinstance(by, int) and by < 0:
            self.diagnostics.error(node.right.span, f"a shift by {by} makes no sense")
            return UNKNOWN
        if isinstance(right, Bits) and right.is_signed and by is None:
            hint = "cast it to bit<w>"
            self.diagnostics.error(node.right.span, f"a shift is by an unsigned number, not by {right}", hint)
            return UNKNOWN
        if left is INTEGER and by is None:
            message = "a number without width can only be shifted by a constant"
            self.diagnostics.error(node.left.span, message, "give it a width, as in 8w1")
            return UNKNOWN
        if left is INTEGER and isinstance(by, int) and by > 1 << 16:
            self.diagnostics.error(node.right.span, f"a shift by {by} bits makes too large a number")
            return UNKNOWN
        if isinstance(left, Bits) and isinstance(by, int) and by >= left.width > 0:
            self.diagnostics.warning(node.span, f"a shift of {left} by {by} bits loses them all")
        return left

    def _concatenation(self, node: ast.Binary, left: Type, right: Type) -> Type:
        if left is right is types.STRING:
            return types.STRING
        for side, type_ in ((node.left, left), (node.right, right)):
            if not isinstance(type_, Bits):
                hint = "give the number a width, as in 8w5" if type_ is INTEGER else ""
                self.diagnostics.error(side.span, f"'++' joins bits, and this is {type_}", hint)
                return UNKNOWN
        assert isinstance(left, Bits)
        assert isinstance(right, Bits)
        return Bits(left.width + right.width, left.is_signed)

    def _equality(self, node: ast.Binary) -> Type:
        left, right = self.value(node.left), self.value(node.right)
        if UNKNOWN in (left, right):
            return BOOL
        if left != right:
            left, right = self._aligned(node, left, right)
        if left != right:
            message = f"{node.operator!r} compares values of one type, not {left} and {right}"
            hint = "cast one of them" if isinstance(plain(left), Bits) and isinstance(plain(right), Bits) else ""
            self.diagnostics.error(node.span, message, hint)
        elif isinstance(left, types.Record) or (
            isinstance(left, types.Tuple) and _is_flexible(node.left, left) and _is_flexible(node.right, right)
        ):
            self.diagnostics.error(node.span, "these lists have no type", "cast one of them")
        elif not _comparable(left):
            self.diagnostics.error(node.span, f"values of type {left} cannot be compared")
        return BOOL

    def _aligned(self, node: ast.Binary, left: Type, right: Type) -> tuple[Type, Type]:
        """The types of two operands after implicit casts: enums to what they are made of, literals to the other's."""
        for side, type_ in ((node.left, left), (node.right, right)):
            if isinstance(type_, EnumType) and type_.underlying is not None:
                self.checked.types[side] = type_.underlying
        left, right = self.checked.types[node.left], self.checked.types[node.right]
        if left != right and _is_flexible(node.left, left) is not _is_flexible(node.right, right):
            literal, wanted = (node.left, right) if _is_flexible(node.left, left) else (node.right, left)
            self.converted(literal, wanted, f"the operand of {node.operator!r}")
            left = right = wanted
        return left, right

    def _conditional(self, node: ast.Conditional) -> Type:
        if not self.expected(node.condition, BOOL, "the condition of '?:'") and isinstance(
            node.condition, ast.Conditional
        ):
            hint = "'a ? b : c ? d : e' means '(a ? b : c) ? d : e': use parentheses"
            self.diagnostics.warning(node.span, "'?:' groups to the left", hint)
        if_true, if_false = self.value(node.if_true), self.value(node.if_false)
        if UNKNOWN in (if_true, if_false):
            return if_false if if_true is UNKNOWN else if_true
        if if_true == if_false:
            if if_true is INTEGER and self.checked.constant(node.condition) is None:
                message = "one of the two values of '?:' needs a width"
                self.diagnostics.error(node.if_true.span, message, "give a number a width, as in 8w5")
                return UNKNOWN
            return if_true
        if _is_flexible(node.if_true, if_true):
            self.converted(node.if_true, if_false, "the value of '?:'")
            return if_false
        self.converted(node.if_false, if_true, "the value of '?:'")
        return if_true

    def _record(self, node: ast.RecordExpression) -> Type:
        fields: dict[str, Type] = {}
        for name, value in node.fields:
            if name in fields:
                self.diagnostics.error(value.span, f"the field {name!r} is given twice")
            fields[name] = self.value(value)
        return types.Record(tuple(fields.items()))

    # ---- casts ----

    def _cast(self, node: ast.Cast) -> Type:
        wanted = self.value_type(node.type, "a cast")
        found = self.value(node.operand)
        if UNKNOWN in (wanted, found):
            return wanted
        value = self.checked.constant(node.operand)
        if wanted is BOOL and found is INTEGER and value not in (0, 1):
            self.diagnostics.error(node.span, f"only 0 and 1 can be cast to bool, not {value}")
        if _castable(found, wanted):
            if found is INTEGER and isinstance(wanted, types.NewType | EnumType):
                self.converted(node.operand, plain(wanted), "the cast")
            return wanted
        if isinstance(found, types.Tuple | types.Record | types.InvalidHeaderType | types.RestType):
            self.converted(node.operand, wanted, "the cast")
            return wanted
        self.diagnostics.error(node.span, f"a value of type {found} cannot be cast to {wanted}", _way(found, wanted))
        return wanted

    def converted(self, node: ast.Expression, wanted: Type, what: str, at: Span | None = None) -> bool:
        found = self.checked.types[node]
        if found == wanted or UNKNOWN in (found, wanted):
            return True
        if isinstance(node, ast.Conditional) and isinstance(
            found, types.Integer | types.Tuple | types.Record | types.InvalidHeaderType
        ):
            fits = self.converted(node.if_true, wanted, what)
            fits &= self.converted(node.if_false, wanted, what)
            self._retype(node, wanted)
            return fits
        if found is INTEGER and isinstance(wanted, Bits):
            value = self.checked.constant(node)
            if isinstance(value, int) and wanted.wrapped(int(value)) != value:
                message = f"{value} does not fit {wanted} and becomes {wanted.wrapped(int(value))}"
                self.diagnostics.warning(node.span, message)
            self._retype(node, wanted)
            return True
        if isinstance(found, EnumType) and found.underlying == wanted:
            return True
        if isinstance(found, Bits) and wanted is INTEGER and self.checked.constant(node) is not None:
            self._retype(node, wanted)
            return True
        if self._literal_converted(node, wanted, what):
            return True
        if isinstance(found, types.Callable | types.TableType | types.ApplyResult):
            self.diagnostics.error(node.span, f"{node.span.text!r} is {found} and no value")
            return False
        if self.checked.types[node] is not UNKNOWN:
            shown = "" if at is None else f" ({node.span.text!r} in line {node.span.line})"
            message = f"{what} takes {wanted}, not {found}{shown}"
            self.diagnostics.error(at or node.span, message, _way(found, wanted))
            self.checked.types[node] = UNKNOWN
        return False

    def _retype(self, node: ast.Expression, wanted: Type) -> None:
        self.checked.types[node] = wanted
        value = self.checked.constants.get(node)
        if value is not None:
            self.checked.constants[node] = fitted(value, wanted)

    def _literal_converted(self, node: ast.Expression, wanted: Type, what: str) -> bool:
        """Whether a list, record, `{#}` or `...` takes the type; what is wrong inside is reported inside."""
        match node, wanted:
            case ast.ListExpression(items=items), StructType(fields=fields) if wanted.kind is not ast.StructKind.UNION:
                parts = [(f"the field {name!r}", type_) for name, type_ in fields]
            case ast.ListExpression(items=items), types.Tuple(elements):
                parts = [(what, type_) for type_ in elements]
            case ast.ListExpression(items=items), types.List(element):
                parts = [(what, element)] * len(items)
            case ast.ListExpression(items=items), Stack(element, size):
                parts = [(what, element)] * size
                parts = parts if len(items) > size else parts[: max(len(items), size if not node.has_rest else 0)]
            case ast.RecordExpression(), StructType():
                return self._record_converted(node, wanted, what)
            case ast.InvalidHeader(), StructType() if types.is_header(wanted) or types.is_union(wanted):
                self.checked.types[node] = wanted
                return True
            case ast.Rest(), _:
                self.checked.types[node] = wanted
                value = default_value(wanted)
                if value is not None:
                    self.checked.constants[node] = value
                return True
            case _:
                return False
        enough = len(items) <= len(parts) if node.has_rest else len(items) == len(parts)
        if not enough:
            self.diagnostics.error(node.span, f"{wanted} takes {len(parts)} values, not {len(items)}")
            self.checked.types[node] = UNKNOWN
            return False
        for item, (inner_what, type_) in zip(items, parts, strict=False):
            self.converted(item, type_, inner_what)
        self._refold(node, wanted)
        return True

    def _record_converted(self, node: ast.RecordExpression, wanted: StructType, what: str) -> bool:
        given = dict(node.fields)
        for name, value in given.items():
            type_ = wanted.field(name)
            if type_ is None:
                hint = did_you_mean(name, [known for known, _ in wanted.fields])
                self.diagnostics.error(value.span, f"{wanted} has no field {name!r}", hint)
            else:
                self.converted(value, type_, f"the field {name!r}")
        missing = [name for name, _ in wanted.fields if name not in given]
        if missing and not node.has_rest:
            self.diagnostics.error(node.span, f"{what} lacks the field {missing[0]!r} of {wanted}")
            self.checked.types[node] = UNKNOWN
            return False
        self._refold(node, wanted)
        return True

    def _refold(self, node: ast.Expression, wanted: Type) -> None:
        self.checked.types[node] = wanted
        self.checked.constants.pop(node, None)
        value = fold(self.checked, node, self.checked.constants.get)
        if value is not None:
            self.checked.constants[node] = value


def _is_flexible(node: ast.Expression, type_: Type) -> bool:
    """Whether the expression takes its type from what it is used with."""
    literal = ast.ListExpression | ast.RecordExpression | ast.InvalidHeader | ast.Rest
    return isinstance(node, literal) or type_ is INTEGER


def _comparable(type_: Type) -> bool:
    match type_:
        case StructType(fields=fields):
            return all(_comparable(one) for _, one in fields)
        case Stack(element):
            return _comparable(element)
        case types.Tuple(elements):
            return all(_comparable(one) for one in elements)
    return not isinstance(type_, types.ExternType | types.BlockType | types.TypeVariable | types.Set)


def _castable(found: Type, wanted: Type) -> bool:
    if found == wanted:
        return True
    match found, wanted:
        case Bits(), Bits():
            return found.is_signed is wanted.is_signed or found.width == wanted.width
        case Bits(width=1, is_signed=False), types.Bool():
            return True
        case types.Bool(), Bits(width=1, is_signed=False):
            return True
        case types.Integer(), Bits() | types.Bool():
            return True
        case Bits(), types.Integer():
            return True
        case types.NewType(underlying=inner), types.NewType(underlying=other):
            return inner == wanted or found == other
        case types.NewType(underlying=inner), _:
            return _castable(inner, wanted) if inner == wanted or isinstance(wanted, EnumType) else inner == wanted
        case _, types.NewType(underlying=inner):
            return found == inner or (found is INTEGER and isinstance(plain(inner), Bits))
        case EnumType(underlying=Bits() as inner), EnumType(underlying=Bits() as other):
            return inner == other
        case EnumType(underlying=Bits() as inner), _:
            return inner == wanted or _castable(inner, wanted)
        case _, EnumType(underlying=Bits() as inner):
            return found == inner or found is INTEGER
    return False


def _way(found: Type, wanted: Type) -> str:
    """How to get from one type to the other."""
    match plain(found), plain(wanted):
        case Bits() as have, Bits() as want:
            if have.is_signed is not want.is_signed and have.width != want.width:
                return f"cast to {Bits(want.width, have.is_signed)} first"
            return f"cast it: ({wanted})"
        case Bits(width=1), types.Bool():
            return "compare it, as in x == 1"
        case Bits(), types.Bool():
            return "compare it, as in x != 0"
        case types.Bool(), Bits(width=1):
            return "cast it: (bit<1>)"
        case types.Bool(), Bits():
            return f"cast it: ({wanted})(bit<1>)"
    return ""
