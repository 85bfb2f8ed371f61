"""What the plan expects of a run before it runs: packets, packet-hops, the base round trip and the bound."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from testbed import collective
from testbed.codec import coded_elements
from testbed.collective.schedule import Schedule
from testbed.plan.bound import bound_ns
from testbed.plan.framing import Framing
from testbed.plan.messages import Buffer, kinds, messages
from testbed.plan.model import Aggregation, Prediction, Switching, SwitchingKind
from testbed.plan.network import network_of
from testbed.plan.paths import RankPaths
from testbed.plan.sums import Packets, SumPaths
from testbed.plan.timing import StageTimes
from testbed.spec.model import JobSpec, TrafficSpec, TransportSpec, WorkloadSpec
from testbed.stress.arrivals import FlowSource, flow_sources
from testbed.training import buffer_elements
from testbed.transport import loses, reduces, settle
from testbed.transport.aggregation import rounds
from testbed.transport.aggregation.passage import packets as averaged_packets
from testbed.transport.parameters import Value
from testbed.wire.aggregation import VALUE_BYTES
from testbed.wire.ethernet import ETHERNET_BYTES, TCP_HEADERS_BYTES, UDP_WIRE_BYTES, WIRE_BYTES

DTYPE_BYTES = {"float32": 4, "float16": 2, "int32": 4}
_HOST_LINKS = 2  # of a path: the sender's and the receiver's
_NS = 10**9


def schedule_of(job: JobSpec) -> Schedule | None:
    """The schedule of a job's workload; None for a command, or where switches add up. Raises UsageError."""
    if job.workload is None or job.workers is None or job.workload.kind != "collective" or reduces(job.transport):
        return None
    work = job.workload
    return collective.generate(
        work.collective, work.algorithm_name, job.workers.count, work.root, work.algorithm_parameters
    )


def algorithm_of(workload: WorkloadSpec, transport: TransportSpec) -> str:
    """What a collective is done by: what the spec says, or what goes with its transport and the collective."""
    if reduces(transport):
        return collective.IN_NETWORK
    return workload.algorithm_name or collective.DEFAULTS[workload.collective]


def buffers(workload: WorkloadSpec) -> list[Buffer]:
    """What one iteration moves: the layers, as they are coded."""
    return [
        (coded_elements(workload.coded_by, elements), element_bytes) for elements, element_bytes in layers(workload)
    ]


