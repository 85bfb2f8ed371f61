"""The parser: precedence, casts, type arguments, and what the tree holds."""

from dataclasses import fields
from pathlib import Path

import pytest

from testbed.dataplane import ast
from testbed.dataplane.diagnostics import Diagnostics
from testbed.dataplane.parser import parse
from testbed.dataplane.preprocess import preprocess


def parsed(directory: Path, text: str) -> ast.Program:
    path = directory / "program.p4"
    path.write_text(text)
    diagnostics = Diagnostics()
    program = parse(preprocess(path, diagnostics), diagnostics)
    assert [str(error) for error in diagnostics.errors] == []
    return program


def expression(directory: Path, text: str) -> str:
    program = parsed(directory, f"typedef bit<8> T;\nconst T x = {text};")
    constant = program.declarations[1]
    assert isinstance(constant, ast.Constant)
    return shown(constant.value)


def shown(node: object) -> str:
    """A tree in one line: the class (short), then its parts."""
    match node:
        case ast.Name(name=name) | ast.NamedType(name=name):
            return name
        case ast.IntLiteral(value=value):
            return str(value)
        case ast.Binary(operator=operator, left=left, right=right):
            return f"({shown(left)} {operator} {shown(right)})"
        case ast.Unary(operator=operator, operand=operand):
            return f"({operator}{shown(operand)})"
        case ast.Member(target=target, name=name):
            return f"{shown(target)}.{name}"
        case ast.Cast(type=type_, operand=operand):
            return f"cast<{shown(type_)}>({shown(operand)})"
        case ast.SizedType(keyword=keyword, width=width):
            return f"{keyword}{shown(width)}"
        case ast.Argument(value=value):
            return "_" if value is None else shown(value)
        case ast.Node():
            parts = [shown(getattr(node, field.name)) for field in fields(node) if not field.name.endswith("span")]
            return f"{type(node).__name__}({', '.join(parts)})"
        case tuple():
            return "[" + " ".join(map(shown, node)) + "]"
    return str(node)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a - b - c", "((a - b) - c)"),
        ("a << 1 + b", "(a << (1 + b))"),
        ("a >> b >> c", "((a >> b) >> c)"),
        ("a ++ b + c", "((a ++ b) + c)"),
        ("a |+| b |-| c", "((a |+| b) |-| c)"),
        ("a & b == c", "((a & b) == c)"),
        ("a | b ^ c & d", "(a | (b ^ (c & d)))"),
        ("a == b < c", "(a == (b < c))"),
        ("a || b && c", "(a || (b && c))"),
        ("!a && -b + ~c > d", "((!a) && (((-b) + (~c)) > d))"),
        ("a ? b : c", "Conditional(a, b, c)"),
        ("a ? b : c ? d : e", "Conditional(Conditional(a, b, c), d, e)"),
        ("a ? b ? c : d : e", "Conditional(a, Conditional(b, c, d), e)"),
        ("a > b ? c : d || e", "Conditional((a > b), c, (d || e))"),
        ("(T)a + b", "(cast<T>(a) + b)"),
        ("(T)(bit<4>)-a", "cast<T>(cast<bit4>((-a)))"),
        ("(T)(a)", "cast<T>(a)"),
        ("(a)(b)", "Call(a, [], [b])"),
        ("(a) - b", "(a - b)"),
        ("(T){ 1, 2 }", "cast<T>(ListExpression([1 2], False))"),
        ("a.b[3:0].c", "Slice(a.b, 3, 0).c"),
        ("a[1][7:4]", "Slice(Index(a, 1), 7, 4)"),
        ("a[b+:8]", "Slice(a, ((b + 8) - 1), b)"),
        ("a < b", "(a < b)"),
        ("a < b > (c)", "Call(a, [b], [c])"),
        ("f<bit<8>>(a)", "Call(f, [bit8], [a])"),
        ("p.lookahead<tuple<bit<8>, bit<(4)>>>()", "Call(p.lookahead, [TupleSyntax([bit8 bit4], False)], [])"),
        ("f(_, x = b)", "Call(f, [], [_ b])"),
        ("{ a = 1, b = 2, ... }", "RecordExpression([[a 1] [b 2]], True)"),
        ("{#}", "InvalidHeader()"),
        ("error.NoError", "error.NoError"),
        (".a.b", "a.b"),
        ("a.apply.type.state", "a.apply.type.state"),
    ],
)
def test_expression(tmp_path: Path, text: str, expected: str) -> None:
    assert expression(tmp_path, text) == expected


