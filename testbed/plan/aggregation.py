"""How a job is summed inside the network: its tree of switches, who is whose child there, addresses, routes.

A switch that can add up and pass its sums on, and to which two or more contributions come, sums them; any other on the
way only routes. So, where sums can be passed on, a link of the tree carries each chunk once in each direction.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from testbed.errors import UsageError
from testbed.plan.model import Address, Aggregation, Child, Entry, Summing
from testbed.routing.tree import most_central, ways_to
from testbed.suggest import closest
from testbed.topology.graph import Graph, Link

MOST_JOBS = 255  # an aggregator's address is 10.255.<job>.<switch>
_MOST_SWITCHES = 254
_MAC = 0x0255  # locally administered, unicast; hosts have 0x0254, ports 0x0253


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a switch program can add up: contributions to a sum, slots of all jobs together, values of a packet, and
    whether it passes its sums on to a switch above."""

    children: int
    slots: int
    values: int
    passes_on: bool


class AggregationError(UsageError):
    """A job cannot be summed in this network. `key` is the part of the spec that has to change; `what` is wrong with
    it, and `suggestion` a value for it."""

    def __init__(self, key: tuple[str, ...], what: str, suggestion: str = "") -> None:
        super().__init__(f"{'.'.join(key)}: {what}", hint=f"did you mean {suggestion}?" if suggestion else "")
        self.key = key
        self.what = what
        self.suggestion = suggestion


def tree_of(
    graph: Graph,
    workers: Mapping[str, Address],
    root: str | None,
    programs: Mapping[str, str],
    capacity_of: Callable[[str], Capacity | None],
    *,
    job: str = "",
    number: int = 0,
) -> Aggregation:
    """The tree of a job whose workers are on the hosts `workers`, by rank; without slots yet. Raises AggregationError.

    root: None is the most central switch whose program adds up. programs: of each switch.
    """
    if number >= MOST_JOBS:
        raise AggregationError(("transport", "kind"), f"there are addresses for {MOST_JOBS} jobs that aggregate")
    capacity = {switch: capacity_of(programs[switch]) for switch in graph.switches}
    leaves = [graph.edge_switch(host) for host in workers]
    root = _root(graph, leaves, root, programs, capacity, number)
    ways = ways_to(graph, root, leaves, number)
    switches = _switches(graph, workers, root, ways, capacity, number)
    for name, summing in switches.items():
        can, meet = capacity[name], len(summing.children)
        if can and meet > can.children:
            told = f"{meet} contributions meet at {name}, and its program {programs[name]} adds up {can.children}"
            raise AggregationError(("workers", "count"), told, str(can.children) if len(switches) == 1 else "")
    ports = {name: link.source_port for name, link in ways.items()}
    return Aggregation(job, number, root, ports, switches, slots=0, first_slot=0)


def routes(graph: Graph, tree: Aggregation) -> Mapping[str, tuple[Entry, ...]]:
    """By switch, what leads to the tree's addresses: up to the root's, and down to those of the switches that sum."""
    entries: dict[str, list[Entry]] = {name: [_route(tree.address, port)] for name, port in tree.ways.items()}
    out = {(link.source, link.source_port): link for link in graph.links}
    for name, summing in tree.switches.items():
        here = name
        while summing.parent not in (None, here):
            link = out[here, tree.ways[here]]
            entries.setdefault(link.target, []).append(_route(summing.address, link.target_port))
            here = link.target
    return {name: tuple(each) for name, each in entries.items()}


def _root(
    graph: Graph,
    leaves: Sequence[str],
    root: str | None,
    programs: Mapping[str, str],
    capacity: Mapping[str, Capacity | None],
    number: int,
) -> str:
    if root is None:
        central = most_central(graph, leaves, [name for name, can in capacity.items() if can], number)
        if central is None:
            name = graph.edge_switch(graph.hosts[0])
            what = f"no switch adds up: {name} runs {programs[name]}, which does not"
            raise AggregationError(("switches", "program"), what, "aggregate_tree")
        return central
    if root not in graph.switches:
        what = f"{root!r} is {'a host' if root in graph.hosts else 'not there'}, and sums have a switch as their root"
        raise AggregationError(("transport", "root"), what, closest(root, graph.switches))
    if not capacity[root]:
        what = (
            f"{root} runs {programs[root]}, which does not add up: aggregate or aggregate_tree has to be loaded there"
        )
        raise AggregationError(("transport", "root"), what)
    return root


def _switches(
    graph: Graph,
    workers: Mapping[str, Address],
    root: str,
    ways: Mapping[str, Link],
    capacity: Mapping[str, Capacity | None],
    number: int,
) -> Mapping[str, Summing]:
    """Contributions are followed from the workers up to the root."""
    come: dict[str, list[Child]] = {}
    for host, address in workers.items():
        link = graph.reverse(graph.links_from(host)[0])
        come.setdefault(link.source, []).append(Child(host, link.source_port, address))
    found: dict[str, list[Child]] = {}
    for name, way in ways.items():
        children, can, back = come[name], capacity[name], graph.reverse(way)
        if can and can.passes_on and len(children) > 1:
            found[name] = children
            children = [Child(name, 0, _address(number, len(found)))]
        come.setdefault(back.source, []).extend(replace(child, port=back.source_port) for child in children)
    found[root] = come[root]
    parents: dict[str, tuple[str | None, int]] = {root: (None, 0)}
    parents |= {child.node: (name, index) for name, each in found.items() for index, child in enumerate(each)}
    own = {child.node: child.address for each in found.values() for child in each} | {root: _address(number, 0)}
    return {name: Summing(tuple(each), *parents[name], own[name]) for name, each in found.items()}


def _address(job: int, switch: int) -> Address:
    if switch >= _MOST_SWITCHES:
        raise AggregationError(("transport", "kind"), f"there are addresses for {_MOST_SWITCHES} switches that add up")
    digits = f"{_MAC << 32 | job << 16 | switch + 1 << 4:012x}"
    return Address(f"10.255.{job}.{switch + 1}", ":".join(digits[i : i + 2] for i in range(0, 12, 2)))


def _route(address: Address, port: int) -> Entry:
    return Entry(f"{address.ip}/32", "single", (port,))
