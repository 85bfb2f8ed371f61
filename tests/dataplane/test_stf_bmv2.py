"""The bmv2 target: packets and configuration take turns (a stand-in shows it); the real switch where installed."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from testbed.dataplane.compile import compile_p4
from testbed.dataplane.stf import parse_stf, read_stf
from testbed.dataplane.stf_bmv2 import run_bmv2
from testbed.dataplane.stf_runner import judge, run_stf
from testbed.resources import shared_folder
from tests.dataplane.test_lower_packets import AS_REFERENCE, FEATURES, ORACLE

UNLIKE = {"conditional_emit"}  # simple_switch runs each primitive of a deparser by itself: conditions there do nothing
PROGRAMS = {
    "oracle": ORACLE,
    "features": [path.with_suffix(".p4") for path in FEATURES if path.stem not in UNLIKE],
    "shipped": [
        shared_folder("p4") / f"{name}.p4" for name in ("aggregate", "aggregate_tree", "l3_ecmp", "spray")
    ],  # the others set queue depths
}

# Reads the ports' files as simple_switch does: the headers, the first packet of each, then always the earliest; after
# one it waits for the next of that port. Sends each packet back with the number of commands that came before it.
SWITCH = """\
#!{python}
import socket, struct, sys
from pathlib import Path
words = sys.argv
server = socket.create_server(("127.0.0.1", int(words[words.index("--thrift-port") + 1])))
ports = [word.split("@") for at, word in enumerate(words) if words[at - 1] == "-i"]
files = {{int(port): open(f"{{name}}_in.pcap", "rb", buffering=0) for port, name in ports}}
outs = {{int(port): open(f"{{name}}_out.pcap", "wb", buffering=0) for port, name in ports}}
def read(port, size):
    data = b""
    while len(data) < size:
        more = files[port].read(size - len(data))
        if not more:
            return None
        data += more
    return data
def following(port):
    head = read(port, 16)
    if head is None:
        return None
    second, _, size, _ = struct.unpack("<IIII", head)
    return second, read(port, size)
for port, out in outs.items():
    out.write(read(port, 24))
heads = {{port: following(port) for port in files}}
while any(heads.values()):
    port = min((head[0], port) for port, head in heads.items() if head)[1]
    told = Path("{commands}")
    frame = heads[port][1] + bytes([len(told.read_text().split()) if told.exists() else 0])
    outs[port].write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
    heads[port] = following(port)
server.accept()
while True:
    server.accept()
"""
CLI = """\
#!/bin/sh
cat >> {commands}
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("simple_switch", SWITCH), ("simple_switch_CLI", CLI)):
        path = tmp_path / name
        path.write_text(text.format(python=sys.executable, commands=tmp_path / "commands"))
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


@pytest.mark.slow
@pytest.mark.usefixtures("stand_in")
def test_packets_and_configuration_take_turns() -> None:
    text = """\
packet 3 aa
expect 3 aa 00 $
mc_mgrp_create 1
packet 0 bb
expect 0 bb 02 $
packet 3 cc
expect 3 cc 02 $
mc_mgrp_create 2
mc_mgrp_create 3
packet 12 dd
expect 12 dd 06 $
packet 0 ee
expect 0 ee 06 $
"""
    statements = parse_stf(text, "turns.stf")
    assert judge(statements, run_bmv2(ORACLE[0].with_suffix(".json"), statements)).failures == ()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("simple_switch") is None, reason="simple_switch is not installed")
@pytest.mark.parametrize("programs", PROGRAMS.values(), ids=PROGRAMS)
def test_our_json_on_the_real_switch(programs: list[Path], tmp_path: Path) -> None:
    wrong = {}
    for program in programs:
        compiled = tmp_path / f"{program.stem}.json"
        compiled.write_text(json.dumps(compile_p4(program).json))
        report = run_stf(compiled, read_stf(program.with_suffix(".stf")), "bmv2")
        if not report.passed or report.as_reference != AS_REFERENCE.get(program.stem, 0):
            wrong[program.stem] = report
    assert wrong == {}
