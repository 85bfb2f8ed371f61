"""What becomes of background flows: rows for `flows.csv`, with the time that each would take alone."""

from dataclasses import dataclass

from testbed.plan.framing import framing
from testbed.plan.messages import least_cost
from testbed.plan.model import Plan
from testbed.plan.network import network_of
from testbed.plan.paths import Paths, RankPaths
from testbed.plan.timing import StageTimes
from testbed.results.samples import FlowRow
from testbed.spec.model import TransportSpec
from testbed.stress.arrivals import Arrival, FlowSource
from testbed.transport.endpoint import Path

TRANSPORT = TransportSpec(kind="tcp")


@dataclass(slots=True)
class _Begun:
    source: FlowSource
    arrival: Arrival
    fct_ns: int | None = None


class Completions:
    """The flows of a run that have begun, and which of them are there. `path`: as their transport knows the network."""

    def __init__(self, plan: Plan) -> None:
        ranks = RankPaths(plan.graph, Paths(plan.graph, plan.addresses, plan.switches), plan.graph.hosts)
        self.path: Path = network_of(ranks, TRANSPORT, plan.switching)[0]
        self._framing = framing(TRANSPORT, self.path)
        self._paths = ranks.paths
        self._times = StageTimes(plan.graph)
        self._flows: list[_Begun] = []
        self._first = 0

    def measure(self) -> None:
        """Only flows that begin from now on are told of."""
        self._first = len(self._flows)

    def begin(self, source: FlowSource, arrival: Arrival) -> int:
        """A flow begins, at the instant that was drawn for it; its number here."""
        self._flows.append(_Begun(source, arrival))
        return len(self._flows) - 1

    def end(self, number: int, now_ns: int) -> None:
        """All of it is at its target. now_ns: model time, from zero."""
        flow = self._flows[number]
        flow.fct_ns = max(1, now_ns - flow.arrival.at_ns)

    def rows(self) -> tuple[FlowRow, ...]:
        """All that began, in order."""
        return tuple(map(self._row, self._flows[self._first :]))

    def _row(self, flow: _Begun) -> FlowRow:
        source, arrival = flow.source, flow.arrival
        route = self._times.fastest(self._paths.stages(source.host, arrival.target))
        alone_ns = least_cost(route, self._framing, arrival.size_bytes).whole_ns
        return FlowRow(
            entry=source.entry,
            source=source.host,
            target=arrival.target,
            number=arrival.number,
            start_ns=arrival.at_ns,
            size_bytes=arrival.size_bytes,
            fct_ns=flow.fct_ns,
            alone_ns=max(1, round(alone_ns)),
        )
