"""The checker: programs that are right, and what the typed tree says of them."""

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import pytest

from testbed.dataplane import ast, types
from testbed.dataplane.check import check, front_end
from testbed.dataplane.checked import CallKind, Checked, EnumValue, MaskValue, RangeValue
from testbed.dataplane.constants import evaluate
from testbed.dataplane.cursor import deep_trees
from testbed.dataplane.diagnostics import Diagnostics, P4Errors
from testbed.dataplane.lower.program import lower
from testbed.dataplane.p4info import p4info
from testbed.dataplane.parser import parse
from testbed.dataplane.preprocess import preprocess
from testbed.dataplane.types import BOOL, INTEGER, Bindings, Bits, TypeVariable
from tests.dataplane.programs import ORACLE, checked, errors_of, program, warnings_of

POSITIVE = sorted(ORACLE.glob("[0-9]*.p4"))


def nodes(node: object) -> Iterator[ast.Node]:
    """All nodes of a tree."""
    if isinstance(node, tuple):
        for one in node:
            yield from nodes(one)
    elif isinstance(node, ast.Node):
        yield node
        for field in fields(node):
            yield from nodes(getattr(node, field.name))


def constant(tree: Checked, name: str) -> object:
    found = [node for node in nodes(tree.program) if isinstance(node, ast.Constant) and node.name == name]
    return tree.constant(found[0])


def calls(tree: Checked, name: str) -> list[ast.Call]:
    """Calls of `name`, in order."""
    return [node for node in nodes(tree.program) if isinstance(node, ast.Call) and tree.calls[node].name == name]


@pytest.mark.parametrize("path", POSITIVE, ids=lambda path: path.stem)
def test_oracle(path: Path) -> None:
    tree = front_end(path)
    assert tree.diagnostics.errors == []
    assert tree.main is not None
    own = [node for node in nodes(tree.program) if node.span.source.path == str(path)]
    unknown = [node for node in own if tree.types.get(node) == types.UNKNOWN]
    assert unknown == []
    assert [node for node in own if isinstance(node, ast.Call) and node not in tree.calls] == []


def test_all_oracle_programs_are_there() -> None:
    assert len(POSITIVE) == 54


def test_constants(tmp_path: Path) -> None:
    tree = checked(
        tmp_path,
        program(
            """
            const int BIG = (1 << 70) - 1;
            const bit<16> CUT = (bit<16>)(BIG >> 60);
            const bit<8> WRAP = 200 + 8w100;
            const int<8> NEG = -8s100 - 100;
            const bit<8> SATURATED = 8w200 |+| 100;
            const int<8> LOW = -8s100 |-| 100;
            const bit<12> JOINED = 4w0xA ++ 8w0xBC;
            const bit<4> SLICED = (8w0xA5)[7:4];
            const bool CHOSEN = BIG > 5 && (3 % 2 == 1 || 1 / 1 == 0);
            const bit<8> CONDITIONAL = CHOSEN ? 8w1 : 2;
            const pair_t PAIR = { y = 2, x = 1 };
            const bit<16> FIELD = PAIR.y + 1;
            const Kind KIND = Kind.Two;
            const bit<8> UNDER = Kind.Two + 1;
            const Act ACT = Act.Go;
            const error ERR = error.NoMatch;
            const bool SAME = ACT == Act.Go && ERR != error.NoError;
            const bit<8> SHIFTED = 8w1 << 9;
            const int<8> SIGNED = -8s8 >> 1;
            const bit<8> LOGIC = ~8w0x0F & 0x3C ^ 1 | 2;
            const bit<8> CAST = (bit<8>)(int<8>)-1;
            const bit<16> EXTENDED = (bit<16>)(int<16>)8s0xF0;
            """
        ),
    )
    expected = {
        "BIG": (1 << 70) - 1,
        "CUT": 1023,
        "WRAP": 44,
        "NEG": 56,
        "SATURATED": 255,
        "LOW": -128,
        "JOINED": 0xABC,
        "SLICED": 0xA,
        "CHOSEN": True,
        "CONDITIONAL": 1,
        "PAIR": (1, 2),
        "FIELD": 3,
        "KIND": 2,
        "UNDER": 3,
        "ERR": EnumValue(None, "NoMatch"),
        "SAME": True,
        "SHIFTED": 0,
        "SIGNED": -4,
        "LOGIC": 0x33,
        "CAST": 255,
        "EXTENDED": 0xFFF0,
    }
    assert {name: constant(tree, name) for name in expected} == expected
    act = constant(tree, "ACT")
    assert isinstance(act, EnumValue)
    assert act.name == "Go"


