"""From the plan to what the ranks are made of: what they share, made once, and each rank's own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed import transport
from testbed.codec.layers import CodedLayers
from testbed.collective.program import Program, programs
from testbed.collective.schedule import Schedule
from testbed.errors import UsageError
from testbed.plan.model import Aggregation, JobPlan, Plan
from testbed.plan.network import endpoint_path
from testbed.plan.predict import buffers, layers, schedule_of
from testbed.run.channel import Channel
from testbed.spec.model import WorkloadSpec
from testbed.stress.tail_drop import with_tail_drops
from testbed.training import gradient_source
from testbed.training.source import GradientSource
from testbed.transport.aggregation import AGGREGATOR, Member
from testbed.transport.endpoint import Endpoint, Path
from testbed.transport.framing import of_aggregation
from testbed.worker.clock import ModelClock
from testbed.worker.command import CommandRank, command_line, environment
from testbed.worker.frames import frames_of
from testbed.worker.iteration import Iteration
from testbed.worker.loop import Loop, Server
from testbed.worker.memory import SharedInputs
from testbed.worker.nic import Nic, SumNic
from testbed.worker.operation import Announcer
from testbed.worker.probe import Prober
from testbed.worker.rank import Begin, Driver, Happened, Rank
from testbed.worker.sums import SumIteration
from testbed.worker.tcp import TcpCarrier
from testbed.worker.workload import Workload

Numbers = npt.NDArray[Any]
MakeServer = Callable[[Channel, Loop], Server]


@dataclass(frozen=True, slots=True)
class Shared:
    """What the ranks of a job share. `run` is the run's id, for the user's own program."""

    plan: Plan
    job: JobPlan
    run: str
    clock: ModelClock
    path: Path
    addresses: tuple[str, ...]
    schedule: Schedule | None  # None: the network sums up, or the workload is a command
    layers: tuple[int, ...]  # elements, as they are coded; none: the workload is a command
    coding: CodedLayers | None  # None: gradients move as they are
    programs: tuple[tuple[Program, ...], ...]  # by layer and rank; none where there is no schedule
    inputs: SharedInputs
    sources: tuple[GradientSource, ...]  # by rank
    blank: Numbers | None  # without numbers: the buffer of every rank
    sink: Numbers | None  # and where all that they receive lands

    def buffer(self) -> Numbers:
        """What a rank reduces in place, all layers end to end."""
        return np.empty(sum(self.layers), self.inputs.dtype) if self.blank is None else self.blank


def share(plan: Plan, job: JobPlan, run: str, clock: ModelClock) -> Shared:
    """Do once what would cost every rank the same; raises UsageError if the job has no workload."""
    workload = job.spec.workload
    if workload is None:
        raise UsageError("the plan has no workload")
    ranks = len(job.placement)
    plain, wire = (layers(workload), buffers(workload)) if workload.kind == "collective" else ([], [])
    elements, coded = (tuple(each for each, _ in found) for found in (plain, wire))
    codec = workload.coded_by if workload.numeric else None
    schedule = schedule_of(job.spec)
    parts = tuple(programs(schedule, each) for each in coded) if schedule else ()
    blank = None if workload.numeric else np.zeros(sum(coded), workload.dtype)
    longest = max((part.longest_receive for each in parts for part in each), default=0)
    return Shared(
        plan=plan,
        job=job,
        run=run,
        clock=clock,
        path=endpoint_path(plan, job),
        addresses=tuple(plan.addresses[host].ip for host in job.placement),
        schedule=schedule,
        layers=coded,
        coding=None if codec is None else CodedLayers(codec, elements, job.seed),
        programs=parts,
        inputs=SharedInputs(ranks, sum(elements) if workload.numeric else 0, workload.dtype),
        sources=tuple(_source(job, workload, rank) for rank in range(ranks)) if coded else (),
        blank=blank,
        sink=None if blank is None else np.zeros(longest, workload.dtype),
    )


def _source(job: JobPlan, workload: WorkloadSpec, rank: int) -> GradientSource:
    return gradient_source(
        workload.gradients,
        rank=rank,
        ranks=len(job.placement),
        seed=job.seed,
        dtype=workload.dtype,
        size_bytes=workload.size_bytes,
    )


class Sockets:
    """The sockets of one rank, opened before it says hello, so that all ranks can be reached once all have."""

    def __init__(self, shared: Shared, rank: int) -> None:
        self.shared = shared
        self.rank = rank
        self.prober = Prober(rank, shared.addresses, shared.path.max_burst_packets, shared.clock)
        if shared.schedule is not None:
            self._server = self._messages(shared.schedule)
        elif shared.job.aggregation is not None and shared.layers:
            self._server = self._sums(shared.job.aggregation)
        else:
            self._server = self._command

    def serve(self, channel: Channel) -> None:
        """Serve the run and the other ranks until the run says `exit` or goes away."""
        loop = Loop(self.shared.clock.monotonic)
        loop.add(self._server(channel, loop))
        loop.add(self.prober)
        loop.run()

    def _messages(self, schedule: Schedule) -> MakeServer:
        """A rank that exchanges messages with others."""
        shared, job = self.shared, self.shared.job
        mine = [part[self.rank] for part in shared.programs]
        driver: Nic | TcpCarrier
        endpoint: Endpoint | None = None
        settings, kind = transport.settle(job.spec.transport, shared.path), transport.find(job.spec.transport.kind)
        if (make := kind.make) is None:
            peers = frozenset[int]().union(*(each.peers for each in mine))
            driver = TcpCarrier(self.rank, shared.addresses, peers, str(settings.values["control"]))
        else:
            peers_of = transport.queue_pairs(len(shared.addresses))
            made = make(shared.path, self.rank, peers_of, settings, job.seed)
            endpoint = with_tail_drops(made, shared.plan.spec.faults, job.seed, job=job.name, rank=self.rank)
            others = {rank: ip for rank, ip in enumerate(shared.addresses) if rank != self.rank}
            frames = frames_of(kind.framing, self._number)
            driver = Nic(self._ip, others, endpoint, frames, shared.path, shared.clock, early=kind.early)
        tags, fill = sum(each.tags for each in mine), kind.fill if kind.lossy else None
        warmup = job.spec.workload.warmup if job.spec.workload else 0
        announcer = Announcer(endpoint, mine, warmup, shared.sources[self.rank].metrics)

        def begin(number: int, buffers: Sequence[Numbers], delays: Mapping[int, int]) -> Iteration:
            told = announcer.of(number, number * tags, buffers[0].dtype)
            return Iteration(mine, buffers, driver, number * tags, delays, shared.sink, fill, told)

        return partial(self._collective, driver, begin, schedule.steps)

    def _sums(self, tree: Aggregation) -> MakeServer:
        """A rank whose buffers the network sums up."""
        shared, job = self.shared, self.shared.job
        make = transport.find(job.spec.transport.kind).reduce
        assert make
        settings = transport.settle(job.spec.transport, shared.path)
        _, index = tree.place_of(job.placement[self.rank])
        endpoint = make(shared.path, Member(tree.number, index, len(job.placement)), settings)
        frames = frames_of(of_aggregation(str(settings.values["framing"])), self._number)
        aggregator = {AGGREGATOR: tree.address.ip}
        driver = SumNic(self._ip, aggregator, endpoint, frames, shared.path, shared.clock)

        def begin(number: int, buffers: Sequence[Numbers], delays: Mapping[int, int]) -> SumIteration:
            return SumIteration(buffers, driver, number * len(buffers), delays)

        return partial(self._collective, driver, begin, 1)

    def _collective(
        self, driver: Driver[Happened], begin: Begin[Happened], steps: int, channel: Channel, loop: Loop
    ) -> Rank[Happened]:
        shared, rank, job = self.shared, self.rank, self.shared.job
        assert job.spec.workload
        source = shared.sources[rank]
        return Rank(
            rank,
            channel=channel,
            driver=driver,
            prober=self.prober,
            buffer=shared.buffer(),
            layers=shared.layers,
            begin=begin,
            workload=Workload(
                shared.plan.spec.faults, job, job.spec.workload, source, steps, rank, coding=shared.coding
            ),
            inputs=shared.inputs,
            clock=shared.clock,
            loop=loop,
        )

    def _command(self, channel: Channel, loop: Loop) -> CommandRank:
        shared, workload = self.shared, self.shared.job.spec.workload
        assert workload
        return CommandRank(
            self.rank,
            shared.job.called(self.rank),
            channel=channel,
            prober=self.prober,
            argv=command_line(workload.command or ()),
            variables=environment(self.rank, len(shared.addresses), shared.addresses[0], shared.run),
            clock=shared.clock,
            loop=loop,
        )

    @property
    def _ip(self) -> str:
        return self.shared.addresses[self.rank]

    @property
    def _number(self) -> int:
        return int(IPv4Address(self._ip))
