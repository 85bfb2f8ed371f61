"""Whole programs from P4 source on the native target: what the oracle does not cover; the speed of an ECMP router."""

import json
import random
import struct
from pathlib import Path

import pytest

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.native.control import ActionCall, FieldMatch
from testbed.dataplane.native.exchange import Exchange
from tests.dataplane.programs import program

SOURCES = Path(__file__).parent / "native"
LEAST_PACKETS_PER_S = 1_000_000  # a fifth of what an idle core of the year 2020 does, for busy machines


def _program(name: str) -> Program:
    compiled = compile_p4(SOURCES / f"{name}.p4")
    return program_of(json.loads(json.dumps(compiled.json)), name)


def _sent(exchange: Exchange, frame: str) -> str:
    ((port, data),) = exchange.inject(0, bytes.fromhex(frame))
    assert port == 1
    return data.hex(" ")


def test_features() -> None:
    with Exchange(_program("features")) as exchange:
        assert _sent(exchange, "01 03 00 112233 ff") == "01 03 22 11 77 33 ff"  # element 1 read and written
        assert _sent(exchange, "05 03 00 112233 ff") == "05 03 00 11 22 33 ff"  # beyond the stack: nothing
        assert _sent(exchange, "00 01 00 11 01 020399") == "00 01 11 77 01 02 03 99"  # two unions
        assert _sent(exchange, "00 00 00 03 02 aabb 0b") == "00 00 00 03 02 aa bb 03 02 aa bb 0b"  # varbit, copied
        assert _sent(exchange, "00 00 00 03 09 aabb 0b") == "00 00 00 03 09 aa bb 0b"  # longer than the packet
        exchange.control.add_to_value_set("vs", 5)
        assert _sent(exchange, "05 03 00 112233 ff") == "05 03 aa 11 22 33 ff"
        assert exchange.inject(0, bytes.fromhex("090000")) == []
        assert exchange.messages[0] == "i 1 r 34"
        assert exchange.messages[-1].endswith("assert(h.k.i != 9)")
        assert (exchange.counters["digests"], exchange.counters["dropped_passes"]) == (5, 0)


def _checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF ^ ((total & 0xFFFF) + (total >> 16))


def _frame(draw: random.Random) -> bytes:
    addresses = [0x0A000000 | draw.randrange(1 << 18) for _ in range(2)]
    header = struct.pack(">BBHHHBBHII", 0x45, 0, 50, draw.randrange(65536), 0, 64, 17, 0, *addresses)
    header = header[:10] + struct.pack(">H", _checksum(header)) + header[12:]
    return (
        bytes.fromhex("020000000001020000000002 0800")
        + header
        + struct.pack(">HH", draw.randrange(65536), 4791)
        + bytes(26)
    )


@pytest.mark.slow
def test_an_ecmp_router_in_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """Frames of 64 bytes, 1024 routes, 16 groups of 8; every frame must leave, its checksum right."""
    draw = random.Random(1)
    frames = [(1, _frame(draw)) for _ in range(1024)]
    with Exchange(_program("ecmp")) as exchange:
        for prefix in range(1024):
            match = FieldMatch(0x0A000000 | prefix << 8, prefix=24)
            exchange.control.insert("routes", [match], ActionCall("to_group", {"group": prefix % 16, "size": 8}))
        for group in range(16):
            for member in range(8):
                call = ActionCall("to_port", {"port": member, "dmac": 0x020000000100 + member})
                exchange.control.insert("members", [FieldMatch(group), FieldMatch(member)], call)
        ports = set()
        for port, frame in frames:
            ((out, sent),) = exchange.inject(port, frame)
            assert _checksum(sent[14:34]) == 0
            assert sent[22] == 63
            ports.add(out)
        assert ports == set(range(8))
        count = 1_000_000
        best_ns = min(exchange.bench(frames, count) for _ in range(3))
    rate = count * 1_000_000_000 // best_ns
    with capsys.disabled():
        print(f"\necmp in memory: {rate / 1e6:.1f} M packets/s a core, {best_ns / count:.0f} ns a packet")
    assert rate > LEAST_PACKETS_PER_S


@pytest.mark.parametrize("loop", ["action", "control"])
def test_a_loop_without_end_is_left(loop: str, tmp_path: Path) -> None:
    """As by `exit`: what stands behind the loop is not done, egress is."""
    body = "for (bit<8> i = 0; i <= h.k.a; i = i + 1) { h.k.c = i; }"
    text = program(
        members=f"action endless() {{ {body} }}",
        apply=f"sm.egress_spec = 1; {'endless();' if loop == 'action' else body} h.k.b = 7;",
    )
    path = tmp_path / "loop.p4"
    path.write_text(text)
    with Exchange(program_of(json.loads(json.dumps(compile_p4(path).json)), "loop")) as exchange:
        assert _sent(exchange, "03 0000 00 00") == "03 00 07 00 03"
        assert _sent(exchange, "ff 0000 00 00").startswith("ff 00 00 00")
