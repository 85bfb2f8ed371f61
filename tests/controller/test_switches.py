"""The controller and real switches: a k=4 fat-tree of Open vSwitch bridges in namespaces of the test's own.

All tests share one network, whose controller the last one kills.
"""

import os
import re
import signal
import socket
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from testbed.emulation import cleanup, namespaces
from testbed.emulation.commands import output_of
from testbed.emulation.network import EmulatedNetwork
from testbed.emulation.state import RunState
from testbed.plan import plan
from testbed.run.channel import Message
from testbed.run.conductor import Conductor
from testbed.spec.model import Spec

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow]

LIMIT_S = 30.0
FLOWS = range(49_152, 49_152 + 256)  # source ports
SOME = FLOWS[:64]
PORT = 4791
FAR = "h15"  # in another pod than h0
CORES = ("c0", "c1", "c2", "c3")


class Ear(Conductor):
    """A conductor that keeps what the controller says."""

    def __init__(self, network: EmulatedNetwork) -> None:
        super().__init__(network.hub, wall_limit_s=600)
        self.heard: dict[str | None, list[Message]] = defaultdict(list)

    def _heed_switches(self, event: str | None, message: Message) -> None:
        self.heard[event].append(message)
        super()._heed_switches(event, message)


class Tree:
    """The network, and what the tests ask of it."""

    def __init__(self, network: EmulatedNetwork) -> None:
        self.network = network
        self.conductor = Ear(network)
        self.address = {host: address.ip for host, address in network.plan.addresses.items()}

    def until(self, done: Callable[[], bool], what: str) -> None:
        self.conductor.until(done, lambda: what, LIMIT_S)

    def flows(self) -> dict[str, list[str]]:
        """What is installed, without its counters."""
        return {name: sorted(self._dump(name)) for name in self.network.plan.switches}

    def missed(self, switch: str) -> int:
        """Packets that matched nothing."""
        return sum(int(re.search(r"n_packets=(\d+)", line)[1]) for line in self._lines(switch) if "priority=0" in line)  # type: ignore[index]

    def packets(self) -> Counter[str]:
        """By directed link."""
        links = self.network.plan.graph.links
        return Counter({links[i].name: counted.packets for i, counted in self.network.link_counters().items()})

    def send(self, source: str, target: str, source_ports: range) -> int:
        """One UDP packet from each port; how many came, waiting for all of them as long as they may take."""

        def bound(ip: str, port: int) -> socket.socket:
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.bind((ip, port))
            return made

        def listen() -> socket.socket:
            return bound(self.address[target], PORT)

        def tell() -> None:
            for port in source_ports:
                with bound(self.address[source], port) as sender:
                    sender.sendto(b"x", (self.address[target], PORT))

        with namespaces.inside(self.network.netns(target), listen) as listener:
            listener.settimeout(1.0)
            namespaces.inside(self.network.netns(source), tell)
            came = set()
            try:
                while len(came) < len(source_ports):
                    came.add(listener.recvfrom(64)[1][1])
            except TimeoutError:
                pass
            return len(came)

    def reach(self, source: str, target: str) -> bool:
        """Whether a packet of each of some flows comes through."""
        return self.send(source, target, SOME) == len(SOME)

    def installed_without(self, *cables: int) -> bool:
        """Whether the controller last confirmed what it is to have installed while these are down."""
        confirmed = self.conductor.heard["installed"]
        return bool(confirmed) and confirmed[-1]["down"] == sorted(cables)

    def _dump(self, switch: str) -> Iterator[str]:
        for line in self._lines(switch):
            yield re.sub(r"(duration|n_packets|n_bytes|idle_age|hard_age)=[^,]*,? ?", "", line).strip()

    def _lines(self, switch: str) -> list[str]:
        socket_path = self.network.state.directory / "ovs" / f"{switch}.mgmt"
        text = output_of(["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", f"unix:{socket_path}"])
        return [line for line in text.splitlines() if "cookie=" in line]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    logs = tmp_path_factory.mktemp("tree")
    state = RunState.create("run", "test", logs)
    spec = {"name": "tree", "topology": {"kind": "fat-tree", "k": 4}, "switches": {"datapath": "user"}}
    try:
        with EmulatedNetwork(plan(Spec.model_validate(spec)), state, logs) as network:
            yield Tree(network)
    finally:
        assert cleanup.remove(cleanup.leftover_of(state)) == []


