"""Measures what the virtual fabric spends on a packet of a run: ns of CPU a data packet and a hop, by switches and run.

    python -m tests.bench.sockets [--packets N]

Pairs of hosts at the ends of a row of switches (l3_ecmp) send RoCE messages of 4 KiB packets at the links' rate; each
is acknowledged by one packet. The endpoints do no more than that.
"""

import argparse
import ctypes
import json
import struct
import time
from itertools import pairwise

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.native.build import build_program
from testbed.dataplane.native.control import ActionCall, Control, FieldMatch
from testbed.dataplane.native.loader import ProgramTable, load_program
from testbed.netcore import Fabric, Run
from testbed.resources import shared_folder
from testbed.wire import roce

SEGMENT, RATE_BPS, DELAY_NS, QUEUE_BYTES = 4096, 10**11, 1000, 10**7
PAIRS = 64
ACKNOWLEDGEMENT = struct.pack(">BBHII", roce.ACKNOWLEDGE, 0, 0xFFFF, 8, 0) + bytes(4)


def fabric_of(program: Program, table: ProgramTable, switches: int) -> tuple[Fabric, list[int]]:
    """A row of switches, the senders at its first and the receivers at its last."""
    fabric = Fabric(1, virtual=True)
    row = [fabric.add_switch(ctypes.addressof(table), i) for i in range(switches)]
    links = 0

    def join(source: int, target: int) -> None:
        nonlocal links
        for ends in ((source, target), (target, source)):
            link = fabric.add_link(*ends, links)
            links += 1
            fabric.set_link(link, rate_bps=RATE_BPS, delay_ns=DELAY_NS, queue_bytes=QUEUE_BYTES)

    hosts = []
    for host in range(2 * PAIRS):
        port = fabric.add_memory_port()
        at = row[0] if host < PAIRS else row[-1]
        join(port, fabric.add_switch_port(at, host))
        fabric.set_address(port, bytes([2, 0, 0, 0, 0, host]), 0x0A000000 + host)
        hosts.append(port)
    for left, right in pairwise(row):
        for pair in range(PAIRS):
            join(fabric.add_switch_port(left, 200 + pair), fabric.add_switch_port(right, 300 + pair))
    for number, switch in enumerate(row):
        control = Control(program, table, fabric.switch_instance(switch))
        for host in range(2 * PAIRS):
            own = 0 if host < PAIRS else switches - 1
            port = host if own == number else 200 + host % PAIRS if own > number else 300 + host % PAIRS
            match = FieldMatch(0x0A000000 + host, prefix=32)
            control.insert("routes", [match], ActionCall("to_port", {"port": port}))
    return fabric, hosts


def headers(packets: int, message: int) -> tuple[bytes, ...]:
    first = message * packets & 0xFFFFFF
    codes = [roce.SEND_FIRST, *[roce.SEND_MIDDLE] * (packets - 2), roce.SEND_LAST] if packets > 1 else [roce.SEND_ONLY]
    asks = [0] * (packets - 1) + [1 << 31]
    return tuple(
        struct.pack(">BBHII", code, 0, 0xFFFF, 7, ask | first + i & 0xFFFFFF)
        for i, (code, ask) in enumerate(zip(codes, asks, strict=True))
    )


def measure(program: Program, table: ProgramTable, switches: int, run: int, packets: int) -> None:
    fabric, hosts = fabric_of(program, table, switches)
    payload = memoryview(bytes(run * SEGMENT))
    messages = packets // run // PAIRS
    all_headers = [headers(run, message) for message in range(messages)]
    got = 0

    def pair(number: int) -> None:
        left, free = iter(all_headers), 0

        def send(now: int, _: list[Run]) -> None:
            nonlocal free
            header = next(left, None) if now >= free else None
            if header:
                free = fabric.send_run(sender, 0x0A000000 + PAIRS + number, 50_000, 2, header, payload, SEGMENT)
                fabric.alarm(sender, free, free=True)

        def receive(_: int, runs: list[Run]) -> None:
            nonlocal got
            for told in runs:
                got += len(told[4])
            fabric.send_run(receiver, 0x0A000000 + number, 50_000, 2, (ACKNOWLEDGEMENT,), b"", 0)

        sender = fabric.open_socket(hosts[number], roce.UDP_PORT, send, framing="roce", opcodes=roce.OPCODES)
        receiver = fabric.open_socket(
            hosts[PAIRS + number], roce.UDP_PORT, receive, framing="roce", opcodes=roce.OPCODES
        )
        fabric.alarm(sender, 0)

    for number in range(PAIRS):
        pair(number)
    begun = time.process_time_ns()
    fabric.play(10**12)
    taken = time.process_time_ns() - begun
    assert got == messages * run * PAIRS
    statistics = fabric.statistics()
    print(
        f"{switches} switches, messages of {run:2d} packets: {taken / got:5.0f} ns a data packet,"
        f" {taken / statistics['hops']:4.0f} ns a hop, {taken / statistics['events']:4.0f} ns an event,"
        f" at most {statistics['most_packets']} packets at once"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=200_000)
    options = parser.parse_args()
    compiled = compile_p4(shared_folder("p4") / "l3_ecmp.p4")
    program = program_of(json.loads(json.dumps(compiled.json)), "l3_ecmp")
    _object, table = load_program(build_program(program))
    for switches in (1, 5):
        for run in (1, 8, 64):
            measure(program, table, switches, run, options.packets)


if __name__ == "__main__":
    main()