def layers(workload: WorkloadSpec) -> list[Buffer]:
    """What one iteration is about: one buffer of `size`, or of gradients with a size of their own one a layer."""
    element_bytes = DTYPE_BYTES[workload.dtype]
    if workload.size_bytes is not None:
        return [(workload.size_bytes // element_bytes, element_bytes)]
    return [(elements, element_bytes) for elements in buffer_elements(workload.gradients)]


def predict(job: JobSpec, ranks: RankPaths, switching: Switching, tree: Aggregation | None = None) -> Prediction:
    """Of one job alone; `tree`: where switches add up for it.

    A command is taken to send full packets at its NIC's rate, to all other ranks alike.
    """
    sums = SumPaths(ranks.graph, tree, ranks.placement) if tree else None
    path, framing = network_of(ranks, job.transport, switching, sums)
    load = _Load(ranks, switching.kind)
    packets, hops, bound, rate = 0, 0, 0, 0.0
    schedule = schedule_of(job)
    if tree is not None and sums is not None and job.workload is not None and job.workload.kind == "collective":
        block = settle(job.transport, path).values["block"] if loses(job.transport) else None
        each = summed_packets(job.workload, framing, tree, block)
        # There, and the sums back; with a server at the least one packet a chunk to it and one from it.
        packets = 2 * each.count * (len(ranks.placement) + (tree.server is not None))
        hops = packets if switching.kind == "native" else 2 * each.count * sums.hops
        bound = sums.bound_ns(each)
        rate = hops * _NS / bound
    elif schedule is not None and job.workload is not None:
        work = buffers(job.workload)
        packets, hops = load.of_schedule(schedule, work, framing)
        bound = bound_ns(ranks, framing, schedule, work)
        rate = hops * _NS / bound if bound else 0.0
        if schedule.incast:
            rate = max([rate, *load.of_incasts(schedule, work, framing)])
    elif job.workload is not None:
        rate = sum(load.of_nic(rank) for rank in range(len(ranks.placement)))
    return Prediction(path.base_rtt_ns, bound, packets, hops, rate)


def summed_packets(workload: WorkloadSpec, framing: Framing, tree: Aggregation, block: Value | None = None) -> Packets:
    """What each worker sends for the buffers of one iteration, without retransmissions.

    block: chunks with one scale, where units average.
    """
    floats = workload.dtype != "int32"
    if block is not None:
        each = [averaged_packets(elements, tree.values, int(block)) for elements, _ in buffers(workload)]
    else:
        each = [rounds(elements, tree.values, tree.slots, floats=floats) for elements, _ in buffers(workload)]
    chunks, exponents = (sum(part) for part in zip(*each, strict=True))
    return Packets(chunks, framing.full_bytes, exponents, framing.full_bytes - VALUE_BYTES * tree.values)


def predict_all(
    jobs: Sequence[Prediction], traffic: Sequence[TrafficSpec], ranks: RankPaths, switching: Switching
) -> Prediction:
    """Of all jobs together, with the background traffic; `ranks`: any."""
    load = _Load(ranks, switching.kind)
    return Prediction(
        base_rtt_ns=max(job.base_rtt_ns for job in jobs),
        bound_ns=max(job.bound_ns for job in jobs),
        packets_per_iteration=sum(job.packets_per_iteration for job in jobs),
        packet_hops_per_iteration=sum(job.packet_hops_per_iteration for job in jobs),
        packet_hops_per_s=sum(job.packet_hops_per_s for job in jobs)
        + sum(load.of_background(each) for each in traffic),
    )


class _Pace:
    """Packet-hops at ports that work side by side, and how long the busiest is at it."""

    def __init__(self) -> None:
        self._busy: dict[int, float] = defaultdict(float)  # by rank, in bytes over bits a second
        self._hops = 0

    def add(self, rank: int, busy: float, hops: int) -> None:
        self._busy[rank] += busy
        self._hops += hops

    @property
    def busiest(self) -> float:
        return max(self._busy.values())

    def hops_per_s(self, at_least: float = 0.0) -> float:
        """Where it takes at least as long."""
        return self._hops / (8 * max(self.busiest, at_least))


class _Load:
    """Packet-hops: wire packets times the links they cross, but for those between native switches, which are memory."""

    def __init__(self, ranks: RankPaths, switching: SwitchingKind) -> None:
        self._ranks = ranks
        self._times = StageTimes(ranks.graph)
        self._switching = switching

    def of_schedule(self, schedule: Schedule, work: Sequence[Buffer], framing: Framing) -> tuple[int, int]:
        """Wire packets of one iteration, data and acknowledgements, and their packet-hops."""
        packets, hops = 0, 0
        for (source, target, size_bytes), count in messages(schedule, work):
            data, acks = count * framing.packets(size_bytes), count * framing.acknowledgements(size_bytes)
            packets += data + acks
            hops += data * self._between(source, target) + acks * self._between(target, source)
        return packets, hops

    def of_incasts(self, schedule: Schedule, work: Sequence[Buffer], framing: Framing) -> Iterator[float]:
        """Packet-hops a second of each step in which ranks may send to one port together.

        They do not wait for it: n senders offer n times its rate, each until it has sent its share (and again, if that
        was lost), on all links but the last. That one and the acknowledgements go at the port's pace.
        """
        for rows, found, kind in (kinds(schedule, buffer) for buffer in work):
            for step in np.unique(rows["step"]):
                offered = _Pace()
                taken = _Pace()
                for number, count in Counter(kind[rows["step"] == step].tolist()).items():
                    source, target, size_bytes = found[number]
                    data, bytes_ = count * framing.packets(size_bytes), count * framing.wire_bytes(size_bytes)
                    acks = count * framing.acknowledgements(size_bytes) * self._between(target, source)
                    rates_bps = self._times.fastest(self._ranks.stages(source, target)).rates_bps
                    offered.add(source, bytes_ / rates_bps[0], data * (self._between(source, target) - 1))
                    taken.add(target, bytes_ / rates_bps[-1], data + acks)
                yield offered.hops_per_s() + taken.hops_per_s(offered.busiest)

    def of_nic(self, rank: int) -> float:
        """Packet-hops a second of a rank that sends full packets to all others at its NIC's rate."""
        up = self._ranks.graph.links_from(self._ranks.placement[rank])[0].parameters
        packets_per_s = up.rate_bps / 8 / (up.mtu_bytes + ETHERNET_BYTES + WIRE_BYTES)
        lengths = [self._between(rank, other) for other in range(len(self._ranks.placement)) if other != rank]
        return packets_per_s * sum(lengths) / max(1, len(lengths))

    def of_background(self, traffic: TrafficSpec) -> float:
        """Packet-hops a second of one entry of `traffic`, of an incast while it repeats, of flows on average."""
        if traffic.kind == "flows":
            return sum(map(self._of_flows, flow_sources((traffic,), self._ranks.graph)))
        (target,) = traffic.targets
        packet_bits = 8 * (traffic.packet_bytes + UDP_WIRE_BYTES)
        if traffic.rate_bps is not None:
            packets_per_s = traffic.rate_bps / packet_bits
        elif traffic.size_bytes is not None and traffic.every_ns:
            packets_per_s = -(-traffic.size_bytes // traffic.packet_bytes) * _NS / traffic.every_ns
        else:
            packets_per_s = 0.0
        stages = (self._ranks.paths.stages(source, target) for source in traffic.sources)
        return packets_per_s * sum(self._counted(len(each)) for each in stages)

    def _of_flows(self, source: FlowSource) -> float:
        """Full segments there, each with an acknowledgement back, to all targets alike."""
        mtu_bytes = min(link.parameters.mtu_bytes for link in self._ranks.graph.links)
        segment_bytes = mtu_bytes - (TCP_HEADERS_BYTES - ETHERNET_BYTES)
        packets_per_s = max(1.0, source.mean_bytes / segment_bytes) * _NS / source.gap_ns
        stages = self._ranks.paths.stages
        lengths = [
            self._counted(len(stages(source.host, target))) + self._counted(len(stages(target, source.host)))
            for target in source.targets
        ]
        return packets_per_s * sum(lengths) / len(lengths)

    def _between(self, source: int, target: int) -> int:
        return self._counted(len(self._ranks.stages(source, target)))

    def _counted(self, links: int) -> int:
        return min(links, _HOST_LINKS) if self._switching == "native" else links
