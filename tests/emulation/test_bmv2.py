"""A network of real `simple_switch`es: it forwards by the plan's routes, goes round a cut cable, and leaves nothing."""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.dataplane.programs import document_of, path_of
from testbed.doctor.facts import bmv2_lacks
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.state import RunState
from testbed.errors import RunFailed, UsageError
from testbed.plan.model import Plan
from testbed.plan.planner import plan as make_plan
from testbed.spec.model import Spec

from .test_network import reached
from .traces import everything_of

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow]
real = pytest.mark.skipif(bool(bmv2_lacks()), reason=f"the real bmv2 is wanted, and {bmv2_lacks() or 'is here'}")
ENDED_S = 10.0
REPAIRS = 5  # attempts, of a moment each
STAND_IN = Path(__file__).with_name("simple_switch_grpc.py")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `simple_switch_grpc` on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "simple_switch_grpc").write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    (folder / "simple_switch_grpc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def planned(controller: str | None = None, **topology: object) -> Plan:
    links = [{"rate": "10Mbps", "delay": "1ms"}]
    switches = {"kind": "bmv2", "controller": controller}
    keys = {"name": "n", "topology": topology, "links": links, "switches": switches, "time_dilation": 1}
    return make_plan(Spec.model_validate(keys))


def check_for_a_while(network: EmulatedNetwork) -> None:
    deadline = time.monotonic() + ENDED_S
    while time.monotonic() < deadline:
        network.check()


@real
def test_packets_cross_and_are_counted_by_route(state: RunState, tmp_path: Path) -> None:
    plan = planned(kind="leaf-spine", spines=1, leaves=2, hosts=2)
    with EmulatedNetwork(plan, state, tmp_path) as network:
        assert reached(network, "h0", "h3") == 3
        leaf = next(each for each in network.switch_counters() if each.name == "leaf1")
        to_h3 = leaf.routes[f"{plan.addresses['h3'].ip}/32"]
        assert (to_h3.packets, to_h3.bytes) == (3, 3 * 98), "Ethernet 14, IP 20, ICMP 8, and 56 of ping's"
        assert network.host_drops() == {}
        assert network.in_flight() == 0
        assert {f"{name}.log" for name in plan.graph.switches} <= {path.name for path in tmp_path.iterdir()}
    assert everything_of(state) == []


@real
def test_they_go_round_a_cut_cable_and_back(state: RunState, tmp_path: Path) -> None:
    plan = planned(kind="leaf-spine", spines=2, leaves=2, hosts=1)
    cable = next(link.cable for link in plan.graph.links_from("leaf0") if link.target == "spine0")
    with EmulatedNetwork(plan, state, tmp_path) as network:
        network.link_down(cable)
        assert any(reached(network, "h0", "h1") == 3 for _ in range(REPAIRS)), "once who sets routes has heard of it"
        spines = {each.name: sum(r.packets for r in each.routes.values()) for each in network.switch_counters()}
        assert (spines["spine0"], spines["spine1"]) == (0, 6), "there and back"
        network.link_up(cable)
        assert reached(network, "h0", "h1") == 3


@real
def test_one_that_dies_is_named(state: RunState, tmp_path: Path) -> None:
    with EmulatedNetwork(planned(kind="star", hosts=2), state, tmp_path) as network:
        os.kill(state.record.children["simple_switch s0"].pid, signal.SIGKILL)
        with pytest.raises(RunFailed, match="simple_switch s0 was killed by SIGKILL"):
            check_for_a_while(network)
    assert everything_of(state) == []


@pytest.mark.usefixtures("stand_in")
def test_over_p4runtime_each_gets_its_program_and_the_routes(state: RunState, tmp_path: Path) -> None:
    plan = planned("p4runtime", kind="leaf-spine", spines=2, leaves=2, hosts=1)
    cable = next(link.cable for link in plan.graph.links_from("leaf0") if link.target == "spine0")
    with EmulatedNetwork(plan, state, tmp_path) as network:
        assert reached(network, "h0", "h1") == 3
        network.link_down(cable)
        assert any(reached(network, "h0", "h1") == 3 for _ in range(REPAIRS)), "once who sets routes has heard of it"
        controller = next(c for c in network.hub.channels if c.hello["hello"] == "controller")
        rows = controller.request({"op": "counters"})["rows"]
        to_h1 = [row for row in rows if row["switch"] == "leaf1" and row["name"] == f"{plan.addresses['h1'].ip}/32"]
        assert [(row["packets"], row["bytes"]) for row in to_h1] == [(6, 6 * 98)]
    assert everything_of(state) == []


@pytest.mark.usefixtures("stand_in")
def test_a_program_without_p4info_is_refused(state: RunState, tmp_path: Path) -> None:
    (tmp_path / "l3.json").write_text(json.dumps(document_of(path_of("l3_ecmp"))))
    plan = planned("p4runtime", kind="star", hosts=2)
    switch = replace(plan.switching.bmv2["s0"], program=str(tmp_path / "l3.json"))
    plan = replace(plan, switching=replace(plan.switching, bmv2={"s0": switch}))
    with pytest.raises(UsageError, match="P4Runtime needs P4Info, which BMv2 JSON does not hold"):
        EmulatedNetwork(plan, state, tmp_path).start()
    assert everything_of(state) == []
