"""Flows and groups on a switch's tables: what is accepted, what it comes to, and what is refused and how."""

import contextlib
import ipaddress
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.dataplane.native.control import ControlError
from testbed.openflow import tables
from testbed.openflow.agent import Agent
from tests.openflow.parts import FLOWS, Controller, Memory, frame

EVERYWHERE = "0.0.0.0/0"
PACKET = len(frame("10.0.0.1"))


def ports(memory: Memory, target: str) -> set[int]:
    """Where flows to an address leave."""
    return {port for flow in FLOWS for port, _ in memory.forward("s0", 1, frame(target, flow))}


def routes(memory: Memory) -> dict[str, tuple[int, ...]]:
    return memory.ledgers["s0"].routes


# What is accepted


def test_a_port_a_group_and_nothing(controller: Controller, memory: Memory) -> None:
    assert (
        controller.tell(
            controller.group(5, 2, 3, 4),
            controller.flow("10.0.0.9/32", controller.to(2)),
            controller.flow("10.1.0.0/16", controller.to_group(5)),
            controller.flow("10.1.7.0/24"),
            controller.flow(None, priority=0),
        )
        == []
    )
    assert routes(memory) == {"10.0.0.9/32": (2,), "10.1.0.0/16": (2, 3, 4), "10.1.7.0/24": ()}
    assert ports(memory, "10.0.0.9") == {2}
    assert ports(memory, "10.1.0.1") == {2, 3, 4}
    assert ports(memory, "10.1.7.1") == set()
    assert ports(memory, "10.9.0.1") == set()


def test_actions_may_be_written_or_applied_and_say_that_the_time_to_live_is_decremented(
    controller: Controller, memory: Memory
) -> None:
    parser, ofproto = controller.ofproto_parser, controller.ofproto
    actions = [parser.OFPActionDecNwTtl(), controller.to(3)]
    write = parser.OFPInstructionActions(ofproto.OFPIT_WRITE_ACTIONS, actions)
    clear = parser.OFPInstructionActions(ofproto.OFPIT_CLEAR_ACTIONS, [])
    assert controller.tell(controller.flow("10.0.0.0/8", instructions=[clear, write])) == []
    assert routes(memory) == {"10.0.0.0/8": (3,)}


def test_ipv4_as_a_whole_may_lead_to_a_port(controller: Controller, memory: Memory) -> None:
    all_ipv4 = controller.ofproto_parser.OFPMatch(eth_type=0x0800)
    assert controller.tell(controller.flow("-", controller.to(4), match=all_ipv4)) == []
    assert routes(memory) == {EVERYWHERE: (4,)}
    assert ports(memory, "192.0.2.1") == {4}


@pytest.mark.parametrize("type", ["INDIRECT", "ALL"])
def test_groups_of_one_bucket(type: str, controller: Controller, memory: Memory) -> None:
    parser, ofproto = controller.ofproto_parser, controller.ofproto
    bucket = parser.OFPBucket(actions=[controller.to(2)])  # the weight is 0, as is usual for these
    group = parser.OFPGroupMod(controller, ofproto.OFPGC_ADD, getattr(ofproto, f"OFPGT_{type}"), 1, [bucket])
    assert controller.tell(group, controller.flow("10.0.0.0/8", controller.to_group(1))) == []
    assert routes(memory) == {"10.0.0.0/8": (2,)}


def test_weights_are_shares(controller: Controller, memory: Memory) -> None:
    controller.tell(
        controller.group(1, (2, 30), (3, 10), (4, 0)), controller.flow("10.0.0.0/8", controller.to_group(1))
    )
    assert routes(memory) == {"10.0.0.0/8": (2, 2, 2, 3)}
    rolls = [memory.forward("s0", 1, frame("10.0.0.1", flow))[0][0] for flow in range(20_000, 20_400)]
    assert set(rolls) == {2, 3}
    assert 60 < Counter(rolls)[3] < 140, "a quarter of 400, give or take four deviations of 8.7 and some"


def test_a_group_without_buckets_drops(controller: Controller, memory: Memory) -> None:
    assert controller.tell(controller.group(1), controller.flow("10.0.0.0/8", controller.to_group(1))) == []
    assert routes(memory) == {"10.0.0.0/8": ()}


