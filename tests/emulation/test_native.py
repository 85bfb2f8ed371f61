"""Native switches in a network: they forward as the plan says, and as the controller would, without Open vSwitch."""

import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.emulation import keeper, namespaces
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.state import RunState
from testbed.errors import RunFailed, TestbedError
from testbed.plan.model import NativeSwitch, Plan
from testbed.plan.planner import plan as make_plan
from testbed.spec.model import Spec

from .builders import small_plan
from .test_network import reached
from .test_standing import verb
from .traces import everything_of

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow]
L3_ECMP = NativeSwitch("l3_ecmp", "strict", None, None, 0)
CONNECTED_S = 10.0
DROPPING = """\
#include <core.p4>
#include <v1model.p4>
struct metadata_t { }
#include "include/ipv4.p4"
#include "include/routing.p4"
control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Routing() routing;
    apply {
        routing.apply(headers, 0, standard_metadata);
        if (headers.ipv4.protocol == 1 && headers.ipv4.destination == 0x0A000002) {
            mark_to_drop(standard_metadata);
        }
    }
}
control SwitchEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}
V1Switch(HeadersParser(), VerifyIpv4(), SwitchIngress(), SwitchEgress(), UpdateIpv4(), HeadersDeparser()) main;
"""


def native_plan(kind: str, *, switch: NativeSwitch = L3_ECMP, **topology: Any) -> Plan:
    return small_plan(kind, driver="netcore", controller=None, native=switch, **topology)


def planned(switches: dict[str, Any], **topology: Any) -> Plan:
    """By the planner, with the alternates of failing cables."""
    links = [{"rate": "100Mbps", "delay": "10us"}]
    keys = {"name": "n", "topology": topology, "links": links, "switches": {"kind": "native", **switches}}
    return make_plan(Spec.model_validate({**keys, "time_dilation": 1}))


def cable_between(plan: Plan, one: str, other: str) -> int:
    return next(link.cable for link in plan.graph.links_from(one) if link.target == other)


def test_packets_cross_switches_that_are_no_devices(state: RunState, tmp_path: Path) -> None:
    plan = native_plan("leaf-spine", spines=1, leaves=2, hosts=2)
    with EmulatedNetwork(plan, state, tmp_path) as network:
        assert reached(network, "h0", "h3") == 3
        devices = namespaces.inside(network.outer, Path("/proc/thread-self/net/dev").read_text)
        assert [line.split(":")[0].strip() for line in devices.splitlines()[2:]] == ["lo"]
        assert not any("ovs" in name for name in state.record.children)
        assert network.mismatches == []
        assert network.host_drops() == {}
        assert network.in_flight() == 0
        counters = {plan.graph.links[index].name: c.packets for index, c in network.link_counters().items()}
        assert {name: n for name, n in counters.items() if n} == dict.fromkeys(
            ("h0>leaf0", "leaf0>spine0", "spine0>leaf1", "leaf1>h3", "h3>leaf1", "leaf1>spine0", "spine0>leaf0",
             "leaf0>h0"), 3
        )  # fmt: skip
        spine = next(each for each in network.switch_counters() if each.name == "spine0")
        assert spine.packets["received"] == 6
        to_h3 = spine.routes[f"{plan.addresses['h3'].ip}/32"]
        assert (to_h3.packets, to_h3.bytes) == (3, 3 * 98), "Ethernet 14, IP 20, ICMP 8, and 56 of ping's"
    assert everything_of(state) == []


def test_mininets_objects_are_there(state: RunState, tmp_path: Path) -> None:
    with EmulatedNetwork(native_plan("star", hosts=2), state, tmp_path) as network:
        switch = network.net.get("s0")
        assert (type(switch).__name__, switch.dpid) == ("P4Switch", f"{1:016x}")
        assert network.net.ping(network.net.hosts, timeout="2") == 0.0  # per cent lost
        assert str(network.net.linksBetween(*network.net.get("h0", "s0"))[0]) == "h0-eth0<->s0-eth1"
        assert "lo" in switch.cmd("ip -br link")


