"""Measures a chain of userspace Open vSwitch bridges whose every cable is the fabric's: loss, RTT, CPU, lateness.

sudo python -m tests.bench.switched [--switches 3] [--rate-mbps 100] [--no-realtime] [--seconds N]
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from testbed.fabric.model import FabricConfig, FabricLink, LinkEnd
from testbed.topology.graph import LinkParameters
from tests.bench.relay import SEGMENT_BYTES, WIRE_BYTES, cpu_s
from tests.netcore.rig import Host, fabric_process, run, wait_until

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
BURST = 32
DELAY_NS = 10_000


def chain(hosts: list[Host], netns: str, switches: int, rate_bps: int) -> tuple[FabricLink, ...]:
    """h0 - s0 - s1 - ... - h1, both directions of each cable."""
    parameters = LinkParameters(rate_bps, DELAY_NS, queue_bytes=1 << 20)
    ports = [LinkEnd(f"s{i}", k, f"s{i}-eth{k}", netns, host=False) for i in range(switches) for k in (1, 2)]
    ends = [hosts[0].end, *ports, hosts[1].end]
    links = []
    for cable, (first, second) in enumerate(zip(ends[::2], ends[1::2], strict=True)):
        links += [
            FabricLink(2 * cable, first, second, parameters),
            FabricLink(2 * cable + 1, second, first, parameters),
        ]
    return tuple(links)


@contextlib.contextmanager
def open_vswitch(directory: Path, netns: str, switches: int) -> Iterator[int]:
    """Bridges with two ports that pass everything on; yields the daemon's pid."""
    inner = ["ip", "netns", "exec", netns]
    database, remote = str(directory / "conf.db"), f"unix:{directory / 'db.sock'}"
    environment = os.environ | {f"OVS_{kind}DIR": str(directory) for kind in ("RUN", "DB", "LOG", "SYSCONF")}
    run("ovsdb-tool", "create", database, SCHEMA)
    daemons = []
    try:
        for command in (
            ["ovsdb-server", database, f"--remote=p{remote}"],
            ["ovs-vswitchd", remote, "--disable-system"],
        ):
            daemons.append(subprocess.Popen([*inner, *command], env=environment, stderr=subprocess.DEVNULL))
            wait_until("the database is up", (directory / "db.sock").exists)
        for i in range(switches):
            bridge = f"s{i}"
            ports = [word for k in (1, 2) for word in ("--", "add-port", bridge, f"{bridge}-eth{k}")]
            settings = ["--", "set", "bridge", bridge, "datapath_type=netdev", "fail_mode=secure"]
            run("ovs-vsctl", f"--db={remote}", "add-br", bridge, *settings, *ports)
            for k in (1, 2):
                flow = f"in_port={bridge}-eth{k},actions=output:{bridge}-eth{3 - k}"
                subprocess.run(["ovs-ofctl", "add-flow", bridge, flow], env=environment, check=True, timeout=10)
        yield daemons[-1].pid
    finally:
        for daemon in daemons:
            daemon.terminate()
            daemon.wait()


def measure(directory: Path, hosts: list[Host], switch: str, options: argparse.Namespace) -> None:
    rate_bps = options.rate_mbps * 10**6
    links = chain(hosts, switch, options.switches, rate_bps)
    config = FabricConfig(1, 1, links, realtime=options.realtime)
    with fabric_process(directory, config) as (process, fabric, _):
        for host in hosts:
            host.bring_up(1500)
        hosts[0].knows(hosts[1])
        hosts[1].knows(hosts[0])
        for end in {link.source.interface for link in links if not link.source.host}:
            run("ip", "netns", "exec", switch, "ip", "link", "set", "dev", end, "up")
        with open_vswitch(directory, switch, options.switches) as daemon:
            rtt = hosts[0].command("ping", "-c", "50", "-i", "0.01", "-q", hosts[1].ip).strip().splitlines()[-1]
            started, sent, got = time.monotonic(), 0, 0
            before = cpu_s(process.pid), cpu_s(daemon)
            while (elapsed := time.monotonic() - started) < options.seconds:
                while sent * WIRE_BYTES * 8 < (elapsed + 0.001) * rate_bps:
                    hosts[0].send(hosts[1], bytes(BURST * SEGMENT_BYTES), SEGMENT_BYTES)
                    sent += BURST
                got += sum(len(each.data) for each in hosts[1].receive(1, quiet_s=0.0005)) // SEGMENT_BYTES
            used = cpu_s(process.pid) - before[0], cpu_s(daemon) - before[1]
            got += sum(len(each.data) for each in hosts[1].receive(sys.maxsize, quiet_s=0.2)) // SEGMENT_BYTES
            counters = fabric.counters()
            for host in hosts:
                host.socket.close()
    hops = sum(link.all.packets for link in counters)
    print(
        f"{options.switches} switches, {options.rate_mbps} Mb/s: {sent / elapsed / 1e3:.1f} k packets/s sent,"
        f" {100 * (1 - got / sent):.2f} % lost, {hops / elapsed / 1e3:.0f} k packet-hops/s; CPU fabric"
        f" {used[0] / elapsed:.2f} ({1e6 * used[0] / hops:.1f} us a hop), Open vSwitch {used[1] / elapsed:.2f};"
        f" worst link late p50 {max(link.late_p50_ns or 0 for link in counters) / 1e3:.0f}"
        f" p99 {max(link.late_p99_ns or 0 for link in counters) / 1e3:.0f} us; {rtt}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--switches", type=int, default=3)
    parser.add_argument("--rate-mbps", type=int, default=100)
    parser.add_argument("--realtime", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    tag = f"fs{os.getpid():x}"
    hosts = [Host(f"{tag}-{i}", i) for i in range(2)]
    names = [f"{tag}-s", *(host.netns for host in hosts)]
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        for name in names:
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "del", name)
        measure(Path(directory), hosts, names[0], options)


if __name__ == "__main__":
    main()
