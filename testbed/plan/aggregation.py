"""How a job is summed inside the network: its tree of switches, who is whose child there, addresses, routes.

A switch that can add up and pass its sums on, and to which two or more contributions come, sums them; any other on the
way only routes. So, where sums can be passed on, a link of the tree carries each chunk once in each direction.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from testbed.dataplane.programs import SumFacts, facts_of, path_of
from testbed.errors import UsageError
from testbed.plan.model import Address, Aggregation, Child, Entry, JobPlan, Summing, SumServer, Switching
from testbed.plan.network import network_of
from testbed.plan.paths import Paths, RankPaths
from testbed.plan.sums import SumPaths
from testbed.routing.tree import most_central, ways_to
from testbed.spec.model import JobSpec
from testbed.suggest import closest
from testbed.topology.graph import Graph, Link
from testbed.topology.switches import ADDING
from testbed.transport import find, loses, protocol_of, reduces, settle
from testbed.wire.protocols import BEST_EFFORT, OPTICAL, SLOTS

_MOST_SWITCHES = 254  # an aggregator's address is 10.255.<job>.<switch>, and jobs are far fewer
_AUTO = "auto"
_MAC = 0x0255  # locally administered, unicast; hosts have 0x0254, ports 0x0253


class AggregationError(UsageError):
    """A job cannot be summed in this network. `key` is the part of the spec that has to change; `what` is wrong with
    it, and `suggestion` a value for it."""

    def __init__(self, key: tuple[str, ...], what: str, suggestion: str = "") -> None:
        super().__init__(f"{'.'.join(key)}: {what}", hint=f"did you mean {suggestion}?" if suggestion else "")
        self.key = key
        self.what = what
        self.suggestion = suggestion


def trees(
    jobs: Mapping[str, JobSpec],
    placed: Mapping[str, Sequence[str]],
    graph: Graph,
    addresses: Mapping[str, Address],
    paths: Paths,
    switching: Switching,
) -> dict[str, Aggregation]:
    """The trees of the jobs that ask for one, by job; `placed`: each job's hosts by rank. Raises AggregationError."""
    found: dict[str, Aggregation] = {}
    ranks = {host for hosts in placed.values() for host in hosts}
    for name, job in jobs.items():
        if not reduces(job.transport) or not placed[name]:
            continue
        taken = ranks | {tree.server.host for tree in found.values() if tree.server}
        try:
            _check_keys(job)
            server = _server(job, graph, taken) if protocol_of(job.transport) == BEST_EFFORT else None
            others = [*found.values()]
            found[name] = _of_job(name, job, placed[name], server, graph, addresses, paths, switching, others)
        except AggregationError as error:
            if not name or error.key[0] == "switches":
                raise
            raise AggregationError(("jobs", name, *error.key), error.what, error.suggestion) from error
    return found


def _of_job(
    name: str,
    job: JobSpec,
    hosts: Sequence[str],
    server: str | None,
    graph: Graph,
    addresses: Mapping[str, Address],
    paths: Paths,
    switching: Switching,
    others: Sequence[Aggregation],
) -> Aggregation:
    if switching.kind != "native":
        raise AggregationError(("switches", "kind"), f"is {switching.kind}, and only native switches add up", "native")
    programs = {switch: native.program for switch, native in switching.native.items()}
    facts = {program: facts_of(path_of(program)).sums for program in dict.fromkeys(programs.values())}
    root = job.transport.parameters.get("root", _AUTO)
    workers = {host: addresses[host] for host in hosts}
    tree = tree_of(
        graph,
        workers,
        None if root == _AUTO else root,
        programs,
        facts.get,
        job=name,
        number=len(others),
        server=(server, addresses[server]) if server else None,
        protocol=protocol_of(job.transport) or SLOTS,
    )
    path, _ = network_of(RankPaths(graph, paths, hosts), job.transport, switching, SumPaths(graph, tree, hosts))
    values = settle(job.transport, path).values
    pools = {switch: can.slots for switch, program in programs.items() if (can := facts[program])}
    if tree.server is not None:
        tree = replace(tree, server=replace(tree.server, pool=int(values["pool"])))
        return replace(tree, values=int(values["values"]), slots=int(values["slots"]))
    if protocol_of(job.transport) == OPTICAL:
        tree = averaging(tree, int(values["fraction"]))
    return with_slots(tree, others, pools, int(values["values"]), int(values["slots"]))