def test_a_group_that_changes_takes_its_flows_along(controller: Controller, memory: Memory) -> None:
    controller.tell(
        controller.group(1, 2, 3),
        *(controller.flow(prefix, controller.to_group(1)) for prefix in ("10.0.0.0/8", "11.0.0.0/8")),
    )
    controller.tell(controller.group(1, 4, 3, command="MODIFY"))
    assert routes(memory) == {"10.0.0.0/8": (4, 3), "11.0.0.0/8": (4, 3)}


def test_a_group_that_goes_takes_its_flows_away(controller: Controller, memory: Memory) -> None:
    controller.tell(
        controller.group(1, 2, 3),
        controller.group(2, 3, 4),
        controller.flow("10.0.0.0/8", controller.to_group(1), flags=controller.ofproto.OFPFF_SEND_FLOW_REM),
        controller.flow("11.0.0.0/8", controller.to_group(2)),
        controller.flow("12.0.0.0/8", controller.to(2)),
    )
    (removed,) = controller.tell(controller.group(1, command="DELETE"))
    assert removed.reason == controller.ofproto.OFPRR_GROUP_DELETE
    assert removed.match["ipv4_dst"] == ("10.0.0.0", "255.0.0.0")
    assert set(routes(memory)) == {"11.0.0.0/8", "12.0.0.0/8"}
    assert controller.tell(controller.group(controller.ofproto.OFPG_ALL, command="DELETE")) == []
    assert routes(memory) == {"12.0.0.0/8": (2,)}
    assert controller.tell(controller.group(17, command="DELETE")) == [], "there is none: that is no error"


def test_an_add_of_the_same_match_and_priority_replaces(controller: Controller, memory: Memory) -> None:
    controller.tell(controller.flow("10.0.0.0/8", controller.to(2)))
    controller.tell(controller.flow("10.0.0.0/8", controller.to(3)))
    assert routes(memory) == {"10.0.0.0/8": (3,)}


def test_changes_that_come_together_are_one_change(controller: Controller, memory: Memory) -> None:
    before = memory.holds
    controller.tell(*(controller.flow(f"10.{i}.0.0/16", controller.to(2)) for i in range(50)))
    assert memory.holds == before + 1


# Modify and delete


def four(controller: Controller) -> None:
    controller.tell(
        controller.flow("10.0.0.0/8", controller.to(1), cookie=0xA1),
        controller.flow("10.1.0.0/16", controller.to(1), cookie=0xA2),
        controller.flow("10.1.0.0/16", controller.to(2), cookie=0xB1, priority=7),
        controller.flow("11.0.0.0/8", controller.to(3), cookie=0xB2),
    )


def left(controller: Controller) -> set[tuple[int, int]]:
    """Cookie and port of each flow that is there."""
    parser, ofproto = controller.ofproto_parser, controller.ofproto
    (reply,) = controller.tell(
        parser.OFPFlowStatsRequest(controller, 0, ofproto.OFPTT_ALL, ofproto.OFPP_ANY, ofproto.OFPG_ANY)
    )
    return {(stats.cookie, stats.instructions[0].actions[0].port) for stats in reply.body}


def packets(controller: Controller) -> dict[int, int]:
    """By cookie."""
    parser, o = controller.ofproto_parser, controller.ofproto
    (reply,) = controller.tell(parser.OFPFlowStatsRequest(controller, 0, o.OFPTT_ALL, o.OFPP_ANY, o.OFPG_ANY))
    return {stats.cookie: stats.packet_count for stats in reply.body}


@pytest.mark.parametrize(
    ("command", "prefix", "fields", "gone"),
    [
        ("DELETE", None, {}, {0xA1, 0xA2, 0xB1, 0xB2}),
        ("DELETE", "10.0.0.0/8", {}, {0xA1, 0xA2, 0xB1}),
        ("DELETE", "10.1.0.0/16", {}, {0xA2, 0xB1}),
        ("DELETE", "10.1.2.0/24", {}, set()),
        ("DELETE_STRICT", "10.1.0.0/16", {}, {0xA2}),
        ("DELETE_STRICT", "10.1.0.0/16", {"priority": 7}, {0xB1}),
        ("DELETE_STRICT", "10.1.0.0/16", {"priority": 8}, set()),
        ("DELETE", None, {"cookie": 0xA0, "cookie_mask": 0xF0}, {0xA1, 0xA2}),
        ("DELETE", None, {"cookie": 0xA1}, {0xA1, 0xA2, 0xB1, 0xB2}),
        ("DELETE", None, {"out_port": 1}, {0xA1, 0xA2}),
        ("DELETE", None, {"out_group": 1}, set()),
        ("DELETE", None, {"table_id": 0xFF, "out_port": 3}, {0xB2}),
        ("DELETE_STRICT", "10.1.0.0/16", {"out_port": 2}, set()),
    ],
)
def test_deletion(
    command: str, prefix: str | None, fields: dict[str, int], gone: set[int], controller: Controller
) -> None:
    four(controller)
    mod = controller.flow(prefix, command=getattr(controller.ofproto, f"OFPFC_{command}"), **fields)
    assert controller.tell(mod) == []
    assert {cookie for cookie, _ in left(controller)} == {0xA1, 0xA2, 0xB1, 0xB2} - gone


