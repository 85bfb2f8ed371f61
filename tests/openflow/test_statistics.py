"""What a switch counts and describes, as os-ken reads it, against the packets that were sent."""

from typing import Any

import pytest

from testbed.openflow.agent import Agent
from tests.openflow.parts import SECOND_NS, Controller, Memory, frame

PACKET = len(frame("10.0.0.1"))
UNKNOWN = 2**64 - 1


def send(memory: Memory, target: str, count: int, in_port: int = 1) -> None:
    for flow in range(count):
        memory.forward("s0", in_port, frame(target, 50_000 + flow))


def flows(c: Controller, table: int = 0, out_port: int | None = None, **fields: Any) -> dict[str, Any]:
    """Flow statistics by the flow's prefix."""
    o = c.ofproto
    port = o.OFPP_ANY if out_port is None else out_port
    (reply,) = c.tell(c.ofproto_parser.OFPFlowStatsRequest(c, 0, table, port, o.OFPG_ANY, **fields))
    return {prefix_of(stats): stats for stats in reply.body}


def prefix_of(stats: Any) -> str:
    match = stats.match.get("ipv4_dst")
    return "all" if match is None else match[0] if isinstance(match, tuple) else match


def counts(c: Controller, **fields: Any) -> dict[str, tuple[int, int]]:
    return {prefix: (stats.packet_count, stats.byte_count) for prefix, stats in flows(c, **fields).items()}


@pytest.fixture
def busy(controller: Controller, memory: Memory) -> Controller:
    """A host, a choice and a miss, with 3, 5 and 2 packets."""
    controller.tell(
        controller.group(1, 3, 4),
        controller.flow("10.0.0.9/32", controller.to(2), cookie=1, priority=132),
        controller.flow("10.1.0.0/16", controller.to_group(1), cookie=2, priority=116),
        controller.flow(None, priority=0, cookie=3),
    )
    send(memory, "10.0.0.9", 3)
    send(memory, "10.1.0.1", 5, in_port=2)
    send(memory, "10.2.0.1", 2)
    return controller


def test_flows(busy: Controller) -> None:
    busy.now_ns = 3 * SECOND_NS + 5
    stats = flows(busy)
    assert {prefix: (s.packet_count, s.byte_count) for prefix, s in stats.items()} == {
        "10.0.0.9": (3, 3 * PACKET),
        "10.1.0.0": (5, 5 * PACKET),
        "all": (2, 0),  # the program counts no bytes of what it has no route for
    }
    host, choice, miss = stats["10.0.0.9"], stats["10.1.0.0"], stats["all"]
    assert (host.priority, host.cookie, host.table_id, host.duration_sec, host.duration_nsec) == (132, 1, 0, 3, 5)
    assert host.instructions[0].actions[0].port == 2
    assert choice.instructions[0].actions[0].group_id == 1
    assert choice.match["ipv4_dst"] == ("10.1.0.0", "255.255.0.0")
    assert miss.instructions == []


def test_flows_that_are_asked_for(busy: Controller) -> None:
    assert set(flows(busy, match=busy.match("10.0.0.0/8"))) == {"10.0.0.9", "10.1.0.0"}
    assert set(flows(busy, cookie=3, cookie_mask=UNKNOWN)) == {"all"}
    assert set(flows(busy, out_port=2)) == {"10.0.0.9"}
    assert set(flows(busy, table=busy.ofproto.OFPTT_ALL)) == {"10.0.0.9", "10.1.0.0", "all"}
    assert flows(busy, table=1) == {}


def test_aggregate_and_table(busy: Controller) -> None:
    p, o = busy.ofproto_parser, busy.ofproto
    ask = p.OFPAggregateStatsRequest(busy, 0, o.OFPTT_ALL, o.OFPP_ANY, o.OFPG_ANY, 0, 0, busy.match("10.0.0.0/8"))
    (reply,) = busy.tell(ask)
    assert (reply.body.packet_count, reply.body.byte_count, reply.body.flow_count) == (8, 8 * PACKET, 2)
    (reply,) = busy.tell(p.OFPTableStatsRequest(busy, 0))
    (table,) = reply.body
    assert (table.table_id, table.active_count, table.matched_count) == (0, 3, 10)


def test_a_flow_goes_on_counting_through_all_that_does_not_reset_it(busy: Controller, memory: Memory) -> None:
    busy.tell(busy.flow("10.1.0.0/16", busy.to(2), command=busy.ofproto.OFPFC_MODIFY))
    send(memory, "10.1.0.1", 4)
    assert counts(busy)["10.1.0.0"] == (9, 9 * PACKET)
    busy.tell(busy.flow("10.1.0.0/16", busy.to(3), priority=116, cookie=2))  # again, elsewhere
    send(memory, "10.1.0.1", 1)
    assert counts(busy)["10.1.0.0"] == (10, 10 * PACKET)
    busy.tell(busy.flow("10.0.0.0/8", busy.to(4), priority=200))  # hides all others
    send(memory, "10.1.0.1", 7)
    assert counts(busy)["10.1.0.0"] == (10, 10 * PACKET)
    assert counts(busy)["10.0.0.0"] == (7, 7 * PACKET)
    busy.tell(busy.flow("10.0.0.0/8", priority=200, command=busy.ofproto.OFPFC_DELETE_STRICT))
    send(memory, "10.1.0.1", 1)
    assert counts(busy)["10.1.0.0"] == (11, 11 * PACKET)


