"""Expressions: C against BMv2's rule (integers of any size, cut only when they are written), on random trees."""

import random
from collections.abc import Mapping
from typing import Any

import pytest

from testbed.dataplane.native.exchange import Exchange
from tests.dataplane.small_programs import Json, action, assign, constant, document, field, operation, program, table

WIDTHS = {"a": 8, "b": 5, "c": 16, "d": 48, "e": 64, "f": 96, "g": 128, "w": 200}
SIGNED = {"p": 8, "q": 32, "r": 64}
PAD = 3
OUTPUTS = 24


def _fields() -> list[tuple[str, int, bool]]:
    inputs = [*((n, bits, False) for n, bits in WIDTHS.items()), ("pad", PAD, False)]
    inputs += [(n, bits, True) for n, bits in SIGNED.items()]
    return [*inputs, *((f"o{i}", _output_bits(i), False) for i in range(OUTPUTS))]


def _output_bits(index: int) -> int:
    return (8, 16, 40, 64, 104, 128, 240)[index % 7]


def _tree(draw: random.Random, depth: int) -> Json:
    if depth == 0 or draw.random() < 0.15:
        if draw.random() < 0.3:
            return constant(draw.choice((0, 1, 0x7F, 0xFF, 0x8000, draw.getrandbits(64), draw.getrandbits(130))))
        return field(draw.choice([*WIDTHS, *SIGNED]))
    op = draw.choice(
        ("+", "-", "*", "&", "|", "^", "<<", ">>", "~", "two_comp_mod", "sat_cast", "usat_cast", "?", "mask")
    )
    left = _tree(draw, depth - 1)
    match op:
        case "~":
            return operation("~", None, left)
        case "<<" | ">>":
            count = constant(draw.randrange(40)) if draw.random() < 0.5 else field("b")
            return operation(op, left, count)
        case "two_comp_mod" | "sat_cast" | "usat_cast":
            return operation(op, left, constant(draw.choice((7, 8, 32, 63, 64, 65, 128, 150))))
        case "mask":
            return operation("&", left, constant((1 << draw.choice((1, 8, 33, 64, 100))) - 1))
        case "?":
            test = (
                operation(draw.choice(("<", "==", ">=", "!=")), _tree(draw, depth - 2), _tree(draw, 0))
                if depth > 1
                else None
            )
            return left if test is None else operation("?", left, _tree(draw, depth - 1), test)
    return operation(op, left, _tree(draw, depth - 1))


def _value(term: Json, given: Mapping[str, int]) -> int:
    if term["type"] == "hexstr":
        return int(term["value"], 16)
    if term["type"] == "field":
        return given[term["value"][1]]
    op, right = term["value"]["op"], term["value"]["right"]
    b = _value(right, given)
    if op == "~":
        return ~b
    a = _value(term["value"]["left"], given)
    match op:
        case "two_comp_mod":
            return (a + (1 << (b - 1))) % (1 << b) - (1 << (b - 1))
        case "sat_cast":
            return max(-(1 << (b - 1)), min((1 << (b - 1)) - 1, a))
        case "usat_cast":
            return max(0, min((1 << b) - 1, a))
        case "?":
            return a if _value(term["value"]["cond"], given) else b
    functions: Mapping[str, Any] = {
        "+": a.__add__, "-": a.__sub__, "*": a.__mul__, "&": a.__and__, "|": a.__or__, "^": a.__xor__,
        "<<": a.__lshift__, ">>": a.__rshift__, "<": a.__lt__, "==": a.__eq__, ">=": a.__ge__, "!=": a.__ne__,
    }  # fmt: skip
    return int(functions[op](b))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_trees_give_the_low_bits_of_the_exact_result(seed: int) -> None:
    draw = random.Random(seed)
    trees = [_tree(draw, 4) for _ in range(OUTPUTS)]
    body = [assign(f"o{i}", tree) for i, tree in enumerate(trees)]
    built = program(
        _fields(), [action("compute", {}, *body)], [table("t", {}, ["compute"], "exact", default=("compute", []))]
    )
    inputs = sum(WIDTHS.values()) + PAD + sum(SIGNED.values())
    assert inputs % 8 == 0
    outputs = sum(_output_bits(i) for i in range(OUTPUTS))
    with Exchange(built) as exchange:
        for _ in range(200):
            bits, given = 0, {}
            for name, width in (*WIDTHS.items(), ("pad", PAD), *SIGNED.items()):
                raw = draw.choice((0, 1, (1 << width) - 1, 1 << (width - 1), draw.getrandbits(width)))
                bits = bits << width | raw
                given[name] = raw - (1 << width) if name in SIGNED and raw >> (width - 1) else raw
            frame = (bits << outputs).to_bytes((inputs + outputs) // 8, "big")
            ((_, sent),) = exchange.inject(0, frame)
            left = outputs
            for i, tree in enumerate(trees):
                width = _output_bits(i)
                left -= width
                got = int.from_bytes(sent, "big") >> left & ((1 << width) - 1)
                assert got == _value(tree, given) & ((1 << width) - 1), tree


def test_a_signed_field_keeps_an_unsigned_number_that_fits_its_width() -> None:
    """As in bmv2: a register cell read into int<8> stays 255, where a computed -1 is -1."""
    fields = [("u", 8, False), ("s", 8, True), ("wide", 16, False)]
    body = [assign("s", field("u")), assign("wide", field("s"))]
    built = program(fields, [action("go", {}, *body)], [table("t", {}, ["go"], "exact", default=("go", []))])
    with Exchange(built) as exchange:
        assert exchange.inject(0, bytes.fromhex("ff000000")) == [(1, bytes.fromhex("ffff00ff"))]


def test_without_an_egress_pipeline_and_with_one_byte_too_few_the_packet_leaves_as_it_came() -> None:
    content = document([("u", 16)], [], [])
    assert content["pipelines"][1]["init_table"] is None
    with Exchange(program([("u", 16)], [], [])) as exchange:
        assert exchange.inject(0, b"\x01") == [(1, b"\x01")]
        assert exchange.inject(0, b"") == [(1, b"")]
