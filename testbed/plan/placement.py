"""Which rank runs on which host."""

from testbed.errors import UsageError
from testbed.spec.model import WorkersSpec
from testbed.streams import stream
from testbed.suggest import did_you_mean
from testbed.topology.graph import Graph


class PlacementError(UsageError):
    """The ranks do not fit on the hosts. `key` names what is wrong below `workers`, e.g. `count`."""

    def __init__(self, key: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.key = key


def place(workers: WorkersSpec, graph: Graph, seed: int) -> tuple[str, ...]:
    """The host of each rank; no host has two. Raises PlacementError."""
    hosts, count = graph.hosts, workers.count
    if count > len(hosts):
        raise PlacementError("count", f"{count} workers, but the network has {len(hosts)} hosts", hint="one a host")
    match workers.placement:
        case "packed":
            return hosts[:count]
        case "spread":
            return _spread(graph, count)
        case "random":
            return tuple(stream(seed, "placement").sample(hosts, count))
        case named:
            return _named(tuple(named), hosts, count)


def _spread(graph: Graph, count: int) -> tuple[str, ...]:
    """Rank i on the next unused host of edge switch i mod their number, or of the next that has one left."""
    unused: dict[str, list[str]] = {}
    for host in graph.hosts:
        unused.setdefault(graph.edge_switch(host), []).append(host)
    edges = [unused[switch] for switch in graph.switches if switch in unused]
    placed = []
    for rank in range(count):
        edge = next(edges[(rank + i) % len(edges)] for i in range(len(edges)) if edges[(rank + i) % len(edges)])
        placed.append(edge.pop(0))
    return tuple(placed)


def _named(named: tuple[str, ...], hosts: tuple[str, ...], count: int) -> tuple[str, ...]:
    for i, host in enumerate(named):
        if host not in hosts:
            raise PlacementError(f"placement.{i}", f"no host is called {host!r}", hint=did_you_mean(host, hosts))
        if host in named[:i]:
            raise PlacementError(f"placement.{i}", f"{host!r} has a rank already", hint="one a host")
    if len(named) != count:
        raise PlacementError("placement", f"{len(named)} hosts for {count} workers", hint="as many as `count`")
    return named