@pytest.mark.parametrize(
    ("command", "prefix", "fields", "changed"),
    [
        ("MODIFY", "10.0.0.0/8", {}, {0xA1, 0xA2, 0xB1}),
        ("MODIFY", "10.0.0.0/8", {"cookie": 0xB0, "cookie_mask": 0xF0}, {0xB1}),
        ("MODIFY", "12.0.0.0/8", {}, set()),
        ("MODIFY_STRICT", "10.1.0.0/16", {}, {0xA2}),
        ("MODIFY_STRICT", "10.1.0.0/16", {"priority": 1}, set()),
    ],
)
def test_modification(
    command: str, prefix: str, fields: dict[str, int], changed: set[int], controller: Controller, memory: Memory
) -> None:
    four(controller)
    before = left(controller)
    mod = controller.flow(prefix, controller.to(4), command=getattr(controller.ofproto, f"OFPFC_{command}"), **fields)
    assert controller.tell(mod) == []
    assert left(controller) == {(cookie, 4 if cookie in changed else port) for cookie, port in before}
    wanted = dict.fromkeys(changed, 4)
    assert routes(memory) == {
        "10.0.0.0/8": (wanted.get(0xA1, 1),),
        "10.1.0.0/16": (wanted.get(0xA2, 1),),  # not 0xB1's, whose priority is lower
        "11.0.0.0/8": (wanted.get(0xB2, 3),),
    }


def test_who_asked_for_it_hears_of_removed_flows(controller: Controller, memory: Memory) -> None:
    controller.tell(
        controller.flow("10.0.0.0/8", controller.to(2), flags=controller.ofproto.OFPFF_SEND_FLOW_REM, cookie=77),
        controller.flow("11.0.0.0/8", controller.to(2)),
    )
    for _ in range(3):
        memory.forward("s0", 1, frame("10.0.0.1"))
    controller.now_ns = 5_000_000_007
    removed, barrier = controller.tell(
        controller.flow(None, command=controller.ofproto.OFPFC_DELETE), controller.barrier()
    )
    assert (removed.cookie, removed.priority, removed.reason) == (77, 100, controller.ofproto.OFPRR_DELETE)
    assert (removed.packet_count, removed.byte_count) == (3, 3 * PACKET)
    assert (removed.duration_sec, removed.duration_nsec) == (5, 7)
    assert barrier.msg_type == controller.ofproto.OFPT_BARRIER_REPLY
    assert routes(memory) == {}


# Priorities


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 15), st.integers(28, 32), st.integers(0, 3), st.integers(1, 4)),
        min_size=1,
        max_size=12,
    )
)
def test_the_highest_priority_wins_whatever_the_lengths(
    lasting: Memory, given_flows: list[tuple[int, int, int, int]]
) -> None:
    """Against the specification's rule, for all addresses of a /28; equal priorities: the longer prefix."""
    controller = Controller(Agent(lasting.switches["s0"], lasting, 0))
    base, flows = int(ipaddress.IPv4Address("10.0.0.0")), {}
    for low, length, priority, port in given_flows:
        network = ipaddress.IPv4Network((base + low, length), strict=False)
        assert controller.tell(controller.flow(str(network), controller.to(port), priority=priority)) == []
        flows[network, priority] = port
    for low in range(16):
        address = ipaddress.IPv4Address(base + low)
        matching = [(priority, net.prefixlen, port) for (net, priority), port in flows.items() if address in net]
        wanted = [port for *_, port in sorted(matching)[-1:]]
        assert [port for port, _ in lasting.forward("s0", 9, frame(str(address)))] == wanted


# What is refused


