"""The spec's `links`: entries in order onto a graph, later ones winning key by key."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from testbed.spec.model import FaultSpec, LinkSpec
from testbed.topology.graph import Ecn, Graph, LinkParameters, Loss
from testbed.topology.select import select

_PLAIN = ("rate_bps", "delay_ns", "jitter_ns", "reorder", "queue_bytes", "mtu_bytes", "duplicate", "corrupt")


def apply_links(graph: Graph, entries: Iterable[LinkSpec]) -> Graph:
    """`graph` with what each entry sets on the links it selects; raises SelectError."""
    parameters = {link.index: link.parameters for link in graph.links}
    for entry in entries:
        keys = changes(entry)
        made: dict[LinkParameters, LinkParameters] = {}
        for index in select(graph, entry.select):
            before = parameters[index]
            if before not in made:
                made[before] = replace(before, **keys)
            parameters[index] = made[before]
    return graph.with_parameters(parameters)


def changes(entry: LinkSpec | FaultSpec) -> dict[str, Any]:
    """The fields of LinkParameters that a `links` entry or a `link-set` fault sets; a loss of 0 is none."""
    keys = {name: value for name in _PLAIN if (value := getattr(entry, name, None)) is not None}
    if entry.ecn is not None:
        keys["ecn"] = Ecn(entry.ecn.min_bytes, entry.ecn.max_bytes, entry.ecn.probability)
    if entry.loss is not None:
        burst = entry.loss.burst if entry.loss.kind == "gilbert-elliott" else 1.0
        keys["loss"] = Loss(entry.loss.mean, burst) if entry.loss.mean > 0 else None
    return keys
