"""Real controller processes at native switches in memory, over TCP: Open vSwitch's app, and one of a user's own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from testbed.dataplane.forwarding import Forwarding
from testbed.openflow import Agents
from testbed.plan import Plan
from testbed.plan.serial import to_json
from testbed.resources import shared_folder
from testbed.routing.model import Entry
from testbed.run.channel import Channel, Hub, Message
from tests.openflow.parts import FLOWS, Ledger, Memory, frame
from tests.plan.specs import planned

LIMIT_S = 60.0
NO_PROBLEMS = {"failed", "refused", "unknown-switch"}


class Bench:
    """Switches as the plan has them, agents, and a controller on loopback."""

    def __init__(self, folder: Path, plan: Plan, program: Literal["l3_ecmp", "spray"], app: str) -> None:
        self.plan = plan
        self.folder = folder
        self.memory = Memory()
        self.notices: list[Message] = []
        self._answers: list[Message] = []
        self._app = app
        self._hub = Hub(folder / "control.sock")
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        (folder / "plan.json").write_text(json.dumps(to_json(plan)))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        for name, switch in plan.switches.items():
            ports = [link.source_port for link in plan.graph.links_from(name)]
            self.memory.add(name, switch.dpid, ports, program, switch.salt)
        self.agents = Agents(list(self.memory.switches.values()), self.memory, ("127.0.0.1", self._port))

    def start_controller(self) -> None:
        runner = shared_folder("controller") / "runner.py"
        self._process = subprocess.Popen(
            [
                sys.executable, str(runner), "--app", self._app, "--plan", str(self.folder / "plan.json"),
                "--control", str(self._hub.path), "--port", str(self._port),
            ],
            stderr=(self.folder / "controller.log").open("ab"),
        )  # fmt: skip
        self.until(lambda: self.heard("listening") or self.heard("failed"))

    def end_controller(self) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.notices.clear()

    def close(self) -> None:
        self.agents.stop()
        self.end_controller()
        self._hub.close()
        self.memory.close()

    def until(self, done: Callable[[], Any]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not done():
            assert time.monotonic() < deadline, (self.notices, (self.folder / "controller.log").read_text())
            fresh = self._hub.accept(0.0)
            if fresh is not None:
                self._channel = fresh
                self._take(fresh.poll())
            for _, messages in self._hub.wait(0.02):
                self._take(messages)
        assert not [notice for notice in self.notices if notice["event"] in NO_PROBLEMS]

    def heard(self, event: str, **fields: Any) -> bool:
        return any(n["event"] == event and fields.items() <= n.items() for n in self.notices)

    def routes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """What stands in all tables: switch -> prefix -> ports."""
        with self.memory.held():
            return {name: ledger.routes for name, ledger in self.memory.ledgers.items()}

    def counters(self) -> list[dict[str, Any]]:
        """What the controller answers when it is asked for counters."""
        assert self._channel is not None
        self._channel.send({"op": "counters", "id": 7})
        self.until(lambda: self._answers)
        rows: list[dict[str, Any]] = self._answers.pop()["rows"]
        return rows

    def cable(self, cable: int, *, up: bool) -> None:
        """Cut or mend a cable, and wait until the controller says that all switches have what they need now."""
        self.notices.clear()
        for link in self.plan.graph.links:
            if link.cable == cable:
                self.agents.port_changed(link.source, link.source_port, up=up)
        self.until(lambda: self.heard("installed", down=[] if up else [cable]))

    def _take(self, messages: list[Message]) -> None:
        self.notices += [message for message in messages if "event" in message]
        self._answers += [message for message in messages if "event" not in message]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made = []

    def make(plan: Plan, program: Literal["l3_ecmp", "spray"] = "l3_ecmp", app: str = "ecmp") -> Bench:
        made.append(Bench(tmp_path, plan, program, app))
        return made[-1]

    yield make
    for each in made:
        each.close()


def straight(plan: Plan, down: int | None = None) -> dict[str, dict[str, tuple[int, ...]]]:
    """The plan's entries, put into tables without any controller, and read back."""
    changed = next((a.entries for a in plan.alternates if a.cables == (down,)), {})
    memory = Memory()
    for name, switch in plan.switches.items():
        memory.add(name, switch.dpid, [link.source_port for link in plan.graph.links_from(name)])
        entries: dict[str, Entry] = {entry.prefix: entry for entry in (*switch.entries, *changed.get(name, ()))}
        ledger = memory.ledgers[name]
        assert isinstance(ledger, Ledger)
        Forwarding(ledger, name).replace(entries.values())  # type: ignore[arg-type]
    found = {name: ledger.routes for name, ledger in memory.ledgers.items()}
    memory.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("routing", "program"), [("ecmp", "l3_ecmp"), ("single", "l3_ecmp"), ("spray", "spray")])
