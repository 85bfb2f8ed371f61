"""Which registers a program that takes over at a native switch may keep."""

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.compile import compile_p4
from testbed.errors import RunFailed
from testbed.fabric.swap import MOST_CARRIED, carried


@pytest.fixture(scope="module")
def program() -> Program:
    path = Path(__file__).parents[1] / "netcore" / "other.p4"
    return program_of(compile_p4(path).json, "other")


def with_size(program: Program, size: int) -> Program:
    return replace(program, registers=tuple(replace(each, size=size) for each in program.registers))


def test_those_of_the_same_name_width_and_size(program: Program) -> None:
    assert [each.name.rpartition(".")[2] for each in carried(program, program)] == ["some_memory"]
    assert carried(with_size(program, 7), program) == []


def test_no_more_than_can_be_copied_while_packets_stand_still(program: Program) -> None:
    most, more = with_size(program, MOST_CARRIED), with_size(program, MOST_CARRIED + 1)
    assert len(carried(most, most)) == 1
    with pytest.raises(RunFailed, match=r"have 524,289 elements.* at most 524,288 are kept"):
        carried(more, more)
