"""The values of expressions that are known when compiling."""

from collections.abc import Callable
from typing import TypeAlias

from testbed.dataplane import ast
from testbed.dataplane.checked import Checked, DontCare, EnumValue, Known, MaskValue, RangeValue, Value
from testbed.dataplane.types import Bits, Bool, Integer, Stack, StructType, Tuple, Type, plain, width_bits

MAX_SHIFT_BITS = 1 << 16  # of a number of any size: more would only fill the memory
_MAX_PRODUCT_BITS = 1 << 17  # of a product of such numbers
ValueOf: TypeAlias = Callable[[ast.Expression], Value | None]


def evaluate(checked: Checked, expression: ast.Expression, known: Known | None = None) -> Value | None:
    """The value of `expression` when the declarations in `known` (constructor parameters, loop variables) have these
    values; None if it still depends on what only a packet brings."""
    if known and isinstance(expression, ast.Name):
        declaration = checked.declaration(expression)
        if declaration is not None and declaration in known:
            return fitted(known[declaration], checked.types[expression])
    found = checked.constants.get(expression)
    if found is not None or not known:
        return found
    value = fold(checked, expression, lambda part: evaluate(checked, part, known))
    return None if value is None else fitted(value, checked.types[expression])


def fitted(value: Value, type_: Type) -> Value:
    """A number cut to the width of its type; other values as they are."""
    inner = plain(type_)
    if isinstance(inner, Bits) and isinstance(value, int):
        return inner.wrapped(int(value))
    return value


def default_value(type_: Type) -> Value | None:
    """What `...` stands for: zeros, false, the first member of an enum, NoError; None where there is no such value."""
    inner = plain(type_)
    match inner:
        case Bits() | Integer():
            return 0
        case Bool():
            return False
        case StructType(fields=fields):
            values = [default_value(one) for _, one in fields]
            known = tuple(value for value in values if value is not None)
            return known if len(known) == len(values) else None
        case Tuple(elements):
            values = [default_value(one) for one in elements]
            known = tuple(value for value in values if value is not None)
            return known if len(known) == len(values) else None
    return None


def fold(checked: Checked, node: ast.Expression, value_of: ValueOf) -> Value | None:
    """The value of `node` from those of its parts; None if one is missing or the operation has no result."""
    match node:
        case ast.IntLiteral(value=value) | ast.BoolLiteral(value=value) | ast.StringLiteral(value=value):
            return value
        case ast.Name():
            declaration = checked.declaration(node)
            return checked.constants.get(declaration) if isinstance(declaration, ast.Constant) else None
        case ast.Member():
            return _member(checked, node, value_of)
        case ast.Index(target=target, index=index):
            values, at = value_of(target), value_of(index)
            if isinstance(values, tuple) and isinstance(at, int) and 0 <= at < len(values):
                return values[at]
            return None
        case ast.Slice(target=target, high=high, low=low):
            bits, first, last = value_of(target), value_of(high), value_of(low)
            if isinstance(bits, int) and isinstance(first, int) and isinstance(last, int) and first >= last >= 0:
                return (bits >> last) & ((1 << (first - last + 1)) - 1)
            return None
        case ast.Unary(operator=operator, operand=operand):
            return _unary(operator, value_of(operand))
        case ast.Binary():
            return _binary(checked, node, value_of)
        case ast.Conditional(condition=condition, if_true=if_true, if_false=if_false):
            holds = value_of(condition)
            return None if holds is None else value_of(if_true) if holds else value_of(if_false)
        case ast.Cast(operand=operand):
            return _cast(value_of(operand), checked.types[node])
        case ast.ListExpression(items=items, has_rest=has_rest):
            parts = [value_of(item) for item in items]
            whole = tuple(part for part in parts if part is not None)
            return None if has_rest or len(whole) < len(parts) else whole
        case ast.RecordExpression(fields=fields):
            return _record({name: value_of(value) for name, value in fields}, checked.types[node], node.has_rest)
        case ast.Rest():
            return default_value(checked.types[node])
        case ast.Anything():
            return DontCare()
        case ast.Mask(mask=mask):
            number, bits = value_of(node.value), value_of(mask)
            return MaskValue(number, bits) if isinstance(number, int) and isinstance(bits, int) else None
        case ast.Range(low=low, high=high):
            least, most = value_of(low), value_of(high)
            return RangeValue(least, most) if isinstance(least, int) and isinstance(most, int) else None
        case ast.Call(callee=ast.Name(name="static_assert")) if node in checked.calls:
            return True
        case ast.Call(callee=ast.Member(target=target, name=name)) if node in checked.calls:
            return _size(checked.types.get(target), name)
    return None