def cable_between(tree: Tree, one: str, other: str) -> int:
    return next(link.cable for link in tree.network.plan.graph.links if link.name == f"{one}>{other}")


def routes(installed: list[str]) -> list[str]:
    """The entries by destination; the choices among ports, once made, stay for the next time."""
    return [line for line in installed if "table=0" in line]


def test_every_switch_has_the_plan_s_entries_and_drops_the_rest(tree: Tree) -> None:
    assert tree.network.mismatches == []
    for name, installed in tree.flows().items():
        wanted = {entry.prefix.removesuffix("/32") for entry in tree.network.plan.switches[name].entries}
        matched = {found[1] for line in routes(installed) if (found := re.search(r"nw_dst=([\d./]+)", line))}
        assert matched == wanted
        assert sum("priority=0 actions=drop" in line for line in installed) == 1
        assert not [line for line in installed if "FLOOD" in line or "NORMAL" in line or "CONTROLLER" in line]


def test_flows_spread_evenly_over_all_core_switches(tree: Tree) -> None:
    """By the UDP source port alone, at the edge and again at the aggregation, and not by the same bits."""
    before = tree.packets()
    assert tree.send("h0", FAR, FLOWS) == len(FLOWS)
    rise = tree.packets() - before
    cores = [rise[f"a0_{n // 2}>c{n}"] for n in range(4)]
    assert sum(cores) == len(FLOWS)
    expected = len(FLOWS) / 4
    assert sum((count - expected) ** 2 / expected for count in cores) < 16.27  # chi-square, 3 degrees, p = 0.001
    assert [rise[f"e0_0>a0_{n}"] for n in (0, 1)] == [sum(cores[:2]), sum(cores[2:])]


def test_one_flow_takes_one_way(tree: Tree) -> None:
    before = tree.packets()
    for _ in range(8):
        assert tree.send("h0", FAR, range(50_000, 50_001)) == 1
    rise = tree.packets() - before
    assert sorted(count for name, count in rise.items() if name.startswith(("e0_0>a", "a0_"))) == [8, 8]


def test_what_nobody_knows_is_dropped_and_never_flooded(tree: Tree) -> None:
    mac, broadcast, stranger = bytes.fromhex("025400000000"), b"\xff" * 6, bytes.fromhex("020000000099")
    own = socket.inet_aton(tree.address["h0"])

    def ip(target: str) -> bytes:
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20, 0, 0, 9, 253, 0, own, socket.inet_aton(target))
        return mac + b"\x08\x00" + header + bytes(26)

    def shout() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind(("h0-eth0", 0))
            arp = struct.pack("!HHBBH6s4s6s4s", 1, 0x800, 6, 4, 1, mac, own, bytes(6), socket.inet_aton("10.0.0.2"))
            wire.send(broadcast + mac + b"\x08\x06" + arp + bytes(18))
            wire.send(broadcast + mac + b"\x86\xdd" + bytes(46))
            wire.send(broadcast + ip("192.0.2.1"))
            wire.send(stranger + ip("192.0.2.1"))
            wire.send(stranger + ip("10.99.0.1"))  # one of the network's own prefix, of which only a core knows better

    before, missed = tree.packets(), {name: tree.missed(name) for name in ("e0_0", *CORES)}
    namespaces.inside(tree.network.netns("h0"), shout)

    def dropped() -> bool:
        at = {name: tree.missed(name) - count for name, count in missed.items()}
        return at["e0_0"] == 4 and sum(at[core] for core in CORES) == 1

    tree.until(dropped, "four packets dropped at the edge and one at a core")
    assert tree.send("h0", FAR, range(50_000, 50_001)) == 1  # behind them on the same link
    rise = tree.packets() - before
    assert rise["h0>e0_0"] == 6
    assert {name for name in rise if name.endswith(tuple(f">h{n}" for n in range(16)))} == {f"e3_1>{FAR}"}
    assert sum(rise.values()) == 4 * 1 + 3 + 6


