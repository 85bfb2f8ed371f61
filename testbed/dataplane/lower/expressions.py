"""Expressions: where they lie (`place`) and what they are worth (`value`), in P4's order of evaluation."""

from collections.abc import Callable, Sequence

from testbed.dataplane import ast, types
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.code import Branch, Label
from testbed.dataplane.lower.comparisons import Comparison
from testbed.dataplane.lower.context import refused
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
    Union,
    Value,
)

MAX_DEPTH = 50  # of operations within each other; JSON libraries stop at a thousand levels of their own
_LOGIC = {"&&": terms.conjunction, "||": terms.disjunction}
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


class ExpressionLowering(Comparison):
    """Calls are added by `CallLowering`."""

    def call(self, node: ast.Call) -> Value | None:
        raise NotImplementedError

    def result_of_apply(self, node: ast.Member, otherwise: Label, wanted: bool) -> None:
        raise NotImplementedError

    def fixed(self, node: ast.Expression) -> Term:
        """The number `node` as a constant or field, which is what some primitives want."""
        return self.fixed_term(self.scalar(node), self.type_of(node), node.span)

    def scalar(self, node: ast.Expression) -> Term:
        return self.read(self.value(node), node.span)

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
                return self.binary(node)
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
                return self.default(self.type_of(node), node.span)
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
                return Scalar(terms.masked(self._last_index(stack, span), 32), types.Bits(32), False)
            case "last" if stack.holds_unions:
                at = self.saved(Scalar(self._last_index(stack, span), types.Bits(32), False), types.Bits(32), span)
                assert isinstance(at, Scalar)
                return Indexed(at.term, stack.elements, element)
            case "last":
                return Last(stack, element, self.layout.last_members(stack, element))
            case "next":
                return Next(stack, element)
        raise refused(span, f"a stack has no {name!r}")

    def _last_index(self, stack: Stack, span: Span) -> Term:
        if not stack.holds_unions:
            return terms.operation("last_stack_index", None, terms.named("header_stack", stack.name))
        index = terms.number(0, 32)  # BMv2 tells none of a stack of unions; parsers fill it from the first one on
        for at in range(1, stack.type.size):
            index = terms.operation("?", terms.number(at, 32), index, self.valid(stack.elements[at], span))
        return index

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

    def binary(self, node: ast.Binary, left: Value | None = None) -> Value:
        """What an operation makes; `left` is its left operand where that has been found before."""
        return self._shallow(Scalar(self._binary(node, left), self.type_of(node), False), node.span)

    def _binary(self, node: ast.Binary, left: Value | None) -> Term:
        if node.operator in _LOGIC:
            return self._logic(node)
        left = self.value(node.left) if left is None else left
        left_type, right_type = self.type_of(node.left), self.type_of(node.right)
        if self.context.has_effects(node.right):
            left = self.saved(left, left_type, node.left.span)
        right = self.value(node.right)
        if node.operator in _COMPARISONS:
            return self.compared(node.operator, left, right, node.span)
        type_ = types.plain(self.type_of(node))
        if not isinstance(type_, types.Bits):
            raise refused(node.span, f"a value of type {type_} must be known when compiling")
        here, there = self.read(left, node.left.span), self.read(right, node.right.span)
        if node.operator == "++":
            one, other = types.plain(left_type), types.plain(right_type)
            assert isinstance(one, types.Bits)
            assert isinstance(other, types.Bits)
            return terms.concatenation(here, one.width, there, other.width, type_.is_signed)
        return terms.arithmetic(node.operator, here, there, type_)

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

    def _list(self, node: ast.ListExpression) -> Value:
        type_ = types.plain(self.type_of(node))
        found: dict[str, Value] = {}
        for at, (name, one) in enumerate(self.parts(type_, len(node.items), node.span)):
            if at >= len(node.items):
                found[name] = self.default(one, node.span)
            else:
                found[name] = self._part(node.items[at], one, node.items[at + 1 :])
        return self.shaped(type_, found)

    def _part(self, item: ast.Expression, type_: types.Type, later: Sequence[ast.Node]) -> Value:
        value = self.value(item)
        if any(map(self.context.has_effects, later)):
            return self.saved(value, type_, item.span)
        return value

    def _record(self, node: ast.RecordExpression) -> Value:
        type_ = types.plain(self.type_of(node))
        fields = [name for name, _ in node.fields]
        if not isinstance(type_, types.StructType | types.Record):
            raise refused(node.span, f"a value of type {type_} cannot be written this way")
        found: dict[str, Value] = {}
        for at, (name, item) in enumerate(node.fields):
            inner = dict(type_.fields)[name]
            found[name] = self._part(item, inner, [later for _, later in node.fields[at + 1 :]])
        ordered = {name: found[name] if name in fields else self.default(one, node.span) for name, one in type_.fields}
        return self.shaped(type_, ordered)
