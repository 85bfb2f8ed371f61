"""A flow across a cable that is cut and mended, through Open vSwitch: each packet is received or counted as dropped."""

import contextlib
import socket
import subprocess
from pathlib import Path

import pytest

from testbed.emulation import namespaces
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.state import RunState
from tests.emulation.builders import install_flows, small_plan
from tests.netcore.rig import wait_until

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow]

PORT = 4791  # the job's
PACKETS = 400  # of each part


class Flow:
    """UDP from h0 to h1."""

    def __init__(self, network: EmulatedNetwork) -> None:
        self.target = network.plan.addresses["h1"].ip, PORT
        self.sender, self.receiver = (
            namespaces.inside(network.netns(host), lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            for host in ("h0", "h1")
        )
        self.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.receiver.bind(self.target)
        self.receiver.setblocking(False)
        self.sent = self.received = 0

    def send(self) -> None:
        for _ in range(PACKETS):
            self.sender.sendto(bytes(500), self.target)
        self.sent += PACKETS

    def count(self) -> int:
        with contextlib.suppress(BlockingIOError):
            while self.receiver.recv(1000):
                self.received += 1
        return self.received

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


def test_nothing_is_lost_uncounted_when_a_cable_is_cut_and_mended(state: RunState, tmp_path: Path) -> None:
    plan = small_plan("star", hosts=2, driver="netcore", rate_bps=200_000_000, delay_ns=1_000_000)
    with EmulatedNetwork(plan, state, tmp_path, controller=False) as network:
        install_flows(network)
        flow = Flow(network)
        switch = f"unix:{state.directory}/ovs/s0.mgmt"
        cable = next(link.cable for link in plan.graph.links if (link.source, link.target) == ("s0", "h1"))

        def dropped_down() -> int:
            return sum(counters.job_dropped_down for counters in network.link_counters().values())

        def settled() -> bool:
            return flow.sent == flow.count() + dropped_down() and network.in_flight() == 0

        flow.send()
        network.link_down(cable)  # while the flow is on its way
        flow.send()
        wait_until("all is received or counted", settled)
        assert flow.received < flow.sent
        wait_until("the switch sees it", lambda: link_is_down(switch, "s0-eth2"))
        cut = dropped_down()
        flow.send()  # the switch knows, and sends all the same
        wait_until("all is received or counted", settled)
        assert dropped_down() == cut + PACKETS
        network.link_up(cable)
        wait_until("the switch sees it", lambda: not link_is_down(switch, "s0-eth2"))
        before = flow.received
        flow.send()
        wait_until("all is received", lambda: flow.count() == before + PACKETS)
        assert settled()
        assert network.host_drops() == {}
        flow.close()


def link_is_down(switch: str, port: str) -> bool:
    """What the switch tells a controller of a port."""
    command = ["ovs-ofctl", "-O", "OpenFlow13", "dump-ports-desc", switch]
    text = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    return "LINK_DOWN" in text.partition(f"({port})")[2].partition("addr:")[2].partition("addr:")[0]
