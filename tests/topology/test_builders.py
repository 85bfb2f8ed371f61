"""Each builder against what the literature and the contract say of its graph."""

from collections import Counter
from typing import Any

import networkx as nx
import pytest

from testbed.spec.model import TopologySpec
from testbed.topology import DEFAULT_LINK, TOPOLOGIES, build
from testbed.topology.graph import Graph
from testbed.topology.parameters import TopologyError


def made(kind: str, **parameters: Any) -> Graph:
    return build(TopologySpec(kind=kind, **parameters))


def switches_of(graph: Graph) -> "nx.MultiGraph[str]":
    net: nx.MultiGraph[str] = nx.MultiGraph()
    net.add_nodes_from(graph.switches)
    net.add_edges_from((k.source, k.target) for k in graph.links[::2] if {k.source, k.target} <= set(graph.switches))
    return net


# Al-Fares, Loukissas and Vahdat (SIGCOMM 2008): 5k^2/4 switches, k^3/4 hosts, as many cables in each of three tiers.
@pytest.mark.parametrize(("k", "switches", "hosts", "cables"), [(2, 5, 2, 6), (4, 20, 16, 48), (8, 80, 128, 384)])
def test_fat_tree_has_the_published_size(k: int, switches: int, hosts: int, cables: int) -> None:
    graph = made("fat-tree", k=k)
    assert (len(graph.switches), len(graph.hosts), len(graph.links)) == (switches, hosts, 2 * cables)
    assert all(len(graph.links_from(switch)) == k for switch in graph.switches)


@pytest.mark.parametrize("k", [4, 6, 8])
def test_fat_tree_is_wired_as_the_contract_says(k: int) -> None:
    graph, half = made("fat-tree", k=k), k // 2
    for i in range(half * half):
        joined = {link.target for link in graph.links_from(f"c{i}")}
        assert joined == {f"a{pod}_{i // half}" for pod in range(k)}
    for pod in range(k):
        for i in range(half):
            down = [link.target for link in graph.links_from(f"e{pod}_{i}")]
            first = (pod * half + i) * half
            assert down == [f"h{first + h}" for h in range(half)] + [f"a{pod}_{j}" for j in range(half)]


def test_fat_tree_has_full_bisection() -> None:
    graph = made("fat-tree", k=4)
    net: nx.Graph[str] = nx.Graph()
    net.add_edges_from(((k.source, k.target) for k in graph.links), capacity=1)
    half = len(graph.hosts) // 2
    net.add_edges_from((("left", h) for h in graph.hosts[:half]), capacity=1)
    net.add_edges_from((("right", h) for h in graph.hosts[half:]), capacity=1)
    assert nx.maximum_flow_value(net, "left", "right") == half


def test_leaf_spine_is_a_complete_bipartite_graph() -> None:
    graph = made("leaf-spine", spines=3, leaves=4, hosts=5)
    net = switches_of(graph)
    assert nx.is_isomorphic(nx.Graph(net), nx.complete_bipartite_graph(4, 3))
    assert net.number_of_edges() == 12
    assert Counter(graph.edge_switch(h) for h in graph.hosts) == {f"leaf{i}": 5 for i in range(4)}
    assert graph.edge_switch("h7") == "leaf1"


def test_star_and_dumbbell() -> None:
    star = made("star", hosts=5)
    assert star.switches == ("s0",)
    assert [link.target for link in star.links_from("s0")] == ["h0", "h1", "h2", "h3", "h4"]
    dumbbell = made("dumbbell", left=2, right=3)
    assert [dumbbell.edge_switch(h) for h in dumbbell.hosts] == ["s0", "s0", "s1", "s1", "s1"]
    assert [link.name for link in dumbbell.links_from("s0")][-1] == "s0>s1"


@pytest.mark.parametrize("hosts", [3, 8])
def test_ring_is_a_cycle(hosts: int) -> None:
    graph = made("ring", hosts=hosts)
    assert nx.is_isomorphic(nx.Graph(switches_of(graph)), nx.cycle_graph(hosts))
    assert [graph.edge_switch(f"h{i}") for i in range(hosts)] == [f"s{i}" for i in range(hosts)]


@pytest.mark.parametrize("dims", [[4, 4], [3, 4, 5], [5], [2, 3]])
def test_torus_is_a_periodic_grid(dims: list[int]) -> None:
    net = switches_of(made("torus", dims=dims))
    assert nx.is_isomorphic(nx.Graph(net), nx.grid_graph(dims, periodic=True))
    assert max(Counter(frozenset(edge) for edge in net.edges()).values()) == 1


