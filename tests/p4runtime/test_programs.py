"""Programs as p4c compiles them, and those that are shipped: their P4Info fits, so that clients may drive them."""

from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4i, p4r
from google.protobuf import text_format

from testbed.dataplane.bmv2json import read_json
from testbed.dataplane.p4runtime.refusal import Refusal
from testbed.dataplane.p4runtime.schema import Schema
from testbed.dataplane.programs import program_in, shipped
from tests.p4runtime.client import Client
from tests.p4runtime.rig import DEVICE, Rig, compiled, config_of

ORACLE = Path(__file__).parents[1] / "dataplane" / "oracle"
OF_P4C = sorted(path for path in ORACLE.glob("*.json") if path.with_suffix(".p4info.txt").exists())


def info_of(path: Path) -> p4i.P4Info:
    return text_format.Parse(path.with_suffix(".p4info.txt").read_text(), p4i.P4Info())


@pytest.mark.parametrize("path", OF_P4C, ids=lambda path: path.stem)
def test_what_p4c_compiles_fits(path: Path) -> None:
    schema = Schema(info_of(path), read_json(path))
    assert len(schema.tables) == len(schema.p4info.tables)
    assert schema.registers.keys() == {each.preamble.id for each in schema.p4info.registers}


@pytest.mark.parametrize("name", sorted(shipped()))
def test_what_is_shipped_fits(name: str) -> None:
    path = shipped()[name]
    schema = Schema(p4i.P4Info.FromString(compiled(path).p4info.binary), program_in(path))
    assert "routes" in {table.name.rpartition(".")[2] for table in schema.tables.values()}


def test_a_client_sets_what_p4c_compiled() -> None:
    """A table that matches exactly, by a prefix and by a mask at once, which is a mask's to the program."""
    path = ORACLE / "42_ternary.json"
    config = p4r.ForwardingPipelineConfig(p4info=info_of(path), p4_device_config=path.read_bytes())
    tables = {table.preamble.alias: table.preamble.id for table in config.p4info.tables}
    [action] = [action.preamble.id for action in config.p4info.actions if action.preamble.alias == "set"]

    def entry(table: str, priority: int, value: int, *match: dict[str, Any]) -> p4r.Entity:
        call = {"action": {"action_id": action, "params": [{"param_id": 1, "value": bytes([value])}]}}
        own = p4r.TableEntry(table_id=tables[table], match=match, action=call, priority=priority)
        return p4r.Entity(table_entry=own)

    high = {"field_id": 1, "ternary": {"value": b"\x12\x00", "mask": b"\xff\x00"}}
    mixed = [
        {"field_id": 1, "exact": {"value": b"\x10"}},
        {"field_id": 2, "lpm": {"value": b"\x12\x30", "prefix_len": 12}},
        {"field_id": 3, "ternary": {"value": b"\x10", "mask": b"\xf0"}},
    ]
    entries = [entry("acl", 10, 0x10, high), entry("mix", 50, 0xA1, *mixed)]
    with Rig() as rig, Client(rig.address, 5) as client:
        client.becomes_primary()
        client.configure(p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT, config)
        client.insert(*entries)
        assert client.read(p4r.Entity(table_entry={})) == entries
        came = ["12361f00", "12461f00", "12362f00", "22361f00"]
        went = ["12361fa1", "12461f10", "12362f10", "22361fdf"]
        assert [rig.send(bytes.fromhex(frame)) for frame in came] == [[(1, bytes.fromhex(frame))] for frame in went]
        got = client.stub.GetForwardingPipelineConfig(p4r.GetForwardingPipelineConfigRequest(device_id=DEVICE))
        assert got.config == config


PARTS = """\
#include <core.p4>
#include <v1model.p4>
header h_t { bit<4> a; bit<12> b; bit<9> c; bit<7> d; bit<8> note; }
struct pair_t { @match(ternary) bit<4> a; @match(exact) bit<12> b; @match(lpm) bit<9> c; }
struct H { h_t h; }
struct M { }
parser Prs(packet_in pk, out H h, inout M m, inout standard_metadata_t sm) {
    value_set<pair_t>(4) parts;
    state start {
        pk.extract(h.h);
        transition select(h.h.a, h.h.b, h.h.c) { parts: found; default: accept; }
    }
    state found { h.h.note = 1; transition accept; }
}
control Vfy(inout H h, inout M m) { apply { } }
control Ig(inout H h, inout M m, inout standard_metadata_t sm) { apply { sm.egress_spec = 2; } }
control Eg(inout H h, inout M m, inout standard_metadata_t sm) { apply { } }
control Cmp(inout H h, inout M m) { apply { } }
control Dep(packet_out pk, in H h) { apply { pk.emit(h.h); } }
V1Switch(Prs(), Vfy(), Ig(), Eg(), Cmp(), Dep()) main;
"""


def test_value_sets_of_several_fields_that_are_no_bytes(tmp_path: Path) -> None:
    path = tmp_path / "parts.p4"
    path.write_text(PARTS)
    with Rig(path) as rig, Client(rig.address, 5) as client:
        client.becomes_primary()
        [own] = config_of(path).p4info.value_sets
        assert [match.bitwidth for match in own.match] == [4, 12, 9]
        found = [
            {"field_id": at, "exact": {"value": value}} for at, value in ((1, b"\5"), (2, b"\x0a\xbc"), (3, b"\1\2"))
        ]
        entry = p4r.ValueSetEntry(value_set_id=own.preamble.id, members=[{"match": found}])
        client.modify(p4r.Entity(value_set_entry=entry))

        def note(a: int, b: int, c: int) -> int:
            [(_, sent)] = rig.send((a << 36 | b << 24 | c << 15 | 0x7F << 8).to_bytes(5, "big"))
            return sent[4]

        assert note(5, 0xABC, 0x102) == 1
        assert [note(4, 0xABC, 0x102), note(5, 0xABD, 0x102), note(5, 0xABC, 0x103)] == [0, 0, 0]
        [read] = client.read(p4r.Entity(value_set_entry={}))
        assert read.value_set_entry == entry


def test_a_type_that_contains_itself_is_refused() -> None:
    path = next(path for path in OF_P4C if info_of(path).registers)
    info = info_of(path)
    info.registers[0].type_spec.Clear()
    info.registers[0].type_spec.struct.name = "s"
    info.type_info.structs["s"].members.add(name="again").type_spec.struct.name = "s"
    with pytest.raises(Refusal, match="goes in circles"):
        Schema(info, read_json(path))
