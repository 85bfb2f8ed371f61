"""What a packet test or a file of entries asks for and no switch can do is refused with its place."""

from pathlib import Path

import pytest

from testbed.cli import execute
from tests.dataplane.programs import program

MEMBERS = """
register<bit<8>>(4) r;
counter(4, CounterType.packets) c;
meter(4, MeterType.bytes) mt;
action a(bit<8> v) { r.write(0, v); c.count(0); mt.execute_meter(0, m.x); }
table t { key = { h.k.a : exact; } actions = { a; NoAction; } }
"""
WRONG = [
    ("queue_depth 4294967295", "a queue's depth is below 4294967295, and this is 4294967295"),
    (f"queue_depth {1 << 70}", f"a queue's depth is below 4294967295, and this is {1 << 70}"),
    ("queue_depth -1", "less than 0: '-1'"),
    ("queue_depth many", "not a number: 'many'"),
    ("mirroring_add 65536 1", "a clone session is below 65536, and this is 65536"),
    ("mirroring_add 1 600", "there is no port 600: they are 0 to 509, and 510 of the control plane"),
    ("mirroring_add_mc 1 65536", "a multicast group is below 65536, and this is 65536"),
    ("mc_mgrp_create 1\nmc_node_create 1 600\nmc_node_associate 1 0", "there is no port 600"),
    ("mc_mgrp_create 1\nmc_node_create 65536 1\nmc_node_associate 1 0", "a replication id is below 65536"),
    ("mc_mgrp_create 65536\nmc_node_create 1 1\nmc_node_associate 65536 0", "a multicast group is below 65536"),
    ("register_write r 4 1", "r has no element 4: it has 4"),
    (f"register_write r {1 << 32} 1", f"r has no element {1 << 32}: it has 4"),
    ("register_write r 0 256", "0x100 does not fit 8 bits"),
    ("meter_set_rates mt 4 1:1 1:1", "mt has no element 4: it has 4"),
    ("meter_set_rates mt 0 nan:1 1:1", "not a rate, from 0 on, of packets or bytes a microsecond: 'nan'"),
    ("meter_set_rates mt 0 inf:1 1:1", "not a rate"),
    ("meter_set_rates mt 0 -1:1 1:1", "not a rate"),
    ("meter_set_rates mt 0 much:1 1:1", "not a rate"),
    (f"meter_set_rates mt 0 1:{1 << 64} 1:1", "a burst is below 2^64"),
    ("meter_set_rates mt 0 1:few 1:1", "not a number: 'few'"),
    ("add t h.k.a:256 a(v:1)", "0x100 does not fit 8 bits"),
    (f"add t {1 << 31} h.k.a:1 a(v:1)", "does not fit 31 bits"),
    ("check_counter c(4) packets == 0", "c has no element 4: it has 4"),
    (f"check_counter c({1 << 32}) packets == 0", f"c has no element {1 << 32}"),
    ("check_counter c($one) packets == 0", "there is no entry labelled 'one'"),
    ("counter_write c 0 1 1", "`counter_write` is not supported"),
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "p.p4"
    path.write_text(program(members=MEMBERS, apply="t.apply();"))
    return path


@pytest.mark.parametrize(("lines", "what"), WRONG)
def test_it_is_refused_at_its_line(
    lines: str, what: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stf = tmp_path / "wrong.stf"
    stf.write_text(f"# a comment\n{lines}\n")
    assert execute(["p4", "test", str(source), str(stf)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"testbed: {stf}:{lines.count(chr(10)) + 2}:1: ")
    assert what in told