def test_a_literal_takes_the_type_of_its_place(tmp_path: Path) -> None:
    tree = checked(tmp_path, program(apply="h.k.b = h.k.b + 70000;\nh.k.s = -1;\nm.p = { 1, 300 };"))
    own = [node for node in nodes(tree.program) if node.span.source.path.endswith("program.p4")]
    numbers = [node for node in own if isinstance(node, ast.IntLiteral | ast.Unary) and node in tree.constants]
    found = [(tree.type_of(node), tree.constant(node)) for node in numbers]
    assert (Bits(16), 70000 - 65536) in found
    assert (Bits(8, is_signed=True), -1) in found
    assert found[-2:] == [(Bits(8), 1), (Bits(16), 300)]
    assert ["70000 does not fit bit<16>" in one.message for one in tree.diagnostics.warnings] == [True]


def test_names_and_members_have_declarations(tmp_path: Path) -> None:
    tree = checked(tmp_path, program(apply="h.k.a = (bit<8>)m.kind;\nm.kind = Kind.Two;"))
    members = {
        node.span.text: tree.declaration(node)
        for node in nodes(tree.program)
        if isinstance(node, ast.Member) and node.span.text in ("h.k.a", "Kind.Two", "m.kind")
    }
    assert isinstance(members["h.k.a"], ast.Field)
    assert isinstance(members["Kind.Two"], ast.EnumMember)
    field = members["m.kind"]
    assert isinstance(field, ast.Field)
    kind = tree.type_of(field)
    assert isinstance(kind, types.EnumType)
    assert (str(kind), types.plain(kind), types.width_bits(kind)) == ("Kind", Bits(8), 8)


def test_calls(tmp_path: Path) -> None:
    tree = checked(
        tmp_path,
        program(
            top="T pick<T>(in bool c, in T x, in T y) { if (c) { return x; } return y; }\n"
            "control Add(inout bit<8> v)(bit<8> inc) { apply { v = v + inc; } }",
            members="register<bit<16>>(8) r;\nAdd(3) add;\naction a(in bit<8> x, bit<8> y) { }\n"
            "table t { key = { h.k.a: exact; } actions = { a(h.k.c); NoAction; } default_action = a(h.k.c, 4); }",
            apply="h.k.b = pick(m.f, h.k.b, 7);\nr.read(h.k.b, 0);\nadd.apply(h.k.a);\na(1, 2);\n"
            "if (t.apply().hit) { h.k.setInvalid(); }\nh.st.push_front(1);\n"
            "hash(m.x, HashAlgorithm.crc16, 8w0, { h.k.a, h.k.b }, 16w8);",
        ),
    )

    def only(name: str) -> ast.Call:
        (found,) = calls(tree, name)
        return found

    picked = tree.call(only("pick"))
    assert picked.kind is CallKind.FUNCTION
    assert picked.result == Bits(16)
    assert [(one.parameter.name, one.type) for one in picked.passed] == [("c", BOOL), ("x", Bits(16)), ("y", Bits(16))]
    assert [str(type_) for type_ in picked.type_arguments.values()] == ["bit<16>"]

    read = tree.call(only("read"))
    assert read.kind is CallKind.EXTERN_METHOD
    assert isinstance(read.callee, ast.Method)
    assert [one.type for one in read.passed] == [Bits(16), Bits(32)]
    assert read.receiver is not None
    register = tree.declaration(read.receiver)
    assert isinstance(register, ast.Instance)
    assert str(tree.type_of(register)) == "register<bit<16>>"
    made = tree.call(register)
    assert made.kind is CallKind.CONSTRUCTOR
    assert made.passed[0].value is not None
    assert (tree.constant(made.passed[0].value), made.passed[0].type) == (8, Bits(32))

    applied = [tree.call(call).kind for call in calls(tree, "apply")]
    assert applied == [CallKind.CONTROL, CallKind.TABLE]
    assert tree.call(only("a")).kind is CallKind.ACTION
    assert tree.call(only("setInvalid")).kind is CallKind.BUILTIN
    assert tree.call(only("push_front")).kind is CallKind.BUILTIN
    hashed = tree.call(only("hash"))
    assert hashed.kind is CallKind.EXTERN_FUNCTION
    assert str(hashed.passed[3].type) == "tuple<bit<8>, bit<16>>"