def test_counters_of_ports_and_flows(tree: Tree) -> None:
    controller = next(channel for channel in tree.network.hub.channels if channel.name == "controller")
    assert tree.send("h0", "h1", range(50_100, 50_120)) == 20
    near = {"switch": "e0_0", "kind": "flow", "name": f"{tree.address['h1']}/32"}
    wanted = {(*near.values(),): 20, ("e0_0", "port", "e0_0-eth1"): 20}

    def counted() -> bool:
        rows = tree.conductor.ask(controller, {"op": "counters"}, LIMIT_S)["rows"]
        found = {(row["switch"], row["kind"], row["name"]): row["packets"] for row in rows}
        names = {(link.source, "port", f"{link.source}-eth{link.source_port}") for link in links}
        names |= {(name, "flow", entry.prefix) for name, each in switches.items() for entry in each.entries}
        assert set(found) == names | {(name, "flow", "miss") for name in switches}
        assert len(found) == len(rows)
        return all(found[key] >= count for key, count in wanted.items())

    switches = tree.network.plan.switches
    links = [link for link in tree.network.plan.graph.links if link.source in switches]
    tree.until(counted, "the packets in the counters of e0_0")  # Open vSwitch brings them up to date twice a second


def test_traffic_goes_round_a_cable_that_is_cut_and_comes_back_when_it_is_mended(tree: Tree) -> None:
    before = tree.flows()
    cable = cable_between(tree, "e0_0", "a0_0")
    tree.network.link_down(cable)
    tree.until(lambda: tree.installed_without(cable), "the entries around the cable")
    told = tree.conductor.heard["links"][-1]
    assert (told["down"], told["foreseen"]) == ([cable], True)
    assert tree.flows() != before
    # A barrier does not wait until Open vSwitch has looked its cached flows through, which takes it some milliseconds.
    for source, target in (("h0", FAR), (FAR, "h0")):
        tree.until(partial(tree.reach, source, target), "all flows to come through")
    counted = tree.packets()
    assert tree.reach("h0", FAR)
    assert tree.reach(FAR, "h0")
    rise = tree.packets() - counted
    assert (rise["e0_0>a0_0"], rise["e0_0>a0_1"], rise["a0_0>e0_0"], rise["a0_1>e0_0"]) == (0, 64, 0, 64)
    tree.network.link_up(cable)
    tree.until(tree.installed_without, "the entries of before")
    assert {name: routes(lines) for name, lines in tree.flows().items()} == {
        name: routes(lines) for name, lines in before.items()
    }
    tree.until(partial(tree.reach, "h0", FAR), "all flows to come through")


def test_two_cables_that_nobody_foresaw_together(tree: Tree) -> None:
    cables = [cable_between(tree, "e0_0", "a0_0"), cable_between(tree, "a0_1", "c2")]
    for cable in cables:
        tree.network.link_down(cable)
    tree.until(lambda: tree.installed_without(*cables), "the entries around both cables")
    assert tree.conductor.heard["links"][-1]["foreseen"] is False
    assert tree.conductor.notes == [f"no route was planned for cables {sorted(cables)} being down together"]
    tree.until(partial(tree.reach, "h0", FAR), "all flows to come through")
    for cable in cables:
        tree.network.link_up(cable)
    tree.until(tree.installed_without, "the entries of before")


def test_without_its_controller_traffic_goes_on(tree: Tree) -> None:
    before = tree.flows()
    controller = next(channel for channel in tree.network.hub.channels if channel.name == "controller")
    os.kill(controller.hello["pid"], signal.SIGKILL)
    tree.until(lambda: tree.conductor.lost == ["controller"], "the loss of the controller")
    assert tree.flows() == before
    assert tree.reach("h0", FAR)
