"""`testbed p4 run`: programs on real interfaces, between hosts of their own."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.cli import execute
from testbed.dataplane.stf import Expect, Packet, read_stf
from testbed.emulation import namespaces
from tests.netcore.pcapng import INBOUND, OUTBOUND, read_pcapng
from tests.netcore.veths import Leaf, veths

ORACLE = Path(__file__).parent / "oracle"
LIMIT_S = 60
IP_RECVTTL = 12  # linux/in.h
TAIL = bytes(range(0x40, 0x70))  # makes frames of tests long enough for a wire, and known again
ROUTES = """
setdefault salts salted(value:0x5eed)
add routes headers.ipv4.destination:0x0a080001/32 to_port(port:1)
add routes headers.ipv4.destination:0x0a080002/32 to_port(port:2)
packet 1 00 11 22
expect 2 00 11 22
"""

needs_root = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces and packet sockets"),
]


@contextmanager
def switch(middle: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """The command in a namespace, once it moves packets."""
    command = ["nsenter", f"--net=/run/netns/{middle}", sys.executable, "-m", "testbed", "p4", "run", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        assert "runs on" in (line := process.stderr.readline()), line + process.stderr.read()
        yield process
    finally:
        process.kill()
        process.communicate(timeout=LIMIT_S)


def inside(leaf: Leaf, family: int, kind: int) -> socket.socket:
    made = namespaces.inside(leaf.netns, lambda: socket.socket(family, kind))
    made.settimeout(LIMIT_S)
    return made


def wire(leaf: Leaf) -> socket.socket:
    made = inside(leaf, socket.AF_PACKET, socket.SOCK_RAW)
    made.bind(("eth0", 3))  # ETH_P_ALL
    return made


class TestOnInterfaces:
    pytestmark = needs_root

    def test_a_router_forwards_counts_and_captures(self, tmp_path: Path) -> None:
        entries, captures = tmp_path / "routes.stf", tmp_path / "pcap"
        entries.write_text(ROUTES)
        with veths(2) as (middle, (first, second)):
            ports = ("--port", f"1={first.interface}", "--port", f"2={second.interface}")
            options = ("--entries", str(entries), "--capture", str(captures), "--json")
            with (
                switch(middle, "l3_ecmp", *ports, *options) as process,
                inside(first, socket.AF_INET, socket.SOCK_DGRAM) as sending,
                inside(second, socket.AF_INET, socket.SOCK_DGRAM) as taking,
            ):
                sending.bind((first.ip, 4000))
                taking.bind((second.ip, 4000))
                taking.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
                for number in range(20):
                    sending.sendto(bytes([number]), (second.ip, 4000))
                    data, [(_, _, ttl)], _, _ = taking.recvmsg(100, 100)
                    assert (data[0], int.from_bytes(ttl, sys.byteorder)) == (number, 63)
                process.send_signal(signal.SIGINT)
                out, errors = process.communicate(timeout=LIMIT_S)
        assert (process.returncode, errors) == (0, "")
        counts = json.loads(out)
        into, outof = counts["ports"]
        assert (into["port"], into["interface"], outof["sent"], outof["sent_bytes"]) == (1, "veth0", 20, 20 * 43)
        assert into["received"] >= 20
        assert all(port[lost] == 0 for port in counts["ports"] for lost in ("missed", "malformed", "refused"))
        assert [(e["line"], e["packets"], e["bytes"]) for e in counts["entries"]] == [(3, 0, 0), (4, 20, 20 * 43)]
        both = [read_pcapng(captures / f"veth{i}.pcapng") for i in range(2)]
        assert both[0].comment == "port 1 of l3_ecmp"
        seen = [[r for r in capture.records if r.frame[12:14] == b"\x08\x00"] for capture in both]
        assert [{r.direction for r in records} for records in seen] == [{INBOUND}, {OUTBOUND}]
        assert [[(r.frame[22], r.frame[42]) for r in records] for records in seen] == [
            [(ttl, number) for number in range(20)] for ttl in (64, 63)
        ]

    @pytest.mark.parametrize("name", ["69_clone_e2e", "78_clone_to_group"])
    def test_a_packet_test_holds_on_wires(self, name: str) -> None:
        """The test's packets come as its expectations say, by mirroring sessions and multicast groups too."""
        program, stf = ORACLE / f"{name}.p4", ORACLE / f"{name}.stf"
        statements = read_stf(stf)
        with veths(7) as (middle, leaves):
            wires = [wire(leaf) for leaf in leaves]
            ports = [word for leaf in leaves for word in ("--port", f"{leaf.number}={leaf.interface}")]
            with switch(middle, str(program), *ports, "--entries", str(stf), "--seconds", str(LIMIT_S)):
                for statement in statements:
                    if isinstance(statement, Packet):
                        wires[statement.port].send(statement.frame + TAIL)
                    elif isinstance(statement, Expect):
                        while not (frame := wires[statement.pattern.port].recv(2000)).endswith(TAIL):
                            pass
                        assert statement.pattern.matches(frame[: -len(TAIL)]), statement
            for each in wires:
                each.close()

    def test_it_ends_after_the_time_asked_for(self) -> None:
        with (
            veths(1) as (middle, (leaf,)),
            switch(middle, "l3_ecmp", "--port", f"7={leaf.interface}", "--seconds", "0.3") as process,
        ):
            out, _ = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0
            assert out.startswith(f"port 7 ({leaf.interface}): received ")

    def test_an_interface_that_vanishes_ends_it_with_that_reason(self) -> None:
        with veths(2) as (middle, (first, second)):
            ports = ("--port", f"1={first.interface}", "--port", f"2={second.interface}")
            with switch(middle, "l3_ecmp", *ports) as process:
                subprocess.run(
                    ["ip", "-n", middle, "link", "delete", second.interface],
                    check=True,
                    capture_output=True,
                    timeout=60,
                )
                out, errors = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 1
        assert out.startswith(f"port 1 ({first.interface}): received "), "what was counted is told as ever"
        assert errors == f"testbed: l3_ecmp ended: port 2: interface '{second.interface}' vanished\n"

    def test_an_interface_that_is_not_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert execute(["p4", "run", "l3_ecmp", "--port", "1=none0"]) == 2
        assert "port 1: interface 'none0': No such device" in capsys.readouterr().err

    def test_captures_that_cannot_be_written(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert execute(["p4", "run", "l3_ecmp", "--port", "1=lo", "--capture", "/dev/null/x"]) == 2
        assert capsys.readouterr().err == "testbed: /dev/null/x: Not a directory\n"

    def test_a_port_that_no_program_can_name(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert execute(["p4", "run", "l3_ecmp", "--port", "510=lo"]) == 2
        assert "ports are numbered from 0 to 509" in capsys.readouterr().err

    def test_entries_that_the_program_has_not(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        entries = tmp_path / "wrong.stf"
        entries.write_text("\nadd paths headers.ipv4.destination:0x0a080001/32 to_port(port:1)\n")
        assert execute(["p4", "run", "l3_ecmp", "--port", "1=lo", "--entries", str(entries)]) == 2
        assert f"{entries}:2:1: there is no table 'paths'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "--port", "1=eth0"], "there is no switch program 'nothing'"),
        (["l3_ecmp", "--port", "eth0"], "a port is written N=INTERFACE"),
        (["l3_ecmp", "--port", "1=eth0", "--port", "1=eth1"], "a port has one interface"),
        (["l3_ecmp", "--port", "1=eth0", "--port", "2=eth0"], "an interface one port"),
        (["l3_ecmp", "--port", "1=eth0", "--entries", "none.stf"], "none.stf: No such file"),
        ([str(ORACLE / "neg_03_width.p4"), "--port", "1=eth0"], "neg_03_width.p4:"),
        (["l3_ecmp"], "--port"),
    ],
)
def test_what_is_asked_wrongly_ends_in_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["p4", "run", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert execute(["p4", "run", "l3_ecmp", "--port", "1=eth0"]) == 3
    assert "needs root" in capsys.readouterr().err
