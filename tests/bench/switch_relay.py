"""Native l3_ecmp switches against a plain relay in C between the same two interfaces, packet by packet.

    sudo python -m tests.bench.switch_relay [--rounds N] [--seconds S]

A generator (packets.c) on one core sends over a veth pair to the subject on the other: the relay (AF_PACKET, recvmmsg,
sendmmsg), one switch, or a path of five. Rates are read at the far end while more is offered than passes: the best of
the rounds, which alternate, since other work on this machine only takes away. Losses are counted at 90 % of the least.
"""

import argparse
import ctypes
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed import netcore
from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.native.build import build_program
from testbed.dataplane.native.control import ActionCall, Control, FieldMatch
from testbed.dataplane.native.loader import load_program
from testbed.dataplane.programs import document_of, path_of
from testbed.emulation import namespaces
from tests.netcore.veths import Leaf, veths

SIZES = (64, 1500)
SUBJECTS = {"relay": 0, "1 l3_ecmp": 1, "5 l3_ecmp": 5}  # switches in the fabric
SUBJECT_CPU, GENERATOR_CPU = 0, 1
PRIORITY, OBSERVER_PRIORITY = 20, 30  # under SCHED_FIFO
LINK_BPS = 10**12
SETTLE_S = 0.1
SHARE = 0.9
LIMIT_S = 60


def pinned(cpu: int, priority: int) -> None:
    """Keep the calling thread on one core, ahead of all that is not so privileged."""
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))


def serve(switches: int, interfaces: list[str]) -> None:
    """A path of switches between two interfaces of this namespace, until SIGTERM."""
    document = document_of(path_of("l3_ecmp"))
    program = program_of(document, "l3_ecmp")
    library, table = load_program(build_program(program))
    fabric = netcore.Fabric(1)
    ends = [
        fabric.add_port(netcore.open_packet(name), virtio=True, host=True, switch=0, spray=False, join=False)
        for name in interfaces
    ]
    chain = [ends[0]]
    for seed in range(switches):
        switch = fabric.add_switch(ctypes.addressof(table), seed)
        chain += [fabric.add_switch_port(switch, number) for number in (1, 2)]
        control = Control(program, table, fabric.switch_instance(switch))
        control.insert(
            "routes", [FieldMatch(0x0A010000, prefix=16)], ActionCall("to_group", {"number": 1, "members": 4})
        )
        for member in range(4):
            control.insert("members", [FieldMatch(1), FieldMatch(member)], ActionCall("to_port", {"port": 2}))
    chain.append(ends[1])
    for cable, (first, second) in enumerate(zip(chain[::2], chain[1::2], strict=True)):
        for index, (source, target) in enumerate([(first, second), (second, first)]):
            link = fabric.add_link(source, target, 2 * cable + index)
            fabric.set_link(link, rate_bps=LINK_BPS, delay_ns=0, queue_bytes=1 << 20)
    signal.signal(signal.SIGTERM, lambda *_: fabric.stop())
    thread = threading.Thread(target=lambda: (pinned(SUBJECT_CPU, PRIORITY), netcore.set_timer_slack(1), fabric.run()))
    thread.start()
    print("ready", flush=True)
    while thread.is_alive():
        thread.join(0.1)
    del library


def inside(netns: str, *command: str) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{netns}", *command]


def privileged(cpu: int, *command: str) -> list[str]:
    return ["taskset", "-c", str(cpu), "chrt", "-f", str(PRIORITY), *command]


@contextmanager
def subject(name: str, packets: Path, middle: str, interfaces: list[str]) -> Iterator[None]:
    """The relay or a path of switches, running."""
    if switches := SUBJECTS[name]:
        command = [sys.executable, "-m", __spec__.name, "--serve", str(switches), *interfaces]
    else:
        command = privileged(SUBJECT_CPU, str(packets), "relay", *interfaces)
    process = subprocess.Popen(inside(middle, *command), stdout=subprocess.PIPE)
    try:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n", f"{name} did not start"
        yield
    finally:
        process.terminate()
        process.wait(LIMIT_S)


