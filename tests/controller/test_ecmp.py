"""The app between events and messages: what it sends and reports, without a switch."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.controller.parts import Datapath, module, plan_json, printed


class Switch(Datapath):
    """A connected switch that keeps what it is sent."""

    def __init__(self, dpid: int) -> None:
        super().__init__()
        self.id = dpid
        self.sent: list[Any] = []

    def send_msg(self, message: Any) -> None:
        self.sent.append(message)

    def take(self) -> list[str]:
        """What it was sent since the last call, as text; its barrier last."""
        sent, self.sent = self.sent, []
        return [printed(message) for message in sent]


class Stage:
    """The app with two switches."""

    def __init__(self) -> None:
        self.app = module("ecmp").Ecmp()
        self.reports: list[tuple[str, dict[str, Any]]] = []
        self.app.report = lambda what, **fields: self.reports.append((what, fields))
        self.switches = [Switch(1), Switch(2)]

    def connect(self, switch: Switch, hardware: bytes = b"Open vSwitch") -> None:
        """The switch comes and says what it is."""
        self.app.switch_changed(SimpleNamespace(datapath=switch, state=module("ryu_api").MAIN_DISPATCHER))
        if switch.sent:
            assert switch.take() == [""], "what are you?"
            self.app.described(_event(switch, body=SimpleNamespace(hw_desc=hardware)))

    def lose(self, switch: Switch) -> None:
        self.app.switch_changed(SimpleNamespace(datapath=switch, state=module("ryu_api").DEAD_DISPATCHER))

    def confirm(self, switch: Switch) -> None:
        self.app.barrier_passed(_event(switch))

    def port(self, switch: Switch, number: int, *, down: bool = False, gone: bool = False) -> None:
        ofproto = switch.ofproto
        description = SimpleNamespace(port_no=number, state=ofproto.OFPPS_LINK_DOWN if down else ofproto.OFPPS_LIVE)
        reason = ofproto.OFPPR_DELETE if gone else ofproto.OFPPR_MODIFY
        self.app.port_changed(_event(switch, desc=description, reason=reason))

    def describe(self, switch: Switch, *down: int) -> None:
        """The switch says what its ports are like, as it does before it counts as connected."""
        ofproto = switch.ofproto
        states = {n: ofproto.OFPPS_LINK_DOWN if n in down else ofproto.OFPPS_LIVE for n in (1, 2, 3, 4, 5)}
        body = [SimpleNamespace(port_no=n, state=state) for n, state in states.items()]
        self.app.ports_described(_event(switch, body=body))

    def told(self) -> list[tuple[str, dict[str, Any]]]:
        reports, self.reports[:] = list(self.reports), []
        return reports


def _event(switch: Switch, **fields: Any) -> SimpleNamespace:
    return SimpleNamespace(msg=SimpleNamespace(datapath=switch, **fields))


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    (tmp_path / "plan.json").write_text(json.dumps(plan_json()))
    monkeypatch.setenv("TESTBED_PLAN", str(tmp_path / "plan.json"))
    return Stage()


@pytest.fixture
def connected(stage: Stage) -> Stage:
    """Both switches have confirmed what they were given."""
    for switch in stage.switches:
        stage.connect(switch)
        stage.confirm(switch)
        switch.take()
    stage.told()
    return stage


def routes(messages: list[str]) -> list[str]:
    return [text for text in messages if "nw_dst=10.0.1.0/24" in text]


def test_a_switch_gets_its_entries_and_a_barrier_behind_them(stage: Stage) -> None:
    first, second = stage.switches
    stage.connect(first)
    *entries, barrier = first.take()
    assert barrier == ""
    assert "ADD priority=0 cookie:0x7e57bed actions=drop" in entries
    assert len(entries) == 1 + 2 + 4, "a miss, two destinations, and a choice among four ports"
    stage.confirm(first)
    assert stage.told() == [], "the other one is not there yet"
    stage.connect(second)
    stage.confirm(second)
    assert stage.told() == [("installed", {"switches": 2, "down": []})]


def test_a_switch_that_is_no_open_vswitch_gets_groups(stage: Stage) -> None:
    first, second = stage.switches
    for switch in (first, second):
        stage.connect(switch, b"native switch")
        assert switch.take() == ["group_id=ALL"], "which are there?"
    stage.app.groups_described(_event(first, body=[], flags=0))
    miss, group, there, host, barrier = first.take()
    assert (miss, barrier) == ("ADD priority=0 cookie:0x7e57bed actions=drop", "")
    assert group.startswith("ADD group_id=1,type=select,bucket=")
    assert there == "ADD priority=124,ip,nw_dst=10.0.1.0/24 cookie:0x7e57bed actions=group:1"
    assert host == "ADD priority=132,ip,nw_dst=10.0.0.9 cookie:0x7e57bed actions=output:9"
    stage.confirm(first)
    stage.port(first, 2, down=True)
    assert second.take() == [], "it has not said all of what it is"
    group, there, barrier = first.take()
    assert group == "ADD group_id=2,type=select," + ",".join(f"bucket=actions=output:{port}" for port in (1, 3, 4))
    assert there.endswith("actions=group:2")
    stage.confirm(first)
    assert [what for what, _ in stage.told()] == ["links"], "the second switch has nothing yet"
    stage.app.groups_described(_event(second, body=[], flags=0))
    stage.confirm(second)
    assert stage.told() == [("installed", {"switches": 2, "down": [1]})]


def test_groups_of_an_earlier_connection_go_when_new_ones_have_taken_their_place(stage: Stage) -> None:
    first, _ = stage.switches
    stage.connect(first, b"native switch")
    more = first.ofproto.OFPMPF_REPLY_MORE
    first.take()
    stage.app.groups_described(_event(first, body=[SimpleNamespace(group_id=7)], flags=more))
    assert first.take() == []
    stage.app.groups_described(_event(first, body=[SimpleNamespace(group_id=3)], flags=0))
    sent = first.take()
    assert sent[1].startswith("ADD group_id=8,")
    assert sent[2].endswith("actions=group:8")
    assert sent[-3:] == ["DEL group_id=7,type=select", "DEL group_id=3,type=select", ""]


def test_a_switch_that_is_there_again_before_its_old_connection_is_over_is_not_lost(connected: Stage) -> None:
    again = Switch(1)
    connected.connect(again)
    connected.lose(connected.switches[0])
    assert connected.told() == []
    connected.confirm(again)
    assert connected.told() == [("installed", {"switches": 2, "down": []})]


def test_a_barrier_too_many_is_no_confirmation(connected: Stage) -> None:
    connected.confirm(connected.switches[0])
    assert connected.told() == []


def test_both_ends_of_a_cut_cable_are_one_failure(connected: Stage) -> None:
    first, second = connected.switches
    connected.port(first, 2, down=True)
    assert connected.told() == [("links", {"down": [1], "foreseen": True})]
    (changed,) = routes(first.take())
    assert "multipath(symmetric_l3l4+udp,77,modulo_n,3,0" in changed
    connected.port(second, 2, down=True)
    assert connected.told() == []
    connected.port(first, 2)
    assert connected.told() == [], "its other end is still dark"
    connected.port(second, 2)
    assert connected.told() == [("links", {"down": [], "foreseen": True})]
    (restored,) = routes(first.take())
    assert "multipath(symmetric_l3l4+udp,77,modulo_n,4,0" in restored


def test_a_cable_that_was_cut_before_its_switch_came_is_down(stage: Stage) -> None:
    first, second = stage.switches
    stage.describe(first, 2)
    assert stage.told() == [("links", {"down": [1], "foreseen": True})]
    stage.connect(first)
    (route,) = routes(first.take())
    assert "multipath(symmetric_l3l4+udp,77,modulo_n,3,0" in route
    stage.confirm(first)
    stage.describe(second, 2, 5)
    stage.connect(second)
    stage.confirm(second)
    assert stage.told() == [("installed", {"switches": 2, "down": [1]})]


def test_what_happened_to_cables_while_a_switch_was_away_is_made_up_for(connected: Stage) -> None:
    first, second = connected.switches
    connected.port(first, 2, down=True)
    connected.lose(first)
    connected.told()
    second.take()
    again = Switch(1)
    connected.describe(again, 4)
    assert connected.told() == [("links", {"down": [3], "foreseen": True})]
    assert second.take() == [""], "a barrier alone"
    connected.describe(again, 4)
    connected.describe(Switch(99), 1)
    assert connected.told() == []


def test_a_port_that_is_deleted_is_a_cut_cable_too(connected: Stage) -> None:
    connected.port(connected.switches[1], 4, gone=True)
    assert connected.told() == [("links", {"down": [3], "foreseen": True})]


def test_what_a_failure_does_not_change_is_not_sent_again(connected: Stage) -> None:
    first, second = connected.switches
    connected.port(first, 2, down=True)
    assert second.take() == [""], "a barrier alone"
    assert len(first.take()) == 1 + 3 + 1, "a destination, its three ports, a barrier"


def test_an_entry_that_is_only_for_a_failure_goes_with_it(connected: Stage) -> None:
    first, _ = connected.switches
    connected.port(first, 1, down=True)
    connected.port(first, 2, down=True)
    assert any("nw_dst=10.0.2.0/24" in text and text.endswith("actions=drop") for text in first.take())
    connected.port(first, 1)
    assert "DEL_STRICT priority=124,ip,nw_dst=10.0.2.0/24 actions=drop" in first.take()


def test_a_host_s_port_changes_nothing(connected: Stage) -> None:
    connected.port(connected.switches[1], 5, down=True)
    assert connected.told() == []
    assert connected.switches[0].take() == []


def test_strangers_losses_and_refusals_are_reported(connected: Stage) -> None:
    connected.connect(Switch(99))
    connected.lose(connected.switches[1])
    connected.app.switch_refused(_event(connected.switches[0], type=4, code=1))
    assert connected.told() == [
        ("unknown-switch", {"dpid": 99}),
        ("switch-lost", {"switch": "s1"}),
        ("refused", {"switch": "s0", "type": 4, "code": 1}),
    ]


def test_counters_come_when_all_have_answered(connected: Stage) -> None:
    answered: list[list[dict[str, Any]]] = []
    connected.app.count(answered.append)
    ofproto = connected.switches[0].ofproto
    port = SimpleNamespace(port_no=1, rx_packets=7, rx_bytes=700, rx_dropped=1, tx_dropped=2)
    own = SimpleNamespace(port_no=ofproto.OFPP_LOCAL, rx_packets=0, rx_bytes=0, rx_dropped=0, tx_dropped=0)
    far = SimpleNamespace(
        match={"ipv4_dst": ("10.0.1.0", "255.255.255.0")}, instructions=[1], packet_count=5, byte_count=500
    )
    miss = SimpleNamespace(match={}, instructions=[], packet_count=3, byte_count=300)
    for switch in connected.switches:
        more = ofproto.OFPMPF_REPLY_MORE if switch.id == 1 else 0
        connected.app.ports_counted(_event(switch, body=[port, own], flags=0))
        assert answered == []
        connected.app.flows_counted(_event(switch, body=[far], flags=more))
        if more:
            connected.app.flows_counted(_event(switch, body=[miss], flags=0))
    (rows,) = answered
    assert [tuple(row.values()) for row in rows] == [
        ("s0", "port", "s0-eth1", 7, 700, 3),
        ("s0", "flow", "10.0.1.0/24", 5, 500, 0),
        ("s0", "flow", "miss", 3, 300, 3),
        ("s1", "port", "s1-eth1", 7, 700, 3),
        ("s1", "flow", "10.0.1.0/24", 5, 500, 0),
    ]
    connected.app.ports_counted(_event(connected.switches[0], body=[port], flags=0))
    assert len(answered) == 1, "an answer that comes late counts no more"
