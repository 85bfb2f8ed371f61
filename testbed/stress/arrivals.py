"""Background flows as data: which host sends how much to which other, and when, drawn before the run.

Each source's flows come as a Poisson process; a flow's size and target are drawn for it alone. Every draw is keyed by
(entry of `traffic`, host, number of the flow), so that flows are the same for every transport and in both engines.

Source of the process: HPCC's traffic generator (a host has load * bandwidth / (8 * mean size) flows a second, to all
others alike). Sizes and rates are scaled together: a load of links that are a hundredth as fast, with sizes scaled by a
hundredth, has the same flows a second, and flow completion times as on the fast ones.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.spec.model import EVERYBODY, TrafficSpec
from testbed.streams import share
from testbed.stress.sizes import Sizes, sizes_of
from testbed.topology.graph import Graph
from testbed.topology.select import select

_NS = 1e9


@dataclass(frozen=True, slots=True)
class Arrival:
    """A flow of `size_bytes` that begins at an instant of model time."""

    number: int  # among its source's
    at_ns: int
    target: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FlowSource:
    """A host's flows of one entry of `traffic`, one each `gap_ns` on average."""

    entry: int
    host: str
    targets: tuple[str, ...]
    sizes: Sizes
    scale: float
    gap_ns: float
    start_ns: int
    stop_ns: int | None

    @property
    def mean_bytes(self) -> float:
        """Of its flows, as scaled."""
        return self.scale * self.sizes.mean_bytes

    def arrivals(self, seed: int) -> Iterator[Arrival]:
        """Its flows in order of time, without end unless they stop."""
        number, at_ns = 0, float(self.start_ns)
        while True:
            at_ns -= math.log1p(-self._drawn(seed, number, "gap")) * self.gap_ns
            if self.stop_ns is not None and at_ns >= self.stop_ns:
                return
            target = self.targets[int(self._drawn(seed, number, "target") * len(self.targets))]
            size = max(1, round(self.scale * self.sizes.at(self._drawn(seed, number, "size"))))
            yield Arrival(number, int(at_ns), target, size)
            number += 1

    def _drawn(self, seed: int, number: int, of: str) -> float:
        return share(seed, "flows", self.entry, self.host, number, of)


def flow_sources(traffic: tuple[TrafficSpec, ...], graph: Graph) -> tuple[FlowSource, ...]:
    """Of all entries of kind `flows`, in order; raises UsageError for sizes that cannot be had."""
    made: list[FlowSource] = []
    for number, entry in enumerate(traffic):
        if entry.kind == "flows":
            made += _of(entry, number, graph)
    return tuple(made)


def mean_bytes(entry: TrafficSpec) -> float:
    """Of its flows, as scaled."""
    return entry.scale * sizes_of(entry.sizes or "").mean_bytes


def hosts(names: tuple[str, ...], graph: Graph) -> tuple[str, ...]:
    """The hosts that `from` or `to` means."""
    return graph.hosts if names == (EVERYBODY,) else names


def _of(entry: TrafficSpec, number: int, graph: Graph) -> Iterator[FlowSource]:
    sizes, sources = sizes_of(entry.sizes or ""), hosts(entry.sources, graph)
    shared_bps = None
    if entry.of is not None:  # which all flows are taken to cross, each source alike
        links = select(graph, entry.of)
        shared_bps = sum(graph.links[index].parameters.rate_bps for index in links) / len(sources)
    for host in sources:
        targets = tuple(target for target in hosts(entry.targets, graph) if target != host)
        if targets:
            rate_bps = shared_bps or graph.links_from(host)[0].parameters.rate_bps
            gap = _gap_ns(entry, 8 * entry.scale * sizes.mean_bytes, rate_bps)
            yield FlowSource(number, host, targets, sizes, entry.scale, gap, entry.start_ns, entry.stop_ns)


def _gap_ns(entry: TrafficSpec, mean_bits: float, rate_bps: float) -> float:
    """How long a host has between its flows, on average."""
    if entry.every_ns is not None:
        return float(entry.every_ns)
    assert entry.load  # testbed.spec.traffic_checks
    return mean_bits * _NS / (entry.load * rate_bps)
