"""Entries of the plan on a switch's tables: packets go where the entries say, before and after these are replaced."""

import json
import random
from collections.abc import Iterator
from functools import cache

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.forwarding import Forwarding
from testbed.dataplane.native.control import ActionCall, ControlError, FieldMatch
from testbed.dataplane.native.exchange import Exchange
from testbed.resources import shared_folder
from testbed.routing.model import MISS, Entry
from tests.dataplane.small_programs import action, assign, parameter, program, table

HOST = Entry("10.0.0.1/32", "single", (1,))
UP = Entry("10.0.0.0/8", "ecmp", (2, 3, 4))
FLOWS = range(64)


@cache
def _program(name: str) -> Program:
    return program_of(json.loads(json.dumps(compile_p4(shared_folder("p4") / f"{name}.p4").json)), name)


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    with Exchange(_program("l3_ecmp")) as made:
        yield made


def ports(exchange: Exchange, target: str) -> set[int | None]:
    """Where packets of many flows to an address leave; None: nowhere."""
    found: set[int | None] = set()
    for flow in FLOWS:
        frame = bytes(Ether() / IP(src="10.9.0.1", dst=target) / UDP(sport=0xC000 + flow, dport=4791))
        found |= {port for port, _ in exchange.inject(0, frame)} or {None}
    return found


def test_packets_go_where_the_entries_say(exchange: Exchange) -> None:
    forwarding = Forwarding(exchange.control, "s0")
    assert forwarding.replace([HOST, UP, Entry("10.0.1.0/24", "ecmp", ())]) == 3
    forwarding.set_salt(7)
    assert ports(exchange, "10.0.0.1") == {1}
    assert ports(exchange, "10.7.0.1") == {2, 3, 4}
    assert ports(exchange, "10.0.1.5") == {None}
    assert ports(exchange, "192.168.0.1") == {None}
    seen = {prefix: (each.packets, each.dropped) for prefix, each in forwarding.traffic().items()}
    n = len(FLOWS)
    assert seen == {HOST.prefix: (n, 0), UP.prefix: (n, 0), "10.0.1.0/24": (n, n), MISS: (n, n)}
    assert forwarding.traffic()[HOST.prefix].bytes == n * 42, "Ethernet, IPv4 and UDP headers"


def test_alternates_take_the_place_of_what_they_change_and_nothing_else(exchange: Exchange) -> None:
    forwarding = Forwarding(exchange.control, "s0")
    forwarding.replace([HOST, UP])
    assert forwarding.replace([HOST, Entry(UP.prefix, "ecmp", (2, 4)), Entry("10.1.0.0/16", "single", (3,))]) == 2
    assert ports(exchange, "10.7.0.1") == {2, 4}
    assert ports(exchange, "10.1.0.1") == {3}
    assert ports(exchange, "10.0.0.1") == {1}
    assert forwarding.replace([UP, HOST]) == 2
    assert forwarding.entries == {HOST.prefix: HOST, UP.prefix: UP}
    assert ports(exchange, "10.1.0.1") == {2, 3, 4}
    assert forwarding.replace([UP, HOST]) == 0
    assert forwarding.traffic()[HOST.prefix].packets == len(FLOWS), "an entry that stays goes on counting"