def refusals(c: Controller) -> dict[str, tuple[Any, str, str]]:
    """Name -> a flow or group mod, and the type and the code of the error."""
    p, o = c.ofproto_parser, c.ofproto

    def instruction(made: Any) -> Any:
        return c.flow("10.0.0.0/8", instructions=[made])

    def matching(**fields: Any) -> Any:
        return c.flow("-", c.to(1), match=p.OFPMatch(**fields))

    def bucket(**fields: Any) -> Any:
        made = p.OFPBucket(**{"weight": 1, "actions": [c.to(1)], **fields})
        return p.OFPGroupMod(c, o.OFPGC_ADD, o.OFPGT_SELECT, 1, [made])

    return {
        "no such port": (c.flow("10.0.0.0/8", c.to(5)), "BAD_ACTION", "BAD_OUT_PORT"),
        "flood": (c.flow("10.0.0.0/8", c.to(o.OFPP_FLOOD)), "BAD_ACTION", "BAD_OUT_PORT"),
        "normal": (c.flow("10.0.0.0/8", c.to(o.OFPP_NORMAL)), "BAD_ACTION", "BAD_OUT_PORT"),
        "back": (c.flow("10.0.0.0/8", c.to(o.OFPP_IN_PORT)), "BAD_ACTION", "BAD_OUT_PORT"),
        "no such group": (c.flow("10.0.0.0/8", c.to_group(9)), "BAD_ACTION", "BAD_OUT_GROUP"),
        "two ports": (c.flow("10.0.0.0/8", c.to(1), c.to(2)), "BAD_ACTION", "TOO_MANY"),
        "set a field": (c.flow("10.0.0.0/8", p.OFPActionSetField(eth_src="02:00:00:00:00:01"), c.to(1)),
                        "BAD_ACTION", "BAD_SET_TYPE"),
        "push a tag": (c.flow("10.0.0.0/8", p.OFPActionPushVlan()), "BAD_ACTION", "BAD_TYPE"),
        "nicira": (c.flow("10.0.0.0/8", p.NXActionRegLoad(ofs_nbits=31, dst="reg1", value=1)),
                   "BAD_ACTION", "BAD_EXPERIMENTER"),
        "next table": (instruction(p.OFPInstructionGotoTable(1)), "BAD_INSTRUCTION", "BAD_TABLE_ID"),
        "meter": (instruction(p.OFPInstructionMeter(1)), "BAD_INSTRUCTION", "UNSUP_INST"),
        "metadata": (instruction(p.OFPInstructionWriteMetadata(1, 1)), "BAD_INSTRUCTION", "UNSUP_INST"),
        "all packets to a port": (c.flow(None, c.to(1)), "BAD_MATCH", "BAD_WILDCARDS"),
        "by port": (matching(in_port=1), "BAD_MATCH", "BAD_FIELD"),
        "by source": (matching(eth_type=0x800, ipv4_src="10.0.0.1"), "BAD_MATCH", "BAD_FIELD"),
        "by register": (matching(reg1=1), "BAD_MATCH", "BAD_FIELD"),
        "arp": (matching(eth_type=0x806), "BAD_MATCH", "BAD_VALUE"),
        "no ethertype": (matching(ipv4_dst="10.0.0.1"), "BAD_MATCH", "BAD_PREREQ"),
        "holes in the mask": (matching(eth_type=0x800, ipv4_dst=("10.0.0.1", "255.0.0.255")),
                              "BAD_MATCH", "BAD_NW_ADDR_MASK"),
        "table 1": (c.flow("10.0.0.0/8", c.to(1), table_id=1), "FLOW_MOD_FAILED", "BAD_TABLE_ID"),
        "idle timeout": (c.flow("10.0.0.0/8", c.to(1), idle_timeout=1), "FLOW_MOD_FAILED", "BAD_TIMEOUT"),
        "hard timeout": (c.flow("10.0.0.0/8", c.to(1), hard_timeout=1), "FLOW_MOD_FAILED", "BAD_TIMEOUT"),
        "flags": (c.flow("10.0.0.0/8", c.to(1), flags=0x8000), "FLOW_MOD_FAILED", "BAD_FLAGS"),
        "command": (c.flow("10.0.0.0/8", c.to(1), command=5), "FLOW_MOD_FAILED", "BAD_COMMAND"),
        "buffer": (c.flow("10.0.0.0/8", c.to(1), buffer_id=1), "BAD_REQUEST", "BUFFER_UNKNOWN"),
        "fast failover": (c.group(1, 1, type="FF"), "GROUP_MOD_FAILED", "BAD_TYPE"),
        "copies": (c.group(1, 1, 2, type="ALL"), "GROUP_MOD_FAILED", "BAD_TYPE"),
        "indirect to two": (c.group(1, 1, 2, type="INDIRECT"), "GROUP_MOD_FAILED", "BAD_BUCKET"),
        "unknown group": (c.group(1, 1, command="MODIFY"), "GROUP_MOD_FAILED", "UNKNOWN_GROUP"),
        "reserved group": (c.group(o.OFPG_ALL, 1), "GROUP_MOD_FAILED", "INVALID_GROUP"),
        "bucket to no port": (c.group(1, 7), "BAD_ACTION", "BAD_OUT_PORT"),
        "bucket to a group": (bucket(actions=[c.to_group(1)]), "GROUP_MOD_FAILED", "CHAINING_UNSUPPORTED"),
        "bucket to two": (bucket(actions=[c.to(1), c.to(2)]), "BAD_ACTION", "TOO_MANY"),
        "watched port": (bucket(watch_port=1), "GROUP_MOD_FAILED", "WATCH_UNSUPPORTED"),
        "weights too fine": (c.group(1, (1, 65535), (2, 1)), "GROUP_MOD_FAILED", "OUT_OF_BUCKETS"),
    }  # fmt: skip


