"""The view of BMv2 JSON: what it holds, and what is said of a file that is none."""

from pathlib import Path
from typing import Any

import pytest

from testbed.dataplane.bmv2json import program_of, read_json, term
from testbed.dataplane.bmv2model import JsonError, Term
from testbed.dataplane.native.generator import generate
from tests.dataplane.mutants import documents, unforeseen
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


@pytest.mark.slow
def test_mutated_documents_become_programs_or_are_refused() -> None:
    """A sample; `python -m tests.dataplane.mutants` makes any number."""
    assert list(unforeseen(documents(), range(300))) == []


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("pipelines", 0, "tables", 0, "action_ids"), [77], r"KeyError: 77"),
        (("parsers", 0, "init_state"), "elsewhere", r"small: parser: not BMv2 JSON .*elsewhere"),
        (("header_types", 1, "fields", 0), ["a", 1 << 40, False], r"a width of 1099511627776 bits"),
        (("header_types", 1, "fields", 0), ["a", -8, False], r"a width of -8 bits: it is from 0"),
        (("actions", 0, "primitives", 0, "parameters"), [], r"small: not BMv2 JSON .*IndexError"),
        (("actions", 0, "name"), None, r"not BMv2 JSON"),
        (("pipelines", 0, "init_table"), "nowhere", r"ingress: there is no node 'nowhere'"),
    ],
)
def test_a_broken_document_is_refused_with_where_it_broke(
    path: tuple[str | int, ...], value: object, told: str
) -> None:
    whole = document([("a", 8)], [], [])
    holder: Any = whole
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    with pytest.raises(JsonError, match=told):
        generate(program_of(whole, "small"))


def test_a_document_that_nests_without_end(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    with pytest.raises(JsonError, match=r"deep\.json: not JSON"):
        read_json(path)
