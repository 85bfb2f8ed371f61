"""A network comes up as planned, does what Mininet's users expect, and leaves nothing, whether it succeeds or fails."""

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.emulation import interfaces, namespaces
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.state import RunState
from testbed.emulation.tc import TcDriver
from testbed.errors import RunFailed
from testbed.plan.model import LinkDriver, Plan

from .builders import install_flows, small_plan
from .traces import everything_of, machine_settings

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow]


def alone(plan: Plan, state: RunState, logs: Path) -> EmulatedNetwork:
    """A network whose flows the test installs itself."""
    return EmulatedNetwork(plan, state, logs, controller=False)


def reached(network: EmulatedNetwork, source: str, target: str, count: int = 3) -> int:
    output = network.net.get(source).cmd(f"ping -c {count} -i 0.05 -W 2 {network.plan.addresses[target].ip}")
    return int(output.partition(" received")[0].rpartition(" ")[2])


@pytest.mark.parametrize("driver", ["netcore", "tc"])
def test_hosts_reach_each_other(driver: LinkDriver, state: RunState, tmp_path: Path) -> None:
    plan = small_plan("star", hosts=3, driver=driver)
    with alone(plan, state, tmp_path) as network:
        install_flows(network)
        assert network.mismatches == []
        assert reached(network, "h0", "h2") == 3
        counters = network.link_counters()
        up, down = counters[0], counters[1]  # h0>s0 and back
        assert (up.packets, down.packets) == (3, 3)
        assert up.bytes == 3 * 98  # Ethernet 14, IP 20, ICMP 8, and 56 of ping's
        assert network.in_flight() == 0
        assert network.host_drops() == {}
    assert everything_of(state) == []


def test_the_controller_installs_the_plans_routes(state: RunState, tmp_path: Path) -> None:
    plan = small_plan("leaf-spine", spines=2, leaves=2, hosts=2, driver="netcore")
    with EmulatedNetwork(plan, state, tmp_path) as network:
        assert reached(network, "h0", "h3") == 3
    assert everything_of(state) == []


def test_mininets_objects_are_the_network(state: RunState, tmp_path: Path) -> None:
    plan = small_plan("star", hosts=2, driver="netcore")
    with alone(plan, state, tmp_path) as network:
        install_flows(network)
        host = network.net.get("h1")
        address = plan.addresses["h1"]
        assert (host.IP(), host.MAC()) == (address.ip, address.mac)
        assert address.mac in host.cmd("ip link show h1-eth0")
        assert host.pexec("cat /proc/self/ns/net /nowhere")[2] == 1
        out, _, status = host.pexec("ip -br address show h1-eth0")
        assert status == 0
        assert address.ip in out
        assert "s0-eth1" in network.net.get("s0").dpctl("show")
        assert network.net.ping(network.net.hosts, timeout="2") == 0.0  # per cent lost
        assert str(network.net.linksBetween(*network.net.get("h0", "s0"))[0]) == "h0-eth0<->s0-eth1"


