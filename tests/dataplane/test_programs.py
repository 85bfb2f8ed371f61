"""The shipped switch programs: their packet tests, and what those cannot say: how evenly flows and packets spread."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from testbed.cli import execute
from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.native.control import ActionCall, FieldMatch
from testbed.dataplane.native.exchange import Exchange
from testbed.dataplane.stf import read_stf
from testbed.dataplane.stf_runner import run_stf
from testbed.resources import shared_folder
from tests.dataplane.sanitized import assert_clean

P4 = shared_folder("p4")
PROGRAMS = sorted(path.stem for path in P4.glob("*.p4"))
CHI_SQUARE = {2: 13.82, 3: 16.27, 7: 24.32}  # by degrees of freedom, what one draw in 1000 exceeds
PREFIX = FieldMatch(0x0A010000, prefix=16)
SANITIZED = ("aggregate_tree", "gradient_drop", "trim")
MUTANTS = 5000


@cache
def _program(name: str) -> Program:
    return program_of(json.loads(json.dumps(compile_p4(P4 / f"{name}.p4").json)), name)


@contextmanager
def _switch(name: str, members: int, *, salt: int | None = None, seed: int = 1) -> Iterator[Exchange]:
    """A switch with one route, to a group of ports numbered from 0."""
    with Exchange(_program(name), seed=seed) as exchange:
        control = exchange.control
        control.insert("routes", [PREFIX], ActionCall("to_group", {"number": 1, "members": members}))
        for port in range(members):
            fields = [FieldMatch(1), FieldMatch(port)]
            control.insert("members", fields, ActionCall("to_port", {"port": port}))
        if salt is not None:
            control.set_default("salts", ActionCall("salted", {"value": salt}))
        yield exchange


def _frame(l4: Packet, **ip: int | str) -> bytes:
    return bytes(Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02") / IP(dst="10.1.0.9", **ip) / l4)


def _roce(source_port: int, payload: bytes = bytes(26)) -> bytes:
    return _frame(UDP(sport=source_port, dport=4791, chksum=0) / Raw(payload), src="10.9.0.1")


def _port(exchange: Exchange, frame: bytes) -> int:
    ((port, _),) = exchange.inject(0, frame)
    return port


def _chi_square(ports: Iterable[int], members: int) -> float:
    counts = Counter(ports)
    expected = counts.total() / members
    return sum((counts[member] - expected) ** 2 / expected for member in range(members))


# Packet tests


def test_each_program_has_its_packet_test() -> None:
    tests = [path.stem for path in sorted(P4.glob("*.stf")) if not path.stem.endswith(".entries")]
    assert tests == PROGRAMS
    assert PROGRAMS == [
        "aggregate", "aggregate_besteffort", "aggregate_optical", "aggregate_tree", "ecn_priority", "gradient_drop",
        "l3_ecmp", "spray", "trim",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_packets(name: str, tmp_path: Path) -> None:
    compiled = compile_p4(P4 / f"{name}.p4")
    assert compiled.warnings == ()
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(compiled.json))
    assert run_stf(path, read_stf(P4 / f"{name}.stf")).failures == ()


@pytest.mark.slow
def test_mutated_packets_are_clean_under_sanitizers(tmp_path: Path) -> None:
    """A sample; all programs with a million mutants each are run by hand."""
    for name in SANITIZED:
        (tmp_path / f"{name}.json").write_text(json.dumps(compile_p4(P4 / f"{name}.p4").json))
        (tmp_path / f"{name}.stf").write_bytes((P4 / f"{name}.stf").read_bytes())
    assert_clean(SANITIZED, tmp_path, MUTANTS)


def test_the_list_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["list", "programs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == PROGRAMS
    told = dict(line.split(maxsplit=1) for line in lines)
    assert told["l3_ecmp"].startswith("Forwards IPv4 by the longest prefix")


# How flows spread


@pytest.mark.slow
@pytest.mark.parametrize("members", [3, 4, 8])
@pytest.mark.parametrize("salt", [0, 1, 0x5EED])
def test_source_ports_spread_over_the_members(members: int, salt: int) -> None:
    """256 flows that differ in the last bits of the UDP source port alone, as a host's queue pairs do."""
    with _switch("l3_ecmp", members, salt=salt) as exchange:
        ports = [_port(exchange, _roce(0xC000 + flow)) for flow in range(256)]
    assert _chi_square(ports, members) < CHI_SQUARE[members - 1]