def test_each_tier_has_a_program_of_its_own(state: RunState, tmp_path: Path) -> None:
    (tmp_path / "dropping.p4").write_text(DROPPING)
    overrides = [{"select": "spine0", "program": str(tmp_path / "dropping.p4")}]
    plan = planned({"overrides": overrides}, kind="leaf-spine", spines=1, leaves=2, hosts=1)
    assert plan.addresses["h0"].ip == "10.0.0.2", "to which the program lets no ping"
    with EmulatedNetwork(plan, state, tmp_path) as network:
        assert reached(network, "h0", "h1", count=1) == 0
        dropped = {each.name: each.packets["dropped_program"] for each in network.switch_counters()}
        assert dropped == {"leaf0": 0, "leaf1": 0, "spine0": 1}


def test_what_a_program_drops_is_counted(state: RunState, tmp_path: Path) -> None:
    program = tmp_path / "dropping.p4"
    program.write_text(DROPPING)
    plan = native_plan("star", hosts=3, switch=NativeSwitch(str(program), "strict", None, None, 0))
    with EmulatedNetwork(plan, state, tmp_path) as network:
        assert reached(network, "h0", "h1", count=1) == 0
        assert reached(network, "h0", "h2") == 3
        (switch,) = network.switch_counters()
        assert (switch.packets["received"], switch.packets["dropped_program"]) == (7, 1)


@pytest.mark.parametrize("text", ["this is no program", DROPPING.replace("table", "tabel").replace("Routing()", "R()")])
def test_a_program_that_does_not_compile_ends_before_anything_is_made(
    text: str, state: RunState, tmp_path: Path
) -> None:
    program = tmp_path / "broken.p4"
    program.write_text(text)
    network = EmulatedNetwork(
        native_plan("star", hosts=2, switch=NativeSwitch(str(program), "strict", None, None, 0)), state, tmp_path
    )
    with pytest.raises(TestbedError, match=r"compiling the switch programs: .*broken\.p4:\d+:\d+: error"):
        network.start()
    assert everything_of(state) == []
    assert state.record.namespaces == ()


def test_a_program_without_routes_is_refused_by_the_tables_name(state: RunState, tmp_path: Path) -> None:
    program = tmp_path / "bare.p4"
    program.write_text(
        DROPPING.replace('#include "include/routing.p4"', "")
        .replace("Routing() routing;", "")
        .replace("routing.apply(headers, 0, standard_metadata);", "")
    )
    network = EmulatedNetwork(
        native_plan("star", hosts=2, switch=NativeSwitch(str(program), "strict", None, None, 0)), state, tmp_path
    )
    with pytest.raises(RunFailed, match="switch s0: the program has no table 'routes'"):
        network.start()
    assert everything_of(state) == []


Switches = dict[str, str]


@pytest.mark.parametrize("switches", [{}, {"controller": "ecmp"}])
def test_when_a_cable_fails_packets_take_another_way(switches: Switches, state: RunState, tmp_path: Path) -> None:
    plan = planned(switches, kind="leaf-spine", spines=2, leaves=2, hosts=1)
    with EmulatedNetwork(plan, state, tmp_path) as network:
        network.link_down(cable_between(plan, "leaf0", "spine0"))
        eventually(lambda: reached(network, "h0", "h1", count=1) == 1)
        network.mark()
        before = network.link_counters()
        assert reached(network, "h0", "h1") == 3
        carried = {
            plan.graph.links[index].name
            for index, counters in network.link_counters().items()
            if counters.packets > before[index].packets
        }
        assert "spine1" in " ".join(carried)
        assert "spine0" not in " ".join(carried)
        network.link_up(cable_between(plan, "leaf0", "spine0"))
        network.link_down(cable_between(plan, "leaf0", "spine1"))
        eventually(lambda: reached(network, "h0", "h1", count=1) == 1)
        network.link_down(cable_between(plan, "leaf0", "spine0"))
        eventually(lambda: reached(network, "h0", "h1", count=1) == 0)
    assert everything_of(state) == []


