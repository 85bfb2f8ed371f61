"""Expressions of BMv2 JSON as C expressions.

BMv2 computes with integers of any size and cuts a result to its field only when it is written. Here each expression has
a range, from which follows a native type that holds it exactly. Where only the low bits are asked for (by an assignment
or a mask), sums, products, left shifts and bit operations are computed modulo a power of two, which gives the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from testbed.dataplane.bmv2model import Field, HeaderType, JsonError, Term
from testbed.dataplane.native.layout import Layout, kept_bits, pattern
from testbed.dataplane.native.numbers import (
    I64,
    I128,
    U64,
    U128,
    WIDE,
    Number,
    convert,
    exact,
    modular,
)
from testbed.dataplane.native.ranges import MAX_SHIFT, bounds, combined, hull
from testbed.dataplane.native.wire import load_bits

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_BOOLEAN = frozenset((*_COMPARISONS, "and", "or", "not", "d2b", "valid", "valid_union"))
_RING = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}


@dataclass(slots=True)
class Expressions:
    """The expressions of one action, or of the parser (`frame`: C for the first byte not yet parsed)."""

    layout: Layout
    parameters: Sequence[int] = ()  # bits of each action parameter
    frame: str = ""
    dereferenced: dict[str, None] = field(default_factory=dict)  # stacks accessed by a run-time index

    # Values

    def is_boolean(self, term: Term) -> bool:
        if term.kind == "expression":
            if term.op == "?":
                return self.is_boolean(_given(term.left))
            return term.op in _BOOLEAN
        return term.kind == "bool"

    def boolean(self, term: Term) -> str:
        """C for a truth value; a number is true unless it is 0."""
        if term.kind == "bool":
            return "true" if term.value else "false"
        if not self.is_boolean(term):
            if term.kind == "field" and self.range(term) == (0, 1):
                return self.raw(term)[0]
            code, number = self.exact(term)
            return f"(wide_compare({code}, {WIDE.literal(0)}) != 0)" if number.wide else f"({code} != 0)"
        left, right = term.left, term.right
        match term.op:
            case "and" | "or":
                operator = "&&" if term.op == "and" else "||"
                return f"({self.boolean(_given(left))} {operator} {self.boolean(_given(right))})"
            case "not":
                return f"(!{self.boolean(_given(right))})"
            case "d2b":
                return self.boolean(_given(right))
            case "?":
                condition = self.boolean(_given(term.condition))
                return f"({condition} ? {self.boolean(_given(left))} : {self.boolean(_given(right))})"
            case "valid":
                return f"{self.header(_given(right))[0]}.valid"
            case "valid_union":
                return f"({self._any_valid(str(_given(right).value))})"
            case _:
                return self._comparison(term.op, _given(left), _given(right))

    def _any_valid(self, union: str) -> str:
        members = self.layout.program.unions[union].members
        return " || ".join(f"{self.layout.place(h.name).path}.valid" for _, h in members)

    def _comparison(self, operator: str, left: Term, right: Term) -> str:
        if self._is_header(left):
            equal = self._headers_equal(left, right)
            return equal if operator == "==" else f"(!{equal})"
        if self.is_boolean(left) or self.is_boolean(right):
            return f"({self.boolean(left)} {operator} {self.boolean(right)})"
        if left.kind == right.kind == "field":
            (a, own), (b, _) = (self.layout.field(*term.value) for term in (left, right))
            if own.varbit:
                return _same_bytes(a, b) if operator == "==" else f"(!{_same_bytes(a, b)})"
        (low, high), (other_low, other_high) = self.range(left), self.range(right)
        number = exact(min(low, other_low), max(high, other_high))
        a, b = self.number(left, number), self.number(right, number)
        if number.bits == 64 and operator in ("==", "!="):
            return f"{'!' * (operator == '!=')}equal({a}, {b})"
        return f"(wide_compare({a}, {b}) {operator} 0)" if number.wide else f"({a} {operator} {b})"

    def _is_header(self, term: Term) -> bool:
        return term.kind == "header" or (
            term.kind == "expression" and term.op in ("dereference_header_stack", "access_union_header")
        )

    def _headers_equal(self, left: Term, right: Term) -> str:
        (a, header_type), (b, _) = self.header(left), self.header(right)
        parts = []
        for f in header_type.fields:
            name = self.layout.field_name(header_type, f.name)
            if f.varbit:
                parts.append(_same_bytes(f"{a}.{name}", f"{b}.{name}"))
            elif f.bits > 128:
                parts.append(f"wide_compare({a}.{name}, {b}.{name}) == 0")
            else:
                parts.append(f"{a}.{name} == {b}.{name}")
        same = " && ".join(parts) or "true"
        return f"({a}.valid == {b}.valid && (!{a}.valid || ({same})))"

    def exact(self, term: Term) -> tuple[str, Number]:
        """C for a number, and the type that holds it."""
        number = exact(*self.range(term))
        return self.number(term, number), number

    def assigned(self, term: Term, bits: int) -> str:
        """C for the low bits of a number, in the type `modular(bits)` and without any higher bits."""
        if self.is_boolean(term):
            return convert(f"({self.boolean(term)} ? 1 : 0)", I64, modular(bits)) if bits > 64 else self.boolean(term)
        number = modular(bits)
        code = self.number(term, number, bits)
        low, high = self.range(term)
        if (low >= 0 and high < 1 << bits) or bits in (8, 16, 32, 64, 128):
            return code
        return f"wide_truncate({code}, {bits})" if number.wide else f"({code} & {number.literal((1 << bits) - 1)})"

    def number(self, term: Term, target: Number, bits: int | None = None) -> str:
        """C for a number in a type that holds it; where `bits` is given, only that many low bits are right."""
        if self.is_boolean(term):
            return convert(f"(uint64_t){self.boolean(term)}", U64, target)
        if term.kind == "hexstr":
            return target.literal(term.value)
        if term.kind != "expression":
            return self._leaf(term, target)
        if term.op in _RING or term.op in ("~", "<<"):
            return self._ring(term, target, bits)
        match term.op:
            case "?":
                condition = self.boolean(_given(term.condition))
                left, right = (self.number(_given(side), target, bits) for side in (term.left, term.right))
                return f"({condition} ? {left} : {right})"
            case "b2d":
                return convert(f"(uint64_t){self.boolean(_given(term.right))}", U64, target)
            case ">>":
                return self._shift_right(term, target)
            case "/" | "%":
                return self._division(term, target)
            case "two_comp_mod":
                return self._two_complement(term, target, bits)
            case "sat_cast" | "usat_cast":
                return self._saturated(term, target)
            case "last_stack_index":
                return convert(f"((int64_t){self._next(_given(term.right))} - 1)", I64, target)
            case "size_stack":
                return convert(f"(uint64_t){self._next(_given(term.right))}", U64, target)
            case "access_field":
                return self._leaf(term, target)
        raise JsonError(f"unknown operation {term.op!r} in an expression")

    def _leaf(self, term: Term, target: Number) -> str:
        code, bits, signed = self.raw(term)
        source = modular(bits)
        if signed and not (source.wide or (bits == source.bits and target.bits <= source.bits)):
            return convert(f"signed{source.bits}({code}, {bits})", I64 if source is U64 else I128, target)
        if signed and source.wide:
            return convert(f"wide_signed({code}, {bits})", WIDE, target)
        if signed:
            return convert(f"({(I64 if source is U64 else I128).c}){code}", I64 if source is U64 else I128, target)
        # A narrower type would be computed with in `int`, or in 32 bits: too few for what may come out.
        return convert(code if source.wide else f"({source.c}){code}", source, target)

    def _next(self, term: Term) -> str:
        return self.layout.stacks[f"{term.value}$next"]

    def _ring(self, term: Term, target: Number, bits: int | None) -> str:
        right = _given(term.right)
        wanted = target.bits if bits is None else bits
        if term.op == "&":
            for side in (_given(term.left), right):
                low, high = self.range(side)
                if low >= 0:
                    wanted = min(wanted, max(high.bit_length(), 1))
        number = modular(wanted)
        if term.op == "~":
            code = self.number(right, number, wanted)
            code = f"wide_not({code})" if number.wide else f"(~{code})"
        elif term.op == "<<":
            code = self._shift_left(_given(term.left), right, number, wanted)
        else:
            a, b = self.number(_given(term.left), number, wanted), self.number(right, number, wanted)
            code = f"wide_{_RING[term.op]}({a}, {b})" if number.wide else f"({a} {term.op} {b})"
        return convert(code, number, target)

    def _count(self, term: Term) -> str:
        """A shift count; one that no type of the machine holds is as good as the largest."""
        code, number = self.exact(term)
        if number.wide:
            code, number = f"wide_low({code})", U128
        return f"(uint64_t)clamp_u128({code}, 0, {MAX_SHIFT})" if number.bits > 64 else f"(uint64_t){code}"

    def _shift_left(self, left: Term, right: Term, number: Number, wanted: int) -> str:
        code = self.number(left, number, wanted)
        if right.kind == "hexstr" and not number.wide:
            return f"({code} << {right.value})" if 0 <= right.value < number.bits else number.literal(0)
        return f"{'wide_shl' if number.wide else f'shl{number.bits}'}({code}, {self._count(right)})"

    def _shift_right(self, term: Term, target: Number) -> str:
        code, number = self.exact(_given(term.left))
        right = _given(term.right)
        if right.kind == "hexstr" and not number.wide and 0 <= right.value < number.bits:
            return convert(f"({code} >> {right.value})", number, target)
        function = "wide_shr" if number.wide else f"shr_{number.suffix}"
        return convert(f"{function}({code}, {self._count(right)})", number, target)

    def _division(self, term: Term, target: Number) -> str:
        left, right = _given(term.left), _given(term.right)
        (low, high), (other_low, other_high) = self.range(left), self.range(right)
        number = exact(min(low, other_low), max(high, other_high))
        if min(low, other_low) < 0:
            raise JsonError("division of negative numbers")
        a, b = self.number(left, number), self.number(right, number)
        function = "divide" if term.op == "/" else "remainder"
        return convert(f"{function}_{'wide' if number.wide else number.suffix}({a}, {b})", number, target)

    def _two_complement(self, term: Term, target: Number, bits: int | None) -> str:
        width = _constant(_given(term.right))
        inner = _given(term.left)
        if bits is not None and bits <= width:
            return self.number(inner, target, bits)
        number = modular(width)
        code = self.number(inner, number, width)
        if number.wide:
            return convert(f"wide_signed({code}, {width})", WIDE, target)
        return convert(f"signed{number.bits}({code}, {width})", I64 if number is U64 else I128, target)

    def _saturated(self, term: Term, target: Number) -> str:
        low, high = self.range(term)
        inner_low, inner_high = self.range(_given(term.left))
        number = exact(min(low, inner_low), max(high, inner_high))
        code = self.number(_given(term.left), number)
        function = "wide_clamp" if number.wide else f"clamp_{number.suffix}"
        return convert(f"{function}({code}, {number.literal(low)}, {number.literal(high)})", number, target)

    # Ranges

    def range(self, term: Term) -> tuple[int, int]:
        """The smallest and the largest number that a term can be."""
        if self.is_boolean(term) or (term.kind == "expression" and term.op == "b2d"):
            return 0, 1
        if term.kind == "hexstr":
            return term.value, term.value
        if term.kind != "expression" or term.op == "access_field":
            _, bits, signed = self.raw(term)
            return bounds(bits, signed)
        match term.op:
            case "?":
                return hull(self.range(_given(term.left)), self.range(_given(term.right)))
            case "two_comp_mod" | "sat_cast":
                return bounds(_constant(_given(term.right)), True)
            case "usat_cast":
                return bounds(_constant(_given(term.right)), False)
            case "last_stack_index":
                return -1, self._depth(_given(term.right)) - 1
            case "size_stack":
                return 0, self._depth(_given(term.right))
            case "~":
                low, high = self.range(_given(term.right))
                return -high - 1, -low - 1
        if term.left is None or term.right is None:
            raise JsonError(f"unknown operation {term.op!r} in an expression")
        return combined(term.op, self.range(term.left), self.range(term.right))

    def _depth(self, term: Term) -> int:
        program = self.layout.program
        if term.value in program.stacks:
            return len(program.stacks[term.value].headers)
        return len(program.union_stacks[term.value].unions)

    # Places

    def raw(self, term: Term) -> tuple[str, int, bool]:
        """C for a field, parameter or lookahead as it is stored; the bits of that number; whether it is signed."""
        match term.kind:
            case "local" | "runtime_data":
                return self._parameter(term.value), self.parameters[term.value], False
            case "lookahead":
                offset, bits = term.value
                return load_bits(self.frame, offset, bits), bits, False
            case _:
                path, own = self.field(term)
                return path, kept_bits(own), own.signed

    def pattern(self, term: Term) -> tuple[str, int]:
        """C for the bits of a term as they are in keys, and how many."""
        if term.kind in ("local", "runtime_data", "lookahead"):
            code, bits, _ = self.raw(term)
            return code, bits
        path, own = self.field(term)
        return pattern(path, own), own.bits

    def field(self, term: Term) -> tuple[str, Field]:
        """The path of the field that a term is, and the field."""
        match term.kind:
            case "field":
                path, own = self.layout.field(*term.value)
            case "stack_field" | "union_stack_field":
                path, own = self._member(*self._last(term), term.value[-1])
            case "expression" if term.op == "access_field":
                header, header_type = self.header(_given(term.left))
                path, own = self._member(header, header_type, header_type.fields[_given(term.right).value].name)
            case _:
                raise JsonError(f"a {term.op or term.kind} where a number is needed")
        if own.varbit:
            raise JsonError(f"a varbit field is not a number: {own.name}")
        return path, own

    def _member(self, header: str, header_type: HeaderType, name: str) -> tuple[str, Field]:
        return f"{header}.{self.layout.field_name(header_type, name)}", header_type.field(name)

    def stored(self, term: Term, own: Field) -> str:
        """C for a number as it is stored into a field."""
        if not own.signed:
            return self.assigned(term, own.bits)
        code, number = self.exact(term)
        return fitted(code, number, self.range(term), own)

    def plain(self, term: Term, own: Field) -> str | None:
        """C for a number that can be stored into a field as it is; None: it takes a conversion."""
        if own.signed or own.bits > 128 or self.is_boolean(term):
            return None
        low, high = self.range(term)
        if low < 0 or high >= 1 << min(own.bits, 64):
            return None
        if term.kind == "hexstr":
            return f"{term.value:#x}" if term.value > 9 else str(term.value)
        return None if term.kind == "expression" else self.raw(term)[0]

    def _parameter(self, index: int) -> str:
        if index >= len(self.parameters):
            raise JsonError(f"an action refers to its parameter {index}, which it does not have")
        at = sum((bits + 63) // 64 for bits in self.parameters[:index])
        bits = self.parameters[index]
        if bits <= 64:
            return f"data[{at}]"
        return (
            f"((u128)data[{at + 1}] << 64 | data[{at}])"
            if bits <= 128
            else f"wide_words(data + {at}, {(bits + 63) // 64})"
        )

    def _last(self, term: Term) -> tuple[str, HeaderType]:
        """The element of a stack that was extracted last."""
        name = term.value[0]
        path, following = self.layout.stacks[name], self.layout.stacks[f"{name}$next"]
        element = f"{path}[{following} ? {following} - 1 : 0]"
        if term.kind == "stack_field":
            return element, self.layout.program.stacks[name].headers[0].type
        members = dict(self.layout.program.union_stacks[name].unions[0].members)
        return f"{element}.{self.layout.member(term.value[1])}", members[term.value[1]].type

    def header(self, term: Term) -> tuple[str, HeaderType]:
        """The path of a header, which may be an element of a stack that is known only at run time."""
        if term.kind == "header":
            place = self.layout.place(term.value)
            return place.path, place.type
        if term.kind == "expression" and term.op == "dereference_header_stack":
            stack = str(_given(term.left).value)
            self.dereferenced[stack] = None
            return f"(*{self._element(stack, _given(term.right))})", self.layout.program.stacks[stack].headers[0].type
        if term.kind == "expression" and term.op == "access_union_header":
            union = _given(term.left)
            position = _given(term.right).value
            if union.kind == "header_union":
                name, header = self.layout.program.unions[union.value].members[position]
                return f"{self.layout.unions[union.value]}.{self.layout.member(name)}", header.type
            stack = str(_given(union.left).value)
            self.dereferenced[stack] = None
            name, header = self.layout.program.union_stacks[stack].unions[0].members[position]
            return f"{self._element(stack, _given(union.right))}->{self.layout.member(name)}", header.type
        raise JsonError(f"a {term.op or term.kind} where a header is needed")

    def _element(self, stack: str, index: Term) -> str:
        name = self.layout.stacks[stack].removeprefix("c->h.")
        low, high = self.range(index)
        number = exact(low, high)
        code = self.number(index, number)
        return f"at_{name}(c, {convert(code, number, U64)})"


def fitted(code: str, number: Number, limits: tuple[int, int], own: Field) -> str:
    """C for a number within limits as it is stored into a signed field: cut to its width only where it is wider."""
    wanted = modular(own.bits + 1)
    kept = wanted.literal((1 << (own.bits + 1)) - 1)
    low, high = limits
    if low < -(1 << (own.bits - 1)) or high >= 1 << own.bits:
        inner = exact(min(low, -1), max(high, 0))
        code = f"fit_{'wide' if inner.wide else inner.suffix}({convert(code, number, inner)}, {own.bits})"
        number = inner
    code = convert(code, number, wanted)
    return f"wide_truncate({code}, {own.bits + 1})" if wanted.wide else f"({code} & {kept})"


def lookaheads(terms: Sequence[Term]) -> int:
    """How many bits beyond what is parsed the terms look at."""
    return max((t.value[0] + t.value[1] for t in _walk(terms) if t.kind == "lookahead"), default=0)


def _walk(terms: Sequence[Term]) -> Iterator[Term]:
    for term in terms:
        yield term
        yield from _walk([t for t in (term.left, term.right, term.condition) if t is not None])


def _given(term: Term | None) -> Term:
    if term is None:
        raise JsonError("an operation lacks an operand")
    return term


def _same_bytes(a: str, b: str) -> str:
    """C that tells whether two varbit fields are as long and the same."""
    return f"({a}_bytes == {b}_bytes && memcmp({a}, {b}, {a}_bytes) == 0)"


def _constant(term: Term) -> int:
    if term.kind != "hexstr":
        raise JsonError("a width that is not a constant")
    return int(term.value)
