"""`controller: p4runtime`: the app in `controller/` fills native switches of a network as a P4Runtime client."""

import subprocess
import sys
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from testbed.cli import execute
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.state import RunState
from testbed.routing.model import MISS, Entry
from tests.emulation.test_native import cable_between, eventually, planned
from tests.emulation.test_network import reached
from tests.emulation.traces import everything_of

P4RUNTIME = {"controller": "p4runtime"}
LIMIT_S = 60
SPEC = """\
name: n
topology: {{kind: star, hosts: 2}}
links: [{{rate: 1Gbps, delay: 10us}}]
switches: {switches}
workers: {{count: 2}}
workload: {{kind: collective, collective: allreduce, algorithm: ring, size: 1KiB, iterations: 1}}
faults: {faults}
"""

root = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow]


def covers(prefix: str, ip: str) -> bool:
    return prefix != MISS and IPv4Address(ip) in IPv4Network(prefix)


class TestNetworks:
    pytestmark = root

    def test_entries_are_the_plans_and_their_alternates_when_cables_fail(self, state: RunState, tmp_path: Path) -> None:
        plan = planned(P4RUNTIME, kind="leaf-spine", spines=2, leaves=2, hosts=1)

        def same(alternates: dict[str, dict[str, Entry]]) -> bool:
            """Whether every switch has just the plan's entries, or those in their place."""
            wanted = {
                name: {entry.prefix: entry for entry in switch.entries} | alternates.get(name, {})
                for name, switch in plan.switches.items()
            }
            found = network.fabric.entries()
            return {name: {entry.prefix: entry for entry in entries} for name, entries in found.items()} == wanted

        with EmulatedNetwork(plan, state, tmp_path) as network:
            assert same({})
            assert reached(network, "h0", "h1") == 3
            cable = cable_between(plan, "leaf0", "spine0")
            [alternate] = [each for each in plan.alternates if each.cables == (cable,)]
            network.link_down(cable)
            eventually(lambda: same({n: {e.prefix: e for e in es} for n, es in alternate.entries.items()}))
            assert reached(network, "h0", "h1") == 3
            network.link_up(cable)
            eventually(lambda: same({}))
            [leaf] = [each for each in network.switch_counters() if each.name == "leaf0"]
            [beyond] = [traffic for prefix, traffic in leaf.routes.items() if covers(prefix, plan.addresses["h1"].ip)]
            assert beyond.packets == 6
        assert everything_of(state) == []

    def test_another_client_takes_over(self, state: RunState, tmp_path: Path) -> None:
        plan = planned(P4RUNTIME, kind="star", hosts=2)
        with EmulatedNetwork(plan, state, tmp_path) as network:
            assert reached(network, "h0", "h1") == 3
            device = plan.switches["s0"].dpid
            inside = ["nsenter", f"--net=/run/netns/{network.outer}", sys.executable, "-m"]
            done = subprocess.run(
                [*inside, "tests.p4runtime.takes_over", "127.0.0.1:9559", str(device)],
                capture_output=True,
                text=True,
                timeout=2 * LIMIT_S,
                check=False,
            )
            assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
            assert reached(network, "h0", "h1") == 0
            [switch] = network.switch_counters()
            assert switch.routes[f"{plan.addresses['h1'].ip}/32"].dropped > 0
        assert everything_of(state) == []


@pytest.mark.parametrize(
    ("switches", "faults", "said"),
    [
        ("{kind: ovs, controller: p4runtime}", "[]", "switches.controller: p4runtime drives "),
        ("{controller: p4runtime}", "[]", "switches.controller: p4runtime drives "),
        (
            "{kind: native, controller: p4runtime}",
            "[{kind: swap-program, at: 1ms, select: s0, program: spray}]",
            "with the controller p4runtime programs are exchanged by P4Runtime's clients",
        ),
    ],
)
def test_what_p4runtime_does_not_go_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], switches: str, faults: str, said: str
) -> None:
    spec = tmp_path / "n.yaml"
    spec.write_text(SPEC.format(switches=switches, faults=faults))
    assert execute(["validate", str(spec)]) == 2
    assert said in capsys.readouterr().err


def test_a_network_of_native_switches_may_have_it(tmp_path: Path) -> None:
    spec = tmp_path / "n.yaml"
    spec.write_text(SPEC.format(switches="{kind: native, controller: p4runtime}", faults="[]"))
    assert execute(["validate", str(spec)]) == 0
