"""Flows cross the links that the plan's entries and the hash of `l3_ecmp` give."""

import zlib
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import numpy as np
import pytest

from testbed.plan.model import Entry, Plan
from testbed.routing import assign
from testbed.simulation.messages.routes import Routes
from testbed.topology.fat_tree import build
from testbed.topology.graph import LinkParameters
from tests.plan.specs import planned

PORT = 4791
NETWORKS: list[dict[str, Any]] = [
    {"kind": "fat-tree", "k": 4},
    {"kind": "leaf-spine", "leaves": 5, "spines": 3, "hosts": 3},
    {"kind": "star", "hosts": 5},
    {"kind": "star", "hosts": 600},
    {"kind": "torus", "dims": [3, 4]},
    {"kind": "dumbbell", "left": 2, "right": 3},
]


def walk(plan: Plan, source: str, target: str, source_port: int, replaced: dict[str, tuple[Entry, ...]]) -> list[int]:
    """One packet's way, switch by switch: longest prefix, then flow_hash.p4's draw and routing.p4's member."""
    graph = plan.graph
    ip = [int(IPv4Address(plan.addresses[host].ip)) for host in (source, target)]
    flow = b"".join(
        value.to_bytes(size, "big") for value, size in ((ip[0], 4), (ip[1], 4), (17, 1), (source_port, 2), (PORT, 2))
    )
    way = [graph.links_from(source)[0]]
    while way[-1].target != target:
        name = way[-1].target
        switch = plan.switches[name]
        entries = {entry.prefix: entry for entry in (*switch.entries, *replaced.get(name, ()))}
        matching = [e for e in entries.values() if IPv4Address(ip[1]) in IPv4Network(e.prefix)]
        ports = max(matching, key=lambda entry: IPv4Network(entry.prefix).prefixlen).ports
        x = zlib.crc32(flow) ^ switch.salt
        x = (x ^ x >> 16) * 0x85EBCA6B & 0xFFFFFFFF
        x = (x ^ x >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
        x ^= x >> 16
        port = ports[(x >> 16) * len(ports) >> 16]
        way.append(next(link for link in graph.links_from(name) if link.source_port == port))
    return [link.index for link in way]


def flows(plan: Plan, count: int) -> tuple[Any, Any, Any]:
    draws = np.random.default_rng(3)
    hosts = len(plan.graph.hosts)
    source = draws.integers(0, hosts, count)
    target = (source + draws.integers(1, hosts, count)) % hosts
    return source, target, draws.integers(0xC000, 0x10000, count)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
@pytest.mark.parametrize("kind", ["ecmp", "single"])
def test_as_the_switches_forward(network: dict[str, Any], kind: str) -> None:
    plan = planned(topology=network, routing={"kind": kind}, seed=7)
    routes = Routes(plan.graph, assign(plan.graph), plan.spec.routing.kind, 7)
    source, target, port = flows(plan, 120)
    found = routes.paths(source, target, port, PORT)
    hosts = plan.graph.hosts
    for row, s, t, p in zip(found.tolist(), source, target, port.tolist(), strict=True):
        expected = walk(plan, hosts[s], hosts[t], p, {})
        assert row == expected + [routes.nothing] * (len(row) - len(expected))


@pytest.mark.parametrize("kind", ["ecmp", "single"])
def test_around_a_cable_that_is_down(kind: str) -> None:
    plan = planned(topology={"kind": "fat-tree", "k": 4}, routing={"kind": kind})
    source, target, port = flows(plan, 200)
    hosts = plan.graph.hosts
    for alternate in plan.alternates[::7]:
        routes = Routes(plan.graph, assign(plan.graph), plan.spec.routing.kind, 1, alternate.cables)
        found = routes.paths(source, target, port, PORT)
        for row, s, t, p in zip(found.tolist(), source, target, port.tolist(), strict=True):
            expected = walk(plan, hosts[s], hosts[t], p, dict(alternate.entries))
            assert [link for link in row if link != routes.nothing] == expected


def test_what_cannot_be_reached() -> None:
    plan = planned(topology={"kind": "dumbbell", "left": 1, "right": 1})
    (middle,) = (
        link.cable
        for link in plan.graph.links[::2]
        if link.source not in plan.graph.hosts and link.target not in plan.graph.hosts
    )
    routes = Routes(plan.graph, assign(plan.graph), "ecmp", 1, [middle])
    assert -1 in routes.paths(np.array([0]), np.array([1]), np.array([0xC000]), PORT)[0]


def test_flows_spread_over_all_cores() -> None:
    """16 hosts of a k=4 fat-tree, many ports: each of the four cores carries a quarter, within four deviations."""
    graph = build({"k": 4}, LinkParameters(10**9))
    routes = Routes(graph, assign(graph), "ecmp", 1)
    ports = np.arange(0xC000, 0x10000)
    found = routes.paths(np.zeros(len(ports), np.int64), np.full(len(ports), 15), ports, PORT)
    _, counts = np.unique(found[:, 3], return_counts=True)
    assert len(counts) == 4
    assert np.all(np.abs(counts - 4096) < 4 * np.sqrt(16384 * 3 / 16))
