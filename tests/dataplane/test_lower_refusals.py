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


def test_a_name_of_the_control_plane_that_every_instance_would_have(tmp_path: Path) -> None:
    """p4c: "Name 't' is used for multiple table objects"; an action may be the same one."""
    path = tmp_path / "program.p4"
    sort = '@name(".t") table t { actions = { NoAction; } }'
    text = program(
        top=f"control C() {{ {sort}\napply {{ t.apply(); }} }}",
        members="C() one;\nC() two;",
        apply="one.apply(); two.apply();",
    )
    path.write_text(text)
    with pytest.raises(P4Errors, match="of each instance of its control, the control plane would know this table as t"):
        compile_p4(path)
    path.write_text(text.replace(sort, '@name(".a") action a() { }').replace("t.apply()", "a()"))
    compile_p4(path)


@pytest.mark.parametrize(("first", "count", "comes_to"), [(12, 3, -8), (10, 3, -10), (9, 2, -1), (15, 4, -5)])
def test_priorities_of_entries_do_not_fall_below_0(first: int, count: int, comes_to: int, tmp_path: Path) -> None:
    path = tmp_path / "program.p4"
    entries = "".join(f"\n{i} &&& 0xF : NoAction();" for i in range(1, count))
    path.write_text(
        program(
            members="table t { key = { h.k.a : ternary; } actions = { NoAction; } largest_priority_wins = true;"
            f" priority_delta = 10; entries = {{ priority = {first} : 0 &&& 0xF : NoAction();{entries} }} }}",
            apply="t.apply();",
        )
    )
    with pytest.raises(P4Errors, match=f"the priority of this entry comes to {comes_to}: it is 0 to 2147483647"):
        compile_p4(path)


@pytest.mark.parametrize("blocks", ["Ig i", "Prs p, Vfy v, Ig i, Ig e, Vfy c, Vfy d"])
def test_a_package_that_is_only_called_as_that_of_v1model(blocks: str, tmp_path: Path) -> None:
    path = tmp_path / "program.p4"
    kinds = "control Ig(inout bit<8> a); control Vfy(inout bit<8> a); parser Prs(inout bit<8> a);"
    makes = "control C(inout bit<8> a) { apply { } } parser P(inout bit<8> a) { state start { transition accept; } }"
    made = ", ".join("P()" if one.split()[0] == "Prs" else "C()" for one in blocks.split(", "))
    path.write_text(f"#include <core.p4>\n{kinds}\npackage V1Switch({blocks});\n{makes}\nV1Switch({made}) main;\n")
    with pytest.raises(P4Errors, match=r"this V1Switch is not that of v1model\.p4 \(include <v1model\.p4>\)"):
        compile_p4(path)
