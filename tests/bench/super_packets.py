"""Measures wire packets/s of 1 KiB that super-packets carry between two hosts through a path of native switches.

    sudo python -m tests.bench.super_packets [--switches 5] [--seconds S] [--offered 1.0 1.5 2.0 2.5]

A sender with UDP segmentation offers M packets/s; each is cut into wire packets at the sender's TAP, passes every queue
and every link by itself, and is joined with its neighbours at the receiver's. The fabric has one core, and the hosts'
processes the other. Needs two idle cores to mean something.
"""

import argparse
import contextlib
import ctypes
import json
import os
import threading
import time
from collections.abc import Sequence
from functools import partial

from testbed import netcore
from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.native.build import build_program
from testbed.dataplane.native.control import ActionCall, Control, FieldMatch
from testbed.dataplane.native.loader import load_program
from testbed.dataplane.programs import document_of, path_of
from testbed.emulation import namespaces
from tests.bench.relay import SEGMENT_BYTES
from tests.netcore.rig import Host, run

FABRIC_CPU, HOSTS_CPU = 0, 1
PRIORITY = 20  # under SCHED_FIFO
LINK_BPS = 10**11
DELAY_NS = 10_000
QUEUE_BYTES = 4 << 20
BURST = 60  # wire packets of a super-packet
QUIET_S = 0.3


def pinned(cpu: int, priority: int) -> None:
    """Keep the calling thread on one core, ahead of all that is not so privileged."""
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))


def fabric_of(hosts: Sequence[Host], switches: int) -> tuple[netcore.Fabric, ctypes.CDLL]:
    """A path of l3_ecmp switches between the hosts, whose routes lead to groups of four."""
    program = program_of(document_of(path_of("l3_ecmp")), "l3_ecmp")
    library, table = load_program(build_program(program))
    fabric = netcore.Fabric(1)
    ends = []
    for host in hosts:
        fd, segmentation = namespaces.inside(host.netns, partial(netcore.open_tap, host.end.interface, True, True))
        assert segmentation, "this kernel has no UDP segmentation on TAP"
        ends.append(fabric.add_port(fd, virtio=True, host=True, switch=0, spray=False, join=True))
    chain = [ends[0]]
    for seed in range(switches):
        switch = fabric.add_switch(ctypes.addressof(table), seed)
        chain += [fabric.add_switch_port(switch, number) for number in (0, 1)]
        control = Control(program, table, fabric.switch_instance(switch))
        for port, host in enumerate(hosts):
            address = int.from_bytes(bytes(map(int, host.ip.split("."))), "big")
            group = ActionCall("to_group", {"number": port, "members": 4})
            control.insert("routes", [FieldMatch(address, prefix=32)], group)
            for member in range(4):
                key = [FieldMatch(port), FieldMatch(member)]
                control.insert("members", key, ActionCall("to_port", {"port": port}))
    chain.append(ends[1])
    for cable, pair in enumerate(zip(chain[::2], chain[1::2], strict=True)):
        for index, (source, target) in enumerate((pair, pair[::-1])):
            link = fabric.add_link(source, target, 2 * cable + index)
            fabric.set_link(link, rate_bps=LINK_BPS, delay_ns=DELAY_NS, queue_bytes=QUEUE_BYTES)
    return fabric, library


def receive(host: Host) -> tuple[int, int]:
    """Wire packets that come until none does for a while, and the ns from the first to the last."""
    buffer = bytearray(32 * netcore.SLOT_BYTES)
    waiting = [(host.socket.fileno(), 1)]
    got = first_ns = last_ns = 0
    while netcore.ppoll(waiting, int(QUIET_S * 1e9)):
        for message in netcore.receive_segments(host.socket.fileno(), buffer):
            got += -(-message[1] // (message[2] or message[1]))
            first_ns, last_ns = first_ns or message[6], message[6]
    return got, last_ns - first_ns


def send(host: Host, to: Host, packets_per_s: float, seconds: float) -> tuple[int, float]:
    """Offer packets at a rate: how many were, and how long it took."""
    data, sent, started = bytes(BURST * SEGMENT_BYTES), 0, time.monotonic()
    while (elapsed := time.monotonic() - started) < seconds:
        if sent > elapsed * packets_per_s:
            time.sleep(20e-6)
            continue
        host.send(to, data, SEGMENT_BYTES)
        sent += BURST
    return sent, elapsed


def cpu_ns(thread: threading.Thread) -> int:
    """CPU time that a thread of this process has used."""
    assert thread.ident is not None
    return time.clock_gettime_ns(time.pthread_getcpuclockid(thread.ident))


def measure(
    hosts: Sequence[Host],
    fabric: netcore.Fabric,
    thread: threading.Thread,
    options: argparse.Namespace,
    offered: float,
) -> None:
    """Print what passes of that many M packets/s."""
    before = fabric.counters()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        pinned(HOSTS_CPU, PRIORITY)
        os.write(writing, json.dumps(receive(hosts[1])).encode())
        os._exit(0)
    used = cpu_ns(thread)
    sent, elapsed = send(hosts[0], hosts[1], offered * 1e6, options.seconds)
    got, took_ns = json.loads(os.read(reading, 64))
    used = cpu_ns(thread) - used
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)
    after = fabric.counters()
    entered = after[0][0]["entered"] - before[0][0]["entered"]
    dropped = sum(a[0]["dropped_queue"] - b[0]["dropped_queue"] for a, b in zip(after, before, strict=True))
    print(
        f"{options.switches} switches, {offered:.1f} M packets/s wanted: {sent / elapsed / 1e6:.2f} M sent,"
        f" {got / took_ns * 1e3:.2f} M received, {sent - entered} lost before the NIC, {dropped} in queues,"
        f" {entered - dropped - got} after; fabric {used / max(1, entered):.0f} ns a packet",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--switches", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--offered", type=float, nargs="+", default=[0.5, 1.0, 1.5, 2.0, 2.5])
    options = parser.parse_args()
    hosts = [Host(f"sp{os.getpid():x}-{i}", i) for i in range(2)]
    with contextlib.ExitStack() as stack:
        for host in hosts:
            run("ip", "netns", "add", host.netns)
            stack.callback(run, "ip", "netns", "del", host.netns)
        fabric, _library = fabric_of(hosts, options.switches)
        for host in hosts:
            host.bring_up(1500)
            stack.callback(host.socket.close)
        hosts[0].knows(hosts[1])
        hosts[1].knows(hosts[0])
        ready = threading.Event()

        def move() -> None:
            netcore.set_timer_slack(1)
            pinned(FABRIC_CPU, PRIORITY)
            ready.set()
            fabric.run()

        thread = threading.Thread(target=move)
        thread.start()
        stack.callback(thread.join)
        stack.callback(fabric.stop)
        ready.wait()
        os.sched_setaffinity(0, {HOSTS_CPU})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY - 1))
        for offered in options.offered:
            measure(hosts, fabric, thread, options, offered)


if __name__ == "__main__":
    main()
