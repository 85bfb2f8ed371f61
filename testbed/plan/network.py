"""The network as the ranks' transport sees it: rate, base round trip, packet size, longest queue."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from testbed.plan.framing import Framing, framing
from testbed.plan.model import JobPlan, Plan, Switching
from testbed.plan.paths import Paths, RankPaths
from testbed.plan.sums import SumPaths
from testbed.plan.timing import BITS_NS, base_rtt_ns
from testbed.spec.model import TransportSpec
from testbed.topology.graph import Graph, Link
from testbed.transport.endpoint import Path
from testbed.wire.ethernet import ETHERNET_BYTES, UDP_MOST_BYTES, WIRE_BYTES

UDP_MOST_SEGMENTS = 64  # Linux UDP_MAX_SEGMENTS (128 since 6.9)
_BURST_SHARE_OF_ECN = 4  # a burst arrives at once: at most a quarter of where marking begins
_LAST_QUEUES = 2  # as in netcore/buffer.c


def network_of(
    ranks: RankPaths, transport: TransportSpec, switching: Switching, sums: SumPaths | None = None
) -> tuple[Path, Framing]:
    """The path that the transport may know of, in model time, and its framing on it; raises ParameterError.

    sums: the ways up and down the job's tree, where switches add up.
    """

    def round_trip_ns(first: Framing) -> int:
        if sums is not None:
            return sums.round_trip_ns(first.full_bytes)
        return base_rtt_ns(ranks, first.full_bytes, first.ack_bytes)

    return network_by(ranks.graph, ranks.placement, transport, switching, round_trip_ns)


def network_by(
    graph: Graph,
    placement: Sequence[str],
    transport: TransportSpec,
    switching: Switching,
    round_trip_ns: Callable[[Framing], int],
) -> tuple[Path, Framing]:
    """The same where the base round trip of a full packet and its acknowledgement is found in one's own way."""
    mtu_bytes = min(link.parameters.mtu_bytes for link in graph.links)
    path = Path(
        rate_bps=min(graph.links_from(host)[0].parameters.rate_bps for host in placement),
        base_rtt_ns=1,
        mtu_bytes=mtu_bytes,
        max_burst_packets=_burst_packets(graph, mtu_bytes),
        queueing_ns=_queueing_ns(graph, switching),
    )
    first = framing(transport, path)  # the packet's size does not depend on the round trip, which depends on it
    path = replace(path, base_rtt_ns=max(1, round_trip_ns(first)))
    return path, framing(transport, path)


def endpoint_path(plan: Plan, job: JobPlan) -> Path:
    """The path that a job's transport may know of."""
    if plan.spec.fidelity == "message":  # whose plan has no entries to walk
        rtt_ns = job.prediction.base_rtt_ns
        placement = job.placement or plan.graph.hosts
        return network_by(plan.graph, placement, job.spec.transport, plan.switching, lambda _: rtt_ns)[0]
    sums = SumPaths(plan.graph, job.aggregation, job.placement) if job.aggregation else None
    return network_of(rank_paths(plan, job), job.spec.transport, plan.switching, sums)[0]


def rank_paths(plan: Plan, job: JobPlan) -> RankPaths:
    """The paths between a job's ranks; where it has none, between all hosts."""
    paths = Paths(plan.graph, plan.addresses, plan.switches)
    return RankPaths(plan.graph, paths, job.placement or plan.graph.hosts)


def _burst_packets(graph: Graph, mtu_bytes: int) -> int:
    frame_bytes = mtu_bytes + ETHERNET_BYTES + WIRE_BYTES
    marked = [link.parameters.ecn.min_bytes for link in graph.links if link.parameters.ecn]
    least = min((bytes_ // _BURST_SHARE_OF_ECN // frame_bytes for bytes_ in marked), default=UDP_MOST_SEGMENTS)
    return max(1, min(least, UDP_MOST_BYTES // mtu_bytes, UDP_MOST_SEGMENTS))


def _queueing_ns(graph: Graph, switching: Switching) -> int:
    """How long the queue of a switch's port that takes longest to drain, when full, takes."""
    links = [link for link in graph.links if graph.nodes[link.source].kind == "switch"]
    return max(
        (longest_queue_bytes(link, switching) + _headers_bytes(link, switching)) * BITS_NS // link.parameters.rate_bps
        for link in links
    )


def longest_queue_bytes(link: Link, switching: Switching) -> int:
    """What may wait for a link. With a shared buffer what one queue alone comes to: alpha / (1 + alpha) of it
    (Choudhury and Hahne, 1998).
    """
    switch = switching.native.get(link.source)
    if switch is None or switch.buffer is None:
        return link.parameters.queue_bytes
    return int(switch.buffer.shared_bytes * switch.buffer.alpha / (1 + switch.buffer.alpha))


def _headers_bytes(link: Link, switching: Switching) -> int:
    """What may wait besides, and goes first, where switches cut packets; of a shared buffer it is little more."""
    switch = switching.native.get(link.source)
    cuts = switch is not None and switch.trim_bytes and switch.buffer is None
    return _LAST_QUEUES * link.parameters.queue_bytes if cuts else 0
