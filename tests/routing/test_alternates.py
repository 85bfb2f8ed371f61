"""With its alternate in place a network that lost cables still joins all that can be joined, without loops."""

from typing import Any

import networkx as nx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testbed.routing import Entry
from testbed.routing.model import RoutingKind
from tests.routing.test_routes import NETWORKS
from tests.routing.walker import check_all, routed


@pytest.mark.parametrize("routing", ["ecmp", "single"])
@pytest.mark.parametrize(("kind", "parameters"), NETWORKS)
def test_any_one_cable(kind: str, parameters: dict[str, Any], routing: RoutingKind) -> None:
    net = routed(kind, routing, **parameters)
    core = net.router.core_cables()
    for alternate in net.router.alternates(frozenset([cable]) for cable in core):
        check_all(net, alternate)


def test_every_switch_to_switch_cable_is_foreseen() -> None:
    net = routed("fat-tree", k=4)
    assert len(net.router.core_cables()) == 32
    assert all(
        {net.graph.nodes[net.graph.links[2 * c].source].kind, net.graph.nodes[net.graph.links[2 * c].target].kind}
        == {"switch"}
        for c in net.router.core_cables()
    )


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(2, 7),
    st.integers(0, 2**32),
    st.sampled_from(["ecmp", "single"]),
    st.sets(st.integers(0, 20), min_size=1, max_size=5),
)
def test_any_cables_of_any_network(size: int, seed: int, routing: RoutingKind, dead: set[int]) -> None:
    wires = nx.gnm_random_graph(size, 2 * size, seed=seed)
    wires.add_edges_from((i, i + 1) for i in range(size - 1))
    links = [f"h{i}-s{i}" for i in range(size)] + [f"s{a}-s{b}" for a, b in wires.edges]
    net = routed("graph", routing, hosts=size, switches=size, links=links)
    core = net.router.core_cables()
    down = frozenset(core[i % len(core)] for i in dead)
    check_all(net, next(net.router.alternates([down])))


@settings(deadline=None, max_examples=30)
@given(st.sets(st.integers(0, 31), min_size=1, max_size=12), st.sampled_from(["ecmp", "single", "spray"]))
def test_any_cables_of_a_fat_tree(dead: set[int], routing: RoutingKind) -> None:
    net = routed("fat-tree", routing, k=4)
    core = net.router.core_cables()
    check_all(net, next(net.router.alternates([frozenset(core[i] for i in dead)])))


def test_only_what_changes_is_listed() -> None:
    net = routed("fat-tree", k=4)
    cable = next(k.cable for k in net.graph.links if k.name == "e0_0>a0_0")
    (alternate,) = net.router.alternates([frozenset([cable])])
    base = {name: set(plan.entries) for name, plan in net.switches.items()}
    assert all(not base[name] & set(entries) for name, entries in alternate.entries.items())
    assert alternate.entries["e0_0"] == (Entry("10.0.0.0/8", "single", (4,)),)
    # The others of the pod, and the edges of other pods, reach it by the other aggregation switch; no core is touched.
    assert alternate.entries["e0_1"] == alternate.entries["e3_1"] == (Entry("10.0.0.0/24", "single", (4,)),)
    assert not any(name.startswith("c") for name in alternate.entries)


def test_losing_the_only_way_is_said_and_not_guessed() -> None:
    net = routed("dumbbell", left=1, right=1)
    (alternate,) = net.router.alternates([frozenset(net.router.core_cables())])
    assert [entry.ports for entries in alternate.entries.values() for entry in entries] == [(), ()]