def test_a_constructor_parameter_is_known_with_its_instance(tmp_path: Path) -> None:
    top = "control Add(inout bit<8> v)(int inc) { apply { v = v + (inc * 2 + 200); } }"
    tree = checked(tmp_path, program(top=top, members="Add(30) add;", apply="add.apply(h.k.a);"))
    control = next(node for node in tree.program.declarations if isinstance(node, ast.Control) and node.name == "Add")
    (statement,) = control.body.statements
    assert isinstance(statement, ast.Assign)
    assert isinstance(statement.value, ast.Binary)
    added = statement.value.right
    assert (tree.type_of(added), tree.constant(added)) == (Bits(8), None)
    assert evaluate(tree, added, {control.constructor_parameters[0]: 30}) == 260 - 256


def test_labels(tmp_path: Path) -> None:
    states = """state start { pk.extract(h.k); transition select(h.k.a, m.f) {
        (1 &&& 3, true): accept;
        (2 .. 4, _): accept;
        default: reject;
    } }"""
    tree = checked(tmp_path, program(states=states))
    values = [tree.constant(node) for node in nodes(tree.program) if isinstance(node, ast.Mask | ast.Range)]
    assert values == [MaskValue(1, 3), RangeValue(2, 4)]


def test_errors_are_numbered_in_order(tmp_path: Path) -> None:
    tree = checked(tmp_path, program(top="error { Mine, Yours }"))
    assert tree.errors[:3] == ["NoError", "PacketTooShort", "NoMatch"]
    assert tree.errors[-2:] == ["Mine", "Yours"]


def test_substitution() -> None:
    span = ast.IntLiteral.__new__(ast.IntLiteral)  # any node: type variables are equal by their declaration alone
    first, second = (TypeVariable(declaration=span) for _ in range(2))  # type: ignore[arg-type]
    bindings: Bindings = {first: Bits(8)}
    assert first == second
    assert types.substitute(types.Tuple((first, types.List(first), INTEGER)), bindings) == types.Tuple(
        (Bits(8), types.List(Bits(8)), INTEGER)
    )


RIGHT = {
    "shadowing": "bit<8> t = 1;\n{ bit<16> t = 2; h.k.b = t; }\nh.k.a = t;",
    "lists": "m.p = { x = 1, ... };\nm.p = ...;\nh.k = { 1, 2, 3, 4 };\nh.k = (k_t){#};\nm.f = h.k == { 1, 2, 3, 4 };",
    "tuples": "tuple<bit<8>, bit<16>> t = { 1, 2 };\nh.k.b = t[1];\nm.f = t == { 1, 2 };",
    "enums": "h.k.a = m.kind + 1;\nm.f = m.kind == Kind.One;\nm.kind = (Kind)h.k.a;\nh.k.a = m.kind;",
    "casts": "m.f = (bool)h.k.a[0:0];\nh.k.a[0:0] = (bit<1>)m.f;\nh.k.s = (int<8>)h.k.a;\nh.k.a = (bit<8>)-1;",
    "division": "h.k.a = h.k.a / 4;\nh.k.a = h.k.a % 8;\nh.k.a = (bit<8>)(100 / 7);",
    "shifts": "h.k.b = h.k.b << h.k.a;\nh.k.s = h.k.s >> 1;\nh.k.a = h.k.a << 2w3;",
    "switch": "switch (m.kind) { Kind.One: { }\nKind.Two: { }\ndefault: { } }\nswitch (m.act) { Act.Go: { } }",
    "sizes": "h.k.a = (bit<8>)h.k.minSizeInBytes();\nm.f = h.st.size == 4;\nm.f = h.u.isValid();",
    "loops": "for (bit<8> i in 1 .. 4) { h.k.a = i; }\nfor (e_t e in h.st) { continue; }",
    "externs": 'log_msg("x {}", { h.k.a });\ndigest<pair_t>(1, { h.k.a, h.k.b });\nassert(m.f);\nrandom(h.k.a, 1, 9);',
}


