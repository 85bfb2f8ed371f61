"""The numbers of the protocol: os-ken and the specification call them alike."""

from enum import IntEnum

import pytest
from os_ken.ofproto import ofproto_v1_3

from testbed.openflow import numbers

PREFIXES: dict[type[IntEnum], str] = {
    numbers.Kind: "OFPT",
    numbers.Multipart: "OFPMP",
    numbers.ReservedPort: "OFPP",
    numbers.Capability: "OFPC",
    numbers.FlowCommand: "OFPFC",
    numbers.FlowFlag: "OFPFF",
    numbers.GroupCommand: "OFPGC",
    numbers.GroupType: "OFPGT",
    numbers.Instruction: "OFPIT",
    numbers.Action: "OFPAT",
    numbers.Oxm: "OFPXMT_OFB",
    numbers.Role: "OFPCR_ROLE",
    numbers.PacketInReason: "OFPR",
    numbers.RemovedReason: "OFPRR",
    numbers.PortReason: "OFPPR",
    numbers.PortState: "OFPPS",
    numbers.TableProperty: "OFPTFPT",
    numbers.HelloFailed: "OFPHFC",
    numbers.BadRequest: "OFPBRC",
    numbers.BadAction: "OFPBAC",
    numbers.BadInstruction: "OFPBIC",
    numbers.BadMatch: "OFPBMC",
    numbers.FlowModFailed: "OFPFMFC",
    numbers.GroupModFailed: "OFPGMFC",
    numbers.PortModFailed: "OFPPMFC",
    numbers.TableModFailed: "OFPTMFC",
    numbers.SwitchConfigFailed: "OFPSCFC",
    numbers.RoleRequestFailed: "OFPRRFC",
    numbers.TableFeaturesFailed: "OFPTFFC",
}


@pytest.mark.parametrize("of", PREFIXES, ids=lambda of: of.__name__)
def test_numbers(of: type[IntEnum]) -> None:
    theirs = {member.name: getattr(ofproto_v1_3, f"{PREFIXES[of]}_{member.name}") for member in of}
    assert theirs == {member.name: member.value for member in of}


def test_types_of_errors() -> None:
    names = {
        numbers.HelloFailed: "HELLO_FAILED",
        numbers.BadRequest: "BAD_REQUEST",
        numbers.BadAction: "BAD_ACTION",
        numbers.BadInstruction: "BAD_INSTRUCTION",
        numbers.BadMatch: "BAD_MATCH",
        numbers.FlowModFailed: "FLOW_MOD_FAILED",
        numbers.GroupModFailed: "GROUP_MOD_FAILED",
        numbers.PortModFailed: "PORT_MOD_FAILED",
        numbers.TableModFailed: "TABLE_MOD_FAILED",
        numbers.SwitchConfigFailed: "SWITCH_CONFIG_FAILED",
        numbers.RoleRequestFailed: "ROLE_REQUEST_FAILED",
        numbers.TableFeaturesFailed: "TABLE_FEATURES_FAILED",
    }
    assert {of: getattr(ofproto_v1_3, f"OFPET_{name}") for of, name in names.items()} == numbers.ERROR_TYPES


def test_single_numbers() -> None:
    ours = numbers.GROUP_MAX, numbers.GROUP_ALL, numbers.GROUP_ANY, numbers.TABLE_ALL, numbers.NO_BUFFER, numbers.MORE
    names = "OFPG_MAX", "OFPG_ALL", "OFPG_ANY", "OFPTT_ALL", "OFP_NO_BUFFER", "OFPMPF_REPLY_MORE"
    assert ours == tuple(getattr(ofproto_v1_3, name) for name in names)
