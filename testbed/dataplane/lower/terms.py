"""The "type value objects" of BMv2 JSON: operands, and expressions over integers of any size with P4's meaning.

A `Term` that stands for a number is exact: within the range of its P4 type, negative if that is signed. A term that
stands for a `bool` is a BMv2 truth value; fields hold numbers, so truth is read with `d2b` and written with `b2d`.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

from testbed.dataplane.types import Bits

Term: TypeAlias = dict[str, Any]
Atom: TypeAlias = tuple[str, str]  # a header and a field of it; "*" is all of the header

WHOLE = "*"


def field(header: str, name: str) -> Term:
    return {"type": "field", "value": [header, name]}


def header(name: str) -> Term:
    return {"type": "header", "value": name}


def hexadecimal(value: int, bits: int = 0) -> str:
    """`value` as BMv2 reads it, with as many digits as whole bytes of `bits` have."""
    sign = "-" if value < 0 else ""
    return f"{sign}0x{abs(value):0{(bits + 7) // 8 * 2}x}"


def number(value: int, bits: int = 0) -> Term:
    return {"type": "hexstr", "value": hexadecimal(value, bits)}


def truth(value: bool) -> Term:
    return {"type": "bool", "value": value}


def named(kind: str, name: str) -> Term:
    """A named thing: `register_array`, `calculation`, `header_stack`, ..."""
    return {"type": kind, "value": name}


class Operation(dict[str, Any]):
    """The term of an operation, which knows how many operations stand within each other in it."""

    __slots__ = ("depth",)

    def __init__(self, value: Term, depth: int) -> None:
        super().__init__(type="expression", value=value)
        self.depth = depth


def depth(term: Term | None) -> int:
    return term.depth if isinstance(term, Operation) else 0


def operation(operator: str, left: Term | None, right: Term, condition: Term | None = None) -> Term:
    value: dict[str, Any] = {"op": operator, "left": left and _operand(left), "right": _operand(right)}
    if condition is not None:
        value["cond"] = _operand(condition)
    return Operation(value, 1 + max(depth(left), depth(right), depth(condition)))


def _operand(term: Term) -> Term:
    return {"type": "local", "value": term["value"]} if term["type"] == "runtime_data" else term


def argument(term: Term) -> Term:
    """`term` as a parameter of a primitive, where BMv2 wants expressions wrapped twice."""
    if term["type"] in ("expression", "bool", "stack_field"):
        return {"type": "expression", "value": term}
    return term


def expression(term: Term) -> Term:
    """`term` where BMv2 wants an expression and nothing else."""
    return {"type": "expression", "value": _operand(term)}


def from_truth(term: Term) -> Term:
    if term["type"] == "bool":
        return number(int(term["value"]))
    return operation("b2d", None, term)


def to_truth(term: Term) -> Term:
    return operation("d2b", None, term)


def negation(term: Term) -> Term:
    if term["type"] == "bool":
        return truth(not term["value"])
    return operation("not", None, term)


def conjunction(left: Term, right: Term) -> Term:
    for one, other in ((left, right), (right, left)):
        if one["type"] == "bool":
            return other if one["value"] else one
    return operation("and", left, right)


def disjunction(left: Term, right: Term) -> Term:
    for one, other in ((left, right), (right, left)):
        if one["type"] == "bool":
            return one if one["value"] else other
    return operation("or", left, right)


def valid(name: str) -> Term:
    return to_truth(field(name, "$valid$"))


def masked(term: Term, bits: int) -> Term:
    return operation("&", term, number((1 << bits) - 1, bits))


def wrapped(term: Term, type_: Bits) -> Term:
    """`term`, an integer of any size, cut to `type_`."""
    if type_.is_signed:
        return operation("two_comp_mod", term, number(type_.width))
    return masked(term, type_.width)


def saturated(term: Term, type_: Bits) -> Term:
    return operation("sat_cast" if type_.is_signed else "usat_cast", term, number(type_.width))


def arithmetic(operator: str, left: Term, right: Term, type_: Bits) -> Term:
    """The result, of `type_`, of an operator other than comparisons and `++`."""
    if operator in ("|+|", "|-|"):
        return saturated(operation(operator[1], left, right), type_)
    result = operation(operator, left, right)
    if operator in ("&", "|", "^", "/", "%") or (operator == ">>" and not type_.is_signed):
        return result
    return wrapped(result, type_)


def concatenation(left: Term, left_bits: int, right: Term, right_bits: int, is_signed: bool) -> Term:
    bits = left_bits + right_bits
    high = masked(operation("<<", masked(left, left_bits), number(right_bits)), bits)
    joined = operation("|", high, masked(right, right_bits))
    return wrapped(joined, Bits(bits, True)) if is_signed else joined


def slice_of(term: Term, high: int, low: int) -> Term:
    return masked(operation(">>", term, number(low)) if low else term, high - low + 1)


def with_slice(base: Term, type_: Bits, high: int, low: int, value: Term) -> Term:
    """`base` with the bits from `high` to `low` replaced by `value`."""
    hole = ((1 << (high - low + 1)) - 1) << low
    keep = ((1 << type_.width) - 1) & ~hole
    moved = operation("<<", value, number(low)) if low else value
    mixed = operation(
        "|", operation("&", base, number(keep, type_.width)), operation("&", moved, number(hole, type_.width))
    )
    return wrapped(mixed, type_) if type_.is_signed else mixed


def converted(term: Term, source: Bits, target: Bits) -> Term:
    """A number of type `source` cast to `target`."""
    if source == target:
        return term
    fits = target.width >= source.width if source.is_signed == target.is_signed else False
    fits = fits or (not source.is_signed and target.is_signed and target.width > source.width)
    return term if fits else wrapped(term, target)


def atoms(term: Term) -> Iterator[Atom]:
    """The fields that `term` reads."""
    kind, value = term["type"], term["value"]
    if kind == "field":
        yield value[0], value[1]
    elif kind == "stack_field":
        yield value[0], WHOLE
    elif kind == "expression":
        if "op" not in value:
            yield from atoms(value)
            return
        for key in ("left", "right", "cond"):
            part = value.get(key)
            if part is not None:
                yield from atoms(part)


def is_constant(term: Term) -> bool:
    return term["type"] in ("hexstr", "bool")