@pytest.mark.slow
@pytest.mark.parametrize("salts", [(1, 2), (7, 0x80000007), (0x1234, 0xBEEF)])
def test_two_switches_in_a_row_choose_apart(salts: tuple[int, int]) -> None:
    """The flows that one switch sends to a member are spread by the next switch over all of its own."""
    first, second = salts
    with _switch("l3_ecmp", 4, salt=first) as one, _switch("l3_ecmp", 4, salt=second) as other:
        chosen = [(_port(one, frame), _port(other, frame)) for frame in (_roce(0xC000 + f) for f in range(1024))]
    for member in range(4):
        assert _chi_square((b for a, b in chosen if a == member), 4) < CHI_SQUARE[3]


@pytest.mark.slow
def test_a_flow_stays_on_its_port() -> None:
    draw = random.Random(1)
    with _switch("l3_ecmp", 8, salt=3) as exchange:
        for flow in range(16):
            same = {_port(exchange, _roce(0xC000 + flow, draw.randbytes(12 + draw.randrange(64)))) for _ in range(8)}
            same |= {
                _port(exchange, _frame(UDP(sport=0xC000 + flow, dport=4791), src="10.9.0.1", tos=t)) for t in (2, 3)
            }
            assert len(same) == 1
        tcp = {_port(exchange, _frame(TCP(sport=p, dport=5001), src="10.9.0.1")) for p in range(5000, 5064)}
        assert tcp == set(range(8))
        hosts = {_port(exchange, _frame(Raw(b""), src=f"10.9.0.{h}", proto=1)) for h in range(1, 65)}
        assert hosts == set(range(8))
        first = _frame(UDP(sport=1, dport=2) / Raw(bytes(24)), src="10.9.0.1", flags="MF")
        rest = _frame(Raw(bytes(32)), src="10.9.0.1", proto=17, frag=4)
        assert _port(exchange, first) == _port(exchange, rest)


@pytest.mark.slow
@pytest.mark.parametrize("members", [3, 4, 8])
def test_packets_of_one_flow_are_sprayed_evenly(members: int) -> None:
    frame = _roce(0xC000)
    with _switch("spray", members) as exchange:
        ports = [_port(exchange, frame) for _ in range(4096)]
    assert _chi_square(ports, members) < CHI_SQUARE[members - 1]
    following = [(b - a) % members for a, b in pairwise(ports)]
    assert _chi_square(following, members) < CHI_SQUARE[members - 1], "a port says nothing of the next one"


@pytest.mark.slow
def test_switches_with_seeds_of_their_own_spray_apart() -> None:
    frame = _roce(0xC000)
    with _switch("spray", 4, seed=1) as one, _switch("spray", 4, seed=2) as other:
        apart = [(_port(one, frame) - _port(other, frame)) % 4 for _ in range(1024)]
    assert _chi_square(apart, 4) < CHI_SQUARE[3]


# What leaves


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_headers_are_as_another_implementation_has_them(name: str) -> None:
    """Scapy builds the packet anew from what it reads: checksum and lengths come out the same."""
    with _switch(name, 1) as exchange:
        for seen in (0, 100_000):
            exchange.set_queue_depth(seen)
            ((_, sent),) = exchange.inject(0, _roce(0xC000, bytes(100)))
            assert _rebuilt(sent) == sent
            assert IP(sent[14:]).ttl == 63


@pytest.mark.slow
def test_what_is_cut_is_a_packet() -> None:
    with _switch("trim", 1) as exchange:
        arguments = {"depth": 10_000, "kept": 54, "dscp": 1, "priority": 7}
        exchange.control.insert("trimmable", [FieldMatch(0)], ActionCall("trim_above", arguments))
        exchange.set_queue_depth(10_001)
        whole, cut = (exchange.inject(0, _roce(0xC000, bytes(1024)))[0][1] for _ in range(2))
        assert (len(whole), len(cut)) == (14 + 20 + 8 + 1024, 54)
        assert _rebuilt(cut) == cut
        assert (IP(cut[14:]).tos, UDP(cut[34:]).len) == (1 << 2, 8 + 12)


def _rebuilt(frame: bytes) -> bytes:
    packet = Ether(frame)
    del packet[IP].len, packet[IP].chksum, packet[UDP].len
    return bytes(packet)