def test_the_app_of_open_vswitch_fills_the_tables_as_the_plan_does(
    routing: str, program: Literal["l3_ecmp", "spray"], bench: Callable[..., Bench]
) -> None:
    """All 20 switches of a fat-tree, before and after a cable is cut, and when it is mended."""
    plan = planned(routing={"kind": routing})
    run = bench(plan, program)
    run.start_controller()
    run.agents.start()
    run.until(lambda: run.heard("installed", switches=20, down=[]))
    base = straight(plan)
    assert run.routes() == base
    for name, switch in plan.switches.items():
        entries = run.memory.switches[name].forwarding.entries  # type: ignore[attr-defined]
        assert entries == {entry.prefix: entry for entry in switch.entries}
    several = [ports for routes in base.values() for ports in routes.values() if len(ports) > 1]
    assert bool(several) == (routing != "single")
    cable = next(link.cable for link in plan.graph.links if link.name == "e0_0>a0_0")
    run.cable(cable, up=False)
    around = straight(plan, cable)
    assert run.routes() == around != base
    run.cable(cable, up=True)
    assert run.routes() == base


@pytest.mark.slow
def test_counters_of_ports_and_flows(bench: Callable[..., Bench]) -> None:
    plan = planned(engine="simulation")
    run = bench(plan)
    run.start_controller()
    run.agents.start()
    run.until(lambda: run.heard("installed"))
    for flow in FLOWS:
        run.memory.forward("e0_0", 1, frame("10.1.0.2", flow))
    for _ in range(3):
        run.memory.forward("e0_0", 2, frame("192.0.2.1"))
    answered = run.counters()
    rows = {(r["switch"], r["kind"], r["name"]): (r["packets"], r["bytes"], r["dropped"]) for r in answered}
    assert len(rows) == len(answered)
    links = [link for link in plan.graph.links if link.source in plan.switches]
    names = {(link.source, "port", f"{link.source}-eth{link.source_port}") for link in links}
    names |= {(name, "flow", entry.prefix) for name, each in plan.switches.items() for entry in each.entries}
    assert set(rows) == names | {(name, "flow", "miss") for name in plan.switches}
    size = len(frame("10.0.0.1"))
    counted = {key: row for key, row in rows.items() if row[0] and key[1] == "flow"}
    (through,) = [entry.prefix for entry in plan.switches["e0_0"].entries if entry.prefix == "10.0.0.0/8"]
    assert counted == {
        ("e0_0", "flow", through): (len(FLOWS), len(FLOWS) * size, 0),
        ("e0_0", "flow", "miss"): (3, 0, 3),
    }
    assert rows["e0_0", "port", "e0_0-eth1"] == (len(FLOWS), len(FLOWS) * size, 11)
    assert rows["e0_0", "port", "e0_0-eth2"] == (3, 3 * size, 22)


@pytest.mark.slow
def test_traffic_goes_on_without_a_controller_and_the_next_one_takes_over(bench: Callable[..., Bench]) -> None:
    plan = planned(topology={"kind": "leaf-spine", "spines": 2, "leaves": 2, "hosts": 2}, engine="simulation")
    run = bench(plan)
    run.agents.start()  # before there is a controller
    run.start_controller()
    run.until(lambda: run.heard("installed", switches=4))
    before = run.routes()
    assert before == straight(plan)
    target = plan.addresses["h3"].ip
    chosen = [run.memory.forward("leaf0", 3, frame(target, flow)) for flow in FLOWS]
    assert len({port for ((port, _),) in chosen}) == 2
    run.end_controller()
    assert [run.memory.forward("leaf0", 3, frame(target, flow)) for flow in FLOWS] == chosen
    run.start_controller()
    run.until(lambda: run.heard("installed", switches=4))
    assert run.routes() == before
    groups = {name: len(ledger.tables.get("members", {})) for name, ledger in run.memory.ledgers.items()}
    assert groups == {"leaf0": 2, "leaf1": 2, "spine0": 0, "spine1": 0}, "no group of the last controller's is left"


@pytest.mark.slow
def test_a_cable_that_was_cut_while_there_was_no_controller_is_known_to_the_next(bench: Callable[..., Bench]) -> None:
    plan = planned(topology={"kind": "leaf-spine", "spines": 2, "leaves": 2, "hosts": 2}, engine="simulation")
    run = bench(plan)
    run.start_controller()
    run.agents.start()
    run.until(lambda: run.heard("installed", switches=4, down=[]))
    run.end_controller()
    ends = [link for link in plan.graph.links if {link.source, link.target} == {"leaf0", "spine0"}]
    for end in ends:
        run.agents.port_changed(end.source, end.source_port, up=False)
    run.start_controller()
    run.until(lambda: run.heard("installed", switches=4))
    assert [n["down"] for n in run.notices if n["event"] == "installed"] == [[ends[0].cable]]
    assert run.routes() == straight(plan, ends[0].cable)