def _size(type_: Type | None, name: str) -> int | None:
    """`minSizeInBits()` and its kind."""
    if type_ is None or name not in ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes"):
        return None
    bits = width_bits(type_) if name.startswith("max") else _least_bits(type_)
    return None if bits is None else bits if name.endswith("Bits") else (bits + 7) // 8


def _least_bits(type_: Type) -> int | None:
    inner = plain(type_)
    match inner:
        case Bits() | Bool():
            return width_bits(inner)
        case StructType(fields=fields, declaration=declaration):
            sizes = [size for size in (_least_bits(one) for _, one in fields) if size is not None]
            return min(sizes, default=0) if declaration.kind is ast.StructKind.UNION else sum(sizes)
        case Stack(element, size):
            one = _least_bits(element)
            return None if one is None else one * size
    return 0


def _member(checked: Checked, node: ast.Member, value_of: ValueOf) -> Value | None:
    declaration = checked.declaration(node)
    if isinstance(declaration, ast.EnumMember):
        underlying = checked.constants.get(declaration)
        if underlying is not None:
            return underlying
        type_ = checked.types[node]
        enum = getattr(type_, "declaration", None)
        return EnumValue(enum if isinstance(enum, ast.Enum) else None, node.name)
    target = checked.types.get(node.target)
    if isinstance(target, Stack) and node.name == "size":
        return target.size
    if isinstance(target, StructType):
        values = value_of(node.target)
        names = [name for name, _ in target.fields]
        if isinstance(values, tuple) and node.name in names and len(values) == len(names):
            return values[names.index(node.name)]
    return None


def _record(given: dict[str, Value | None], type_: Type, has_rest: bool) -> Value | None:
    if not isinstance(type_, StructType):
        return None
    values: list[Value] = []
    for name, field_type in type_.fields:
        value = given.get(name)
        if value is None and has_rest and name not in given:
            value = default_value(field_type)
        if value is None:
            return None
        values.append(value)
    return tuple(values)


def _cast(value: Value | None, type_: Type) -> Value | None:
    if value is None:
        return None
    inner = plain(type_)
    if isinstance(value, int):
        if isinstance(inner, Bool):
            return bool(value)
        if isinstance(inner, Bits):
            return inner.wrapped(int(value))
        if isinstance(inner, Integer):
            return int(value)
    return value


def _unary(operator: str, value: Value | None) -> Value | None:
    if isinstance(value, bool):
        return not value if operator == "!" else None
    if not isinstance(value, int):
        return None
    return {"-": -value, "~": ~value, "+": value}.get(operator)


def _binary(checked: Checked, node: ast.Binary, value_of: ValueOf) -> Value | None:
    left = value_of(node.left)
    if node.operator in ("&&", "||") and left is not None:
        if left is (node.operator == "||"):
            return left
        return value_of(node.right)
    right = value_of(node.right)
    if left is None or right is None:
        return None
    if node.operator in ("==", "!="):
        return (left == right) is (node.operator == "==")
    if isinstance(left, str) and isinstance(right, str):
        return left + right if node.operator == "++" else None
    if not isinstance(left, int) or not isinstance(right, int):
        return None
    type_ = plain(checked.types[node])
    result = _arithmetic(node.operator, int(left), int(right), plain(checked.types[node.right]), type_)
    return result if result is None or not isinstance(type_, Bits) else fitted(result, type_)


def _arithmetic(operator: str, left: int, right: int, right_type: Type, type_: Type) -> int | bool | None:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right if left.bit_length() + right.bit_length() <= _MAX_PRODUCT_BITS else None
        case "/":
            return left // right if left >= 0 and right > 0 else None
        case "%":
            return left % right if left >= 0 and right > 0 else None
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "<<":
            if isinstance(type_, Bits):
                return left << right if 0 <= right < type_.width else 0 if right >= 0 else None
            return left << right if 0 <= right <= MAX_SHIFT_BITS else None
        case ">>":
            return left >> min(right, left.bit_length() + 1) if right >= 0 else None
        case "++":
            if isinstance(right_type, Bits):
                return (left << right_type.width) | (right & ((1 << right_type.width) - 1))
            return None
        case "|+|" | "|-|":
            if isinstance(type_, Bits):
                exact = left + right if operator == "|+|" else left - right
                return min(max(exact, type_.least), type_.greatest)
            return None
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
    return None