def test_counts_start_again_when_asked_to(busy: Controller, memory: Memory) -> None:
    reset = {"flags": busy.ofproto.OFPFF_RESET_COUNTS}
    busy.tell(busy.flow("10.1.0.0/16", busy.to(2), command=busy.ofproto.OFPFC_MODIFY, **reset))
    send(memory, "10.1.0.1", 4)
    assert counts(busy)["10.1.0.0"] == (4, 4 * PACKET)
    send(memory, "10.0.0.9", 1)
    busy.tell(busy.flow("10.0.0.9/32", busy.to(2), priority=132, **reset))
    assert counts(busy)["10.0.0.9"] == (0, 0)
    busy.tell(
        busy.flow("10.0.0.9/32", command=busy.ofproto.OFPFC_DELETE), busy.flow("10.0.0.9/32", busy.to(2), priority=132)
    )
    send(memory, "10.0.0.9", 2)
    assert counts(busy)["10.0.0.9"] == (2, 2 * PACKET)


def test_a_flow_that_starts_again_leaves_the_table_s_and_the_group_s_counts(busy: Controller, memory: Memory) -> None:
    p, o = busy.ofproto_parser, busy.ofproto
    busy.tell(busy.flow("10.1.0.0/16", busy.to_group(1), priority=116, flags=o.OFPFF_RESET_COUNTS))
    send(memory, "10.1.0.1", 1)
    assert counts(busy)["10.1.0.0"] == (1, PACKET)
    (reply,) = busy.tell(p.OFPGroupStatsRequest(busy, 0, 1))
    assert [(s.packet_count, s.byte_count) for s in reply.body] == [(6, 6 * PACKET)]
    (reply,) = busy.tell(p.OFPTableStatsRequest(busy, 0))
    assert reply.body[0].matched_count == 3 + 5 + 2 + 1


def test_a_flow_that_comes_later_counts_nothing_of_what_was_before(busy: Controller, memory: Memory) -> None:
    busy.tell(busy.flow(None, command=busy.ofproto.OFPFC_DELETE_STRICT, priority=0))
    send(memory, "10.2.0.1", 5)
    busy.tell(busy.flow(None, priority=0))
    send(memory, "10.2.0.1", 1)
    assert counts(busy)["all"] == (1, 0)


def test_ports(busy: Controller) -> None:
    p, o = busy.ofproto_parser, busy.ofproto
    busy.now_ns = 2 * SECOND_NS
    (reply,) = busy.tell(p.OFPPortStatsRequest(busy, 0, o.OFPP_ANY))
    assert [s.port_no for s in reply.body] == [1, 2, 3, 4]
    assert {s.port_no: (s.rx_packets, s.rx_bytes) for s in reply.body if s.rx_packets} == {
        1: (5, 5 * PACKET),
        2: (5, 5 * PACKET),
    }
    sent = {s.port_no: s.tx_packets for s in reply.body}
    assert (sent[1], sent[2], sent[3] + sent[4]) == (0, 3, 5)
    assert [(s.rx_dropped, s.tx_dropped) for s in reply.body] == [(n, 10 * n) for n in (1, 2, 3, 4)]
    assert {s.rx_errors for s in reply.body} == {UNKNOWN}
    assert {s.duration_sec for s in reply.body} == {2}
    (reply,) = busy.tell(p.OFPPortStatsRequest(busy, 0, 2))
    assert [s.port_no for s in reply.body] == [2]


def test_groups(busy: Controller, memory: Memory) -> None:
    p, o = busy.ofproto_parser, busy.ofproto
    busy.tell(busy.group(7, 1), busy.flow("10.3.0.0/16", busy.to_group(1)))
    send(memory, "10.3.0.1", 2)
    (reply,) = busy.tell(p.OFPGroupStatsRequest(busy, 0, o.OFPG_ALL))
    one, seven = reply.body
    assert (one.group_id, one.ref_count, one.packet_count, one.byte_count) == (1, 2, 7, 7 * PACKET)
    assert [bucket.packet_count for bucket in one.bucket_stats] == [UNKNOWN] * 2
    assert (seven.group_id, seven.ref_count, seven.packet_count) == (7, 0, 0)
    busy.tell(busy.group(1, 2, command="MODIFY"))
    send(memory, "10.3.0.1", 3)
    (reply,) = busy.tell(p.OFPGroupStatsRequest(busy, 0, 1))
    assert [(s.group_id, s.packet_count, len(s.bucket_stats)) for s in reply.body] == [(1, 10, 1)]
    (reply,) = busy.tell(p.OFPGroupStatsRequest(busy, 0, 99))
    assert reply.body == []


