"""Where sums grow: the root that lies most central, and ways that meet early."""

from typing import Any

from testbed.routing.tree import most_central, ways_to
from testbed.spec.model import TopologySpec
from testbed.topology import build
from testbed.topology.graph import Graph


def graph(**keys: Any) -> Graph:
    return build(TopologySpec.model_validate(keys))


def edges(net: Graph, *hosts: str) -> list[str]:
    return [net.edge_switch(host) for host in hosts]


def hops(net: Graph, root: str, *leaves: str, turn: int = 0) -> dict[str, str]:
    return {switch: link.target for switch, link in ways_to(net, root, leaves, turn).items()}


def test_workers_of_one_switch_have_it_as_their_root() -> None:
    net = graph(kind="leaf-spine", spines=2, leaves=2, hosts=2)
    assert most_central(net, edges(net, "h0", "h1"), net.switches) == "leaf0"
    assert hops(net, "leaf0", "leaf0") == {}


def test_equally_central_switches_take_turns() -> None:
    net = graph(kind="leaf-spine", spines=2, leaves=2, hosts=2)
    leaves = edges(net, "h0", "h3")
    assert [most_central(net, leaves, net.switches, turn) for turn in range(3)] == ["spine0", "spine1", "spine0"]
    assert hops(net, "spine1", *leaves) == {"leaf0": "spine1", "leaf1": "spine1"}


def test_most_workers_are_near() -> None:
    net = graph(kind="graph", hosts=3, switches=2, links=["h0-s0", "h1-s1", "h2-s1", "s0-s1"])
    assert most_central(net, edges(net, "h0", "h1", "h2"), net.switches) == "s1"


def test_only_candidates_come_into_question() -> None:
    net = graph(kind="leaf-spine", spines=2, leaves=2, hosts=2)
    leaves = edges(net, "h0", "h3")
    assert most_central(net, leaves, ["leaf1", "spine1"]) == "spine1"
    assert most_central(net, leaves, ["leaf1"]) == "leaf1"
    assert most_central(net, leaves, []) is None


def test_a_fat_trees_core_reaches_every_pod_by_one_switch() -> None:
    net = graph(kind="fat-tree", k=4)
    leaves = edges(net, "h0", "h2", "h4", "h8")
    assert most_central(net, leaves, net.switches) == "c0"
    assert hops(net, "c2", *leaves) == {
        "e0_0": "a0_1", "e0_1": "a0_1", "e1_0": "a1_1", "e2_0": "a2_1", "a0_1": "c2", "a1_1": "c2", "a2_1": "c2",
    }  # fmt: skip


def test_ways_meet_early() -> None:
    """s1 has a choice between s3 and s4, and goes where s2 has to."""
    net = graph(kind="graph", hosts=1, switches=5, links=["h0-s0", "s0-s3", "s0-s4", "s1-s3", "s1-s4", "s2-s4"])
    assert hops(net, "s0", "s1", "s2") == {"s1": "s4", "s2": "s4", "s4": "s0"}
    assert [hops(net, "s0", "s1", turn=turn)["s1"] for turn in (0, 1)] == ["s3", "s4"]