@pytest.mark.parametrize("controller", [{}, {"controller": "ecmp"}])
def test_entries_beside_the_routes_whoever_tells_these(controller: Switches, state: RunState, tmp_path: Path) -> None:
    """Pings of one DSCP are given a priority by their entry, which counts them."""
    entries = tmp_path / "own.stf"
    entries.write_text("add priorities dscp:26 to_priority(priority:5)\nregister_write mark_above 5 1000\n")
    plan = planned({"program": "ecn_priority", "entries": str(entries), **controller}, kind="star", hosts=2)
    with EmulatedNetwork(plan, state, tmp_path) as network:
        eventually(lambda: reached(network, "h0", "h1", count=1) == 1)
        network.net.get("h0").cmd(f"ping -Q {26 << 2} -c 3 -i 0.05 -W 2 {plan.addresses['h1'].ip}")
        (switch,) = network.switch_counters()
        counted = {each.name: (each.packets, each.bytes) for each in switch.counted}
        assert counted["SwitchIngress.priorities:1"] == (6, 6 * 98), "there and back"


def test_entries_are_those_that_the_controller_installs_whatever_cables_are_down(
    state: RunState, tmp_path: Path
) -> None:
    """Fat-tree, one and two failing cables, one of the pairs unforeseen; by the plan, and by OpenFlow from the app."""
    other_state = RunState.create("run", "other", tmp_path)
    (tmp_path / "other").mkdir()
    direct, told = (planned(switches, kind="fat-tree", k=4) for switches in ({}, {"controller": "ecmp"}))
    cables = [cable_between(direct, *ends) for ends in (("e0_0", "a0_0"), ("a0_1", "c2"), ("e0_0", "a0_1"))]
    with (
        EmulatedNetwork(direct, state, tmp_path) as one,
        EmulatedNetwork(told, other_state, tmp_path / "other") as other,
    ):
        base = one.fabric.entries()
        assert base == {name: frozenset(switch.entries) for name, switch in direct.switches.items()}
        eventually(lambda: other.fabric.entries() == base)
        seen = [base]
        for change, cable in (("down", 0), ("down", 1), ("down", 2), ("up", 0)):
            for network in (one, other):
                (network.link_down if change == "down" else network.link_up)(cables[cable])
            now = one.fabric.entries()
            assert now not in seen
            seen.append(now)
            eventually(lambda now=now: other.fabric.entries() == now)  # type: ignore[misc]
    other_state.remove()


def test_a_link_between_switches_is_captured(state: RunState, tmp_path: Path) -> None:
    plan = native_plan("leaf-spine", spines=1, leaves=2, hosts=1)
    with EmulatedNetwork(plan, state, tmp_path) as network:
        network.capture("spine0", 1, tmp_path / "spine.pcapng", 65_535)
        assert reached(network, "h0", "h1") == 3
        network.end_captures()
    blocks = list(_packets((tmp_path / "spine.pcapng").read_bytes()))
    assert len(blocks) == 6
    assert {frame[22] for frame in blocks} == {63, 62}, "the time to live after one switch, and after two"


@pytest.fixture
def standing() -> Iterator[RunState]:
    state, _ = keeper.bring_up(native_plan("star", hosts=2))
    yield state
    if state.alive:
        keeper.bring_down(state)
    assert everything_of(state) == []


def test_a_network_that_stays_does_as_others_do(standing: RunState) -> None:
    run = standing.run_id
    assert verb("exec", "--run", run, "h0", "--", "ping", "-c", "1", "10.0.0.2").returncode == 0
    assert run in verb("status").stdout
    assert verb("down", "--run", run).returncode == 0
    assert not standing.alive


@pytest.mark.usefixtures("one_cleans")
def test_a_killed_owner_s_switches_are_cleaned_away() -> None:
    state, _ = keeper.bring_up(native_plan("star", hosts=2))
    subprocess.run(["kill", "-9", str(state.record.owner.pid)], check=True)
    eventually(lambda: not state.alive)
    assert f"removing {state.run_id}" in verb("clean").stdout
    assert everything_of(state) == []


def eventually(condition: Callable[[], bool]) -> None:
    """The controller hears of a change over OpenFlow, and answers the same way."""
    deadline = time.monotonic() + CONNECTED_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _packets(data: bytes) -> Iterator[bytes]:
    """The frames of a pcapng's enhanced packet blocks (type 6)."""
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:
            captured = struct.unpack_from("<I", data, at + 20)[0]
            yield data[at + 28 : at + 28 + captured]
        at += length
