"""Entries of a spec's switches: what is refused without a switch is what a switch refuses, and the shipped ones fit."""

import json
from functools import cache
from pathlib import Path

import pytest

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.entries import carry_out, mistakes, path_of, shipped
from testbed.dataplane.native.exchange import Exchange
from testbed.dataplane.programs import document_of
from testbed.dataplane.programs import path_of as program_path
from testbed.dataplane.stf import parse_stf
from testbed.dataplane.stf_runner import Configuration
from testbed.errors import UsageError

PORTS = 4
RIGHT = """\
# Line 1 is a comment.
add priorities dscp:26 to_priority(priority:3) = data
add priorities dscp:0x30 to_priority(priority:7)
setdefault priorities to_priority(priority:1)
register_write mark_above 3 65536
register_write mark_above 7 0xffffffff
mc_node_create 5 1 4
mc_mgrp_create 9
mc_node_associate 9 0
mirroring_add 100 2
mirroring_add_mc 101 9
mirroring_delete 100
"""
WRONG = [  # a line, and a piece of what is said of it
    ("add prioritys dscp:26 to_priority(priority:3)", "there is no table 'prioritys'"),
    ("add priorities dscp:1 to_prio(priority:3)", "there is no action of SwitchIngress.priorities 'to_prio'"),
    ("add priorities tos:1 to_priority(priority:3)", "there is no key of SwitchIngress.priorities 'tos'"),
    ("add priorities to_priority(priority:3)", "an exact field needs a value"),
    ("add priorities dscp:64 to_priority(priority:3)", "0x40 does not fit 6 bits"),
    ("add priorities dscp:0x140 to_priority(priority:3)", "0x140 does not fit 6 bits"),
    ("add priorities dscp:0x1* to_priority(priority:3)", "every digit of a key that is matched exactly counts"),
    ("add priorities dscp:1/3 to_priority(priority:3)", "/3 is for lpm keys, and this one is exact"),
    ("add priorities dscp:1 to_priority(priority:8)", "0x8 does not fit 3 bits"),
    ("add priorities dscp:1 to_priority()", "needs an argument 'priority'"),
    ("add priorities dscp:1 to_priority(priority:1, more:1)", "has no parameter 'more'"),
    ("add priorities dscp:26 to_priority(priority:4)", "has an entry for that already"),
    ("add priorities 2147483648 dscp:1 to_priority(priority:4)", "does not fit 31 bits"),
    ("setdefault priorities to_priority(priority:8)", "0x8 does not fit 3 bits"),
    ("register_write marks 0 1", "there is no register 'marks'"),
    ("register_write mark_above 8 1", "has no element 8: it has 8"),
    ("register_write mark_above 0 0x100000000", "0x100000000 does not fit 32 bits"),
    ("register_write mark_above 0 much", "not a number: 'much'"),
    ("meter_set_rates meters 0 1:1 1:1", "there is no meter 'meters'"),
    ("mc_node_associate 8 0", "there is no group of that number yet"),
    ("mc_node_associate 9 1", "there is no node of that number yet"),
    ("counter_write marked 0 1 1", "`counter_write` is not supported"),
]
OF_THE_PLAN_OR_OF_TESTS = [
    ("add routes headers.ipv4.destination:0x0a01**** to_port(port:1)", "`routes` is filled from the plan's routes"),
    ("add SwitchIngress.routing.members group:1 member:0 to_port(port:1)", "`SwitchIngress.routing.members` is filled"),
    ("setdefault salts salted(value:1)", "`salts` is filled from the plan's routes"),
    ("packet 0 00", "is for packet tests"),
    ("queue_depth 5", "is for packet tests"),
    ("mirroring_add 1 5", "there is no port 5: they are 1 to 4, and 510 of the control plane"),
    ("mirroring_add 65536 1", "a clone session is below 65536"),
    ("no such line", "unknown statement 'no'"),
]


@cache
def program(name: str) -> Program:
    return program_of(json.loads(json.dumps(document_of(program_path(name)))), name)


def told(folder: Path, text: str, name: str = "ecn_priority") -> list[str]:
    (folder / "own.stf").write_text(text)
    return [str(mistake) for mistake in mistakes(program(name), folder / "own.stf", PORTS)]


def test_what_is_right(tmp_path: Path) -> None:
    assert told(tmp_path, RIGHT) == []
    with Exchange(program("ecn_priority")) as switch:
        carried = carry_out(tmp_path / "own.stf", switch)
        assert [line for _, _, line in carried.entries] == [2, 3]
        assert switch.control.read_register("mark_above", 3) == 65536


@pytest.mark.parametrize(("line", "what"), WRONG)
def test_a_wrong_line_is_told_as_the_switch_itself_would(tmp_path: Path, line: str, what: str) -> None:
    (only,) = told(tmp_path, RIGHT + line)
    assert only.startswith(f"{tmp_path / 'own.stf'}:13:1: ")
    assert what in only
    with Exchange(program("ecn_priority")) as switch:
        configuration = Configuration(switch)
        *before, last = parse_stf(RIGHT + line, "own.stf")
        for statement in before:
            configuration.apply(statement)
        with pytest.raises(UsageError, match="line 13: "):
            configuration.apply(last)


@pytest.mark.parametrize(("line", "what"), OF_THE_PLAN_OR_OF_TESTS)
def test_lines_that_are_of_no_entry(tmp_path: Path, line: str, what: str) -> None:
    (only,) = told(tmp_path, RIGHT + line)
    assert only.startswith(f"{tmp_path / 'own.stf'}:13:1: ")
    assert what in only


def test_all_wrong_lines_are_told_and_a_table_that_is_full(tmp_path: Path) -> None:
    lines = [f"add classes layer:{i >> 2} magnitude:{i & 3} NoAction()\n" for i in range(32)]
    assert told(tmp_path, "".join(lines), "gradient_drop") == []
    more = (
        "add gradients 1 dscp:0b1***** gradient(of_layer:1, of_magnitude:4)\nadd classes layer:8 magnitude:0 NoAction()"
    )
    assert [each.partition(".stf:")[2].split(":")[0] for each in told(tmp_path, more, "gradient_drop")] == ["1", "2"]
    many = "".join(f"add gradients {i} dscp:1 NoAction()\n" for i in range(1025))
    (full,) = told(tmp_path, many, "gradient_drop")
    assert ":1025:1: SwitchIngress.gradients is full: it has room for 1024" in full
    assert told(tmp_path, "add gradients 1 dscp:1 NoAction()\nadd gradients 1 dscp:1 NoAction()", "gradient_drop")


def test_those_that_are_shipped_fit_their_programs_and_do_something() -> None:
    assert list(shipped()) == ["ecn_priority", "gradient_drop", "trim"]
    for name, path in shipped().items():
        assert list(mistakes(program(name), path, PORTS)) == []
        with Exchange(program(name)) as switch:
            assert carry_out(path_of(name), switch).entries
    with pytest.raises(UsageError, match="there are no entries 'trimm'"):
        path_of("trimm")
