"""One connection: hello, echo, roles, the order of answers, and what no controller in its right mind sends."""

import contextlib
import random
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.openflow.agent import Agent
from testbed.openflow.session import MOST_WAITING_BYTES, PROBE_NS, Hangup, Session
from tests.openflow.parts import SECOND_NS, Controller, Memory, OsKen, frame

HELLO = struct.pack("!BBHI", 4, 0, 8, 1)


# Hello


@pytest.mark.parametrize(
    "hello",
    [
        HELLO,
        struct.pack("!BBHI", 5, 0, 8, 1),  # a later version and no bitmap: the lower one is ours
        struct.pack("!BBHIHHI", 6, 0, 16, 1, 1, 8, 1 << 4 | 1 << 1),
        struct.pack("!BBHIHHIHHI", 6, 0, 24, 1, 9, 8, 0, 1, 8, 1 << 4),  # an element that nobody knows comes first
        struct.pack("!BBHIHH", 4, 0, 12, 1, 1, 200),  # an element that is cut off counts as none
    ],
)
def test_versions_that_fit(hello: bytes, agent: Agent) -> None:
    session = Session(agent, 0)
    session.receive(hello, 0)
    assert session.greeted


@pytest.mark.parametrize(
    "hello",
    [
        struct.pack("!BBHI", 1, 0, 8, 1),
        struct.pack("!BBHIHHI", 6, 0, 16, 1, 1, 8, 1 << 6 | 1 << 1),  # the bitmap counts, not the version
        struct.pack("!BBHIHHI", 4, 0, 16, 1, 1, 8, 1 << 1),
    ],
)
def test_versions_that_do_not_fit(hello: bytes, agent: Agent) -> None:
    session = Session(agent, 0)
    with pytest.raises(Hangup, match="does not speak OpenFlow"):
        session.receive(hello, 0)
    _, error = OsKen().read(bytes(session.outgoing))
    assert (error.type, error.code) == (error.datapath.ofproto.OFPET_HELLO_FAILED, 0)
    assert b"OpenFlow 1.3" in error.data


def test_a_controller_that_does_not_begin_with_a_hello_is_none(agent: Agent) -> None:
    with pytest.raises(Hangup, match="does not begin with a hello"):
        Session(agent, 0).receive(struct.pack("!BBHI", 4, 2, 8, 1), 0)


# What a switch is


def test_features_and_configuration(controller: Controller) -> None:
    parser, ofproto = controller.ofproto_parser, controller.ofproto
    (features,) = controller.tell(parser.OFPFeaturesRequest(controller))
    assert (features.datapath_id, features.n_tables, features.n_buffers, features.auxiliary_id) == (42, 1, 0, 0)
    assert features.capabilities == (
        ofproto.OFPC_FLOW_STATS | ofproto.OFPC_TABLE_STATS | ofproto.OFPC_PORT_STATS | ofproto.OFPC_GROUP_STATS
    )
    (config,) = controller.tell(parser.OFPSetConfig(controller, 0, 77), parser.OFPGetConfigRequest(controller))
    assert (config.flags, config.miss_send_len) == (0, 77)
    assert controller.refused(parser.OFPSetConfig(controller, ofproto.OFPC_FRAG_DROP, 77)) == (
        ofproto.OFPET_SWITCH_CONFIG_FAILED,
        ofproto.OFPSCFC_BAD_FLAGS,
    )


# Echo


def test_an_echo_comes_back_as_it_was(controller: Controller) -> None:
    (reply,) = controller.tell(controller.ofproto_parser.OFPEchoRequest(controller, data=b"as it was"))
    assert (reply.msg_type, reply.data) == (controller.ofproto.OFPT_ECHO_REPLY, b"as it was")


