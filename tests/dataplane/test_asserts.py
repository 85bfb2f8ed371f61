"""A failed assert or assume: the packet is left at once and counted, and a packet test fails by it, told which."""

import json
from pathlib import Path

import pytest

from testbed.cli import execute
from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.native.exchange import Exchange
from tests.dataplane.programs import program

DEPARSER = "control Dep(packet_out pk, in H h) { apply { pk.emit(h); } }"
EGRESS = "control Eg(inout H h, inout M m, inout standard_metadata_t sm) { apply { } }"


def source(where: str, check: str = "assert(h.k.a != 9);") -> str:
    """A program that returns packets by port 1, and checks the first byte somewhere."""
    apply = "sm.egress_spec = 1; h.k.c = 7;"
    match where:
        case "parser":
            return program(states=f"state start {{ pk.extract(h.k); {check} transition accept; }}", apply=apply)
        case "ingress":
            return program(apply=f"{check} {apply}")
        case "action":
            return program(members=f"action checked() {{ {check} }}", apply=f"checked(); {apply}")
        case "clone":
            return program(apply=f"clone(CloneType.I2E, 5); {check} {apply}")
        case "egress":
            return program(apply=apply).replace(EGRESS, EGRESS.replace("apply { }", f"apply {{ {check} }}"))
        case _:
            return program(apply=apply).replace(DEPARSER, DEPARSER.replace("{ pk", f"{{ {check} pk"))


@pytest.mark.parametrize("where", ["parser", "ingress", "action", "clone", "egress", "deparser"])
def test_a_packet_is_dropped_by_it_and_counted(where: str, tmp_path: Path) -> None:
    path = tmp_path / "p.p4"
    path.write_text(source(where))
    with Exchange(program_of(json.loads(json.dumps(compile_p4(path).json)), "p")) as exchange:
        exchange.set_session(5, port=2)
        assert exchange.inject(0, bytes.fromhex("09 0000 00 00")) == []
        assert exchange.counters["dropped_assert"] == 1
        assert exchange.counters["dropped_program"] == 0
        assert [m.partition(": ")[0] for m in exchange.messages] == ["assert failed"]
        assert (1, bytes.fromhex("08 0000 00 07")) in exchange.inject(0, bytes.fromhex("08 0000 00 00"))
        assert exchange.counters["dropped_assert"] == 1


@pytest.mark.parametrize("check", ["assert(h.k.a != 9);", "assume(h.k.a != 9);"])
def test_a_packet_test_fails_and_says_which_and_where(
    check: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, stf = tmp_path / "p.p4", tmp_path / "p.stf"
    path.write_text(source("ingress", check))
    stf.write_text("packet 0 0800000000\nexpect 1 0800000007 $\n\npacket 3 0900000000\nno_packet\n")
    assert execute(["p4", "test", str(path)]) == 1
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if check in text)
    told = capsys.readouterr()
    called = check.rstrip(";")
    kind = called.partition("(")[0]
    assert told.out == f"{stf}: line 4: the packet at port 3: {kind} failed: {path}:{line}: {called}\n"
    assert told.err == f"testbed: {stf}: 1 failed, 1 held\n"


def test_a_packet_that_comes_round_for_ever_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.p4"
    path.write_text(program(apply="resubmit_preserving_field_list(0);"))
    path.with_suffix(".stf").write_text("packet 0 0900000000\nno_packet\n")
    assert execute(["p4", "test", str(path)]) == 1
    told = capsys.readouterr().out
    assert "line 1: the packet at port 0: it came round 4096 times and was dropped" in told
    assert "resubmitted or recirculated without end" in told
