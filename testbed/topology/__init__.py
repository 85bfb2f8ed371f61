"""Topologies: graphs of nodes and directed links, one builder a file, registered here."""

from collections.abc import Mapping
from typing import Any

from testbed.plugins import PluginError, is_reference, load
from testbed.spec.model import TopologySpec
from testbed.suggest import did_you_mean
from testbed.topology import dumbbell, fat_tree, leaf_spine, ring, star, torus, written
from testbed.topology.graph import Graph, LinkParameters
from testbed.topology.parameters import Topology, TopologyError, check_names, check_node

TOPOLOGIES: Mapping[str, Topology] = {
    "fat-tree": fat_tree.TOPOLOGY,
    "leaf-spine": leaf_spine.TOPOLOGY,
    "star": star.TOPOLOGY,
    "dumbbell": dumbbell.TOPOLOGY,
    "ring": ring.TOPOLOGY,
    "torus": torus.TOPOLOGY,
    "graph": written.TOPOLOGY,
}

# What a link is where the spec says nothing: a gigabit port with a shallow switch's share of buffer, and a delay that
# stands for a cable and a cut-through switch of that class.
DEFAULT_LINK = LinkParameters(rate_bps=1_000_000_000, delay_ns=10_000, queue_bytes=262_144, mtu_bytes=1500)

_INTERFACE_CHARACTERS = 15  # Linux: IFNAMSIZ without its final zero


def build(spec: TopologySpec, default: LinkParameters = DEFAULT_LINK) -> Graph:
    """The graph that `spec` describes, all of its links `default`; raises TopologyError.

    `kind` may be `FILE.py:NAME`: a `Topology`, or a function from (parameters, default) to a `Graph`.
    """
    parameters = spec.parameters
    if is_reference(spec.kind):
        graph = _build_own(spec.kind, parameters, default)
    elif spec.kind in TOPOLOGIES:
        topology = TOPOLOGIES[spec.kind]
        check_names(spec.kind, topology, parameters)
        graph = topology.build(parameters, default)
    else:
        raise TopologyError("kind", f"no topology is called {spec.kind!r}", hint=did_you_mean(spec.kind, TOPOLOGIES))
    _check(graph)
    return graph


def _build_own(reference: str, parameters: Mapping[str, Any], default: LinkParameters) -> Graph:
    try:
        own = load(reference)
    except PluginError as error:
        raise TopologyError("kind", error.message, hint=error.hint) from error
    if isinstance(own, Topology):
        check_names(reference, own, parameters)
        own = own.build
    if not callable(own):
        raise TopologyError("kind", f"{reference} is not a builder", hint="a function (parameters, default) -> Graph")
    graph = own(parameters, default)
    if not isinstance(graph, Graph):
        raise TopologyError("kind", f"{reference} made {type(graph).__name__}", hint="it must return a Graph")
    return graph


def _check(graph: Graph) -> None:
    """What routing and emulation rely on: each host on one switch, all in one piece, names that fit an interface."""
    for name in graph.nodes:
        check_node("kind", name)
    for host in graph.hosts:
        targets = [link.target for link in graph.links_from(host)]
        if len(targets) != 1 or graph.nodes[targets[0]].kind != "switch":
            joined = ", ".join(targets) or "nothing"
            raise TopologyError(
                "links", f"host {host!r} is joined to {joined}", hint="a host has one cable, to a switch"
            )
    for link in graph.links:
        if len(name := f"{link.source}-eth{link.source_port}") > _INTERFACE_CHARACTERS:
            raise TopologyError("kind", f"{name} is too long for an interface", hint="fewer switches, or shorter names")
    first = next(iter(graph.nodes), None)
    if first is None or not graph.hosts:
        raise TopologyError("hosts", "the network has no host", hint="add one")
    seen, pending = {first}, [first]
    while pending:
        for link in graph.links_from(pending.pop()):
            if link.target not in seen:
                seen.add(link.target)
                pending.append(link.target)
    if lost := next((name for name in graph.nodes if name not in seen), None):
        raise TopologyError("links", f"{lost!r} cannot be reached from {first!r}", hint="join all in one network")