def test_refused(controller: Controller, memory: Memory) -> None:
    short = {
        "BAD_REQUEST": "BRC", "BAD_ACTION": "BAC", "BAD_INSTRUCTION": "BIC", "BAD_MATCH": "BMC",
        "FLOW_MOD_FAILED": "FMFC", "GROUP_MOD_FAILED": "GMFC",
    }  # fmt: skip
    for what, (message, kind, code) in refusals(controller).items():
        wanted = getattr(controller.ofproto, f"OFPET_{kind}"), getattr(controller.ofproto, f"OFP{short[kind]}_{code}")
        assert controller.refused(message) == wanted, what
        assert left(controller) == set(), what
        assert controller.tell(controller.flow("10.0.0.0/8", controller.to(1))) == [], "all else works as before"
        assert routes(memory) == {"10.0.0.0/8": (1,)}
        controller.tell(controller.flow(None, command=controller.ofproto.OFPFC_DELETE))


def test_a_group_there_is_already(controller: Controller) -> None:
    assert controller.refused(controller.group(1, 1), controller.group(1, 2)) == (
        controller.ofproto.OFPET_GROUP_MOD_FAILED,
        controller.ofproto.OFPGMFC_GROUP_EXISTS,
    )


def test_overlaps_are_refused_to_who_asks(controller: Controller) -> None:
    controller.tell(controller.flow("10.0.0.0/8", controller.to(1), priority=5))
    check = {"flags": controller.ofproto.OFPFF_CHECK_OVERLAP, "priority": 5}
    assert controller.refused(controller.flow("10.1.0.0/16", controller.to(2), **check)) == (
        controller.ofproto.OFPET_FLOW_MOD_FAILED,
        controller.ofproto.OFPFMFC_OVERLAP,
    )
    assert controller.tell(controller.flow("10.1.0.0/16", controller.to(2), **{**check, "priority": 6})) == []
    assert controller.tell(controller.flow("11.0.0.0/8", controller.to(2), **check)) == []
    assert controller.tell(controller.flow("10.0.0.0/8", controller.to(2), **check)) == [], "it replaces"