def tree_of(
    graph: Graph,
    workers: Mapping[str, Address],
    root: str | None,
    programs: Mapping[str, str],
    facts_of: Callable[[str], SumFacts | None],
    *,
    job: str = "",
    number: int = 0,
    server: tuple[str, Address] | None = None,
    protocol: str = SLOTS,
) -> Aggregation:
    """The tree of a job whose workers are on the hosts `workers`, by rank; without slots yet. Raises AggregationError.

    root: None is the most central switch whose program adds up. programs: of each switch; facts_of: what one adds up.
    server: of a best-effort job, host and addresses.
    """
    facts = {switch: facts_of(programs[switch]) for switch in graph.switches}
    leaves = [graph.edge_switch(host) for host in workers]
    root = _root(graph, leaves, root, programs, facts, number, protocol)
    facts = {switch: can for switch, can in facts.items() if can and can.protocol == protocol}
    ways = ways_to(graph, root, [*leaves, graph.edge_switch(server[0])] if server else leaves, number)
    switches = _switches(graph, workers, root, ways, facts, number)
    for name, summing in switches.items():
        can, meet = facts.get(name), len(summing.children)
        if can and meet > can.children:
            told = f"{meet} contributions meet at {name}, and its program {programs[name]} adds up {can.children}"
            raise AggregationError(("workers", "count"), told, str(can.children) if len(switches) == 1 else "")
    ports = {name: link.source_port for name, link in ways.items()}
    served = SumServer(*server, pool=0) if server else None
    return Aggregation(job, number, root, ports, switches, values=0, slots=0, first_slot=0, server=served)


def averaging(tree: Aggregation, fraction: int) -> Aggregation:
    """The tree with what its units divide by; those below the root give at most so many bits of `fraction`.

    Raises AggregationError where there is no mean of means: where units do not have a power of two of inputs, or their
    inputs do not all stand for as many workers.
    """
    units: dict[str, Summing] = {}
    stands_for: dict[str, tuple[int, int]] = {}  # by unit: workers, and bits of fraction
    for name, unit in tree.switches.items():
        inputs = [stands_for.get(child.node, (1, 0)) for child in unit.children]
        meet = len(inputs)
        if meet & meet - 1:
            what = f"{meet} contributions meet at {name}, and a unit that averages has 1, 2, 4, 8, 16 or 32 inputs"
            raise AggregationError(("workers", "count"), what)
        if len(set(inputs)) > 1:
            told = ", ".join(f"{child.node} for {stands_for.get(child.node, (1, 0))[0]}" for child in unit.children)
            what = f"the inputs of {name} do not stand for as many workers each: {told}; the mean of means is none"
            raise AggregationError(("workers", "placement"), what)
        workers, places = inputs[0]
        exact = places + meet.bit_length() - 1
        left = min(fraction, exact) if unit.parent else 0
        units[name] = replace(unit, shift=exact - left)
        stands_for[name] = workers * meet, left
    return replace(tree, switches=units)


def with_slots(
    tree: Aggregation, others: Sequence[Aggregation], pools: Mapping[str, int], values: int, slots: int
) -> Aggregation:
    """The tree with its part of the switches' pools behind those of `others`; `pools`: a switch's slots of all jobs.

    Raises AggregationError.
    """
    shared = [other for other in others if other.switches.keys() & tree.switches.keys()]
    first = max((other.first_slot + other.slots for other in shared), default=0)
    for name in tree.switches:
        if first + slots > pools[name]:
            taken = f", of which other jobs have {first}" if first else ""
            what = f"is {slots}, and the pool of {name} has {pools[name]} slots{taken}"
            raise AggregationError(("transport", "slots"), what, str(pools[name] - first or ""))
    return replace(tree, values=values, slots=slots, first_slot=first)


def routes(graph: Graph, tree: Aggregation) -> Mapping[str, tuple[Entry, ...]]:
    """By switch, what leads up to the root's address, and down to the children of those that sum.

    Results must come down the way that contributions went up: a switch takes in all that pass of its job.
    """
    entries: dict[str, list[Entry]] = {name: [_route(tree.address, port)] for name, port in tree.ways.items()}
    out = {(link.source, link.source_port): link for link in graph.links}
    for name, summing in tree.switches.items():
        for child in summing.children:
            here = graph.edge_switch(child.node) if child.node in graph.hosts else child.node
            while here != name:
                link = out[here, tree.ways[here]]
                entries.setdefault(link.target, []).append(_route(child.address, link.target_port))
                here = link.target
    return {name: tuple(each) for name, each in entries.items()}


