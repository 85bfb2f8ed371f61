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
        shared_folder("p4") / f"{name}.p4"
        for name in ("aggregate", "aggregate_optical", "aggregate_tree", "l3_ecmp", "spray")
    ],  # the others set queue depths
}

# Reads the ports' files as simple_switch does: the headers, the first packet of each, then always the earliest; after
# one it waits for the next of that port. Sends each packet back with the number of commands that came before it.
SWITCH = """\
#!{python}
import struct, sys, threading
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.server import TThreadedServer
from thriftpy2.thrift import TMultiplexedProcessor, TProcessor
from thriftpy2.transport import TBufferedTransportFactory, TServerSocket
from testbed.dataplane.bmv2.runtime import interface
told = []
class Handler:
    def mirroring_session_add(self, session, where):
        told.append((session, where.port))
words = sys.argv
services = TMultiplexedProcessor()
services.register_processor("simple_switch", TProcessor(interface().SimpleSwitch, Handler()))
listener = TServerSocket("127.0.0.1", int(words[words.index("--thrift-port") + 1]))
server = TThreadedServer(services, listener, TBufferedTransportFactory(), TBinaryProtocolFactory(), daemon=True)
threading.Thread(target=server.serve, daemon=True).start()
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
    frame = heads[port][1] + bytes([len(told)])
    outs[port].write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
    heads[port] = following(port)
threading.Event().wait()
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "simple_switch"
    path.write_text(SWITCH.format(python=sys.executable))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


@pytest.mark.slow
@pytest.mark.usefixtures("stand_in")
def test_packets_and_configuration_take_turns() -> None:
    text = """\
packet 3 aa
expect 3 aa 00 $
mirroring_add 1 5
packet 0 bb
expect 0 bb 01 $
packet 3 cc
expect 3 cc 01 $
mirroring_add 2 6
mirroring_add 3 7
packet 12 dd
expect 12 dd 03 $
packet 0 ee
expect 0 ee 03 $
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