def test_a_full_table_says_so(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_FLOWS", 2)
    monkeypatch.setattr(tables, "MOST_GROUPS", 2)
    monkeypatch.setattr(tables, "MOST_MEMBERS", 3)
    controller.tell(*(controller.flow(f"10.{i}.0.0/16", controller.to(1)) for i in range(2)))
    failed = controller.ofproto.OFPET_FLOW_MOD_FAILED, controller.ofproto.OFPFMFC_TABLE_FULL
    assert controller.refused(controller.flow("10.9.0.0/16", controller.to(1))) == failed
    failed = controller.ofproto.OFPET_GROUP_MOD_FAILED, controller.ofproto.OFPGMFC_OUT_OF_BUCKETS
    assert controller.refused(controller.group(1, 1, 2), controller.group(2, 1, 2)) == failed
    failed = controller.ofproto.OFPET_GROUP_MOD_FAILED, controller.ofproto.OFPGMFC_OUT_OF_GROUPS
    assert controller.refused(controller.group(2, 1), controller.group(3, 1)) == failed


def six_changes(controller: Controller) -> list[Any]:
    o = controller.ofproto
    return [
        controller.group(2, 1, 2),
        controller.group(1, 1, 4, command="MODIFY"),
        controller.flow("10.0.0.0/8", command=o.OFPFC_DELETE),
        controller.flow("11.0.0.0/8", controller.to(1), command=o.OFPFC_MODIFY),
        controller.flow("20.0.0.0/8", controller.to_group(2)),
        controller.flow("21.0.0.0/8", controller.to_group(2)),
    ]


def test_what_the_switch_cannot_hold_is_refused_as_a_whole(
    controller: Controller, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits of `tables` keep it from happening, so that here the program's own table is full."""
    o = controller.ofproto
    controller.tell(
        controller.group(1, 2, 3),
        controller.flow("10.0.0.0/8", controller.to_group(1), flags=o.OFPFF_SEND_FLOW_REM, cookie=1),
        controller.flow("11.0.0.0/8", controller.to(4), cookie=2),
        controller.flow("12.0.0.0/8", controller.to(4), cookie=3),
    )
    before = routes(memory)
    memory.forward("s0", 1, frame("10.0.0.1"))
    memory.forward("s0", 1, frame("11.0.0.1"))
    real, room = memory.ledgers["s0"].insert, [True]

    def insert(name: str, *rest: Any, **more: Any) -> int:
        if name == "routes":
            if not room:
                raise ControlError("table routes: no space")
            room.pop()
        return real(name, *rest, **more)

    monkeypatch.setattr(memory.ledgers["s0"], "insert", insert)
    changes = six_changes(controller)
    *refused, barrier = controller.tell(*changes, controller.barrier())
    group, flow = (o.OFPET_GROUP_MOD_FAILED, o.OFPGMFC_OUT_OF_BUCKETS), (o.OFPET_FLOW_MOD_FAILED, o.OFPFMFC_TABLE_FULL)
    assert [(error.type, error.code) for error in refused] == [group, group, flow, flow, flow, flow]
    assert [error.data for error in refused] == [bytes(change.buf)[:64] for change in changes]
    assert barrier.msg_type == o.OFPT_BARRIER_REPLY
    assert routes(memory) == before
    assert packets(controller) == {1: 1, 2: 1, 3: 0}
    monkeypatch.undo()
    memory.forward("s0", 1, frame("10.0.0.1"))
    assert packets(controller) == {1: 2, 2: 1, 3: 0}
    (removed,) = controller.tell(*six_changes(controller))
    assert (removed.cookie, removed.packet_count) == (1, 2), "as nothing of them is in the way"
    assert routes(memory) == {"11.0.0.0/8": (1,), "12.0.0.0/8": (4,), "20.0.0.0/8": (1, 2), "21.0.0.0/8": (1, 2)}
    assert len(memory.ledgers["s0"].tables["members"]) == 2, "nobody else's are left"


def test_a_change_whose_time_did_not_come_is_made_at_the_next(
    controller: Controller, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck() -> contextlib.AbstractContextManager[None]:
        raise RuntimeError("the loop did not come to rest")

    monkeypatch.setattr(memory, "held", stuck)
    with pytest.raises(RuntimeError):
        controller.tell(controller.flow("10.0.0.0/8", controller.to(2)))
    monkeypatch.undo()
    assert routes(memory) == {}
    controller.tell(controller.barrier())
    assert routes(memory) == {"10.0.0.0/8": (2,)}


def test_many_flows_and_groups_in_any_order_leave_what_is_wanted(controller: Controller, memory: Memory) -> None:
    draw = random.Random(3)
    for _ in range(100):
        groups = {n: tuple(draw.sample((1, 2, 3, 4), draw.randrange(1, 5))) for n in range(1, 4)}
        wanted = {f"10.{i}.0.0/16": draw.choice(list(groups)) for i in draw.sample(range(8), 4)}
        replies = controller.tell(
            controller.flow(None, command=controller.ofproto.OFPFC_DELETE),
            controller.group(controller.ofproto.OFPG_ALL, command="DELETE"),
            *(controller.group(n, *members) for n, members in groups.items()),
            *(controller.flow(prefix, controller.to_group(n)) for prefix, n in wanted.items()),
        )
        assert replies == []
        assert routes(memory) == {prefix: groups[n] for prefix, n in wanted.items()}
