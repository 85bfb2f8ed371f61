"""Code that is written, values that are known or kept aside: what lowering of expressions and statements rests on."""

from collections.abc import Sequence

from testbed.dataplane import ast, types
from testbed.dataplane.checked import EnumValue
from testbed.dataplane.checked import Value as Constant
from testbed.dataplane.constants import evaluate
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.code import Instruction, Jump, Label, Mark, Primitive
from testbed.dataplane.lower.context import Context, refused
from testbed.dataplane.lower.frames import Frame
from testbed.dataplane.lower.layout import Unsupported
from testbed.dataplane.lower.terms import Term
from testbed.dataplane.lower.values import (
    Bitslice,
    Elements,
    Fresh,
    Indexed,
    Invalid,
    Last,
    Scalar,
    Struct,
    Text,
    Value,
)


class Emission:
    """Writes code for one body; assignments are added by `AssignmentLowering`."""

    def __init__(self, context: Context, frame: Frame) -> None:
        self.context = context
        self.checked = context.checked
        self.layout = context.layout
        self.frame = frame
        self.code: list[Instruction] = []

    def emit(self, operator: str, parameters: Sequence[Term], span: Span) -> None:
        self.code.append(Primitive(operator, tuple(map(terms.argument, parameters)), span))

    def mark(self, label: Label) -> None:
        self.code.append(Mark(label))

    def jump(self, label: Label) -> None:
        self.code.append(Jump(label))

    def assign(self, place: Value, value: Value, span: Span) -> None:
        raise NotImplementedError

    def type_of(self, node: ast.Expression | ast.TypeSyntax | ast.Declared) -> types.Type:
        return types.substitute(self.checked.type_of(node), self.frame.type_arguments)

    def constant(self, node: ast.Expression) -> Constant | None:
        return evaluate(self.checked, node, self.frame.known)

    def from_constant(self, constant: Constant, type_: types.Type, span: Span) -> Value:
        plain = types.plain(type_)
        match constant:
            case bool():
                return Scalar(terms.truth(constant), type_, False)
            case int():
                bits = plain.width if isinstance(plain, types.Bits) else 0
                value = plain.wrapped(constant) if isinstance(plain, types.Bits) else constant
                return Scalar(terms.number(value, bits), type_, False)
            case str():
                return Text(constant)
            case EnumValue(None, name):
                return Scalar(terms.number(self.context.error_number(name)), type_, False)
            case EnumValue(enum, name) if enum is not None:
                at = [member.name for member in enum.members].index(name)
                return Scalar(terms.number(at, 32), type_, False)
            case tuple():
                return self._from_constants(constant, plain, span)
        raise refused(span, f"{span.text!r} cannot be a value here")

    def _from_constants(self, constants: tuple[Constant, ...], type_: types.Type, span: Span) -> Value:
        """A struct, header, tuple, stack or list of known values."""
        parts = zip(self.parts(type_, len(constants), span), constants, strict=True)
        return self.shaped(type_, {name: self.from_constant(value, one, span) for (name, one), value in parts})

    @staticmethod
    def parts(type_: types.Type, count: int, span: Span) -> list[tuple[str, types.Type]]:
        """The names and types of the parts of a value that is written as a list of `count`."""
        match type_:
            case types.StructType(fields=fields) | types.Record(fields=fields):
                return list(fields)
            case types.Tuple(elements):
                return [(str(at), one) for at, one in enumerate(elements)]
            case types.Stack(element, size):
                return [(str(at), element) for at in range(size)]
            case types.List(element):
                return [(str(at), element) for at in range(count)]
        raise refused(span, f"{span.text!r} is not supported here")

    @staticmethod
    def shaped(type_: types.Type, members: dict[str, Value]) -> Value:
        if types.is_header(type_):
            assert isinstance(type_, types.StructType)
            return Fresh(type_, members)
        if isinstance(type_, types.Stack | types.List):
            return Elements(tuple(members.values()))
        return Struct(type_, members)

    def default(self, type_: types.Type, span: Span) -> Value:
        plain = types.plain(type_)
        match plain:
            case types.StructType() if plain.kind is ast.StructKind.STRUCT:
                return Struct(plain, {name: self.default(one, span) for name, one in plain.fields})
            case types.StructType():
                return Invalid()
            case types.Stack(element, size):
                return Elements(tuple(self.default(element, span) for _ in range(size)))
            case types.Tuple(elements):
                return Struct(plain, {str(at): self.default(one, span) for at, one in enumerate(elements)})
            case types.Bool():
                return Scalar(terms.truth(False), type_, False)
            case types.Bits(width):
                return Scalar(terms.number(0, width), type_, False)
            case types.EnumType() | types.Error():
                return Scalar(terms.number(0), type_, False)
        raise refused(span, f"{type_} has no default value")

    def temporary(self, name: str, type_: types.Type, span: Span) -> Value:
        try:
            return self.layout.place(name, type_)
        except Unsupported as error:
            raise refused(span, str(error)) from error

    def saved(self, value: Value, type_: types.Type, span: Span, name: str = "tmp") -> Value:
        """`value` in a place that nobody else writes."""
        if isinstance(value, Scalar) and terms.is_constant(value.term):
            return value
        if isinstance(value, Text | Invalid):
            return value
        if isinstance(value, Fresh | Elements | Struct) and not isinstance(
            type_, types.StructType | types.Stack | types.Tuple
        ):
            type_ = getattr(value, "type", type_)
        kept = self.temporary(name, type_, span)
        self.assign(kept, value, span)
        return kept

    def fixed_term(self, term: Term, type_: types.Type, span: Span) -> Term:
        if term["type"] in ("hexstr", "field", "runtime_data"):
            return term
        kept = self.saved(Scalar(term, type_, False), type_, span)
        assert isinstance(kept, Scalar)
        return kept.term if kept.is_place else terms.from_truth(kept.term)

    def read(self, value: Value, span: Span) -> Term:
        match value:
            case Scalar():
                return value.read()
            case Bitslice(base=base, high=high, low=low):
                return terms.slice_of(self.read(base, span), high, low)
            case Indexed(index=index, options=options, type=type_):
                reads = [self.read(option, span) for option in options]
                return self.chosen(index, reads, isinstance(types.plain(type_), types.Bool))
        raise refused(span, f"{span.text!r} is not a number")

    @staticmethod
    def chosen(index: Term, reads: list[Term], is_truth: bool) -> Term:
        result = reads[-1]
        for at in range(len(reads) - 2, -1, -1):
            here = terms.operation("==", index, terms.number(at))
            if is_truth:
                yes, no = terms.conjunction(here, reads[at]), terms.conjunction(terms.negation(here), result)
                result = terms.disjunction(yes, no)
            else:
                result = terms.operation("?", reads[at], result, here)
        return result

    def whole(self, value: Value, span: Span) -> Value:
        """`stack.last` as one of the stack's elements."""
        if not isinstance(value, Last):
            return value
        index = terms.operation("last_stack_index", None, terms.named("header_stack", value.stack.name))
        kept = self.saved(Scalar(index, types.Bits(32), False), types.Bits(32), span)
        assert isinstance(kept, Scalar)
        return Indexed(kept.term, value.stack.elements, value.type)
