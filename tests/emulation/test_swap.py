"""A native switch's program is exchanged under traffic: nothing is lost, routes go on, and a bad one stays out."""

import subprocess
from pathlib import Path

import pytest

from testbed.emulation import namespaces
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.state import RunState
from testbed.errors import RunFailed, UsageError

from .test_native import DROPPING, cable_between, planned
from .test_network import reached
from .traces import everything_of

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow]
PINGS = 200
REMEMBERING = """\
#include <core.p4>
#include <v1model.p4>
struct metadata_t { }
#include "include/ipv4.p4"
#include "include/routing.p4"
control SwitchIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Routing() routing;
    register<bit<32>>(4) seen;
    register<bit<32>>(OTHERS) others;
    apply {
        bit<32> before;
        seen.read(before, 1);
        seen.write(1, before + 1);
        others.write(0, 7);
        routing.apply(headers, 0, standard_metadata);
        if (before >= LIMIT && headers.ipv4.isValid()) {
            mark_to_drop(standard_metadata);
        }
    }
}
control SwitchEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply { }
}
V1Switch(HeadersParser(), VerifyIpv4(), SwitchIngress(), SwitchEgress(), UpdateIpv4(), HeadersDeparser()) main;
"""


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def remembering(folder: Path, name: str, *, limit: int, others: int) -> str:
    """Counts what it sees in a register, and drops what is beyond a limit."""
    return written(folder, name, REMEMBERING.replace("LIMIT", str(limit)).replace("OTHERS", str(others)))


def test_no_packet_is_lost_and_the_routes_count_on(state: RunState, tmp_path: Path) -> None:
    plan = planned({}, kind="leaf-spine", spines=1, leaves=2, hosts=1)
    with EmulatedNetwork(plan, state, tmp_path) as network:
        ping = ["ping", "-q", "-i", "0.005", "-c", str(PINGS), plan.addresses["h1"].ip]
        running = subprocess.Popen(namespaces.entering(network.netns("h0"), ping), stdout=subprocess.PIPE, text=True)
        swapped = [network.swap(switch, program) for program in ("spray", "trim") for switch in plan.graph.switches]
        assert f"{PINGS} received" in running.communicate(timeout=30)[0]
        assert all(each.blackout_ns > 0 for each in swapped)
        leaf = next(each for each in network.switch_counters() if each.name == "leaf0")
        assert leaf.routes[f"{plan.addresses['h0'].ip}/32"].packets == PINGS
    assert everything_of(state) == []


def test_cut_cables_are_gone_round_by_the_new_program_too(state: RunState, tmp_path: Path) -> None:
    plan = planned({}, kind="leaf-spine", spines=2, leaves=2, hosts=1)
    with EmulatedNetwork(plan, state, tmp_path) as network:
        network.link_down(cable_between(plan, "leaf0", "spine0"))
        network.swap("leaf0", "spray")
        assert reached(network, "h0", "h1") == 3
        network.link_up(cable_between(plan, "leaf0", "spine0"))
        network.link_down(cable_between(plan, "leaf0", "spine1"))
        assert reached(network, "h0", "h1") == 3


def test_registers_are_kept_if_asked_for_and_the_same(state: RunState, tmp_path: Path) -> None:
    first = remembering(tmp_path, "first.p4", limit=1000, others=2)
    second = remembering(tmp_path, "second.p4", limit=3, others=3)
    plan = planned({"program": first}, kind="star", hosts=2)
    with EmulatedNetwork(plan, state, tmp_path) as network:
        assert reached(network, "h0", "h1", count=2) == 2, "four packets"
        swapped = network.swap("s0", second)
        assert swapped.kept == ()
        assert reached(network, "h0", "h1", count=1) == 1, "it began anew"
        network.swap("s0", first)
        assert reached(network, "h0", "h1", count=2) == 2
        swapped = network.swap("s0", second, keep_registers=True)
        assert [name.rpartition(".")[2] for name in swapped.kept] == ["seen"]
        assert [name.rpartition(".")[2] for name in swapped.reset] == ["others"], "it is longer now"
        assert reached(network, "h0", "h1", count=1) == 0, "four were seen, and three are the limit"


def test_a_program_that_sends_copies_forwards(state: RunState, tmp_path: Path) -> None:
    flooding = DROPPING.replace("headers.ipv4.protocol == 1 && headers.ipv4.destination == 0x0A000002", "true").replace(
        "mark_to_drop(standard_metadata)", "standard_metadata.mcast_grp = 1"
    )
    entries = written(tmp_path, "both.stf", "mc_mgrp_create 1\nmc_node_create 0 1 2\nmc_node_associate 1 0\n")
    with EmulatedNetwork(planned({}, kind="star", hosts=2), state, tmp_path) as network:
        network.swap("s0", written(tmp_path, "flooding.p4", flooding), entries)
        assert reached(network, "h0", "h1") == 3


def test_a_program_that_does_not_forward_as_the_routes_say_does_not_take_over(state: RunState, tmp_path: Path) -> None:
    astray = DROPPING.replace("mark_to_drop(standard_metadata);", "standard_metadata.egress_spec = 9;").replace(
        "headers.ipv4.protocol == 1 && ", ""
    )
    silent = DROPPING.replace("headers.ipv4.protocol == 1 && headers.ipv4.destination == 0x0A000002", "true")
    bare = DROPPING.replace("table routes", "table ways")
    plan = planned({}, kind="star", hosts=2)
    with EmulatedNetwork(plan, state, tmp_path) as network:
        for text, reason in (
            (astray, "sends what is for 10.0.0.2 to port 9 instead of"),
            (silent, "forwards nothing"),
            (bare.replace('#include "include/routing.p4"', ""), "error"),
        ):
            with pytest.raises((RunFailed, UsageError), match=reason):
                network.swap("s0", written(tmp_path, "bad.p4", text))
            assert reached(network, "h0", "h1") == 3
        with pytest.raises(UsageError, match="there is no switch 's1'"):
            network.swap("s1", "spray")
        planned_too = written(tmp_path, "e.stf", "add routes 0 destination:0x0B000001/32 to_port(port:1)\n")
        with pytest.raises(UsageError, match=r"e\.stf:1:1: `routes` is filled from the plan's routes"):
            network.swap("s0", "spray", planned_too)