STATIC = '''
from ryu_api import MAIN_DISPATCHER, App, ofp_event, ofproto_v1_3, set_ev_cls


class Static(App):
    """Two hosts behind a choice among ports 1 and 2, one on port 3; what is not known comes to the controller."""

    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    @set_ev_cls(ofp_event.EventOFPStateChange, MAIN_DISPATCHER)
    def came(self, event):
        switch, parser, ofproto = event.datapath, event.datapath.ofproto_parser, event.datapath.ofproto
        buckets = [parser.OFPBucket(weight=1, actions=[parser.OFPActionOutput(port)]) for port in (1, 2)]
        switch.send_msg(parser.OFPGroupMod(switch, ofproto.OFPGC_ADD, ofproto.OFPGT_SELECT, 1, buckets))
        for address, action in (
            (("10.0.1.0", "255.255.255.0"), parser.OFPActionGroup(1)),
            ("10.0.0.3", parser.OFPActionOutput(3)),
        ):
            self.flow(switch, parser.OFPMatch(eth_type=0x0800, ipv4_dst=address), action, 1)
        self.flow(switch, parser.OFPMatch(), parser.OFPActionOutput(ofproto.OFPP_CONTROLLER), 0)
        switch.send_msg(parser.OFPBarrierRequest(switch))

    def flow(self, switch, match, action, priority):
        parser, ofproto = switch.ofproto_parser, switch.ofproto
        apply = [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, [action])]
        switch.send_msg(parser.OFPFlowMod(switch, priority=priority, match=match, instructions=apply))

    @set_ev_cls(ofp_event.EventOFPBarrierReply, MAIN_DISPATCHER)
    def done(self, event):
        self.report("installed", dpid=event.msg.datapath.id)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def asked(self, event):
        """Send what is not known back through port 3, as it is."""
        message, switch = event.msg, event.msg.datapath
        parser, ofproto = switch.ofproto_parser, switch.ofproto
        self.report("asked", port=message.match["in_port"], bytes=len(message.data))
        out = [parser.OFPActionOutput(3)]
        switch.send_msg(parser.OFPPacketOut(switch, ofproto.OFP_NO_BUFFER, message.match["in_port"], out, message.data))
'''


@pytest.mark.slow
def test_an_app_of_one_s_own_with_standard_messages(bench: Callable[..., Bench], tmp_path: Path) -> None:
    (tmp_path / "static.py").write_text(STATIC)
    plan = planned(topology={"kind": "star", "hosts": 4}, workers={"count": 4}, engine="simulation")
    run = bench(plan, app=str(tmp_path / "static.py"))
    run.start_controller()
    run.agents.start()
    run.until(lambda: run.heard("installed"))
    assert run.routes() == {"s0": {"10.0.1.0/24": (1, 2), "10.0.0.3/32": (3,), "0.0.0.0/0": (510,)}}
    packet = frame("192.0.2.1")
    run.memory.forward("s0", 2, packet)
    run.until(lambda: run.heard("asked", port=2, bytes=len(packet)) and run.memory.sent)
    ((switch, port, sent),) = run.memory.sent
    assert (switch, port) == ("s0", 3)
    assert sent[34:] == packet[34:]
    assert run.counters() == [], "it does not count"


@pytest.mark.slow
def test_an_app_that_fails_is_told_with_its_place(bench: Callable[..., Bench], tmp_path: Path) -> None:
    text = STATIC.replace("message, switch = event.msg", "message, switch = event.nothing")
    (tmp_path / "static.py").write_text(text)
    line = text.split("event.nothing")[0].count("\n") + 1
    run = bench(
        planned(topology={"kind": "star", "hosts": 4}, workers={"count": 4}, engine="simulation"),
        app=str(tmp_path / "static.py"),
    )
    run.start_controller()
    run.agents.start()
    run.until(lambda: run.heard("installed"))
    for _ in range(2):  # it goes on after the first
        run.memory.forward("s0", 2, frame("192.0.2.1"))
        with pytest.raises(AssertionError):
            run.until(lambda: run.heard("failed"))
        reason = f"static.py:{line}: AttributeError: 'EventOFPPacketIn' object has no attribute 'nothing'"
        assert run.heard("failed", handler="asked", reason=reason)
        run.notices.clear()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "from ryu_api import App\n\nclass Broken(App):\n    OFP_VERSIONS = [4]\n    x = {}['y']\n",
            "5: KeyError: 'y'",
        ),
        ("import nothing_of_this_name\n", "1: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("def broken(\n", "1: SyntaxError: '(' was never closed (broken.py, line 1)"),
    ],
)
def test_an_app_that_does_not_load_is_told(text: str, reason: str, bench: Callable[..., Bench], tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(text)
    run = bench(planned(topology={"kind": "star", "hosts": 4}, workers={"count": 4}, engine="simulation"),
                app=str(tmp_path / "broken.py"))  # fmt: skip
    with pytest.raises(AssertionError):
        run.start_controller()
    (notice,) = run.notices
    assert (notice["event"], notice["reason"]) == ("failed", f"broken.py:{reason}")


@pytest.mark.slow
def test_eighty_switches_come_up_in_seconds(bench: Callable[..., Bench]) -> None:
    plan = planned(topology={"kind": "fat-tree", "k": 8}, engine="simulation")
    run = bench(plan)
    run.start_controller()
    began = time.monotonic()
    run.agents.start()
    run.until(lambda: run.heard("installed", switches=80))
    took_s = time.monotonic() - began
    print(f"80 switches in {took_s:.2f} s")
    assert took_s < 30, "on a busy machine"
    assert run.routes() == straight(plan)
