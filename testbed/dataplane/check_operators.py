"""The operators: what they apply to and the type of what comes out."""

from abc import abstractmethod

from testbed.dataplane import ast, types
from testbed.dataplane.check_casts import CastChecker, castable, comparable, is_flexible, way
from testbed.dataplane.constants import MAX_SHIFT_BITS
from testbed.dataplane.types import BOOL, INTEGER, UNKNOWN, Bits, EnumType, Type, plain

_SAME_TYPE = ("+", "-", "*", "&", "|", "^", "|+|", "|-|", "/", "%")


class OperatorChecker(CastChecker):
    @abstractmethod
    def value(self, node: ast.Expression) -> Type:
        """The type of an expression that must be a value."""

    @abstractmethod
    def is_static(self, node: ast.Expression) -> bool:
        """Whether the value is known when compiling, constructor parameters included."""

    def expected(self, node: ast.Expression, wanted: Type, what: str) -> bool:
        """Check an expression whose type is known beforehand; whether it has it."""
        self.expression(node)
        return self.converted(node, wanted, what)

    def _operand(self, node: ast.Expression) -> Type:
        """The type of an operand: of a serialisable enum the underlying one."""
        found = self.value(node)
        return found.underlying if isinstance(found, EnumType) and found.underlying is not None else found

    def unary(self, node: ast.Unary) -> Type:
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

    def binary(self, node: ast.Binary) -> Type:
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
        if left is INTEGER and isinstance(by, int) and by > MAX_SHIFT_BITS:
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
            isinstance(left, types.Tuple) and is_flexible(node.left, left) and is_flexible(node.right, right)
        ):
            self.diagnostics.error(node.span, "these lists have no type", "cast one of them")
        elif not comparable(left):
            self.diagnostics.error(node.span, f"values of type {left} cannot be compared")
        return BOOL

    def _aligned(self, node: ast.Binary, left: Type, right: Type) -> tuple[Type, Type]:
        """The types of two operands after implicit casts: enums to what they are made of, literals to the other's."""
        for side, type_ in ((node.left, left), (node.right, right)):
            if isinstance(type_, EnumType) and type_.underlying is not None:
                self.checked.types[side] = type_.underlying
        left, right = self.checked.types[node.left], self.checked.types[node.right]
        if left != right and is_flexible(node.left, left) is not is_flexible(node.right, right):
            literal, wanted = (node.left, right) if is_flexible(node.left, left) else (node.right, left)
            self.converted(literal, wanted, f"the operand of {node.operator!r}")
            left = right = wanted
        return left, right

    def conditional(self, node: ast.Conditional) -> Type:
        condition = self.value(node.condition)
        if isinstance(node.condition, ast.Conditional) and condition not in (BOOL, UNKNOWN):
            message = "'a ? b : c ? d : e' means '(a ? b : c) ? d : e', and the first part is no bool here"
            self.diagnostics.error(node.condition.span, message, "write a ? b : (c ? d : e)")
        else:
            self.converted(node.condition, BOOL, "the condition of '?:'")
        if_true, if_false = self.value(node.if_true), self.value(node.if_false)
        if UNKNOWN in (if_true, if_false):
            return if_false if if_true is UNKNOWN else if_true
        if if_true == if_false:
            if if_true is INTEGER and self.checked.constant(node.condition) is None:
                message = "one of the two values of '?:' needs a width"
                self.diagnostics.error(node.if_true.span, message, "give a number a width, as in 8w5")
                return UNKNOWN
            return if_true
        if is_flexible(node.if_true, if_true):
            self.converted(node.if_true, if_false, "the value of '?:'")
            return if_false
        self.converted(node.if_false, if_true, "the value of '?:'")
        return if_true

    def cast(self, node: ast.Cast) -> Type:
        wanted = self.value_type(node.type, "a cast")
        found = self.value(node.operand)
        if UNKNOWN in (wanted, found):
            return wanted
        value = self.checked.constant(node.operand)
        if wanted is BOOL and found is INTEGER and value not in (0, 1):
            self.diagnostics.error(node.span, f"only 0 and 1 can be cast to bool, not {value}")
        if castable(found, wanted):
            if found is INTEGER and isinstance(wanted, types.NewType | EnumType):
                self.converted(node.operand, plain(wanted), "the cast")
            return wanted
        if isinstance(found, types.Tuple | types.Record | types.InvalidHeaderType | types.RestType):
            self.converted(node.operand, wanted, "the cast")
            return wanted
        self.diagnostics.error(node.span, f"a value of type {found} cannot be cast to {wanted}", way(found, wanted))
        return wanted
