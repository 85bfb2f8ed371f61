"""Measures the fabric's relay between two hosts: packets/s and CPU, and the delay of single packets.

    sudo python -m tests.bench.relay [--no-realtime] [--segmentation off] [--seconds N]

A host pair is joined by one cable; the sender sends 60 x 1064 B super-packets as fast as the link's rate lets it.
Prints one line per rate, and one per delay: by how much a single packet's way is longer than modelled, from the moment
the sender's kernel gives it to the device (its own time stamp) to that at which the receiver's kernel has it.
"""

import argparse
import select
import socket
import statistics
import struct
import tempfile
import time
from pathlib import Path

from testbed.topology.graph import LinkParameters
from tests.netcore.rig import Rig

SEGMENT_BYTES = 1064
WIRE_BYTES = SEGMENT_BYTES + 42 + 24


def cpu_s(pid: int) -> float:
    """Exact, where /proc/PID/stat samples at each tick, which here are correlated with the timers measured."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def throughput(directory: Path, options: argparse.Namespace, rate_bps: int) -> None:
    parameters = LinkParameters(rate_bps=rate_bps, delay_ns=50_000, queue_bytes=1 << 20)
    data = bytes(60 * SEGMENT_BYTES)
    with Rig(directory, parameters, segmentation=options.segmentation, realtime=options.realtime) as rig:
        sender, receiver = rig.hosts
        started, cpu, got, messages, sent = time.monotonic(), cpu_s(rig.process.pid), 0, 0, 0
        while (elapsed := time.monotonic() - started) < options.seconds:
            while sent * WIRE_BYTES * 8 < (elapsed + 0.002) * rate_bps:
                sender.send(receiver, data, SEGMENT_BYTES)
                sent += 60
            for arrival in receiver.receive(1, quiet_s=0.0005):
                got += len(arrival.data) // SEGMENT_BYTES
                messages += 1
        cpu = cpu_s(rig.process.pid) - cpu
        link = rig.fabric.counters()[0]
        late_us = (link.late_p50_ns or 0) / 1e3, (link.late_p99_ns or 0) / 1e3
        print(
            f"rate {rate_bps / 1e6:7.0f} Mb/s: {got / elapsed / 1e3:7.1f} k packets/s received"
            f" ({sent / elapsed / 1e3:.1f} sent), {got / max(1, messages):.1f} packets a datagram,"
            f" fabric CPU {cpu / elapsed:.2f}, {1e6 * cpu / max(1, link.all.entered):.2f} us a packet,"
            f" measured {(link.measured_bps or 0) / 1e6:.1f} Mb/s,"
            f" late p50 {late_us[0]:.0f} p99 {late_us[1]:.0f} us, ring drops {link.ring_dropped}"
        )


_SO_TIMESTAMPING, _TX_SOFTWARE, _SOFTWARE, _MSG_ERRQUEUE = 37, 1 << 1, 1 << 4, 0x2000  # linux/net_tstamp.h


def left_ns(sender: socket.socket) -> int:
    """When the last datagram went to the device, by the kernel's time stamp, as CLOCK_MONOTONIC."""
    waiting = select.poll()
    waiting.register(sender, 0)  # an error is told unasked
    assert waiting.poll(1000), "the kernel did not tell when the datagram left"
    _, ancillary, _, _ = sender.recvmsg(2048, 1024, _MSG_ERRQUEUE | socket.MSG_DONTWAIT)
    stamps = [data for level, kind, data in ancillary if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPING]
    seconds, nanoseconds = struct.unpack("qq", stamps[0][:16])
    return int(seconds * 10**9 + nanoseconds - (time.time_ns() - time.monotonic_ns()))


def delay(directory: Path, options: argparse.Namespace, delay_ns: int) -> None:
    parameters = LinkParameters(rate_bps=10**9, delay_ns=delay_ns, queue_bytes=1 << 20)
    with Rig(directory, parameters, segmentation=options.segmentation, realtime=options.realtime) as rig:
        sender, receiver = rig.hosts
        sender.socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, _TX_SOFTWARE | _SOFTWARE)
        excess = []
        for _ in range(300):
            sender.send(receiver, bytes(100), 100)
            (arrival,) = receiver.receive(100)
            excess.append(arrival.at_ns - left_ns(sender.socket) - delay_ns - 166 * 8)
            time.sleep(0.002)
        excess.sort()
        late = rig.fabric.counters()[0]
        print(
            f"delay {delay_ns / 1e3:6.0f} us: excess p50 {statistics.median(excess) / 1e3:.0f} p90"
            f" {excess[270] / 1e3:.0f} p99 {excess[297] / 1e3:.0f} us; late p50 {(late.late_p50_ns or 0) / 1e3:.0f}"
            f" p99 {(late.late_p99_ns or 0) / 1e3:.0f} us"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--realtime", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--segmentation", choices=["auto", "off"], default="auto")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for delay_us in (50, 100, 1000):
            delay(Path(directory), options, delay_us * 1000)
        for rate_mbps in (100, 1000, 3000, 10_000):
            throughput(Path(directory), options, rate_mbps * 10**6)


if __name__ == "__main__":
    main()
