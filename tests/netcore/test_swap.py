"""A switch's program is exchanged for another: packets in queues leave by the one that they came by; books balance."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.native.build import build_program
from testbed.dataplane.native.loader import ProgramTable, load_program
from tests.netcore.test_switch import DELAY_NS, FRAME_BYTES, FRAME_NS, RATE_BPS, Came, Star, What, frame
from tests.sanitizers import assert_clean

MARK, LARGE_BYTES = 0x42, 256


def built(name: str) -> ProgramTable:
    document = compile_p4(Path(__file__).with_name(f"{name}.p4")).json
    return load_program(build_program(program_of(document, name)))[1]


@pytest.fixture(scope="module")
def table() -> ProgramTable:
    return built("fates")


@pytest.fixture(scope="module")
def other() -> ProgramTable:
    return built("other")


@pytest.fixture
def star(table: ProgramTable) -> Iterator[Star]:
    star = Star(table)
    yield star
    star.check_books()


def exchange(star: Star, table: ProgramTable) -> None:
    before = star.fabric.switch_instance(star.switch)
    loaded = star.fabric.load_program(star.switch, ctypes.addressof(table), 1)
    assert star.fabric.switch_instance(star.switch) == before
    star.fabric.swap_program(star.switch)
    assert star.fabric.switch_instance(star.switch) == loaded


def meanwhile(star: Star, *frames: bytes, slower: int = 100) -> None:
    """Frames that have come to the switch, and wait behind the first of them for a port that is that much slower."""
    star.set_rate(1, RATE_BPS // slower)
    for each in frames:
        star.fabric.send(star.hosts[0], each)
    star.now_ns += DELAY_NS + (len(frames) + 1) * FRAME_NS
    star.fabric.advance(star.now_ns)


def by(came: Came) -> str:
    """Whose egress it left by; the other program puts its large header behind the mark."""
    return "other" if came.frame[4] == MARK and len(came.frame) == FRAME_BYTES + LARGE_BYTES else "fates"


def test_packets_in_a_queue_leave_by_the_program_that_they_came_by(star: Star, other: ProgramTable) -> None:
    meanwhile(star, *[frame(What.UNICAST)] * 5)
    exchange(star, other)
    came = star.send(*[frame(What.UNICAST)] * 3)
    assert [by(each) for each in came] == ["fates"] * 5 + ["other"] * 3
    assert [each.length for each in came[:5]] == [FRAME_BYTES] * 5
    assert {each.depths[0] for each in came[1:5]} == {0, 101, 202, 303}


def test_copies_that_an_egress_makes_are_of_its_program(star: Star, other: ProgramTable) -> None:
    star.fabric.set_session(star.switch, 9, [(2, 5)])
    meanwhile(star, frame(What.UNICAST), frame(What.CLONE_EGRESS, 9))
    exchange(star, other)
    came = star.settle()
    assert sorted((each.port, each.instance, each.rid) for each in came) == [(1, 0, 0), (1, 0, 0), (2, 2, 5)]


def test_what_comes_round_begins_anew(star: Star, other: ProgramTable) -> None:
    """It has no room for the headers of the new program, whose context is another's too."""
    meanwhile(star, frame(What.UNICAST), frame(What.RECIRCULATE, 3))
    exchange(star, other)
    first, second = star.settle()
    assert by(first) == "fates"
    assert second.frame[4] == MARK
    assert len(second.frame) == FRAME_BYTES + 8 + LARGE_BYTES, "once round with fates, which grows it"


def test_packets_under_way_to_the_switch_get_room_for_its_headers(star: Star, other: ProgramTable) -> None:
    star.fabric.send(star.hosts[0], frame(What.UNICAST))
    exchange(star, other)
    assert [by(each) for each in star.settle()] == ["other"]


def test_it_is_exchanged_as_often_as_one_likes(star: Star, table: ProgramTable, other: ProgramTable) -> None:
    sent = 0
    for turn in range(40):
        meanwhile(star, frame(What.UNICAST), frame(What.UNICAST), slower=1000)
        sent += 2
        exchange(star, other if turn % 2 == 0 else table)
    came = star.settle()
    assert len(came) == sent
    assert {by(each) for each in came} == {"fates", "other"}
    exchange(star, table)
    assert [by(each) for each in star.send(frame(What.UNICAST))] == ["fates"]


def test_a_program_may_be_loaded_in_vain(star: Star, table: ProgramTable, other: ProgramTable) -> None:
    for each in (other, table, other):
        star.fabric.load_program(star.switch, ctypes.addressof(each), 1)
    assert [by(each) for each in star.send(frame(What.UNICAST))] == ["fates"]


def test_what_is_said_while_a_program_is_tried_out_is_of_no_packet(star: Star, table: ProgramTable) -> None:
    star.fabric.load_program(star.switch, ctypes.addressof(table), 1)
    star.fabric.probe_program(star.switch, 1, frame(What.LOG, 42))
    assert star.fabric.messages(star.switch) == []
    star.fabric.swap_program(star.switch)
    star.send(frame(What.LOG, 43))
    assert star.fabric.messages(star.switch) == ["argument 43"]


def test_what_is_refused(star: Star, table: ProgramTable) -> None:
    with pytest.raises(RuntimeError, match="no program is loaded"):
        star.fabric.swap_program(star.switch)
    wrong = ProgramTable()
    ctypes.pointer(wrong)[0] = table
    wrong.abi = table.abi + 1
    with pytest.raises(ValueError, match="ABI version"):
        star.fabric.load_program(star.switch, ctypes.addressof(wrong), 1)
    with pytest.raises(IndexError):
        star.fabric.load_program(9, ctypes.addressof(table), 1)


@pytest.mark.slow
def test_all_of_this_under_the_sanitizers() -> None:
    assert_clean(__file__, "-m", "not slow")
