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
from tests.p4runtime.rig import DEVICE, Rig, compiled

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


def test_a_type_that_contains_itself_is_refused() -> None:
    path = next(path for path in OF_P4C if info_of(path).registers)
    info = info_of(path)
    info.registers[0].type_spec.Clear()
    info.registers[0].type_spec.struct.name = "s"
    info.type_info.structs["s"].members.add(name="again").type_spec.struct.name = "s"
    with pytest.raises(Refusal, match="goes in circles"):
        Schema(info, read_json(path))
