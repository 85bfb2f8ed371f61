"""Entries of the unharmed network: the published two-level tables, shortest paths, no loops, no polarisation."""

from collections.abc import Mapping
from typing import Any

import pytest

from testbed.routing import Entry, assign
from testbed.routing.model import RoutingKind
from testbed.spec.model import TopologySpec
from testbed.topology import build
from tests.routing.walker import Tables, check_all, routed, walks

NETWORKS: list[tuple[str, dict[str, Any]]] = [
    ("fat-tree", {"k": 2}),
    ("fat-tree", {"k": 4}),
    ("leaf-spine", {"spines": 3, "leaves": 4, "hosts": 2}),
    ("star", {"hosts": 6}),
    ("dumbbell", {"left": 2, "right": 3}),
    ("ring", {"hosts": 6}),
    ("ring", {"hosts": 7}),
    ("torus", {"dims": [4, 4]}),
    ("torus", {"dims": [3, 2, 3]}),
    ("graph", {"hosts": 3, "switches": 3, "links": ["h0-s0", "h1-s1", "h2-s1", "s0-s1", "s0-s1", "s1-s2", "s2-s0"]}),
]


def test_fat_tree_tables_are_the_two_level_ones_of_the_paper() -> None:
    switches = routed("fat-tree", k=4).switches
    assert switches["e2_1"].entries == (
        Entry("10.2.1.2/32", "single", (1,)),
        Entry("10.2.1.3/32", "single", (2,)),
        Entry("10.0.0.0/8", "ecmp", (3, 4)),
    )
    assert switches["a2_1"].entries == (
        Entry("10.2.0.0/24", "single", (1,)),
        Entry("10.2.1.0/24", "single", (2,)),
        Entry("10.0.0.0/8", "ecmp", (3, 4)),
    )
    assert switches["c3"].entries == tuple(Entry(f"10.{pod}.0.0/16", "single", (pod + 1,)) for pod in range(4))


def addresses(kind: str, **parameters: Any) -> Mapping[str, str]:
    return assign(build(TopologySpec(kind=kind, **parameters))).hosts


def test_addresses() -> None:
    tree = addresses("fat-tree", k=4)
    assert (tree["h0"], tree["h1"], tree["h2"], tree["h15"]) == ("10.0.0.2", "10.0.0.3", "10.0.1.2", "10.3.1.3")
    ring = addresses("ring", hosts=300)
    assert (ring["h0"], ring["h255"], ring["h256"]) == ("10.0.0.2", "10.0.255.2", "10.1.0.2")
    star = addresses("star", hosts=600)
    assert (star["h252"], star["h253"], len(set(star.values()))) == ("10.0.0.254", "10.0.1.2", 600)


@pytest.mark.parametrize("k", [4, 6])
def test_fat_tree_has_as_many_paths_as_the_paper_says(k: int) -> None:
    net, half = routed("fat-tree", k=k), k // 2
    tables, last = Tables(net), len(net.graph.hosts) - 1
    for target, paths in ((f"h{last}", half * half), (f"h{half}", half), ("h1", 1)):
        ways = list(walks(net, tables, "h0", target))
        assert len(ways) == len({tuple(cables) for cables in ways}) == paths


@pytest.mark.parametrize("routing", ["ecmp", "spray", "single"])
@pytest.mark.parametrize(("kind", "parameters"), NETWORKS)
def test_all_pairs_by_shortest_paths_without_loops(kind: str, parameters: dict[str, Any], routing: RoutingKind) -> None:
    check_all(routed(kind, routing, **parameters))


def test_ecmp_uses_every_shortest_path() -> None:
    net = routed("torus", dims=[4, 4])  # from s0 to the opposite s10: two axes, two ways round each, 4!/2!2! orders
    assert len(list(walks(net, Tables(net), "h0", "h10"))) == 24


def test_single_takes_one_path_and_spreads_destinations() -> None:
    net = routed("fat-tree", "single", k=8)
    tables = Tables(net)
    ways = [list(walks(net, tables, "h0", target)) for target in net.graph.hosts[16:]]
    assert {len(each) for each in ways} == {1}
    cores = {each[0][2] for each in ways}
    assert len(cores) > 8  # of 16; the same choice at both tiers would reach 4


def test_spray_differs_from_ecmp_in_kind_alone() -> None:
    ecmp, spray = routed("fat-tree", k=4), routed("fat-tree", "spray", k=4)
    for name, plan in ecmp.switches.items():
        assert [(e.prefix, e.ports) for e in plan.entries] == [
            (e.prefix, e.ports) for e in spray.switches[name].entries
        ]
    assert {e.kind for e in spray.switches["e0_0"].entries} == {"single", "spray"}


def test_each_switch_has_a_salt_of_its_own_from_the_seed() -> None:
    one, again, other = (routed("fat-tree", k=8, seed=seed).switches for seed in (1, 1, 2))
    salts = [plan.salt for plan in one.values()]
    assert len(set(salts)) == 80
    assert all(0 < salt < 1 << 16 for salt in salts)
    assert salts == [plan.salt for plan in again.values()]
    assert salts != [plan.salt for plan in other.values()]
    assert [plan.dpid for plan in one.values()] == list(range(1, 81))