def test_a_fabric_that_dies_while_links_are_shaped_is_the_reason(
    state: RunState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill_and_configure(driver: TcDriver) -> None:
        fabric = state.record.children["fabric"].pid
        os.kill(fabric, signal.SIGKILL)
        os.waitid(os.P_PID, fabric, os.WEXITED | os.WNOWAIT)
        configure(driver)

    configure = TcDriver.configure
    monkeypatch.setattr(TcDriver, "configure", kill_and_configure)
    network = alone(small_plan("star", hosts=3, driver="netcore"), state, tmp_path)
    with pytest.raises(RunFailed, match="while shaping the links: fabric was killed by SIGKILL"):
        network.start()


def test_shells_start_only_when_asked_for(state: RunState, tmp_path: Path) -> None:
    with alone(small_plan("star", hosts=2, driver="netcore"), state, tmp_path) as network:
        assert [node.shell for node in (*network.net.hosts, *network.net.switches)] == [None] * 3


def test_nothing_is_looked_up_or_announced(state: RunState, tmp_path: Path) -> None:
    """No ARP and no IPv6: whatever enters a link was sent by a program."""
    plan = small_plan("star", hosts=3, driver="netcore")
    with alone(plan, state, tmp_path) as network:
        install_flows(network)
        assert reached(network, "h0", "h1", count=1) == 1
        packets = {network.plan.graph.links[i].name: c.packets for i, c in network.link_counters().items() if c.packets}
        assert packets == {"h0>s0": 1, "s0>h1": 1, "h1>s0": 1, "s0>h0": 1}
        table = network.net.get("h0").cmd("ip neighbour show nud permanent")
        assert len(table.splitlines()) == 2


@pytest.mark.parametrize("driver", ["netcore", "tc"])
def test_a_link_changes_while_it_is_up(driver: LinkDriver, state: RunState, tmp_path: Path) -> None:
    plan = small_plan("star", hosts=2, driver=driver, dilation=10)
    with alone(plan, state, tmp_path) as network:
        slower = replace(plan.graph.links[0].parameters, rate_bps=20_000_000)
        network.set_link(0, slower)
        network.set_link(1, slower)
        assert network.read_back() == []
        classes = network.net.get("h0").cmd("tc class show dev h0-eth0")
        assert " rate 2Mbit " in classes  # a tenth, as time is dilated


def test_what_tc_cannot_do_is_refused(state: RunState, tmp_path: Path) -> None:
    plan = small_plan("star", hosts=2, driver="tc")
    with alone(plan, state, tmp_path) as network, pytest.raises(RunFailed, match=r"h0>s0.*rate, delay and queue"):
        network.set_link(0, replace(plan.graph.links[0].parameters, corrupt=0.1))


def test_shaping_that_is_not_as_asked_is_found(state: RunState, tmp_path: Path) -> None:
    plan = small_plan("star", hosts=2, driver="tc")
    with alone(plan, state, tmp_path) as network:
        network.net.get("h0").cmd(
            "tc class replace dev h0-eth0 parent 1: classid 1:1 htb rate 50mbit burst 1600 overhead 24"
        )
        network.net.get("s0").cmd("tc qdisc replace dev s0-eth2 parent 1:1 handle 20: bfifo limit 1000")
        assert network.read_back() == [
            "h0>s0: rate 50000000 bit/s instead of 100000000",
            "s0>h1: queue of 1000 B instead of 262144",
        ]


@pytest.mark.parametrize("driver", ["netcore", "tc"])
def test_a_cut_cable_carries_nothing_until_it_is_mended(driver: LinkDriver, state: RunState, tmp_path: Path) -> None:
    plan = small_plan("star", hosts=2, driver=driver)
    with alone(plan, state, tmp_path) as network:
        install_flows(network)
        network.link_down(0)
        assert reached(network, "h0", "h1", count=1) == 0
        network.link_up(0)
        network.net.get("h0").cmd("until ip link show h0-eth0 | grep -q LOWER_UP; do :; done")
        assert reached(network, "h0", "h1") == 3


def test_a_sender_is_held_back_and_loses_nothing(state: RunState, tmp_path: Path) -> None:
    plan = small_plan("star", hosts=2, driver="netcore", rate_bps=20_000_000, queue_bytes=1_000_000)
    blast = (
        "import socket, time\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "began = time.monotonic()\n"
        "for _ in range(600): s.sendto(bytes(1000), ('%s', 4791))\n"
        "print(time.monotonic() - began)"
    )
    with alone(plan, state, tmp_path) as network:
        install_flows(network)
        (tmp_path / "blast.py").write_text(blast % plan.addresses["h1"].ip)
        took_s = float(network.net.get("h0").cmd(f"python3 {tmp_path}/blast.py"))
        # 600 frames of 1066 B on the wire take 256 ms at 20 Mb/s; the socket buffer holds the last 208 KiB of them.
        assert took_s > 0.256 - 0.12
        drops = network.host_drops()
        assert {where for where, n in drops.items() if n} <= {"h1: UDP port without a listener"}


def test_two_networks_side_by_side_do_not_meet(state: RunState, tmp_path: Path) -> None:
    other_state = RunState.create("run", "other", tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with alone(small_plan("star", hosts=2, driver="netcore"), state, tmp_path / "a") as one:
        with alone(small_plan("star", hosts=2, driver="netcore"), other_state, tmp_path / "b") as other:
            install_flows(one)
            install_flows(other)
            assert reached(one, "h0", "h1") == 3
            assert reached(other, "h0", "h1") == 3
        assert everything_of(other_state) == []
        assert reached(one, "h0", "h1") == 3
    other_state.remove()


def test_a_failed_step_is_named_and_undone(state: RunState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise RunFailed("no more interfaces", hint="buy some")

    monkeypatch.setattr(interfaces, "configure_hosts", fail)
    network = alone(small_plan("star", hosts=2, driver="netcore"), state, tmp_path)
    with pytest.raises(RunFailed, match="while making and configuring the interfaces: no more interfaces") as caught:
        network.start()
    assert caught.value.hint == "buy some"
    assert everything_of(state) == []


def test_a_child_that_dies_at_the_start_shows_its_log(state: RunState, tmp_path: Path) -> None:
    plan = small_plan("star", hosts=2, driver="netcore", controller="nowhere")
    network = EmulatedNetwork(plan, state, tmp_path)
    with pytest.raises(RunFailed, match="controller") as caught:
        network.start()
    assert "Error" in caught.value.hint
    assert everything_of(state) == []


def test_the_machines_settings_stay_as_they_are(state: RunState, tmp_path: Path) -> None:
    """Mininet by itself raises a dozen sysctls of the whole machine, and leaves them."""
    before = machine_settings()
    with alone(small_plan("star", hosts=2, driver="netcore"), state, tmp_path):
        assert machine_settings() == before
    assert machine_settings() == before


def test_programs_left_on_hosts_are_ended(state: RunState, tmp_path: Path) -> None:
    network = alone(small_plan("star", hosts=2, driver="netcore"), state, tmp_path)
    network.start()
    stubborn = subprocess.Popen(namespaces.entering(network.netns("h0"), ["sh", "-c", "trap '' TERM; sleep 60 & wait"]))
    try:
        assert network.stop() == []
        assert stubborn.wait(1) == -9
    finally:
        stubborn.kill()
    assert everything_of(state) == []


def test_tcps_least_timeout_is_slowed_with_the_network(state: RunState, tmp_path: Path) -> None:
    with alone(small_plan("star", hosts=2, driver="netcore", dilation=50), state, tmp_path) as network:
        assert "rto_min lock 10s" in network.net.get("h0").cmd("ip route show")  # 50 times the kernel's 200 ms