def received(leaf: Leaf) -> int:
    """Packets that came in at a host."""
    table = namespaces.inside(leaf.netns, Path("/proc/thread-self/net/dev").read_text)
    (line,) = [line for line in table.splitlines() if line.strip().startswith("eth0:")]
    return int(line.split()[2])


def generate(packets: Path, leaf: Leaf, size: int, rate: float, seconds: float) -> subprocess.Popen[str]:
    command = privileged(GENERATOR_CPU, str(packets), "generate", "eth0", str(size), str(rate), str(seconds))
    return subprocess.Popen(inside(leaf.netns, *command), stdout=subprocess.PIPE, text=True)


def ended(generator: "subprocess.Popen[str]") -> int:
    """How many packets it sent."""
    out, _ = generator.communicate(timeout=LIMIT_S)
    return int(out.split()[0])


def saturated(packets: Path, hosts: list[Leaf], size: int, seconds: float) -> tuple[float, float]:
    """Packets/s that come out while more are offered than pass: (out, offered)."""
    generator = generate(packets, hosts[0], size, 0, seconds + 2 * SETTLE_S)
    time.sleep(SETTLE_S)
    before, started = received(hosts[1]), time.monotonic()
    time.sleep(seconds)
    rate = (received(hosts[1]) - before) / (time.monotonic() - started)
    return rate, ended(generator) / (seconds + 2 * SETTLE_S)


def lost(packets: Path, hosts: list[Leaf], size: int, rate: float, seconds: float) -> tuple[int, int]:
    """Packets that do not come out at a rate that passes: (lost, sent)."""
    before = received(hosts[1])
    sent = ended(generate(packets, hosts[0], size, rate, seconds))
    deadline = time.monotonic() + 1
    while (missing := sent - (received(hosts[1]) - before)) > 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    return missing, sent


def measure(options: argparse.Namespace, packets: Path) -> None:
    rates: dict[tuple[str, int], list[float]] = {(name, size): [] for name in SUBJECTS for size in SIZES}
    offered: dict[int, list[float]] = {size: [] for size in SIZES}
    with veths(2) as (middle, hosts):
        interfaces = [host.interface for host in hosts]
        for _ in range(options.rounds):
            for name in SUBJECTS:
                with subject(name, packets, middle, interfaces):
                    for size in SIZES:
                        rate, more = saturated(packets, hosts, size, options.seconds)
                        rates[name, size].append(rate)
                        offered[size].append(more)
                        time.sleep(0.2)  # what the socket still holds
        for size in SIZES:
            best = {name: max(rates[name, size]) for name in SUBJECTS}
            print(f"{size} B: {min(offered[size]) / 1e3:.0f} k packets/s offered at least")
            for name, rate in best.items():
                usual = statistics.median(rates[name, size]) / 1e3
                share = rate / best["relay"]
                print(f"  {name:<10} {rate / 1e3:5.0f} k packets/s (median {usual:.0f}), {share:.2f} of the relay's")
            print(f"  five switches cost {best['1 l3_ecmp'] / best['5 l3_ecmp']:.2f} times one")
        for name in SUBJECTS:
            with subject(name, packets, middle, interfaces):
                for size in SIZES:
                    rate = SHARE * min(rates[name, size])
                    missing, sent = lost(packets, hosts, size, rate, options.seconds)
                    print(f"{size} B, {name}: {missing} of {sent} lost at {rate / 1e3:.0f} k packets/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(int(options.serve[0]), options.serve[1:])
        return
    with tempfile.TemporaryDirectory() as directory:
        packets = Path(directory, "packets")
        source = Path(__file__).with_name("packets.c")
        subprocess.run(["cc", "-D_GNU_SOURCE", "-O2", "-o", str(packets), str(source)], check=True, timeout=LIMIT_S)
        pinned(GENERATOR_CPU, OBSERVER_PRIORITY)
        measure(options, packets)


if __name__ == "__main__":
    main()
