"""Bring-up and take-down of a fat-tree, against plain Mininet on the same kind of switches and shaped links.

    python tests/bench/bringup.py [K]       # default: 4; plain Mininet's k = 8 takes a minute

Both run in a network namespace with an Open vSwitch of their own. Testbed's figure includes the controller and all
flows confirmed, which plain Mininet's lacks.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import fields
from pathlib import Path

from testbed.emulation import namespaces
from testbed.emulation.network import EmulatedNetwork, SetupTimes
from testbed.emulation.state import RunState
from testbed.emulation.switches import OpenVSwitch
from testbed.plan import plan as make_plan
from testbed.plan.model import Plan
from testbed.spec.model import Spec

PLAIN = """
import json, sys, time
from mininet.link import TCULink
from mininet.net import Mininet
from mininet.node import OVSSwitch
from mininet.topo import Topo
graph, datapath = json.load(sys.stdin)
topo = Topo()
for name, kind in graph["nodes"]:
    topo.addHost(name) if kind == "host" else topo.addSwitch(name, dpid=f"{len(topo.switches()) + 1:x}")
for first, second in graph["cables"]:
    topo.addLink(first, second, bw=100)
Mininet.inited = True  # or it changes the whole machine's sysctls
began = time.monotonic()
net = Mininet(topo, switch=lambda *a, **k: OVSSwitch(*a, datapath=datapath, **k), link=TCULink, controller=None,
              autoSetMacs=True, autoStaticArp=True)
net.start()
up = time.monotonic()
net.stop()
print(up - began, time.monotonic() - up)
"""


def main() -> None:
    k = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    plan = make_plan(Spec(name="bring-up", topology={"kind": "fat-tree", "k": k}))
    graph = plan.graph
    print(f"fat-tree k = {k}: {len(graph.switches)} switches, {len(graph.hosts)} hosts, {len(graph.links) // 2} links")
    ours = ours_s(plan)
    print(f"testbed        up {ours[0]:6.2f} s, down {ours[1]:5.2f} s, with controller and flows")
    plain = plain_s(plan)
    print(f"plain Mininet  up {plain[0]:6.2f} s, down {plain[1]:5.2f} s, without")
    print(f"ratio          up {plain[0] / ours[0]:6.1f},   down {plain[1] / ours[1]:5.1f}")


def ours_s(plan: Plan) -> tuple[float, float]:
    """(up, down) in seconds."""
    with tempfile.TemporaryDirectory() as logs:
        state = RunState.create("run", "bring-up", Path(logs))
        network = EmulatedNetwork(plan, state, Path(logs))
        began = time.monotonic()
        times = network.start()
        up = time.monotonic()
        network.stop()
        down = time.monotonic()
        state.remove()
    print("  " + ", ".join(f"{f.name.removesuffix('_s')} {getattr(times, f.name):.2f}" for f in fields(SetupTimes)))
    return up - began, down - up


def plain_s(plan: Plan) -> tuple[float, float]:
    """The same of plain Mininet; it runs in a process of its own."""
    with tempfile.TemporaryDirectory() as logs:
        state = RunState.create("run", "plain", Path(logs))
        outer = namespaces.outer_name(state.run_id)
        state.add_namespaces((outer,))
        namespaces.create([outer])
        switch = OpenVSwitch(state, Path(logs), outer, plan.datapath)
        try:
            switch.start()
            nodes = [(node.name, node.kind) for node in plan.graph.nodes.values()]
            cables = [(link.source, link.target) for link in plan.graph.links[::2]]
            done = subprocess.run(
                namespaces.entering(outer, [sys.executable, "-c", PLAIN]),
                input=json.dumps([{"nodes": nodes, "cables": cables}, plan.datapath]),
                env={**os.environ, **switch.environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # of warnings about its shaping
                text=True,
                timeout=300,
                check=True,
            )
        finally:
            switch.stop()
            namespaces.delete([outer])
            state.remove()
    up, down = done.stdout.split()[-2:]
    return float(up), float(down)


if __name__ == "__main__":
    main()
