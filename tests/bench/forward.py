"""Measures what one core forwards through native switches in memory: ns a packet, by switches, frame size and burst.

    python -m tests.bench.forward [--program l3_ecmp] [--packets N]

A source and a sink are joined by 1 and by 5 switches; each has 1024 routes and a group of 8 members. Nothing crosses
the kernel; every packet passes every queue and every link.
"""

import argparse
import ctypes
import json
import random
import struct
import subprocess
import tempfile
from pathlib import Path

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.native.build import build_program
from testbed.dataplane.native.control import ActionCall, Control, FieldMatch
from testbed.dataplane.native.loader import ProgramTable, load_program
from testbed.resources import shared_folder

CORE = Path(__file__).parents[2] / "testbed" / "netcore"
OPTIMISED = ("-O3", "-fvisibility=hidden", "-fno-tree-slp-vectorize")
BINDING = {"module.c", *(path.name for path in CORE.glob("*_type.c"))}
ROUTES, MEMBERS, FLOWS = 1024, 8, 1024
REPEATS = 3


def build(directory: Path) -> ctypes.CDLL:
    """The core and the chain as a shared object, compiled as the extension is."""
    target = directory / "forward.so"
    sources = [str(path) for path in sorted(CORE.glob("*.c")) if path.name not in BINDING]
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", *OPTIMISED, "-fPIC", "-shared", f"-I{CORE}", "-o", str(target)]
    subprocess.run([*command, str(Path(__file__).with_suffix(".c")), *sources, "-lm"], check=True, timeout=300)
    library = ctypes.CDLL(str(target))
    for name, result, arguments in (
        ("chain_new", ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_uint32)),
        ("chain_instance", ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_uint32)),
        ("chain_free", None, (ctypes.c_void_p,)),
        (
            "chain_run",
            ctypes.c_uint64,
            (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_uint32),
        ),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def fill(control: Control) -> None:
    """Routes of 24 bits under 10.0.0.0/8, all to one group, all of whose members are port 1."""
    for prefix in range(ROUTES):
        match = FieldMatch(0x0A000000 | prefix << 8, prefix=24)
        control.insert("routes", [match], ActionCall("to_group", {"number": 1, "members": MEMBERS}))
    for member in range(MEMBERS):
        control.insert("members", [FieldMatch(1), FieldMatch(member)], ActionCall("to_port", {"port": 1}))


def frames(size: int) -> bytes:
    """RoCEv2 frames of `FLOWS` flows to random destinations."""
    draw = random.Random(1)
    result = b""
    for _ in range(FLOWS):
        target = 0x0A000000 | draw.randrange(ROUTES << 8)
        header = struct.pack(">BBHHHBBHII", 0x45, 2, size - 14, 0, 0x4000, 64, 17, 0, 0x0A010101, target)
        total: int = sum(struct.unpack(">10H", header))
        total = (total & 0xFFFF) + (total >> 16)
        checksum = 0xFFFF ^ ((total & 0xFFFF) + (total >> 16))
        header = header[:10] + struct.pack(">H", checksum) + header[12:]
        udp = struct.pack(">HHHH", 0xC000 | draw.randrange(1 << 14), 4791, size - 34, 0)
        result += bytes.fromhex("0200000000010200000000020800") + header + udp + bytes(size - 42)
    return result


def measure(
    library: ctypes.CDLL, program: Program, table: ProgramTable, switches: int, options: argparse.Namespace
) -> None:
    chain = library.chain_new(ctypes.addressof(table), switches)
    for number in range(switches):
        fill(Control(program, table, library.chain_instance(chain, number)))
    for size in (64, 1100):
        for burst in (1, 32):
            run = (chain, frames(size), size, FLOWS, options.packets, burst)
            best_ns = min(library.chain_run(*run) for _ in range(REPEATS)) / options.packets
            assert best_ns, "a packet was lost"
            print(
                f"{switches} switches, {size:4d} B, bursts of {burst:2d}: {1e3 / best_ns:5.2f} M packets/s,"
                f" {best_ns:4.0f} ns a packet, {best_ns / switches:3.0f} ns a switch"
            )
    library.chain_free(chain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="l3_ecmp")
    parser.add_argument("--packets", type=int, default=1_000_000)
    options = parser.parse_args()
    compiled = compile_p4(shared_folder("p4") / f"{options.program}.p4")
    program = program_of(json.loads(json.dumps(compiled.json)), options.program)
    _object, table = load_program(build_program(program))
    with tempfile.TemporaryDirectory() as directory:
        library = build(Path(directory))
        for switches in (1, 5):
            measure(library, program, table, switches, options)


if __name__ == "__main__":
    main()