def test_a_silent_controller_is_asked_and_then_given_up(controller: Controller) -> None:
    session = controller.session
    assert session.due_ns == PROBE_NS
    session.tick(PROBE_NS - 1)
    assert controller.heard() == []
    session.tick(PROBE_NS)
    (probe,) = controller.heard()
    assert probe.msg_type == controller.ofproto.OFPT_ECHO_REQUEST
    session.tick(2 * PROBE_NS - 1)
    controller.now_ns = 2 * PROBE_NS - 1
    assert controller.tell(controller.ofproto_parser.OFPEchoReply(controller, data=b"")) == []
    session.tick(3 * PROBE_NS)
    assert len(controller.heard()) == 1
    with pytest.raises(Hangup, match="silent"):
        session.tick(session.due_ns)


def test_a_controller_that_never_says_hello_is_given_up(agent: Agent) -> None:
    session = Session(agent, 0)
    with pytest.raises(Hangup, match="silent"):
        session.tick(PROBE_NS)


# Order


def test_a_barrier_s_answer_comes_behind_those_of_all_before_it_which_are_in_force_then(
    controller: Controller, memory: Memory
) -> None:
    refused = controller.flow("10.9.0.0/16", controller.to(99))
    echo = controller.ofproto_parser.OFPEchoRequest(controller, data=b"")
    first, last = controller.barrier(), controller.barrier()
    said = controller.tell(
        controller.flow("10.0.0.0/16", controller.to(2)), refused, echo, first, controller.flow("10.1.0.0/16"), last
    )
    assert [message.xid for message in said] == [refused.xid, echo.xid, first.xid, last.xid]
    assert memory.ledgers["s0"].routes == {"10.0.0.0/16": (2,), "10.1.0.0/16": ()}


def test_bytes_may_come_in_any_pieces(controller: Controller, memory: Memory) -> None:
    stream = b"".join(
        controller.write(message)
        for message in (controller.flow("10.0.0.0/16", controller.to(2)), controller.barrier(), controller.barrier())
    )
    for i in range(len(stream)):
        controller.session.receive(stream[i : i + 1], 0)
    assert [m.msg_type for m in controller.heard()] == [controller.ofproto.OFPT_BARRIER_REPLY] * 2
    assert memory.ledgers["s0"].routes == {"10.0.0.0/16": (2,)}


# Roles


def role(controller: Controller, wanted: str, generation: int = 0) -> Any:
    number = getattr(controller.ofproto, f"OFPCR_ROLE_{wanted}")
    return controller.ofproto_parser.OFPRoleRequest(controller, number, generation)


def test_roles(controller: Controller) -> None:
    ofproto = controller.ofproto
    for wanted, generation, told in (("NOCHANGE", 9, "EQUAL"), ("MASTER", 5, "MASTER"), ("SLAVE", 6, "SLAVE")):
        (reply,) = controller.tell(role(controller, wanted, generation))
        assert reply.role == getattr(ofproto, f"OFPCR_ROLE_{told}")
    assert reply.generation_id == 6
    stale = ofproto.OFPET_ROLE_REQUEST_FAILED, ofproto.OFPRRFC_STALE
    assert controller.refused(role(controller, "MASTER", 5)) == stale
    is_slave = ofproto.OFPET_BAD_REQUEST, ofproto.OFPBRC_IS_SLAVE
    assert controller.refused(controller.flow("10.0.0.0/8", controller.to(1))) == is_slave
    assert len(controller.tell(controller.barrier())) == 1
    controller.tell(role(controller, "EQUAL"))
    assert controller.tell(controller.flow("10.0.0.0/8", controller.to(1))) == []


def test_generations_may_wrap(controller: Controller) -> None:
    (reply,) = controller.tell(role(controller, "MASTER", 2**64 - 1))
    assert reply.generation_id == 2**64 - 1
    (reply,) = controller.tell(role(controller, "MASTER", 1))
    assert (reply.role, reply.generation_id) == (controller.ofproto.OFPCR_ROLE_MASTER, 1)


def test_the_generation_outlives_the_connection(agent: Agent) -> None:
    first = Controller(agent)
    first.tell(role(first, "MASTER", 8))
    second = Controller(agent)
    assert second.refused(role(second, "MASTER", 7))[1] == second.ofproto.OFPRRFC_STALE


