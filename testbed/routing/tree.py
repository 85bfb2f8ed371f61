"""The tree up which the sums of a job grow: its root among the switches, and each switch's way there.

All ways are shortest by hops. Where several are, those that others take already win, so that sums meet early; among
what is left `turn` chooses, so that the trees of several jobs lie over different switches.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from testbed.topology.graph import Graph, Link


def most_central(graph: Graph, leaves: Sequence[str], candidates: Collection[str], turn: int = 0) -> str | None:
    """The candidate whose furthest of `leaves` (a worker's edge switch each) is nearest, then with the fewest hops to
    all of them; of equals the one at `turn`, counted round. None: there is no candidate.
    """
    workers = Counter(leaves)
    distances = {leaf: _distances(graph, leaf) for leaf in workers}
    cost = {
        name: (
            max(distance[name] for distance in distances.values()),
            sum(workers[leaf] * distance[name] for leaf, distance in distances.items()),
        )
        for name in candidates
    }
    if not cost:
        return None
    best = [name for name in graph.switches if cost.get(name) == min(cost.values())]
    return best[turn % len(best)]


def ways_to(graph: Graph, root: str, leaves: Iterable[str], turn: int = 0) -> Mapping[str, Link]:
    """The directed link towards `root` of every switch on the ways from `leaves`, the furthest switches first."""
    distance = _distances(graph, root)
    at: dict[int, dict[str, None]] = {}  # the switches of the tree, by distance
    for leaf in leaves:
        at.setdefault(distance[leaf], {})[leaf] = None
    ways: dict[str, Link] = {}
    for hops in range(max(at), 0, -1):
        nearer = at.setdefault(hops - 1, {})
        choices = {
            switch: [link for link in graph.links_from(switch) if distance.get(link.target) == hops - 1]
            for switch in at.get(hops, {})
        }
        for switch in sorted(choices, key=lambda name: len({link.target for link in choices[name]})):
            met = [link for link in choices[switch] if link.target in nearer]
            link = met[0] if met else choices[switch][turn % len(choices[switch])]
            ways[switch] = link
            nearer[link.target] = None
    return ways


def _distances(graph: Graph, start: str) -> dict[str, int]:
    """Hops from a switch to every other."""
    distance = {start: 0}
    pending = deque([start])
    while pending:
        here = pending.popleft()
        for link in graph.links_from(here):
            if link.target not in distance and graph.nodes[link.target].kind == "switch":
                distance[link.target] = distance[here] + 1
                pending.append(link.target)
    return distance
