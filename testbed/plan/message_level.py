"""The plan of a run without packets (`fidelity: message`): no entries a switch, and what is predicted comes of arrays.

So it is made in time and memory that grow with links and messages alone: 65,536 hosts do not have a table each.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from testbed.plan.framing import Framing
from testbed.plan.model import JobPlan, Plan, Prediction, Switching
from testbed.plan.network import network_by
from testbed.plan.planner import host_addresses, job_seed, network_graph, placed_jobs
from testbed.routing import assign
from testbed.simulation.messages.earliest import Alone, earliest
from testbed.simulation.messages.flows import Links, latencies
from testbed.simulation.messages.job import JobMessages, job_messages
from testbed.simulation.messages.routes import Routes
from testbed.spec.model import JobSpec, Spec
from testbed.topology.graph import Graph

Ints = npt.NDArray[np.int64]

_ROUNDING_NS = 1e-3  # floating point must not cost the last whole nanosecond


def plan_messages(spec: Spec) -> Plan:
    """Work `spec` out; raises UsageError of the part that is wrong."""
    graph = network_graph(spec)
    addressing = assign(graph)
    number = {host: i for i, host in enumerate(graph.hosts)}
    network = _Network(graph, routes_of(spec, graph))
    jobs: list[JobPlan] = []
    for name, placement in placed_jobs(spec, graph).items():
        job, seed = spec.all_jobs[name], job_seed(spec.seed, name)
        prediction = network.predict(job, placement, [number[host] for host in placement], seed)
        jobs.append(JobPlan(name, job, seed, sum(len(other.placement) for other in jobs), placement, prediction))
    longest = max(job.prediction.base_rtt_ns for job in jobs), max(job.prediction.bound_ns for job in jobs)
    return Plan(
        spec=spec,
        graph=graph,
        addresses=host_addresses(addressing),
        switches={},
        alternates=(),
        jobs=tuple(jobs),
        switching=SWITCHING,
        datapath=None,
        drivers=tuple(["netcore"] * (len(graph.links) // 2)),
        dilation=1,
        prediction=Prediction(*longest, 0, 0, 0.0),
    )


def routes_of(spec: Spec, graph: Graph, down: Sequence[int] = ()) -> Routes:
    """The routes of the spec's network, around cables that are down."""
    assert spec.routing.kind != "spray"  # testbed.spec.message_checks
    return Routes(graph, assign(graph), spec.routing.kind, spec.seed, down)


SWITCHING = Switching("native", None, {})  # nothing of a switch is modelled but its routes


class _Network:
    """What is predicted of jobs on one network."""

    def __init__(self, graph: Graph, routes: Routes) -> None:
        self._graph = graph
        self._routes = routes
        self._links = Links.of([link.parameters for link in graph.links])

    def predict(self, job: JobSpec, placement: Sequence[str], hosts: Sequence[int], seed: int) -> Prediction:
        """Of one job alone."""

        def round_trip_ns(framing: Framing) -> int:
            return self._round_trip_ns(np.array(hosts, np.int64), framing)

        path, framing = network_by(self._graph, placement, job.transport, SWITCHING, round_trip_ns)
        made = job_messages(job, hosts, seed, framing)
        return Prediction(path.base_rtt_ns, self._bound_ns(made), 0, 0, 0.0)

    def _round_trip_ns(self, hosts: Ints, framing: Framing) -> int:
        """The longest of a full packet and its acknowledgement, over one pair of each kind of hosts and distance."""
        source, target = self._routes.unlike(hosts, self._links.byte_ns)
        if not len(source):
            return 0
        ways = self._routes.paths(source, target, np.full(len(source), 0xC000), 0)
        back = np.where(ways == self._routes.nothing, ways, ways ^ 1)
        cost, delay = self._links.byte_ns, self._links.delay_ns
        each = np.ceil(cost[ways] * framing.full_bytes - _ROUNDING_NS) + delay[ways]
        each += np.ceil(cost[back] * framing.ack_bytes - _ROUNDING_NS) + delay[back]
        return int(each.sum(axis=1).max())

    def _bound_ns(self, made: JobMessages) -> int:
        """As `testbed.plan.bound`: what waits for what, and what the hosts' own links have to carry."""
        if not len(made.messages):
            return 0
        paths = made.paths(self._routes)
        up, down = paths[:, 0], self._last(paths)
        cost, longest = self._links.byte_ns, np.minimum(made.frames.first_bytes, made.frames.last_bytes)
        ready, end = earliest(made.messages, self._alone(made, paths, down))
        for link, at_source in ((up[made.pair], True), (down[made.pair], False)):
            work = np.bincount(link, made.frames.bytes * cost[link])
            head, tail = np.full(len(work), np.inf), np.full(len(work), np.inf)
            elsewhere = cost[paths].sum(axis=1)[made.pair] - cost[link]
            way_ns = self._links.delay_ns[paths].sum(axis=1)[made.pair]
            np.minimum.at(head, link, ready + (0 if at_source else longest * elsewhere))
            np.minimum.at(tail, link, way_ns + (longest * elsewhere if at_source else 0))
            used = np.isfinite(head)
            end = max(end, float((head + work + tail)[used].max()))
        return int(end + _ROUNDING_NS)

    def _alone(self, made: JobMessages, paths: Ints, down: Ints) -> Alone:
        way, frames, cost = paths[made.pair], made.frames, self._links.byte_ns
        latency, ack = latencies(way, np.arange(len(way)), frames, self._links)
        last = cost[down[made.pair]]
        head = self._links.delay_ns[way].sum(axis=1) + frames.first_bytes * (cost[way].sum(axis=1) - last)
        whole = frames.bytes * cost[way].max(axis=1) + latency
        return Alone(head, frames.bytes * last, whole, whole + ack)

    def _last(self, paths: Ints) -> Ints:
        length = (paths != self._routes.nothing).sum(axis=1)
        last: Ints = paths[np.arange(len(paths)), length - 1]
        return last