def waits_for_all(job: JobPlan) -> bool:
    """Whether a job is summed so that it waits for ever where a member or a cable of its tree is lost for good."""
    return job.aggregation is not None and not loses(job.spec.transport)


def cables(graph: Graph, tree: Aggregation, members: Iterable[str]) -> frozenset[int]:
    """Those that a job's contributions and sums go by; `members`: the hosts of its ranks, and of its server."""
    out = {(link.source, link.source_port): link.cable for link in graph.links}
    return frozenset(out[end] for end in tree.ways.items()) | {graph.links_from(host)[0].cable for host in members}


def _root(
    graph: Graph,
    leaves: Sequence[str],
    root: str | None,
    programs: Mapping[str, str],
    facts: Mapping[str, SumFacts | None],
    number: int,
    protocol: str,
) -> str:
    fits = [name for name, can in facts.items() if can and can.protocol == protocol]
    if root is None:
        central = most_central(graph, leaves, fits, number)
        if central is None:
            name = graph.edge_switch(graph.hosts[0])
            can = facts[name]
            does = f"does {can.protocol}" if can else "does not"
            how = "no switch adds up" if protocol == SLOTS else f"no switch adds up by protocol {protocol}"
            raise AggregationError(
                ("switches", "program"), f"{how}: {name} runs {programs[name]}, which {does}", ADDING[protocol]
            )
        return central
    if root not in graph.switches:
        what = f"{root!r} is {'a host' if root in graph.hosts else 'not there'}, and sums have a switch as their root"
        raise AggregationError(("transport", "root"), what, closest(root, graph.switches))
    if not facts[root]:
        what = (
            f"{root} runs {programs[root]}, which does not add up: aggregate or aggregate_tree has to be loaded there"
        )
        raise AggregationError(("transport", "root"), what)
    if root not in fits:
        what = f"{root} runs {programs[root]}, which does not add up by protocol {protocol}: {ADDING[protocol]} does"
        raise AggregationError(("transport", "root"), what)
    return root


def _check_keys(job: JobSpec) -> None:
    """What is as it would be anyway may stand there, as it does in a resolved spec."""
    defaults = {parameter.name: parameter.default for parameter in find(job.transport.kind).parameters}
    for key in ("server", "pool"):
        told = job.transport.parameters.get(key, defaults.get(key)) != defaults.get(key)
        if told and protocol_of(job.transport) != BEST_EFFORT:
            what = f"goes with protocol: {BEST_EFFORT}, and this is {protocol_of(job.transport)}: leave it out"
            raise AggregationError(("transport", key), what)


def _server(job: JobSpec, graph: Graph, taken: Collection[str]) -> str:
    """The host that adds up for a best-effort job; `taken`: those that ranks or other jobs' servers have."""
    named = job.transport.parameters.get("server", _AUTO)
    free = [host for host in graph.hosts if host not in taken]
    if named == _AUTO:
        if not free:
            what = (
                f"besteffort needs a host without a rank, and all {len(graph.hosts)} have one, or another job's server"
            )
            raise AggregationError(("transport", "server"), what)
        return free[0]
    if named not in graph.hosts:
        raise AggregationError(("transport", "server"), f"{named!r} is not a host", closest(named, graph.hosts))
    if named in taken:
        what = f"{named} has a rank, or another job's server: the job's packets are told by their host"
        raise AggregationError(("transport", "server"), what, free[0] if free else "")
    return str(named)


def _switches(
    graph: Graph,
    workers: Mapping[str, Address],
    root: str,
    ways: Mapping[str, Link],
    facts: Mapping[str, SumFacts | None],
    number: int,
) -> Mapping[str, Summing]:
    """Contributions are followed from the workers up to the root."""
    come: dict[str, list[Child]] = {}
    for host, address in workers.items():
        link = graph.reverse(graph.links_from(host)[0])
        come.setdefault(link.source, []).append(Child(host, link.source_port, address))
    found: dict[str, list[Child]] = {}
    for name, way in ways.items():
        children, can, back = come.get(name, []), facts.get(name), graph.reverse(way)
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
