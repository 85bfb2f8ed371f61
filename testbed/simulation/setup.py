"""From a job to what its simulated ranks are made of: endpoints, NICs, and the iterations that they run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address
from typing import Any

from testbed import transport
from testbed.collective.program import Program
from testbed.collective.schedule import Schedule
from testbed.plan.model import Aggregation
from testbed.simulation.fast import FastRank, fits
from testbed.simulation.network import SimulatedNetwork
from testbed.simulation.nic import Neighbours, Nic, ServerNic, SumNic
from testbed.simulation.rank import RankNic, SimulatedRank
from testbed.simulation.timeline import Timeline
from testbed.simulation.traced import Messages, TracedNic
from testbed.stress.tail_drop import with_tail_drops
from testbed.transport.aggregation import AGGREGATOR, AggregationServer, Member
from testbed.transport.endpoint import Fill
from testbed.transport.framing import of_aggregation
from testbed.transport.roce import RoceEndpoint
from testbed.transport.roce.address import address
from testbed.transport.roce.parameters import Constants
from testbed.worker.iteration import Carrier, Iteration
from testbed.worker.operation import Announcer
from testbed.worker.rank import Begin, Happened
from testbed.worker.setup import Numbers, Shared
from testbed.worker.sums import SumIteration

Finished = Callable[[int, int], None]  # of a rank, at an instant
Replaced = Callable[[int, SimulatedRank[Any]], None]  # a rank, by another


def ranks(
    network: SimulatedNetwork, shared: Shared, finished: Finished, replaced: Replaced, timeline: Timeline | None
) -> Iterator[SimulatedRank[Any] | FastRank]:
    """The ranks of a job, in order; what serves them too is made, and needs no more than the network.

    replaced: called when another goes on in the place of one of them. timeline: where their messages are written, if
    anywhere.
    """
    if shared.schedule is not None:
        yield from _exchanging(network, shared, shared.schedule, finished, replaced, timeline)
    elif (tree := shared.job.aggregation) is not None:
        network.name_aggregator(tree.address)
        yield from _summed(network, shared, tree, finished)
        _serve(network, shared, tree)


def _exchanging(
    network: SimulatedNetwork,
    shared: Shared,
    schedule: Schedule,
    finished: Finished,
    replaced: Replaced,
    timeline: Timeline | None,
) -> Iterator[SimulatedRank[Any] | FastRank]:
    """Ranks that exchange messages with each other."""
    job, kind = shared.job, transport.find(shared.job.spec.transport.kind)
    make = kind.make or kind.model
    assert make is not None  # testbed.spec: what has neither is not simulated
    settings = transport.settle(job.spec.transport, shared.path)
    everyone = Neighbours.of({rank: network.ip(host) for rank, host in enumerate(job.placement)})
    queue_pairs = transport.queue_pairs(len(job.placement))
    warmup = job.spec.workload.warmup if job.spec.workload else 0
    messages = Messages(timeline, job.name, job.numbers, schedule) if timeline is not None else None
    for rank, host in enumerate(job.placement):
        made = make(shared.path, rank, queue_pairs, settings, job.seed)
        endpoint = with_tail_drops(made, network.plan.spec.faults, job.seed, job=job.name, rank=rank)
        nic = Nic(network.core, network.port(host), everyone, endpoint, kind.framing, shared.path, early=kind.early)
        carrier = TracedNic(nic, rank, messages) if messages is not None else nic
        mine = [part[rank] for part in shared.programs]
        announcer = Announcer(endpoint, mine, warmup, shared.sources[rank].metrics)
        begin = partial(_iteration, carrier, announcer, mine, shared.sink, kind.fill if kind.lossy else None)
        slow = _rank(shared, rank, carrier, begin, finished)
        dtype = slow.buffer.dtype if shared.sink is None else None
        if messages is None and isinstance(endpoint, RoceEndpoint) and fits(kind, settings, mine, dtype):
            constants = Constants.of(shared.path, settings.values)
            ecn = settings.congestion.make(shared.path, settings.congestion_values).ecn
            peers = sorted(frozenset[int]().union(*(part.peers for part in mine)))
            addresses = [(address(rank, peer, queue_pairs, job.seed), everyone.ips[peer]) for peer in peers]
            over, by = partial(finished, rank), partial(replaced, rank)
            parts = (constants, ecn, addresses, mine, shared.sink, begin, over, by)
            yield FastRank(network.core, slow, nic, endpoint, *parts)
        else:
            yield slow


def _iteration(
    nic: Carrier,
    announcer: Announcer,
    mine: Sequence[Program],
    sink: Numbers | None,
    fill: Fill | None,
    number: int,
    buffers: Sequence[Numbers],
    delays: Mapping[int, int],
) -> Iteration:
    first_tag = number * sum(part.tags for part in mine)
    told = announcer.of(number, first_tag, buffers[0].dtype)
    return Iteration(mine, buffers, nic, first_tag, delays, sink, fill, told)


def _summed(
    network: SimulatedNetwork, shared: Shared, tree: Aggregation, finished: Finished
) -> Iterator[SimulatedRank[Any]]:
    """Ranks whose buffers the network sums up."""
    job, make = shared.job, transport.find(shared.job.spec.transport.kind).reduce
    assert make is not None
    settings = transport.settle(job.spec.transport, shared.path)
    framing, tree_alone = of_aggregation(str(settings.values["framing"])), _aggregator(tree)
    for rank, host in enumerate(job.placement):
        endpoint = make(shared.path, Member(tree.number, tree.place_of(host)[1], len(job.placement)), settings)
        nic = SumNic(network.core, network.port(host), tree_alone, endpoint, framing, shared.path)
        yield _rank(shared, rank, nic, partial(_sum_iteration, nic), finished)


def _sum_iteration(nic: SumNic, number: int, buffers: Sequence[Numbers], delays: Mapping[int, int]) -> SumIteration:
    return SumIteration(buffers, nic, number * len(buffers), delays)


def _serve(network: SimulatedNetwork, shared: Shared, tree: Aggregation) -> None:
    """The server of a best-effort job, if it has one."""
    if tree.server is None:
        return
    link = network.plan.graph.links_from(tree.server.host)[0]
    path = replace(shared.path, rate_bps=link.parameters.rate_bps)
    settings = transport.settle(shared.job.spec.transport, shared.path)
    endpoint = AggregationServer(path, tree.number, len(shared.job.placement), settings)
    framing = of_aggregation(str(settings.values["framing"]))
    ServerNic(network.core, network.port(tree.server.host), _aggregator(tree), endpoint, framing, path)


def _aggregator(tree: Aggregation) -> Neighbours:
    return Neighbours.of({AGGREGATOR: int(IPv4Address(tree.address.ip))})


def _rank(
    shared: Shared, rank: int, nic: RankNic[Happened], begin: Begin[Happened], finished: Finished
) -> SimulatedRank[Happened]:
    return SimulatedRank(shared.job.called(rank), nic, shared.buffer(), shared.layers, begin, partial(finished, rank))