def test_groups_are_described_as_they_were_given(busy: Controller) -> None:
    busy.tell(busy.group(2, (1, 3), (2, 5)), busy.group(3, 4, type="INDIRECT"))
    (reply,) = busy.tell(busy.ofproto_parser.OFPGroupDescStatsRequest(busy, 0))
    found = {s.group_id: (s.type, [(b.weight, b.actions[0].port) for b in s.buckets]) for s in reply.body}
    select, indirect = busy.ofproto.OFPGT_SELECT, busy.ofproto.OFPGT_INDIRECT
    assert found == {
        1: (select, [(1, 3), (1, 4)]),
        2: (select, [(3, 1), (5, 2)]),
        3: (indirect, [(1, 4)]),
    }


def test_group_features(controller: Controller) -> None:
    o = controller.ofproto
    (reply,) = controller.tell(controller.ofproto_parser.OFPGroupFeaturesStatsRequest(controller, 0))
    assert reply.body.types == 1 << o.OFPGT_ALL | 1 << o.OFPGT_SELECT | 1 << o.OFPGT_INDIRECT
    assert reply.body.capabilities == o.OFPGFC_SELECT_WEIGHT
    assert [bool(most) for most in reply.body.max_groups] == [True, True, True, False]
    assert all(bool(actions >> o.OFPAT_OUTPUT & 1) == (i < 3) for i, actions in enumerate(reply.body.actions))


def test_table_features(controller: Controller) -> None:
    o = controller.ofproto
    ask = controller.ofproto_parser.OFPTableFeaturesStatsRequest(controller, 0)
    (reply,) = controller.tell(ask)
    (table,) = reply.body
    assert (table.table_id, table.name.rstrip(b"\0")) == (0, b"routes")
    properties = {each.type: each for each in table.properties}
    assert [each.type for each in properties[o.OFPTFPT_MATCH].oxm_ids] == ["eth_type", "ipv4_dst"]
    assert [each.hasmask for each in properties[o.OFPTFPT_MATCH].oxm_ids] == [False, True]
    assert properties[o.OFPTFPT_NEXT_TABLES].table_ids == []
    actions = {each.type for each in properties[o.OFPTFPT_APPLY_ACTIONS].action_ids}
    assert actions == {o.OFPAT_OUTPUT, o.OFPAT_GROUP, o.OFPAT_DEC_NW_TTL}


def test_description_and_ports(controller: Controller) -> None:
    p = controller.ofproto_parser
    (reply,) = controller.tell(p.OFPDescStatsRequest(controller, 0))
    assert (reply.body.mfr_desc, reply.body.hw_desc) == (b"Testbed", b"native switch")
    assert (reply.body.dp_desc, reply.body.serial_num) == (b"s0", b"42")
    assert b"l3_ecmp" in reply.body.sw_desc
    (reply,) = controller.tell(p.OFPPortDescStatsRequest(controller, 0))
    assert [(d.port_no, d.name, d.hw_addr) for d in reply.body] == [
        (n, f"s0-eth{n}".encode(), f"02:00:00:00:2a:0{n}") for n in (1, 2, 3, 4)
    ]
    assert {d.curr_speed for d in reply.body} == {10_000_000}, "kbit/s"
    assert {d.state for d in reply.body} == {controller.ofproto.OFPPS_LIVE}


def test_long_answers_come_in_parts(controller: Controller) -> None:
    count = 3000
    prefixes = {f"10.{n // 256}.{n % 256}.0" for n in range(count)}
    assert controller.tell(*(controller.flow(f"{prefix}/24", controller.to(2)) for prefix in prefixes)) == []
    o = controller.ofproto
    replies = controller.tell(
        controller.ofproto_parser.OFPFlowStatsRequest(controller, 0, 0, o.OFPP_ANY, o.OFPG_ANY), controller.barrier()
    )
    assert replies.pop().msg_type == o.OFPT_BARRIER_REPLY
    assert [bool(reply.flags & o.OFPMPF_REPLY_MORE) for reply in replies] == [True] * (len(replies) - 1) + [False]
    each = 48 + 24 + 24  # of a flow, its match and its instruction
    assert len(replies) == -(-count // ((65535 - 16) // each))
    found = [stats.match["ipv4_dst"][0] for reply in replies for stats in reply.body]
    assert len(found) == count
    assert set(found) == prefixes


def test_a_new_controller_finds_what_the_last_one_left(busy: Controller, agent: Agent) -> None:
    before = counts(busy)
    assert counts(Controller(agent)) == before