def body(directory: Path, text: str) -> tuple[ast.Statement, ...]:
    program = parsed(directory, f"control C(inout bit<8> x) {{ apply {{ {text} }} }}")
    control = program.declarations[0]
    assert isinstance(control, ast.Control)
    return control.body.statements


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("T a; T a = 1; T<bit<8>> a; T[4] a; bit<8> a = 1; error e; tuple<bit<8>> t; list<bit<8>> l;", ast.Variable),
        ("a = 1; a.b = 1; a[1].b = 1; a[3:0] = 1; a += 1; a >>= 1; a |+|= 1; list = 1; type = 2;", ast.Assign),
        ("a(); a.apply(); a<bit<8>>(1); a.b<T>(_); T.apply();", ast.CallStatement),
        ("T() a; T<bit<8>>(16) a;", ast.Instance),
        ("@atomic { } {}", ast.Block),
        ("for (bit<8> i = 0, T j = 1; i < 4; i = i + 1, j += 1) { } for (;true;) { }", ast.For),
        ("for (bit<8> i in 1 .. 4) { }", ast.ForIn),
        ("if (a) b(); else if (c) { } else ;", ast.If),
        ("switch (t.apply().action_run) { a: b: { } default: { } } switch (x) { 1: { } (2): { } }", ast.Switch),
        ("return; return 1;", ast.Return),
    ],
)
def test_statements(tmp_path: Path, text: str, kinds: type) -> None:
    statements = body(tmp_path, text)
    assert statements
    assert {type(statement) for statement in statements} == {kinds}


def test_a_compound_assignment_is_written_out(tmp_path: Path) -> None:
    (first, second) = body(tmp_path, "a.b -= c * d; x >>= 1;")
    assert isinstance(first, ast.Assign)
    assert isinstance(second, ast.Assign)
    assert (shown(first.value), shown(second.value)) == ("(a.b - (c * d))", "(x >> 1)")
    assert isinstance(first.value, ast.Binary)
    assert first.value.left is first.target


def test_table(tmp_path: Path) -> None:
    program = parsed(
        tmp_path,
        """
        control C(inout bit<8> x) {
            table t {
                key = { x: exact @name("k"); x & 3: ternary; }
                actions = { @tableonly a(x); .b; }
                const default_action = b();
                const entries = {
                    (1, 2 &&& 3): a(4);
                    const priority = 5: (_, default): b @extra;
                    { 1, 2 .. 3 }: b;
                }
                size = 4;
            }
            apply { }
        }
        """.replace("{ 1, 2 .. 3 }", "(1, 2 .. 3)"),
    )
    control = program.declarations[0]
    assert isinstance(control, ast.Control)
    table = control.locals[0]
    assert isinstance(table, ast.Table)
    assert [key.match_kind.name for key in table.key] == ["exact", "ternary"]
    name = ast.annotation(table.key[0], "name")
    assert name is not None
    assert shown(name.expressions) == "[StringLiteral(k)]"
    assert [(one.name.name, one.name.is_global, len(one.arguments)) for one in table.actions] == [
        ("a", False, 1),
        ("b", True, 0),
    ]
    assert table.default_action is not None
    assert (table.is_default_const, table.are_entries_const) == (True, True)
    assert table.entries is not None
    assert [shown(entry.keys) for entry in table.entries] == [
        "[1 Mask(2, 3)]",
        "[Anything(False) Anything(True)]",
        "[1 Range(2, 3)]",
    ]
    assert [entry.is_const for entry in table.entries] == [False, True, False]
    assert [shown(one.value) for one in table.properties] == ["4"]


def test_annotations(tmp_path: Path) -> None:
    program = parsed(tmp_path, '@plain @list(1, x) @pairs(a = 1, b = "c") @free[{ any; thing }] const bit<8> x = 1;')
    constant = program.declarations[0]
    assert isinstance(constant, ast.Constant)
    plain, listed, pairs, free = constant.annotations
    assert (plain.name, plain.expressions, plain.text) == ("plain", (), "")
    assert shown(listed.expressions) == "[1 x]"
    assert shown(pairs.pairs) == "[[a 1] [b StringLiteral(c)]]"
    assert free.text == "{ any ; thing }"


def test_declarations(tmp_path: Path) -> None:
    program = parsed(
        tmp_path,
        """
        header h_t { bit<8> a; varbit<(8 * 4)> b; }
        header_union u_t { h_t h; }
        struct s_t<T> { T a; h_t[4] hs; }
        enum e_t { A, B, }
        enum bit<8> f_t { A = 1 }
        error { Mine }
        match_kind { best }
        typedef h_t g_t;
        type bit<9> port_t;
        extern void f<T>(in T x, out bit<8> y = 1);
        extern X<T> { X(bit<8> n); X(); T read(in bit<8> i); abstract void g(); }
        parser P<H>(packet_in p, out H h);
        control C<H>(inout H h);
        package S<H>(P<H> p, @optional C<H> c);
        T g<T>(in T x) { return x; }
        action a(in bit<8> x, bit<8> y) { }
        parser Q(packet_in p)(bit<8> n) {
            value_set<bit<8>>(4) vs;
            state start { transition select(n, n) { (1, _): accept; default: reject; } }
        }
        X<bit<8>>(1) x;
        """,
    )
    kinds = [type(declaration).__name__ for declaration in program.declarations]
    assert kinds == [
        *("Struct", "Struct", "Struct", "Enum", "Enum", "MemberList", "MemberList", "Typedef", "Typedef", "Method"),
        *("Extern", "ParserType", "ControlType", "Package", "Function", "Action", "Parser", "Instance"),
    ]