def test_torus_counts_with_the_last_dimension_fastest() -> None:
    joined = {link.target for link in made("torus", dims=[3, 4]).links_from("s5")}  # the point (1, 1)
    assert joined == {"h5", "s1", "s9", "s4", "s6"}


def test_a_written_graph_is_what_was_written() -> None:
    graph = made("graph", hosts=["a", "b"], switches=2, links=["a-s0", ["s0", "s1"], "s1 - b", "s0-s1"])
    assert [link.name for link in graph.links[::2]] == ["a>s0", "s0>s1", "s1>b", "s0>s1"]
    assert [link.source_port for link in graph.links_from("s0")] == [1, 2, 3]
    assert graph.links_from("a")[0].source_port == 0


@pytest.mark.parametrize(
    ("kind", "parameters", "key", "says"),
    [
        ("fat-tre", {"k": 4}, "kind", "fat-tree"),
        ("fat-tree", {}, "kind", "k"),
        ("fat-tree", {"k": 5}, "k", "even"),
        ("fat-tree", {"k": 0}, "k", "0"),
        ("fat-tree", {"k": "4"}, "k", "whole number"),
        ("fat-tree", {"k": True}, "k", "whole number"),
        ("fat-tree", {"k": 4, "n": 2}, "n", "no parameter"),
        ("leaf-spine", {"spine": 2, "leaves": 2, "hosts": 2}, "spine", "spines"),
        ("torus", {"dims": []}, "dims", "dims"),
        ("torus", {"dims": [1, 4]}, "dims", "at least 2"),
        ("torus", {"dims": [100, 100]}, "dims", "10000"),
        ("ring", {"hosts": 2}, "hosts", "2"),
        ("graph", {"hosts": 1, "switches": 1, "links": ["h0-s1"]}, "links.0", "s1"),
        ("graph", {"hosts": 1, "switches": 1, "links": ["h0"]}, "links.0", "not a link"),
        ("graph", {"hosts": 2, "switches": 1, "links": ["h0-s0"]}, "links", "h1"),
        ("graph", {"hosts": 2, "switches": 1, "links": ["h0-s0", "h0-h1"]}, "links", "h0"),
        ("graph", {"hosts": 2, "switches": 2, "links": ["h0-s0", "h1-s1"]}, "links", "reached"),
        ("graph", {"hosts": ["x-y"], "switches": 1, "links": []}, "hosts", "x-y"),
        ("graph", {"hosts": ["core"], "switches": 1, "links": []}, "hosts", "core"),
        ("graph", {"hosts": ["lo"], "switches": 1, "links": []}, "hosts", "lo"),
        ("graph", {"hosts": 1, "switches": ["default"], "links": ["h0-default"]}, "switches", "default"),
        ("graph", {"hosts": ["a"], "switches": ["a"], "links": []}, "switches", "both"),
        ("graph", {"hosts": 1, "switches": 1, "links": ["s0-s0"]}, "links.0", "itself"),
        ("nowhere.py:build", {}, "kind", "nowhere.py"),
    ],
)
def test_a_wrong_parameter_is_named(kind: str, parameters: dict[str, Any], key: str, says: str) -> None:
    with pytest.raises(TopologyError) as caught:
        made(kind, **parameters)
    assert caught.value.key == key
    assert says in f"{caught.value.message} {caught.value.hint}"


def test_ones_own_builder(tmp_path: Any) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from testbed.topology.graph import GraphBuilder\n"
        "def pair(parameters, default):\n"
        "    net = GraphBuilder('pair', default)\n"
        "    net.host('h0'); net.host('h1'); net.switch('s0')\n"
        "    net.cable('h0', 's0'); net.cable('h1', 's0')\n"
        "    return net.graph()\n"
        "nothing = 3\n"
        "def named(parameters, default):\n"
        "    net = GraphBuilder('pair', default)\n"
        "    net.host('h0'); net.switch('../s')\n"
        "    net.cable('h0', '../s')\n"
        "    return net.graph()\n"
    )
    with pytest.raises(TopologyError, match="cannot be a node's name"):
        made(f"{file}:named")
    assert made(f"{file}:pair").hosts == ("h0", "h1")
    with pytest.raises(TopologyError, match="not a builder"):
        made(f"{file}:nothing")
    with pytest.raises(TopologyError, match="no 'other'"):
        made(f"{file}:other")


def test_every_link_starts_from_the_documented_default() -> None:
    assert {link.parameters for link in made("ring", hosts=4).links} == {DEFAULT_LINK}


def test_every_registered_topology_says_what_it_takes() -> None:
    assert all(topology.summary and all(topology.parameters.values()) for topology in TOPOLOGIES.values())
