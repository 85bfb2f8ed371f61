"""Hosts at a row of native switches under a virtual clock, with a RoCE socket each that notes what it is told.

Host i is at switch `at[i]`, by its port i + 1, and has the address 10.0.0.(i + 1); cables are of 100 Gb/s and 1 us.
"""

import ctypes
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.native.build import build_program
from testbed.dataplane.native.control import ActionCall, Control, FieldMatch
from testbed.dataplane.native.loader import ProgramTable, load_program
from testbed.netcore import Fabric, Run
from testbed.wire import roce

RATE_BPS, DELAY_NS, QUEUE_BYTES = 10**11, 1000, 10**7
NEXT, BEFORE = 100, 101  # ports to the neighbours in the row
UDP_HEADERS_BYTES = 42
FIRST, MIDDLE, LAST, ONLY = roce.SEND_FIRST, roce.SEND_MIDDLE, roce.SEND_LAST, roce.SEND_ONLY
ECT, CE = 2, 3


@dataclass(frozen=True)
class Loaded:
    program: Program
    table: ProgramTable


def ways() -> Loaded:
    """The program of all switches."""
    compiled = compile_p4(Path(__file__).with_name("ways.p4"))
    program = program_of(json.loads(json.dumps(compiled.json)), "ways")
    return Loaded(program, load_program(build_program(program))[1])


def wire_ns(payload_bytes: int, header_bytes: int = 12, rate_bps: int = RATE_BPS) -> float:
    """How long a RoCE packet takes on the wire: pad, ICRC, FCS, preamble and gap counted."""
    frame = UDP_HEADERS_BYTES + header_bytes + payload_bytes + -payload_bytes % 4 + 4
    return (frame + 24) * 8e9 / rate_bps


def bth(opcode: int, psn: int, *, ask: bool = False, pad: int = 0, queue_pair: int = 7) -> bytes:
    return struct.pack(">BBHII", opcode, pad << 4, 0xFFFF, queue_pair, ask << 31 | psn)


def message(packets: int, psn: int = 0) -> list[bytes]:
    """The headers of a message that asks for an acknowledgement at its end."""
    if packets == 1:
        return [bth(ONLY, psn, ask=True)]
    middles = (bth(MIDDLE, psn + i) for i in range(1, packets - 1))
    return [bth(FIRST, psn), *middles, bth(LAST, psn + packets - 1, ask=True)]


def ip(host: int) -> int:
    return 0x0A000001 + host


@dataclass(frozen=True)
class Told:
    at_ns: int
    run: Run

    @property
    def source(self) -> int:
        return self.run[0] - 0x0A000001

    @property
    def tos(self) -> int:
        return self.run[2]

    @property
    def headers(self) -> tuple[bytes, ...]:
        return self.run[4]

    @property
    def payload(self) -> bytes:
        return bytes(self.run[5])

    @property
    def psns(self) -> list[int]:
        return [int.from_bytes(header[9:12], "big") for header in self.headers]

    @property
    def corrupt(self) -> int:
        return self.run[6]


class Row:
    """Switches in a row, and what each host was told."""

    def __init__(self, loaded: Loaded, at: Sequence[int] = (0, 0), *, seed: int = 1, coalesce: bool = True) -> None:
        self.fabric = fabric = Fabric(seed, virtual=True)
        self.switches = [fabric.add_switch(ctypes.addressof(loaded.table), 1) for _ in range(max(at) + 1)]
        self.hosts: list[int] = []
        self.links = 0
        self.into, self.out_of = list[int](), list[int]()
        for host, switch in enumerate(at):
            port = fabric.add_memory_port()
            self.hosts.append(port)
            there = fabric.add_switch_port(self.switches[switch], host + 1)
            self.into.append(self.link(port, there))
            self.out_of.append(self.link(there, port))
            fabric.set_address(port, bytes([2, 0, 0, 0, 0, host + 1]), ip(host))
        for left, right in zip(self.switches, self.switches[1:], strict=False):
            ends = fabric.add_switch_port(left, NEXT), fabric.add_switch_port(right, BEFORE)
            self.link(*ends)
            self.link(*reversed(ends))
        for number, switch in enumerate(self.switches):
            control = Control(loaded.program, loaded.table, fabric.switch_instance(switch))
            for host, own in enumerate(at):
                port = host + 1 if own == number else NEXT if own > number else BEFORE
                control.insert("hosts", [FieldMatch(host + 1)], ActionCall("to_port", {"port": port}))
        self.told: list[list[Told]] = [[] for _ in at]
        self.turns: list[list[int]] = [[] for _ in at]
        opcodes = roce.OPCODES if coalesce else b""
        self.sockets = [
            fabric.open_socket(port, roce.UDP_PORT, self._turn(host), framing="roce", opcodes=opcodes)
            for host, port in enumerate(self.hosts)
        ]

    def link(self, source: int, target: int) -> int:
        number = self.fabric.add_link(source, target, self.links)
        self.links += 1
        self.set_link(number)
        return number

    def set_link(self, number: int, **changes: object) -> None:
        usual = {"rate_bps": RATE_BPS, "delay_ns": DELAY_NS, "queue_bytes": QUEUE_BYTES}
        self.fabric.set_link(number, **{**usual, **changes})  # type: ignore[arg-type]

    def _turn(self, host: int) -> Callable[[int, list[Run]], None]:
        def turn(now_ns: int, runs: list[Run]) -> None:
            self.turns[host].append(now_ns)
            self.told[host] += [Told(now_ns, run) for run in runs]

        return turn

    def send(
        self,
        source: int,
        target: int,
        headers: Sequence[bytes],
        payload: bytes | bytearray | memoryview,
        segment: int,
        *,
        tos: int = ECT,
    ) -> int:
        return self.fabric.send_run(self.sockets[source], ip(target), 50_000, tos, headers, payload, segment)

    def settle(self) -> None:
        self.fabric.play(10**9)