# Ports


def test_ports_that_change_are_told_once(agent: Agent, controller: Controller) -> None:
    agent.port_changed(3, up=False)
    agent.port_changed(3, up=False)
    (status,) = controller.heard()
    assert (status.reason, status.desc.port_no) == (controller.ofproto.OFPPR_MODIFY, 3)
    assert status.desc.state & controller.ofproto.OFPPS_LINK_DOWN
    (reply,) = controller.tell(controller.ofproto_parser.OFPPortDescStatsRequest(controller, 0))
    down = [port.port_no for port in reply.body if port.state & controller.ofproto.OFPPS_LINK_DOWN]
    assert down == [3]
    agent.port_changed(3, up=True)
    (status,) = controller.heard()
    assert status.desc.state == controller.ofproto.OFPPS_LIVE


# Frames


def out(controller: Controller, in_port: int, data: bytes, *actions: Any) -> Any:
    no_buffer = controller.ofproto.OFP_NO_BUFFER
    return controller.ofproto_parser.OFPPacketOut(controller, no_buffer, in_port, list(actions), data)


def test_packet_out(controller: Controller, memory: Memory) -> None:
    ofproto, data = controller.ofproto, frame("10.0.0.1")
    controller.tell(controller.group(1, 4), controller.flow("10.0.0.0/8", controller.to(4)))

    def sent(in_port: int, *actions: Any) -> list[int]:
        memory.sent.clear()
        assert controller.tell(out(controller, in_port, data, *actions)) == []
        return [port for _, port, _ in memory.sent]

    assert sent(ofproto.OFPP_CONTROLLER, controller.to(2), controller.to(3)) == [2, 3]
    assert memory.sent[0] == ("s0", 2, data), "as it is, past the program"
    assert sent(2, controller.to(ofproto.OFPP_FLOOD)) == [1, 3, 4]
    assert sent(ofproto.OFPP_CONTROLLER, controller.to(ofproto.OFPP_ALL)) == [1, 2, 3, 4]
    assert sent(2, controller.to(ofproto.OFPP_IN_PORT)) == [2]
    assert sent(2, controller.to(2)) == [], "not back by the port it came in by, unless it is asked for so"
    assert sent(2, controller.to_group(1)) == [4]
    assert sent(ofproto.OFPP_CONTROLLER) == []
    assert sent(ofproto.OFPP_CONTROLLER, controller.to(ofproto.OFPP_TABLE)) == [4]
    assert memory.sent[0][2] != data, "through the program, which decrements the time to live"


def test_packet_out_refused(controller: Controller, memory: Memory) -> None:
    o, data = controller.ofproto, frame("10.0.0.1")
    for message, kind, code in [
        (out(controller, 9, data, controller.to(1)), o.OFPET_BAD_REQUEST, o.OFPBRC_BAD_PORT),
        (out(controller, 1, data[:13], controller.to(1)), o.OFPET_BAD_REQUEST, o.OFPBRC_BAD_PACKET),
        (out(controller, 1, data, controller.to(2), controller.to(9)), o.OFPET_BAD_ACTION, o.OFPBAC_BAD_OUT_PORT),
        (out(controller, 1, data, controller.to_group(9)), o.OFPET_BAD_ACTION, o.OFPBAC_BAD_OUT_GROUP),
        (controller.ofproto_parser.OFPPacketOut(controller, 7, 1, []), o.OFPET_BAD_REQUEST, o.OFPBRC_BUFFER_UNKNOWN),
    ]:
        assert controller.refused(message) == (kind, code)
    assert memory.sent == []


