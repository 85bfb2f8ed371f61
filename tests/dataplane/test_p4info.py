"""P4Info: the same text as p4c's for every program of the oracle, and the wire format of protobuf."""

from pathlib import Path

import pytest

from testbed.dataplane.compile import compile_p4
from testbed.dataplane.diagnostics import P4Errors
from testbed.dataplane.p4info_format import to_binary, to_text
from tests.dataplane.programs import program

ORACLE = sorted(Path(__file__).with_name("oracle").glob("[0-9]*.p4"))


@pytest.mark.parametrize("path", ORACLE, ids=lambda path: path.stem)
def test_text_is_that_of_p4c(path: Path) -> None:
    assert compile_p4(path).p4info.text == path.with_suffix(".p4info.txt").read_text()


def test_binary() -> None:
    """The bytes are those that Google's protobuf library gives."""
    message = {
        "pkg_info": {"arch": "v1model"},
        "tables": [
            {
                "preamble": {"id": 49586734, "name": "Ig.t", "alias": "t"},
                "match_fields": [{"id": 1, "name": "h.k.a", "bitwidth": 8, "match_type": "LPM"}],
                "direct_resource_ids": [327407967, 1],
                "is_const_table": True,
            }
        ],
        "type_info": {},
    }
    expected = (
        "0a092a0776316d6f64656c12290a0e08aec4d217120449672e741a0174120d08011205682e6b2e6120082803"
        "3a06dfb28f9c01015001c20c00"
    )
    assert to_binary(message).hex() == expected
    assert "  is_const_table: true\n" in to_text(message)


def compiled_text(directory: Path, text: str) -> str:
    path = directory / "program.p4"
    path.write_text(text)
    return compile_p4(path).p4info.text


def test_controller_headers(tmp_path: Path) -> None:
    """The id is the one that ONF's fabric.p4 and SONiC's P4Info have for this type."""
    top = '@controller_header("packet_in") header packet_in_header_t { bit<9> port; bit<7> rest; }'
    text = compiled_text(tmp_path, program(top))
    assert '    id: 81826293\n    name: "packet_in"\n' in text
    assert '    id: 2\n    name: "rest"\n    bitwidth: 7\n' in text


def test_an_alias_is_the_shortest_name_that_is_unique(tmp_path: Path) -> None:
    members = "action go() {} C() c; C() d;"
    table = "table t { key = { k.a: exact; } actions = { go; } default_action = go(); }"
    top = f"control C(inout k_t k) {{ action go() {{}} {table} apply {{ t.apply(); }} }}"
    text = compiled_text(tmp_path, program(top=top, members=members, apply="c.apply(h.k); d.apply(h.k); go();"))
    for name, alias in (("Ig.c.go", "c.go"), ("Ig.d.t", "d.t"), ("Ig.go", "Ig.go")):
        assert f'    name: "{name}"\n    alias: "{alias}"\n' in text


def test_ids_and_types_given_in_the_program(tmp_path: Path) -> None:
    top = '@p4runtime_translation("", string) type bit<9> port_t;'
    members = (
        "action go(@id(7) port_t p) {} "
        '@id(0x02000005) table t { key = { h.k.a: exact @id(3) @name("x"); } actions = { go; } }'
    )
    text = compiled_text(tmp_path, program(top=top, members=members, apply="t.apply();"))
    assert "    id: 33554437\n" in text
    assert '    id: 3\n    name: "x"\n' in text
    assert '    id: 7\n    name: "p"\n' in text
    assert '    type_name {\n      name: "port_t"\n    }\n' in text
    assert "  new_types {\n" in text
    assert '    annotations: "@defaultonly"\n    scope: DEFAULT_ONLY\n' in text


@pytest.mark.parametrize(
    ("to", "written"),
    [
        ("bit<32>", "sdn_bitwidth: 32"),
        ("32", "sdn_bitwidth: 32"),
        ("string", "sdn_string {"),
    ],
)
def test_values_that_are_translated(to: str, written: str, tmp_path: Path) -> None:
    """The forms of P4Runtime 1.4, 8.4.6."""
    top = f'@p4runtime_translation("p4.org/psa/v1/PortId_t", {to}) type bit<9> port_t;'
    members = "action go(port_t p) {} table t { key = { h.k.a: exact; } actions = { go; } }"
    text = compiled_text(tmp_path, program(top=top, members=members, apply="t.apply();"))
    assert f'      translated_type {{\n        uri: "p4.org/psa/v1/PortId_t"\n        {written}' in text


@pytest.mark.parametrize("to", ["bool", "int<32>", "bit<5+3>", "bit<w>"])
def test_a_translation_to_something_else(to: str, tmp_path: Path) -> None:
    top = f'@p4runtime_translation("p4.org/psa/v1/PortId_t", {to}) type bit<9> port_t;'
    members = "action go(port_t p) {} table t { key = { h.k.a: exact; } actions = { go; } }"
    with pytest.raises(P4Errors, match="a translation is to bits or a string"):
        compiled_text(tmp_path, program(top=top, members=members, apply="t.apply();"))
