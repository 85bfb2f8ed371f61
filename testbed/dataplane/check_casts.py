"""The casts of the language: which are possible, and those that need not be written."""

from testbed.dataplane import ast, types
from testbed.dataplane.check_types import TypeChecker
from testbed.dataplane.constants import default_value, fitted, fold
from testbed.dataplane.diagnostics import Span, did_you_mean
from testbed.dataplane.types import INTEGER, UNKNOWN, Bits, EnumType, Stack, StructType, Type, plain


class CastChecker(TypeChecker):
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
            self.diagnostics.error(at or node.span, message, way(found, wanted))
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


def is_flexible(node: ast.Expression, type_: Type) -> bool:
    """Whether the expression takes its type from what it is used with."""
    literal = ast.ListExpression | ast.RecordExpression | ast.InvalidHeader | ast.Rest
    return isinstance(node, literal) or type_ is INTEGER


def comparable(type_: Type) -> bool:
    match type_:
        case StructType(fields=fields):
            return all(comparable(one) for _, one in fields)
        case Stack(element):
            return comparable(element)
        case types.Tuple(elements):
            return all(comparable(one) for one in elements)
    return not isinstance(type_, types.ExternType | types.BlockType | types.TypeVariable | types.Set)


def castable(found: Type, wanted: Type) -> bool:
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
            return castable(inner, wanted) if inner == wanted or isinstance(wanted, EnumType) else inner == wanted
        case _, types.NewType(underlying=inner):
            return found == inner or (found is INTEGER and isinstance(plain(inner), Bits))
        case EnumType(underlying=Bits() as inner), EnumType(underlying=Bits() as other):
            return inner == other
        case EnumType(underlying=Bits() as inner), _:
            return inner == wanted or castable(inner, wanted)
        case _, EnumType(underlying=Bits() as inner):
            return found == inner or found is INTEGER
    return False


def way(found: Type, wanted: Type) -> str:
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