@pytest.mark.parametrize("code", RIGHT.values(), ids=RIGHT.keys())
def test_right(tmp_path: Path, code: str) -> None:
    assert errors_of(tmp_path, program(apply=code)) == ()


def test_right_declarations(tmp_path: Path) -> None:
    top = """
    struct Box<T> { T x; Inner<T> p; }
    typedef bit<8> small_t;
    type small_t id_t;
    typedef register<bit<8>> bytes_t;
    parser Sub(packet_in p, out e_t e) { state start { p.extract(e); transition accept; } }
    action outer(inout bit<8> x) { x = x + 1; }
    bit<8> opt(in bit<8> x, in bit<8> y = 3) { return x + y; }
    """
    members = "bytes_t(4) r;\naction in_control(id_t i) { m.x = (bit<8>)i; outer(m.x); }\n"
    members += "table t { key = { h.k.isValid(): exact; h.k.a & 7: ternary; m.act: exact; } actions = { in_control; } }"
    text = program(
        top="struct Inner<T> { T y; }\n" + top,
        members=members,
        values="value_set<pair_t>(4) pairs;\nSub() sub;",
        states="""state start { pk.extract(h.v, 8); sub.apply(pk, h.st.next); transition select(m.x, m.p.y) {
            pairs: accept;
            default: last;
        } }
        state last { if (m.f) { m.x = h.st.last.v; } transition accept; }""",
        apply="Box<bit<16>> b;\nb.p.y = 1;\nh.k.a = opt(1) + opt(y = 2, x = h.k.a);\nt.apply();",
    )
    assert errors_of(tmp_path, text) == ()


def test_warnings(tmp_path: Path) -> None:
    text = program(
        states="state start { pk.extract(h.k); transition accept; }\nstate lonely { transition accept; }",
        members="table t { actions = { NoAction; } siize = 4; }",
        apply="mark_to_drop();\nh.k.a = h.k.a << 9;",
    )
    said = " ".join(str(warning) for warning in warnings_of(tmp_path, text))
    for part in ("lonely", "did you mean 'size'?", "deprecated", "loses them all"):
        assert part in said


def test_newer_v1model_has_types_for_indices(tmp_path: Path) -> None:
    text = "#define V1MODEL_VERSION 20200408\n" + program(
        members="register<bit<8>, bit<4>>(16) r;", apply="r.write(4w3, h.k.a);\nsm.egress_spec = (PortId_t)3;"
    )
    assert errors_of(tmp_path, text) == ()


MUTATIONS = 40  # 10 000 and more are run by hand


def test_mutated_programs_never_raise() -> None:
    """Tokens left out, doubled, swapped, replaced: errors or none, but no other exception, and no endless run."""
    draw = random.Random(1)
    for round_ in range(MUTATIONS):
        path = POSITIVE[round_ % len(POSITIVE)]
        tokens = preprocess(path, Diagnostics())
        own = [at for at, token in enumerate(tokens[:-1]) if token.span.source.path == str(path)]
        for _ in range(draw.choice((1, 1, 2))):
            at, other = draw.choice(own[:-3]), draw.choice(own[:-3])
            kind = draw.randrange(5)
            if kind == 0:
                del tokens[at]
            elif kind == 1:
                tokens.insert(at, tokens[other])
            elif kind == 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            elif kind == 3:
                tokens[at] = tokens[other]
            else:  # one of its kind: many such programs are right
                tokens[at] = draw.choice([tokens[one] for one in own if tokens[one].kind is tokens[at].kind])
        diagnostics = Diagnostics()
        tree = check(parse(tokens, diagnostics), diagnostics)
        assert all(str(error) for error in diagnostics.errors)
        if not diagnostics.errors:
            with deep_trees(), suppress(P4Errors):
                p4info(tree, lower(tree))
