"""Which rank runs on which host."""

from collections.abc import Mapping, Sequence

from testbed.errors import UsageError
from testbed.spec.model import WorkersSpec
from testbed.streams import stream
from testbed.suggest import did_you_mean
from testbed.topology.graph import Graph

Hosts = tuple[str, ...]


class PlacementError(UsageError):
    """The ranks do not fit on the hosts. `key` names what is wrong below `workers`, e.g. `count`."""

    def __init__(self, key: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.key = key


def place_jobs(workers: Mapping[str, WorkersSpec | None], graph: Graph, seeds: Mapping[str, int]) -> dict[str, Hosts]:
    """The host of each rank by job; no host has two. Raises PlacementError.

    Hosts that a job names are its own; the other jobs, in their order, take what is left.
    """
    named = {
        host for each in workers.values() if each and not isinstance(each.placement, str) for host in each.placement
    }
    free = [host for host in graph.hosts if host not in named]
    placed: dict[str, Hosts] = {}
    for job, each in workers.items():
        placed[job] = _place(each, graph, free, seeds[job], taken(placed)) if each else ()
        used = set(placed[job])
        free = [host for host in free if host not in used]
    return placed


def taken(placed: Mapping[str, Hosts]) -> dict[str, str]:
    """Host -> the rank it has, as `3` or `JOB/3`."""
    return {
        host: f"{job}/{rank}" if job else str(rank) for job, hosts in placed.items() for rank, host in enumerate(hosts)
    }


def _place(workers: WorkersSpec, graph: Graph, free: Sequence[str], seed: int, others: Mapping[str, str]) -> Hosts:
    count = workers.count
    if not isinstance(workers.placement, str):
        return _named(tuple(workers.placement), graph.hosts, count, others)
    if count > len(free):
        left = f"the network has {len(free)} hosts" if len(free) == len(graph.hosts) else f"{len(free)} hosts are left"
        raise PlacementError("count", f"{count} workers, but {left}", hint="one a host")
    match workers.placement:
        case "packed":
            return tuple(free[:count])
        case "spread":
            return _spread(graph, free, count)
        case "random":
            return tuple(stream(seed, "placement").sample(free, count))


def _spread(graph: Graph, free: Sequence[str], count: int) -> Hosts:
    """Rank i on the next unused host of edge switch i mod their number, or of the next that has one left."""
    unused: dict[str, list[str]] = {}
    for host in free:
        unused.setdefault(graph.edge_switch(host), []).append(host)
    edges = [unused[switch] for switch in graph.switches if switch in unused]
    placed = []
    for rank in range(count):
        edge = next(edges[(rank + i) % len(edges)] for i in range(len(edges)) if edges[(rank + i) % len(edges)])
        placed.append(edge.pop(0))
    return tuple(placed)


def _named(named: Hosts, hosts: Hosts, count: int, others: Mapping[str, str]) -> Hosts:
    for i, host in enumerate(named):
        if host not in hosts:
            raise PlacementError(f"placement.{i}", f"no host is called {host!r}", hint=did_you_mean(host, hosts))
        if host in named[:i] or host in others:
            raise PlacementError(f"placement.{i}", f"{host!r} has a rank already", hint="one a host")
    if len(named) != count:
        raise PlacementError("placement", f"{len(named)} hosts for {count} workers", hint="as many as `count`")
    return named
