"""Legal programs that this target cannot run are refused at their place, and in words that say why."""

from pathlib import Path

import pytest

from testbed.dataplane.compile import compile_p4
from testbed.dataplane.diagnostics import P4Errors
from tests.dataplane.programs import program

REFUSED = {
    "calls that double": (
        {
            "top": "void f0(inout bit<8> x) { x = x + 1; }"
            + "".join(f"void f{n + 1}(inout bit<8> x) {{ f{n}(x); f{n}(x); }}" for n in range(30)),
            "apply": "f30(h.k.a);",
        },
        "more than 50000 statements",
    ),
    "table applied twice": (
        {"members": "table t { key = { h.k.a: exact; } actions = { NoAction; } }", "apply": "t.apply(); t.apply();"},
        "applied in more than one place",
    ),
    "register of structs": (
        {"members": "register<pair_t>(4) r;", "apply": "pair_t p; r.read(p, 1);"},
        "cannot be held",
    ),
    "odd header": (
        {"top": "header odd_t { bit<3> x; } struct odd_s { odd_t o; }", "members": "odd_s s;"},
        "whole bytes",
    ),
    "number without width": ({"apply": "h.k.a = (bit<8>)((int)h.k.a + 1);"}, "a value of type int must be known"),
    "odd varbit": ({"members": "varbit<9> v;"}, "whole bytes"),
    "two lpm keys": (
        {
            "members": "table t { key = { h.k.a: lpm; h.k.b: lpm; } actions = { NoAction; } }",
            "apply": "t.apply();",
        },
        "lpm",
    ),
    "own extern": ({"top": "extern void own(in bit<8> x);", "apply": "own(h.k.a);"}, "not one of this target's"),
    "value set beside a key": (
        {
            "values": "value_set<bit<8>>(4) vs;",
            "states": "state start { pk.extract(h.k); transition select(h.k.a, h.k.b) "
            "{ (vs, 1): accept; default: accept; } }",
        },
        "value set",
    ),
}


@pytest.mark.parametrize(("parts", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(parts: dict[str, str], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "program.p4"
    path.write_text(program(**parts))
    with pytest.raises(P4Errors, match=reason) as found:
        compile_p4(path)
    assert found.value.exit_status == 2
    assert found.value.errors[0].span.source.path == str(path)


CONFLICTS = {  # as p4c has them: "conflicting control plane name", at the second of the two
    "tables": (
        '@name("same") table t { actions = { NoAction; } }',
        '@name("same") table u { actions = { NoAction; } }',
    ),
    "a table as another": ("table t { actions = { NoAction; } }", '@name("t") table u { actions = { NoAction; } }'),
    "from outside": ('@name(".same") action a() { }', '@name(".same") action b() { }'),
    "actions": ('@name("same") action a() { }', '@name("same") action b() { }'),
    "instances": ('@name("same") register<bit<8>>(4) r;', '@name("same") counter(4, CounterType.packets) c;'),
}


@pytest.mark.parametrize(("first", "second"), CONFLICTS.values(), ids=CONFLICTS)
def test_names_of_the_control_plane_are_given_once(first: str, second: str, tmp_path: Path) -> None:
    path = tmp_path / "program.p4"
    path.write_text(program(members=f"{first}\n{second}"))
    with pytest.raises(P4Errors, match=r"the control plane knows another (table|action|instance) as ") as found:
        compile_p4(path)
    (error,) = found.value.errors
    assert path.read_text().splitlines()[error.span.line - 1] == second


def test_a_table_and_an_action_may_have_the_same_name(tmp_path: Path) -> None:
    path = tmp_path / "program.p4"
    path.write_text(program(members='@name("same") action a() { }\n@name("same") table t { actions = { a; } }'))
    compile_p4(path)