@pytest.mark.parametrize("full", ["routes", "members"])
def test_what_does_not_fit_leaves_nothing_behind(
    full: str, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    forwarding = Forwarding(exchange.control, "s0")
    forwarding.replace([HOST])
    real, room = exchange.control.insert, [True]
    members: list[int] = []

    def insert(name: str, fields: list[FieldMatch | None], call: ActionCall, priority: int = 0) -> int:
        if name == full and not (name == "members" and room and room.pop()):
            raise ControlError(f"table {name}: no space")
        handle = real(name, fields, call, priority)
        members.extend([handle] if name == "members" else [])
        return handle

    def remove(name: str, handle: int) -> None:
        exchange.control.__class__.remove(exchange.control, name, handle)
        members.remove(handle)

    monkeypatch.setattr(exchange.control, "insert", insert)
    monkeypatch.setattr(exchange.control, "remove", remove)
    with pytest.raises(ControlError, match="no space"):
        forwarding.set(UP)
    assert members == []
    monkeypatch.undo()
    assert forwarding.entries == {HOST.prefix: HOST}
    assert forwarding.set(UP)
    assert ports(exchange, "10.7.0.1") == {2, 3, 4}


def test_what_was_dropped_on_purpose_is_never_a_miss(exchange: Exchange) -> None:
    forwarding = Forwarding(exchange.control, "s0")
    nowhere, n = Entry(HOST.prefix, "single", ()), len(FLOWS)
    for entries, dropped in (([HOST], 0), ([nowhere], n), ([HOST], n), ([nowhere], 2 * n)):
        forwarding.replace(entries)
        ports(exchange, "10.0.0.1")
        assert forwarding.traffic()[HOST.prefix].dropped == dropped
        assert forwarding.traffic()[MISS].packets == 0
    forwarding.replace([])
    ports(exchange, "10.0.0.1")
    assert forwarding.traffic()[MISS].packets == n


def test_however_often_entries_change_no_group_stays_behind(exchange: Exchange) -> None:
    """The members of a group that was forgotten would fill the table, and clash with those of a later one."""
    forwarding, draw = Forwarding(exchange.control, "s0"), random.Random(1)
    for _ in range(300):
        count = draw.randrange(5)
        wanted = [
            Entry(f"10.{i}.0.0/16", "ecmp", tuple(sorted(draw.sample(range(1, 9), draw.randrange(4)))))
            for i in draw.sample(range(6), count)
        ]
        forwarding.replace(wanted)
    for entry in wanted:
        assert ports(exchange, entry.prefix.replace("0.0/16", "3.3")) == set(entry.ports or (None,))
    forwarding.replace([])
    for number in range(1, 7):
        with pytest.raises(ControlError, match="not found"):
            exchange.control.find("members", [FieldMatch(number), FieldMatch(0)])
    assert set(forwarding.traffic()) == {MISS}


def test_the_salt_decides_which_flow_goes_where(exchange: Exchange) -> None:
    forwarding = Forwarding(exchange.control, "s0")
    forwarding.replace([UP])
    chosen = []
    for salt in (1, 2, 1):
        forwarding.set_salt(salt)
        frames = [bytes(Ether() / IP(src="10.9.0.1", dst="10.7.0.1") / UDP(sport=f, dport=4791)) for f in FLOWS]
        chosen.append([exchange.inject(0, frame)[0][0] for frame in frames])
    assert chosen[0] == chosen[2] != chosen[1]


def test_a_program_that_draws_needs_no_salt() -> None:
    with Exchange(_program("spray")) as exchange:
        forwarding = Forwarding(exchange.control, "s0")
        forwarding.set_salt(5)
        forwarding.replace([Entry(UP.prefix, "spray", UP.ports)])
        frame = bytes(Ether() / IP(src="10.9.0.1", dst="10.7.0.1") / UDP(sport=1, dport=4791))
        assert {exchange.inject(0, frame)[0][0] for _ in FLOWS} == set(UP.ports)


@pytest.mark.parametrize(
    ("keys", "told"),
    [({"other": {"k": "lpm"}}, "no table 'routes'"), ({"routes": {"k": "lpm"}}, "no table 'members'")],
)
def test_a_program_without_the_tables_is_refused_by_their_name(keys: dict[str, dict[str, str]], told: str) -> None:
    fields = [("k", 32), ("v", 16)]
    action_set = action("set", {"v": 16}, assign("v", parameter(0)))
    tables = [table(name, of, ["set"], "lpm") for name, of in keys.items()]
    with Exchange(program(fields, [action_set], tables)) as exchange, pytest.raises(ControlError, match=told) as caught:
        Forwarding(exchange.control, "leaf0")
    assert "switch leaf0" in caught.value.message