def test_packet_in(agent: Agent, controller: Controller, memory: Memory) -> None:
    o = controller.ofproto
    assert (
        controller.tell(
            controller.flow(None, controller.to(o.OFPP_CONTROLLER), priority=0, cookie=5),
            controller.flow("10.1.0.0/16", controller.to(o.OFPP_CONTROLLER), cookie=6),
            controller.flow("10.2.0.0/16", controller.to(2)),
        )
        == []
    )
    for target in ("10.0.0.1", "10.1.0.1", "10.2.0.1"):
        memory.forward("s0", 3, frame(target))
    for _, in_port, data in memory.punted():
        agent.punted(in_port, data)
    missed, asked = controller.heard()
    assert [(m.reason, m.cookie) for m in (missed, asked)] == [(o.OFPR_NO_MATCH, 5), (o.OFPR_ACTION, 6)]
    assert asked.match["in_port"] == 3
    assert asked.data[14 + 16 :] == frame("10.1.0.1")[14 + 16 :], "but for the time to live and the checksum"
    assert asked.total_len == len(asked.data)
    assert asked.buffer_id == o.OFP_NO_BUFFER


def test_a_frame_longer_than_any_message_is_cut(agent: Agent, controller: Controller) -> None:
    longest = 65_535 + 14  # of the greatest MTU
    for length in (65_493, 65_494, longest):
        agent.punted(1, frame("10.0.0.1").ljust(length, b"x"))
    whole, cut, cut_too = controller.heard()
    assert (whole.total_len, len(whole.data)) == (65_493, 65_493)  # 8 + 16 + 16 + 2 bytes before it, 65,535 in all
    assert (cut.total_len, len(cut.data)) == (65_494, 65_493)
    assert (cut_too.total_len, len(cut_too.data)) == (65_535, 65_493), "the field has no more than 16 bits"


