"""Which directed links a `select` of the spec means.

`all`; `host` (host-to-switch); `core` (switch-to-switch); a node (its links); `x-y` (both directions); `x>y` (one);
names may have shell wildcards; a list is the union. What matches nothing is an error, never ignored.
"""

import fnmatch
import re
from collections.abc import Collection, Iterable, Sequence

from testbed.errors import UsageError
from testbed.suggest import did_you_mean
from testbed.topology.graph import Graph, Link

_PAIR = re.compile(r"(?P<x>(?:[^-<>\[\]]|\[[^\]]*\])+)(?P<way>[->])(?P<y>(?:[^-<>\[\]]|\[[^\]]*\])+)")


class SelectError(UsageError):
    """A selector matches no link."""


def select(graph: Graph, selector: str | Sequence[str]) -> tuple[int, ...]:
    """The indices of the directed links that `selector` means, ascending; raises SelectError."""
    selectors = (selector,) if isinstance(selector, str) else selector
    return tuple(sorted({index for one in selectors for index in _select(graph, one)}))


def select_cables(graph: Graph, selector: str | Sequence[str]) -> tuple[int, ...]:
    """The cables that have a selected direction, ascending; raises SelectError."""
    return tuple(sorted({index // 2 for index in select(graph, selector)}))


def select_switches(graph: Graph, selector: str | Sequence[str]) -> tuple[str, ...]:
    """The switches that `selector` means, in the graph's order; raises SelectError.

    `all`; a tier (`core`, `edge`, `leaf`, ...); a name, with shell wildcards; a list is the union.
    """
    selectors = (selector,) if isinstance(selector, str) else selector
    found = {name for one in selectors for name in _switches(graph, one.strip(" "))}
    return tuple(name for name in graph.switches if name in found)


def _switches(graph: Graph, text: str) -> list[str]:
    if text == "all":
        return list(graph.switches)
    tiers = list(dict.fromkeys(graph.nodes[name].tier for name in graph.switches))
    if found := [name for name in graph.switches if text in (name, graph.nodes[name].tier)]:
        return found
    if found := fnmatch.filter(graph.switches, text):
        return found
    if fnmatch.filter(graph.hosts, text):
        raise SelectError(f"{text!r} is no switch but a host", hint=_examples(graph, graph.switches))
    raise SelectError(f"no switch or tier is called {text!r}", hint=_nearest(graph, text, graph.switches, tiers))


def _select(graph: Graph, selector: str) -> list[int]:
    text = selector.strip(" ")
    if text == "all":
        found = list(graph.links)
    elif text in ("host", "core"):
        found = [link for link in graph.links if _touches_host(graph, link) == (text == "host")]
    elif match := _PAIR.fullmatch(text):
        x, y = _matching(graph, match["x"]), _matching(graph, match["y"])
        found = [
            link
            for link in graph.links
            if (link.source in x and link.target in y)
            or (match["way"] == "-" and link.source in y and link.target in x)
        ]
        if not found:
            raise SelectError(f"no link joins {match['x']} and {match['y']}", hint=_neighbours(graph, sorted(x)))
    else:
        nodes = _matching(graph, text)
        found = [link for link in graph.links if link.source in nodes or link.target in nodes]
    if not found:
        raise SelectError(f"{selector!r} selects no link", hint="this network has none of these")
    return [link.index for link in found]


def _matching(graph: Graph, pattern: str) -> set[str]:
    pattern = pattern.strip(" ")
    if found := set(fnmatch.filter(graph.nodes, pattern)):
        return found
    raise SelectError(f"no node is called {pattern!r}", hint=_nearest(graph, pattern, graph.nodes))


def _nearest(graph: Graph, pattern: str, nodes: Collection[str], words: Collection[str] = ()) -> str:
    hint = did_you_mean(pattern, [*words, *nodes])
    return hint if hint.startswith("did") else _examples(graph, nodes)


def _examples(graph: Graph, nodes: Iterable[str]) -> str:
    """One of the nodes of each tier."""
    first: dict[str, str] = {}
    for name in nodes:
        first.setdefault(graph.nodes[name].tier, name)
    return f"this {graph.kind} has e.g. {', '.join(f'{name} ({tier})' for tier, name in first.items())}"


def _neighbours(graph: Graph, names: list[str]) -> str:
    name = names[0]
    return f"{name} is joined to {', '.join(link.target for link in graph.links_from(name))}"


def _touches_host(graph: Graph, link: Link) -> bool:
    return "host" in (graph.nodes[link.source].kind, graph.nodes[link.target].kind)
