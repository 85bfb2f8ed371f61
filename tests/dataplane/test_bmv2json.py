"""The view of BMv2 JSON: what it holds, and what is said of a file that is none."""

from pathlib import Path

import pytest

from testbed.dataplane.bmv2json import JsonError, Term, program_of, read_json, term
from tests.dataplane.small_programs import document

ORACLE = Path(__file__).parent / "oracle"


def test_the_parts_of_a_program_that_p4c_made() -> None:
    program = read_json(ORACLE / "62_direct_counter.json")
    assert program.name == "62_direct_counter"
    table = next(t for t in program.tables if t.name == "Ig.u")
    assert (table.match, table.counted, [k.name for k in table.keys]) == ("ternary", True, ["h.k.a"])
    assert [program.actions[a].name for a in table.actions] == ["Ig.tset", "NoAction"]
    assert program.standard("mcast_grp") == ("standard_metadata", "mcast_grp")
    assert [c.binding for c in program.counters] == ["Ig.t", "Ig.u"]


def test_expressions_wrapped_twice_are_one_expression() -> None:
    inner = {"type": "expression", "value": {"op": "~", "left": None, "right": {"type": "hexstr", "value": "-0x2"}}}
    assert term({"type": "expression", "value": inner}) == Term(
        "expression", None, "~", None, Term("hexstr", -2, bits=4)
    )


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    with pytest.raises(JsonError, match="No such file"):
        read_json(tmp_path / "none.json")
    for text, message in (("{", "not JSON"), ("[]", "no pipelines"), ('{"pipelines": []}', "not BMv2 JSON")):
        path = tmp_path / "p.json"
        path.write_text(text)
        with pytest.raises(JsonError, match=message):
            read_json(path)


def test_another_architecture_is_refused() -> None:
    content = document([("a", 8)], [], [])
    content["pipelines"][0]["name"] = "main"
    with pytest.raises(JsonError, match="ingress and egress"):
        program_of(content, "x")