def test_frames_for_a_controller_that_takes_none_are_dropped_and_all_else_waits(
    agent: Agent, controller: Controller
) -> None:
    for _ in range(MOST_WAITING_BYTES // 1000):
        agent.punted(1, frame("10.0.0.1") + bytes(1400))
    assert MOST_WAITING_BYTES < len(controller.session.outgoing) < MOST_WAITING_BYTES + 3000
    assert controller.session.backlog
    agent.port_changed(1, up=False)
    assert controller.heard()[-1].msg_type == controller.ofproto.OFPT_PORT_STATUS


# Hostile


def requests(c: Controller) -> list[bytes]:
    """One of each request."""
    p, o = c.ofproto_parser, c.ofproto
    messages = [
        p.OFPHello(c), p.OFPEchoRequest(c, data=b"abc"), p.OFPFeaturesRequest(c), p.OFPGetConfigRequest(c),
        p.OFPSetConfig(c, 0, 128), c.barrier(), role(c, "MASTER", 3), c.group(1, 1, (2, 3), 4),
        c.flow("10.0.0.0/8", c.to_group(1), p.OFPActionDecNwTtl()), c.flow("10.1.0.0/16", c.to(2)),
        c.flow(None, c.to(o.OFPP_CONTROLLER), priority=0), c.group(1, 3, command="MODIFY"),
        c.flow("10.1.0.0/16", c.to(3), command=o.OFPFC_MODIFY), c.flow("10.1.0.0/16", command=o.OFPFC_DELETE),
        out(c, 1, frame("10.0.0.1"), c.to(2)), p.OFPDescStatsRequest(c, 0),
        p.OFPFlowStatsRequest(c, 0, 0, o.OFPP_ANY, o.OFPG_ANY, match=c.match("10.0.0.0/8")),
        p.OFPAggregateStatsRequest(c, 0, 0, o.OFPP_ANY, o.OFPG_ANY, 0, 0, c.match(None)),
        p.OFPTableStatsRequest(c, 0), p.OFPPortStatsRequest(c, 0, o.OFPP_ANY), p.OFPPortDescStatsRequest(c, 0),
        p.OFPGroupStatsRequest(c, 0, o.OFPG_ALL), p.OFPGroupDescStatsRequest(c, 0),
        p.OFPGroupFeaturesStatsRequest(c, 0), p.OFPTableFeaturesStatsRequest(c, 0),
        p.OFPGroupMod(c, o.OFPGC_DELETE, o.OFPGT_ALL, o.OFPG_ALL),
    ]  # fmt: skip
    return [c.write(message) for message in messages]


def resized(message: bytes) -> bytes:
    """With the length that it has."""
    return message[:2] + struct.pack("!H", len(message)) + message[4:]


def test_messages_cut_off_anywhere_are_answered_or_carried_out(controller: Controller) -> None:
    for message in requests(controller):
        for length in range(8, len(message)):
            controller.session.receive(resized(message[:length]), 0)
            for said in controller.heard():
                assert said.msg_type != controller.ofproto.OFPT_ERROR or said.data == resized(message[:length])[:64]
    assert len(controller.tell(controller.barrier())) == 1


@settings(max_examples=50, deadline=None)
@given(st.randoms(use_true_random=False))
def test_mutated_messages_end_in_answers(lasting: Memory, draw: random.Random) -> None:
    """Never another exception than Hangup, and what is said can be read."""
    controller = Controller(Agent(lasting.switches["s0"], lasting, 0))
    with contextlib.suppress(Hangup):
        for message in requests(controller):
            mutant = bytearray(message)
            for _ in range(draw.randrange(4)):
                mutant[draw.randrange(8, len(mutant) + 1) - 1] = draw.choice((0, 1, 4, 8, 0x7F, 0x80, 0xFF))
            if draw.random() < 0.3:
                mutant = bytearray(resized(bytes(mutant)[: draw.randrange(8, len(mutant) + 1)]))
            controller.session.receive(bytes(mutant), SECOND_NS)
            controller.heard()


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_noise(lasting: Memory, noise: bytes) -> None:
    session = Session(Agent(lasting.switches["s0"], lasting, 0), 0)
    session.receive(HELLO, 0)
    with contextlib.suppress(Hangup):
        session.receive(noise, 0)


@pytest.mark.parametrize("length", [0, 7])
def test_a_length_that_no_message_has_ends_the_connection(length: int, controller: Controller) -> None:
    with pytest.raises(Hangup):
        controller.session.receive(struct.pack("!BBHI", 4, 2, length, 1), 0)
    (error,) = controller.heard()
    assert (error.type, error.code) == (controller.ofproto.OFPET_BAD_REQUEST, controller.ofproto.OFPBRC_BAD_LEN)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (struct.pack("!BBHI", 3, 20, 8, 1), "BAD_VERSION"),
        (struct.pack("!BBHI", 4, 29, 8, 1), "BAD_TYPE"),  # meters
        (struct.pack("!BBHI", 4, 10, 8, 1), "BAD_TYPE"),  # a packet-in, from a controller
        (struct.pack("!BBHI", 4, 250, 8, 1), "BAD_TYPE"),
        (struct.pack("!BBHIII", 4, 4, 16, 1, 0x2320, 1), "BAD_EXPERIMENTER"),
        (struct.pack("!BBHIHH4x", 4, 18, 16, 1, 9, 0), "BAD_MULTIPART"),
        (struct.pack("!BBHIHH4x", 4, 18, 16, 1, 0, 1), "MULTIPART_BUFFER_OVERFLOW"),
        (struct.pack("!BBHIHH4xI4x", 4, 18, 24, 1, 4, 0, 77), "BAD_PORT"),
        (struct.pack("!BBHII", 4, 20, 12, 1, 0), "BAD_LEN"),
        (struct.pack("!BBHI", 4, 14, 8, 1), "BAD_LEN"),
    ],
)
def test_bad_requests(message: bytes, code: str, controller: Controller) -> None:
    controller.session.receive(message, 0)
    (error,) = controller.heard()
    assert (error.type, error.code) == (
        controller.ofproto.OFPET_BAD_REQUEST,
        getattr(controller.ofproto, f"OFPBRC_{code}"),
    )
    assert error.data == message


def test_errors_of_the_controller_are_taken_in_silence(controller: Controller) -> None:
    controller.session.receive(struct.pack("!BBHIHH", 4, 1, 12, 1, 1, 1), 0)
    assert controller.heard() == []
