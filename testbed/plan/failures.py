"""Which cables the spec's `link-down` faults take down, together and when."""

from collections.abc import Iterable

from testbed.spec.model import FaultSpec
from testbed.topology.graph import Graph
from testbed.topology.select import select_cables


def failing_sets(graph: Graph, faults: Iterable[FaultSpec]) -> list[frozenset[int]]:
    """Each set of cables that is down at some instant, in order of time; raises SelectError.

    A selected direction takes its whole cable down. Without `for` a cable stays down.
    """
    changes: list[tuple[int, int, frozenset[int]]] = []  # instant, -1 up or 1 down, cables
    for fault in faults:
        if fault.kind == "link-down" and fault.select is not None:
            cables = frozenset(select_cables(graph, fault.select))
            start = fault.at_ns or 0
            changes.append((start, 1, cables))
            if fault.for_ns is not None:
                changes.append((start + fault.for_ns, -1, cables))
    depth: dict[int, int] = {}
    sets: dict[frozenset[int], None] = {}
    for i, (instant, way, cables) in enumerate(changes := sorted(changes, key=lambda change: change[:2])):
        for cable in cables:
            depth[cable] = depth.get(cable, 0) + way
        if i + 1 == len(changes) or changes[i + 1][0] > instant:
            sets[frozenset(cable for cable, times in depth.items() if times > 0)] = None
    return [cables for cables in sets if cables]
