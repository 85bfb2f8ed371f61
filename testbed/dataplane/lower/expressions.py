"""Expressions: where they lie (`place`) and what they are worth (`value`), in P4's order of evaluation."""

from collections.abc import Callable, Sequence

from testbed.dataplane import ast, types
from testbed.dataplane.checked import EnumValue
from testbed.dataplane.checked import Value as Constant
from testbed.dataplane.constants import evaluate
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.code import Branch, Instruction, Jump, Label, Mark, Primitive
from testbed.dataplane.lower.context import Context, refused
from testbed.dataplane.lower.frames import Frame
from testbed.dataplane.lower.layout import Unsupported
from testbed.dataplane.lower.terms import Term
from testbed.dataplane.lower.values import (
    Bitslice,
    Elements,
    Fresh,
    Header,
    Indexed,
    Invalid,
    Last,
    Next,
    Scalar,
    Stack,
    Struct,
    Text,
    Union,
    Value,
    headers_of,
)

MAX_DEPTH = 50  # of operations within each other; JSON libraries stop at a thousand levels of their own
_LOGIC = {"&&": terms.conjunction, "||": terms.disjunction}
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


class ExpressionLowering:
    """Writes code for one body. Calls are added by `CallLowering`, assignments by `AssignmentLowering`."""

    def __init__(self, context: Context, frame: Frame) -> None:
        self.context = context
        self.checked = context.checked
        self.layout = context.layout
        self.frame = frame
        self.code: list[Instruction] = []

    # ---- code ----

    def emit(self, operator: str, parameters: Sequence[Term], span: Span) -> None:
        self.code.append(Primitive(operator, tuple(map(terms.argument, parameters)), span))

    def mark(self, label: Label) -> None:
        self.code.append(Mark(label))

    def jump(self, label: Label) -> None:
        self.code.append(Jump(label))

    def assign(self, place: Value, value: Value, span: Span) -> None:
        raise NotImplementedError

    def call(self, node: ast.Call) -> Value | None:
        raise NotImplementedError

    def result_of_apply(self, node: ast.Member, otherwise: Label, wanted: bool) -> None:
        raise NotImplementedError

    # ---- types and constants ----

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

    def fixed(self, node: ast.Expression) -> Term:
        """The number `node` as a constant or field, which is what some primitives want."""
        return self.fixed_term(self.scalar(node), self.type_of(node), node.span)

    def fixed_term(self, term: Term, type_: types.Type, span: Span) -> Term:
        if term["type"] in ("hexstr", "field", "runtime_data"):
            return term
        kept = self.saved(Scalar(term, type_, False), type_, span)
        assert isinstance(kept, Scalar)
        return kept.term if kept.is_place else terms.from_truth(kept.term)

    # ---- values ----

    def scalar(self, node: ast.Expression) -> Term:
        return self.read(self.value(node), node.span)

    def read(self, value: Value, span: Span) -> Term:
        match value:
            case Scalar():
                return value.read()
            case Bitslice(base=base, high=high, low=low):
                return terms.slice_of(self.read(base, span), high, low)
            case Indexed(index=index, options=options, type=type_):
                reads = [self.read(option, span) for option in options]
                return self._chosen(index, reads, isinstance(types.plain(type_), types.Bool))
        raise refused(span, f"{span.text!r} is not a number")

    @staticmethod
    def _chosen(index: Term, reads: list[Term], is_truth: bool) -> Term:
        result = reads[-1]
        for at in range(len(reads) - 2, -1, -1):
            here = terms.operation("==", index, terms.number(at))
            if is_truth:
                yes, no = terms.conjunction(here, reads[at]), terms.conjunction(terms.negation(here), result)
                result = terms.disjunction(yes, no)
            else:
                result = terms.operation("?", reads[at], result, here)
        return result

    def value(self, node: ast.Expression) -> Value:
        """What `node` is worth; code for what it does besides is written."""
        constant = self.constant(node)
        if constant is not None:
            return self.from_constant(constant, self.type_of(node), node.span)
        match node:
            case ast.Name() | ast.Member() | ast.Index():
                return self.place(node)
            case ast.Slice(target=target):
                high, low = self._ends(node)
                return Scalar(terms.slice_of(self.scalar(target), high, low), self.type_of(node), False)
            case ast.Unary():
                return self._shallow(Scalar(self._unary(node), self.type_of(node), False), node.span)
            case ast.Binary():
                return self._shallow(Scalar(self._binary(node), self.type_of(node), False), node.span)
            case ast.Conditional():
                return self._shallow(self._conditional(node), node.span)
            case ast.Cast(operand=operand):
                return self._cast(operand, self.type_of(node), node.span)
            case ast.Call():
                result = self.call(node)
                if result is None:
                    raise refused(node.span, "this call gives no value")
                return result
            case ast.ListExpression():
                return self._list(node)
            case ast.RecordExpression():
                return self._record(node)
            case ast.InvalidHeader():
                return Invalid()
            case ast.Rest():
                return self._default(self.type_of(node), node.span)
        raise refused(node.span, f"{node.span.text!r} is not supported here")

    def _shallow(self, value: Value, span: Span) -> Value:
        """`value`, in a place of its own if it nests deeper than what reads the JSON may like."""
        if isinstance(value, Scalar) and terms.depth(value.term) > MAX_DEPTH:
            return self.saved(value, value.type, span)
        return value

    def place(self, node: ast.Expression) -> Value:
        """Where `node` lies, if it is a variable or part of one, else its value."""
        match node:
            case ast.Name():
                declaration = self.checked.declaration(node)
                found = self.frame.find(declaration) if declaration is not None else None
                if found is None or not isinstance(found, Value):
                    constant = self.constant(node)
                    if constant is not None:
                        return self.from_constant(constant, self.type_of(node), node.span)
                    raise refused(node.span, f"{node.name!r} cannot be used here")
                return found
            case ast.Member(target=target, name=name):
                if isinstance(self.checked.types.get(target), types.ApplyResult):
                    return self._hit(node)
                return self.member(self.place(target), name, node.span)
            case ast.Index(target=target, index=index):
                return self._element(node, self.place(target), index)
            case ast.Slice(target=target):
                base = self.place(target)
                high, low = self._ends(node)
                if isinstance(base, Bitslice):
                    return Bitslice(base.base, base.base_type, high + base.low, low + base.low)
                base_type = types.plain(self.type_of(target))
                assert isinstance(base_type, types.Bits)
                return Bitslice(base, base_type, high, low)
        return self.value(node)

    def _ends(self, node: ast.Slice) -> tuple[int, int]:
        high, low = self.constant(node.high), self.constant(node.low)
        if not isinstance(high, int) or not isinstance(low, int):
            raise refused(node.span, "the ends of a slice must be known when compiling")
        return high, low

    def member(self, base: Value, name: str, span: Span) -> Value:
        match base:
            case Stack():
                return self._stack_member(base, name, span)
            case Indexed(index=index, options=options):
                members = tuple(self.member(option, name, span) for option in options)
                first = members[0]
                return Indexed(index, members, getattr(first, "type", types.UNKNOWN))
            case Next(stack=stack, type=type_, member=None) if types.is_union(type_):
                assert isinstance(type_, types.StructType)
                inner = type_.field(name)
                assert inner is not None
                return Next(stack, inner, name)
            case (
                Header(members=members)
                | Struct(members=members)
                | Union(members=members)
                | Last(members=members)
                | Fresh(members=members)
            ) if name in members:
                return members[name]
        raise refused(span, f"{span.text!r} is not supported here")

    def _stack_member(self, stack: Stack, name: str, span: Span) -> Value:
        element = stack.type.element
        assert isinstance(element, types.StructType)
        match name:
            case "size":
                return Scalar(terms.number(stack.type.size, 32), types.Bits(32), False)
            case "lastIndex":
                index = terms.operation("last_stack_index", None, terms.named("header_stack", stack.name))
                return Scalar(terms.masked(index, 32), types.Bits(32), False)
            case "last":
                return Last(stack, element, self.layout.last_members(stack, element))
            case "next":
                return Next(stack, element)
        raise refused(span, f"a stack has no {name!r}")

    def whole(self, value: Value, span: Span) -> Value:
        """`stack.last` as one of the stack's elements."""
        if not isinstance(value, Last):
            return value
        index = terms.operation("last_stack_index", None, terms.named("header_stack", value.stack.name))
        kept = self.saved(Scalar(index, types.Bits(32), False), types.Bits(32), span)
        assert isinstance(kept, Scalar)
        return Indexed(kept.term, value.stack.elements, value.type)

    def _element(self, node: ast.Index, base: Value, index: ast.Expression) -> Value:
        known = self.constant(index)
        if isinstance(base, Struct):
            return base.members[str(known)]
        if isinstance(base, Indexed):
            raise refused(node.span, "a stack inside of a stack is not supported")
        items = base.elements if isinstance(base, Stack) else base.items if isinstance(base, Elements) else None
        if items is None:
            raise refused(node.span, f"{node.span.text!r} is not supported here")
        if isinstance(known, int):
            if not 0 <= known < len(items):
                raise refused(index.span, f"index {known} is outside of a stack of {len(items)}")
            return items[known]
        at = self.saved(Scalar(self.scalar(index), self.type_of(index), False), self.type_of(index), index.span)
        assert isinstance(at, Scalar)
        return Indexed(at.term, tuple(items), self.type_of(node))

    def _hit(self, node: ast.Member) -> Value:
        """`table.apply().hit` or `.miss` as a value."""
        kept = self.temporary("hit", types.BOOL, node.span)
        self._branched(
            lambda otherwise: self.result_of_apply(node, otherwise, True),
            lambda: self.assign(kept, Scalar(terms.truth(True), types.BOOL, False), node.span),
            lambda: self.assign(kept, Scalar(terms.truth(False), types.BOOL, False), node.span),
        )
        return kept

    # ---- operators ----

    def _unary(self, node: ast.Unary) -> Term:
        operand = self.scalar(node.operand)
        type_ = types.plain(self.type_of(node))
        if node.operator == "!":
            return terms.negation(operand)
        assert isinstance(type_, types.Bits)
        match node.operator:
            case "~":
                return terms.wrapped(terms.operation("~", None, operand), type_)
            case "-":
                return terms.wrapped(terms.operation("-", terms.number(0, type_.width), operand), type_)
        return operand

    def _binary(self, node: ast.Binary) -> Term:
        if node.operator in _LOGIC:
            return self._logic(node)
        left = self.value(node.left)
        left_type, right_type = self.type_of(node.left), self.type_of(node.right)
        if self.context.has_effects(node.right):
            left = self.saved(left, left_type, node.left.span)
        right = self.value(node.right)
        if node.operator in _COMPARISONS:
            return self._compared(node.operator, left, right, node.span)
        return self.combined(
            node.operator,
            self.read(left, node.left.span),
            left_type,
            self.read(right, node.right.span),
            right_type,
            self.type_of(node),
        )

    def combined(
        self, operator: str, left: Term, left_type: types.Type, right: Term, right_type: types.Type, result: types.Type
    ) -> Term:
        one, other = types.plain(left_type), types.plain(right_type)
        type_ = types.plain(result)
        assert isinstance(type_, types.Bits)
        if operator == "++":
            assert isinstance(one, types.Bits)
            assert isinstance(other, types.Bits)
            return terms.concatenation(left, one.width, right, other.width, type_.is_signed)
        return terms.arithmetic(operator, left, right, type_)

    def _logic(self, node: ast.Binary) -> Term:
        left = self.scalar(node.left)
        if left["type"] == "bool" and left["value"] == (node.operator == "||"):
            return left
        if not self.context.has_effects(node.right):
            return _LOGIC[node.operator](left, self.scalar(node.right))
        kept = self.temporary("tmp", types.BOOL, node.span)
        self.assign(kept, Scalar(left, types.BOOL, False), node.span)
        end = Label()
        condition = self.read(kept, node.span)
        if node.operator == "||":
            condition = terms.negation(condition)
        self.code.append(Branch(condition, end, node.left.span))
        self.assign(kept, Scalar(self.scalar(node.right), types.BOOL, False), node.span)
        self.mark(end)
        return self.read(kept, node.span)

    def _compared(self, operator: str, left: Value, right: Value, span: Span) -> Term:
        left, right = self._without_index(left, span), self._without_index(right, span)
        if isinstance(left, Scalar | Bitslice | Indexed) and isinstance(right, Scalar | Bitslice | Indexed):
            if isinstance(left, Scalar) and isinstance(types.plain(left.type), types.Varbits):
                raise refused(span, "varbit fields cannot be compared on this target")
            return self._simple(operator, self.read(left, span), self.read(right, span))
        same = self._same(left, right, span)
        return same if operator == "==" else terms.negation(same)

    @staticmethod
    def _simple(operator: str, left: Term, right: Term) -> Term:
        if operator in ("==", "!="):
            for one, other in ((left, right), (right, left)):
                if one["type"] == "bool":
                    return other if one["value"] == (operator == "==") else terms.negation(other)
        return terms.operation(operator, left, right)

    def _without_index(self, value: Value, span: Span) -> Value:
        """A whole header that is chosen at run time, in a place of its own."""
        value = self.whole(value, span)
        if isinstance(value, Indexed) and not isinstance(value.options[0], Scalar | Bitslice | Indexed):
            return self.saved(value, value.type, span)
        return value

    def _same(self, left: Value, right: Value, span: Span) -> Term:
        match left, right:
            case Header(), Invalid():
                return terms.negation(terms.valid(left.name))
            case Invalid(), Header():
                return terms.negation(terms.valid(right.name))
            case (Fresh(), Invalid()) | (Invalid(), Fresh()):
                return terms.truth(False)
            case (Fresh(), Header()) | (Header(), Fresh()) | (Fresh(), Fresh()):
                header = left if isinstance(left, Header) else right
                valid = terms.valid(header.name) if isinstance(header, Header) else terms.truth(True)
                return terms.conjunction(valid, self._members_same(left, right, span))
            case Header(), Header():
                here, there = terms.valid(left.name), terms.valid(right.name)
                neither = terms.conjunction(terms.negation(here), terms.negation(there))
                both = terms.conjunction(here, there)
                return terms.disjunction(neither, terms.conjunction(both, self._members_same(left, right, span)))
            case (Struct(), Struct()) | (Union(), Union()):
                return self._members_same(left, right, span)
            case (Stack(), _) | (_, Stack()):
                result = terms.truth(True)
                for one, other in zip(_items(left, span), _items(right, span), strict=True):
                    result = terms.conjunction(result, self._same(one, other, span))
                return result
        return self._compared("==", left, right, span)

    def _members_same(self, left: Value, right: Value, span: Span) -> Term:
        assert isinstance(left, Header | Struct | Union | Fresh)
        assert isinstance(right, Header | Struct | Union | Fresh)
        result = terms.truth(True)
        for one, other in zip(left.members.values(), right.members.values(), strict=True):
            result = terms.conjunction(result, self._compared("==", one, other, span))
        return result

    def valid(self, value: Value, span: Span) -> Term:
        """Whether a header, or any member of a union, is valid."""
        match self.whole(value, span):
            case Header(name=name):
                return terms.valid(name)
            case Fresh():
                return terms.truth(True)
            case Invalid():
                return terms.truth(False)
            case Union() as union:
                result = terms.truth(False)
                for header in headers_of(union):
                    result = terms.disjunction(result, terms.valid(header.name))
                return result
            case Indexed(index=index, options=options):
                return self._chosen(index, [self.valid(option, span) for option in options], True)
        raise refused(span, f"{span.text!r} has no validity here")

    def _conditional(self, node: ast.Conditional) -> Value:
        type_ = self.type_of(node)
        condition = self.scalar(node.condition)
        if condition["type"] == "bool":
            return self.value(node.if_true if condition["value"] else node.if_false)
        is_pure = not (self.context.has_effects(node.if_true) or self.context.has_effects(node.if_false))
        plain = types.plain(type_)
        if is_pure and not isinstance(plain, types.StructType | types.Stack | types.Tuple | types.Varbits):
            yes, no = self.scalar(node.if_true), self.scalar(node.if_false)
            if isinstance(plain, types.Bool):
                one = terms.conjunction(condition, yes)
                other = terms.conjunction(terms.negation(condition), no)
                return Scalar(terms.disjunction(one, other), type_, False)
            return Scalar(terms.operation("?", yes, no, condition), type_, False)
        kept = self.temporary("tmp", type_, node.span)
        self._branched(
            lambda otherwise: self.code.append(Branch(condition, otherwise, node.condition.span)),
            lambda: self.assign(kept, self.value(node.if_true), node.if_true.span),
            lambda: self.assign(kept, self.value(node.if_false), node.if_false.span),
        )
        return kept

    def _branched(
        self, branch: Callable[[Label], None], if_true: Callable[[], None], if_false: Callable[[], None]
    ) -> None:
        otherwise, end = Label(), Label()
        branch(otherwise)
        if_true()
        self.jump(end)
        self.mark(otherwise)
        if_false()
        self.mark(end)

    def _cast(self, operand: ast.Expression, type_: types.Type, span: Span) -> Value:
        target = types.plain(type_)
        if isinstance(operand, ast.ListExpression | ast.RecordExpression | ast.InvalidHeader):
            return self.value(operand)
        value = self.value(operand)
        source = types.plain(self.type_of(operand))
        if isinstance(target, types.StructType | types.Tuple) and isinstance(value, Struct | Header | Fresh):
            if isinstance(value, Struct) and types.is_header(target):
                assert isinstance(target, types.StructType)
                return Fresh(
                    target, dict(zip((name for name, _ in target.fields), value.members.values(), strict=True))
                )
            return value
        match source, target:
            case types.Bits(), types.Bits():
                return Scalar(terms.converted(self.read(value, span), source, target), type_, False)
            case types.Bool(), types.Bits():
                one, zero = terms.number(1, target.width), terms.number(0, target.width)
                return Scalar(terms.operation("?", one, zero, self.read(value, span)), type_, False)
            case types.Bits(), types.Bool():
                return Scalar(terms.operation("!=", self.read(value, span), terms.number(0)), type_, False)
        if isinstance(value, Scalar):
            return Scalar(value.term, type_, value.is_place)
        return value

    # ---- values written out ----

    def _from_constants(self, constants: tuple[Constant, ...], type_: types.Type, span: Span) -> Value:
        """A struct, header, tuple, stack or list of known values."""
        parts = zip(self._parts(type_, len(constants), span), constants, strict=True)
        return self._shaped(type_, {name: self.from_constant(value, one, span) for (name, one), value in parts})

    def _list(self, node: ast.ListExpression) -> Value:
        type_ = types.plain(self.type_of(node))
        found: dict[str, Value] = {}
        for at, (name, one) in enumerate(self._parts(type_, len(node.items), node.span)):
            if at >= len(node.items):
                found[name] = self._default(one, node.span)
            else:
                found[name] = self._part(node.items[at], one, node.items[at + 1 :])
        return self._shaped(type_, found)

    @staticmethod
    def _parts(type_: types.Type, count: int, span: Span) -> list[tuple[str, types.Type]]:
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

    def _part(self, item: ast.Expression, type_: types.Type, later: Sequence[ast.Node]) -> Value:
        value = self.value(item)
        if any(map(self.context.has_effects, later)):
            return self.saved(value, type_, item.span)
        return value

    @staticmethod
    def _shaped(type_: types.Type, members: dict[str, Value]) -> Value:
        if types.is_header(type_):
            assert isinstance(type_, types.StructType)
            return Fresh(type_, members)
        if isinstance(type_, types.Stack | types.List):
            return Elements(tuple(members.values()))
        return Struct(type_, members)

    def _record(self, node: ast.RecordExpression) -> Value:
        type_ = types.plain(self.type_of(node))
        fields = [name for name, _ in node.fields]
        if not isinstance(type_, types.StructType | types.Record):
            raise refused(node.span, f"a value of type {type_} cannot be written this way")
        found: dict[str, Value] = {}
        for at, (name, item) in enumerate(node.fields):
            inner = dict(type_.fields)[name]
            found[name] = self._part(item, inner, [later for _, later in node.fields[at + 1 :]])
        ordered = {name: found[name] if name in fields else self._default(one, node.span) for name, one in type_.fields}
        return self._shaped(type_, ordered)

    def _default(self, type_: types.Type, span: Span) -> Value:
        plain = types.plain(type_)
        match plain:
            case types.StructType() if plain.kind is ast.StructKind.STRUCT:
                return Struct(plain, {name: self._default(one, span) for name, one in plain.fields})
            case types.StructType():
                return Invalid()
            case types.Stack(element, size):
                return Elements(tuple(self._default(element, span) for _ in range(size)))
            case types.Tuple(elements):
                return Struct(plain, {str(at): self._default(one, span) for at, one in enumerate(elements)})
            case types.Bool():
                return Scalar(terms.truth(False), type_, False)
            case types.Bits(width):
                return Scalar(terms.number(0, width), type_, False)
            case types.EnumType() | types.Error():
                return Scalar(terms.number(0), type_, False)
        raise refused(span, f"{type_} has no default value")


def _items(value: Value, span: Span) -> tuple[Value, ...]:
    match value:
        case Stack(elements=elements):
            return tuple(elements)
        case Elements(items=items):
            return items
    raise refused(span, f"{span.text!r} is not supported here")
