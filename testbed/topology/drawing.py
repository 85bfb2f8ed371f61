"""A graph as a picture: tiers as rows where it has tiers, else the switches on a circle with hosts around them."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from testbed.topology.graph import Graph

_ROWS = {"edge": 1, "leaf": 1, "switch": 1, "aggregation": 2, "spine": 2, "core": 3}
_COLOURS = {"host": "#dfe7ef", "edge": "#9ecae1", "leaf": "#9ecae1", "switch": "#9ecae1", "aggregation": "#6baed6"}
_UPPER = "#3182bd"
_RANK = "#fdae6b"
_CABLES = ("#555555", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#17becf")
_NODE_INCHES = 0.42  # along the widest row, or around the circle
_ROW_INCHES = 1.6
_HOST_INCHES = 0.4  # between hosts below each other
_HOSTS_IN_LINE = 24  # with more of them they stand in columns under their switch
_HOSTS_DEEP = 4
_LEGEND_INCHES = 0.25  # a line of it
_MOST_INCHES = 60.0

FORMATS = ("svg", "png", "pdf")

Positions = dict[str, tuple[float, float]]


def draw(graph: Graph, file: Path, notes: Mapping[str, str], kinds: Mapping[str, list[int]]) -> None:
    """Write the picture to `file` (its suffix says which format). `notes`: what stands below a node's name.

    `kinds`: groups of cables, by the words that the legend has for them.
    """
    places = _circle(graph) if _is_mesh(graph) else _rows(graph)
    width, height = _size(places)
    legend = _LEGEND_INCHES * (len(kinds) + 1)
    figure = Figure(figsize=(width, height + legend))
    axes = figure.add_axes((0.01, 0.01, 0.98, height / (height + legend) - 0.01))
    axes.axis("off")
    axes.margins(0.04)
    for i, (label, cables) in enumerate(kinds.items()):
        lines = [(places[graph.links[2 * c].source], places[graph.links[2 * c].target]) for c in cables]
        colour = _CABLES[i % len(_CABLES)]
        axes.add_collection(LineCollection(lines, colors=colour, linewidths=0.7, alpha=0.6, label=label, zorder=1))
    _nodes(axes, graph, places, notes)
    figure.legend(loc="upper left", fontsize=7, frameon=False)
    figure.savefig(file, dpi=110)


def _nodes(axes: Axes, graph: Graph, places: Positions, notes: Mapping[str, str]) -> None:
    for name, (x, y) in places.items():
        tier = graph.nodes[name].tier
        colour = _RANK if name in notes else _COLOURS.get(tier, _UPPER)
        text = f"{name}\n{notes[name]}" if name in notes else name
        box = {"boxstyle": "round,pad=0.25", "facecolor": colour, "edgecolor": "#333333", "linewidth": 0.5}
        axes.text(x, y, text, ha="center", va="center", fontsize=6, bbox=box, zorder=2)
    axes.update_datalim(list(places.values()))
    axes.autoscale_view()


def _is_mesh(graph: Graph) -> bool:
    """Whether switches of one tier are joined to each other, so that rows would hide cables behind switches."""
    tiers = {graph.nodes[switch].tier for switch in graph.switches}
    return len(tiers) == 1 and len(graph.switches) > 2


def _rows(graph: Graph) -> Positions:
    below = {switch: _hosts_of(graph, switch) for switch in graph.switches}
    deep = 1 if len(graph.hosts) <= _HOSTS_IN_LINE else _HOSTS_DEEP
    rows: dict[int, list[str]] = {}
    for switch in graph.switches:
        rows.setdefault(_ROWS.get(graph.nodes[switch].tier, 3), []).append(switch)
    columns = {switch: -(-len(hosts) // deep) for switch, hosts in below.items()}
    slots = max(sum(columns.values()), *(len(row) for row in rows.values()))
    width = slots * _NODE_INCHES
    height = max(_ROW_INCHES, width / 8)
    places: Positions = {}
    left = 0.0
    for switch in (switch for switch, hosts in below.items() if hosts):
        pitch = width / sum(columns.values())
        for i, host in enumerate(below[switch]):
            column, depth = divmod(i, deep)
            places[host] = left + (column + 0.5) * pitch, height / 2 - (depth + 1) * _HOST_INCHES
        places[switch] = left + columns[switch] * pitch / 2, height
        left += columns[switch] * pitch
    for level, row in rows.items():
        free = [switch for switch in row if switch not in places]
        for i, switch in enumerate(free):
            places[switch] = (i + 0.5) * width / len(free), level * height
    return places


def _hosts_of(graph: Graph, switch: str) -> list[str]:
    return [k.target for k in graph.links_from(switch) if graph.nodes[k.target].kind == "host"]


def _circle(graph: Graph) -> Positions:
    outer = max(1.6, max(len(graph.hosts), len(graph.switches)) * _NODE_INCHES / (2 * math.pi) * 1.5)
    inner = outer - 0.9
    places: Positions = {}
    for i, switch in enumerate(graph.switches):
        angle = 2 * math.pi * i / len(graph.switches)
        places[switch] = inner * math.sin(angle), inner * math.cos(angle)
        hosts = _hosts_of(graph, switch)
        for j, host in enumerate(hosts):
            spread = 2 * math.pi / len(graph.switches) * ((j + 0.5) / len(hosts) - 0.5)
            places[host] = outer * math.sin(angle + spread), outer * math.cos(angle + spread)
    return places


def _size(places: Positions) -> tuple[float, float]:
    def inches(values: Iterable[float]) -> float:
        each = list(values)
        return min(_MOST_INCHES, max(4.0, (max(each) - min(each)) * 1.1 + 1))

    return inches(x for x, _ in places.values()), inches(y for _, y in places.values())
