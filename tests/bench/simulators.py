"""Measures what `engine: simulation` costs beside other packet simulators, in one run on this machine.

    python -m tests.bench.simulators [--htsim BINARY] [--nspy PYTHON] [--mib 32]

BINARY is htsim's `htsim_roce`, PYTHON one that can import ns.py. The job against htsim: a ring allreduce of 128 ranks
in chunks of 256 KiB (for 32 MiB) at 100 Gb/s over a fat-tree, RoCE with 4 KiB a packet. CPU time is that of the whole
process, its start included. Against ns.py: packet-hops per CPU second over a k=4 fat-tree, whose own flows send packets
at Poisson instants through its plain switches.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

RANKS = 128
MTU_BYTES = 4096
RATE_MBPS = 100_000
HOP_NS = 1000
NSPY_FLOWS, NSPY_PACKETS_PER_FLOW = 16, 10_000

_NSPY = """
import random, simpy
from ns.packet.dist_generator import DistPacketGenerator
from ns.packet.sink import PacketSink
from ns.switch.switch import SimplePacketSwitch
from ns.topos.fattree import build
from ns.topos.utils import generate_fib, generate_flows

FLOWS, PACKETS = {flows}, {packets}
random.seed(1)
env, graph = simpy.Environment(), build(4)
hosts = [n for n in graph.nodes if graph.nodes[n]["type"] == "host"]
flows = generate_flows(graph, hosts, FLOWS)
graph = generate_fib(graph, flows)
for flow in flows.values():
    flow.pkt_gen = DistPacketGenerator(env, f"Flow_{{flow.fid}}", lambda: random.expovariate(1000), lambda: 1000,
                                       size=1000 * PACKETS, flow_id=flow.fid)
    flow.pkt_sink = PacketSink(env, rec_arrivals=False, rec_waits=False)
for n in graph.nodes:
    node = graph.nodes[n]
    node["device"] = SimplePacketSwitch(env, 4, 10**8, 100000, element_id=str(n))
    node["device"].demux.fib = node["flow_to_port"]
for n in graph.nodes:
    node = graph.nodes[n]
    for port, hop in node["port_to_nexthop"].items():
        node["device"].ports[port].out = graph.nodes[hop]["device"]
for flow in flows.values():
    flow.pkt_gen.out = graph.nodes[flow.src]["device"]
    graph.nodes[flow.dst]["device"].demux.ends[flow.fid] = flow.pkt_sink
env.run()
print(sum((len(flow.path) - 1) * flow.pkt_sink.packets_received[flow.fid] for flow in flows.values()))
"""


def cpu_s(argv: list[str], folder: Path) -> tuple[float, str]:
    """The CPU seconds of a process and its children, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def simulated(
    folder: Path, name: str, topology: dict[str, object], ranks: int, size: str
) -> tuple[float, dict[str, Any]]:
    """CPU seconds of ours for a ring, and its result."""
    spec = {
        "name": name,
        "engine": "simulation",
        "topology": topology,
        "links": [{"rate": f"{RATE_MBPS}Mbps", "delay": f"{HOP_NS}ns", "queue": "1MiB", "mtu": 4200}],
        "switches": {"kind": "native"},
        "workers": {"count": ranks, "placement": "packed"},
        "transport": {"kind": "roce", "mtu": MTU_BYTES, "congestion": "none"},
        "workload": {"algorithm": "ring", "size": size, "gradients": "none", "iterations": 1, "warmup": 0},
        "limits": {"wall": "60min"},
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(spec))
    argv = [sys.executable, "-m", "testbed", "run", f"{name}.yaml", "--out", name, "--json"]
    seconds, _ = cpu_s(argv, folder)
    return seconds, json.loads((folder / name / "result.json").read_text())


def ring_for_htsim(folder: Path, chunk_bytes: int) -> int:
    """Write its connections, each hop of a chunk begun by the end of the one before; returns how many packets."""
    hops = 2 * (RANKS - 1)
    lines: list[str] = []
    trigger = 0
    for chunk in range(RANKS):
        for hop in range(hops):
            source, target = (chunk + hop) % RANKS, (chunk + hop + 1) % RANKS
            begins = f"trigger {trigger}" if hop else "start 0"
            ends = f" send_done_trigger {(trigger := trigger + 1)}" if hop < hops - 1 else ""
            lines.append(f"{source}->{target} id {len(lines) + 1} {begins} size {chunk_bytes}{ends}")
    triggers = [f"trigger id {number} oneshot" for number in range(1, trigger + 1)]
    head = [f"Nodes {RANKS}", f"Connections {len(lines)}", f"Triggers {len(triggers)}"]
    (folder / "ring.cm").write_text("\n".join([*head, *lines, *triggers]) + "\n")
    return len(lines) * -(-chunk_bytes // MTU_BYTES)


def against_htsim(folder: Path, binary: Path, chunk_bytes: int) -> float:
    """Microseconds of CPU that htsim takes a data packet of the same ring."""
    packets = ring_for_htsim(folder, chunk_bytes)
    argv = [
        str(binary.absolute()),
        "-tm",
        "ring.cm",
        "-nodes",
        str(RANKS),
        "-tiers",
        "3",
        "-strat",
        "ecmp_host",
        "-paths",
        "16",
    ]
    argv += ["-linkspeed", str(RATE_MBPS), "-mtu", str(MTU_BYTES), "-hop_latency", str(HOP_NS / 1000)]
    argv += ["-q", "250", "-end", "1000000", "-o", "log"]
    seconds, told = cpu_s(argv, folder)
    each_us = seconds / packets * 1e6
    print(f"  htsim  {seconds:7.1f} CPU s  {each_us:6.2f} us a data packet  {told.count(' finished at '):,} flows done")
    return each_us


def against_nspy(folder: Path, python: Path) -> None:
    seconds, result = simulated(folder, "small", {"kind": "fat-tree", "k": 4}, 16, "512MiB")
    ours = result["simulation"]["hops"] / seconds
    script = _NSPY.format(flows=NSPY_FLOWS, packets=NSPY_PACKETS_PER_FLOW)
    seconds, told = cpu_s([str(python.absolute()), "-c", script], folder)
    theirs = int(told) / seconds
    print(f"k=4 fat-tree, packet-hops a CPU second: ours {ours:,.0f}, ns.py {theirs:,.0f}")
    print(f"  ours does {ours / theirs:.1f} times as many (asked: 10)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--htsim", type=Path)
    parser.add_argument("--nspy", type=Path)
    parser.add_argument("--mib", type=int, default=32)
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        chunk_bytes = (arguments.mib << 20) // RANKS
        seconds, result = simulated(folder, "ring", {"kind": "fat-tree", "k": 8}, RANKS, f"{arguments.mib}MiB")
        packets = RANKS * 2 * (RANKS - 1) * -(-chunk_bytes // MTU_BYTES)
        ours_us, told = seconds / packets * 1e6, result["simulation"]
        print(f"ring of {RANKS} ranks, {arguments.mib} MiB: {packets:,} data packets")
        print(f"  ours   {seconds:7.1f} CPU s  {ours_us:6.2f} us a data packet  {told['events']:,} events")
        print(f"         {told['hops']:,} packet-hops, {told['hops'] / seconds:,.0f} a CPU second")
        if arguments.htsim:
            theirs_us = against_htsim(folder, arguments.htsim, chunk_bytes)
            print(f"  ours takes {ours_us / theirs_us:.2f} of htsim's CPU time a data packet (asked: 0.5, aim: 0.2)")
        if arguments.nspy:
            against_nspy(folder, arguments.nspy)


if __name__ == "__main__":
    main()
