"""From the plan to what the ranks are made of: what they share, made once, and each rank's own."""

from dataclasses import dataclass
from ipaddress import IPv4Address

from testbed import transport
from testbed.collective.program import program
from testbed.collective.schedule import Schedule
from testbed.errors import UsageError
from testbed.plan.model import JobPlan, Plan
from testbed.plan.network import endpoint_path
from testbed.plan.predict import buffers, schedule_of
from testbed.run.channel import Channel
from testbed.spec.model import WorkloadSpec
from testbed.training import gradient_source
from testbed.training.source import GradientSource
from testbed.transport.endpoint import Path
from testbed.worker.clock import ModelClock
from testbed.worker.command import CommandRank, command_line, environment
from testbed.worker.frames import RoceFrames
from testbed.worker.loop import Loop
from testbed.worker.memory import SharedInputs
from testbed.worker.nic import Nic
from testbed.worker.probe import Prober
from testbed.worker.rank import Driver, Rank
from testbed.worker.tcp import TcpCarrier
from testbed.worker.workload import Workload


@dataclass(frozen=True, slots=True)
class Shared:
    """What the ranks of a job share. `run` is the run's id, for the user's own program."""

    plan: Plan
    job: JobPlan
    run: str
    clock: ModelClock
    path: Path
    addresses: tuple[str, ...]
    schedule: Schedule | None  # None: the workload is a command
    layers: tuple[int, ...]  # elements
    inputs: SharedInputs
    sources: tuple[GradientSource, ...]  # by rank


def share(plan: Plan, job: JobPlan, run: str, clock: ModelClock) -> Shared:
    """Do once what would cost every rank the same; raises UsageError if the job has no workload."""
    workload = job.spec.workload
    if workload is None:
        raise UsageError("the plan has no workload")
    ranks = len(job.placement)
    schedule = schedule_of(job.spec)
    layers = tuple(elements for elements, _ in buffers(workload)) if schedule else ()
    return Shared(
        plan=plan,
        job=job,
        run=run,
        clock=clock,
        path=endpoint_path(plan, job),
        addresses=tuple(plan.addresses[host].ip for host in job.placement),
        schedule=schedule,
        layers=layers,
        inputs=SharedInputs(ranks, sum(layers), workload.dtype),
        sources=tuple(_source(job, workload, rank) for rank in range(ranks)) if schedule else (),
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
        layers = shared.layers if shared.schedule else ()
        self.programs = [program(shared.schedule, rank, elements) for elements in layers if shared.schedule]
        self.driver = self._driver() if shared.schedule else None
        self.prober = Prober(rank, shared.addresses, shared.path.max_burst_packets, shared.clock)

    def _driver(self) -> Driver:
        shared, job = self.shared, self.shared.job
        make = transport.find(job.spec.transport.kind).make
        if make is None:
            peers = {operation.peer for program in self.programs for operation in program.operations}
            return TcpCarrier(self.rank, shared.addresses, peers)
        peers_of = transport.queue_pairs(len(shared.addresses))
        settings = transport.settle(job.spec.transport, shared.path)
        endpoint = make(shared.path, self.rank, peers_of, settings, job.seed)
        own = shared.addresses[self.rank]
        others = {rank: ip for rank, ip in enumerate(shared.addresses) if rank != self.rank}
        return Nic(own, others, endpoint, RoceFrames(int(IPv4Address(own))), shared.path, shared.clock)

    def serve(self, channel: Channel) -> None:
        """Serve the run and the other ranks until the run says `exit` or goes away."""
        shared, rank, workload = self.shared, self.rank, self.shared.job.spec.workload
        assert workload
        loop = Loop(shared.clock.monotonic)
        if self.driver and shared.schedule:
            work = Workload(
                shared.plan.spec.faults, shared.job, workload, shared.sources[rank], shared.schedule.steps, rank
            )
            loop.add(
                Rank(
                    rank,
                    channel=channel,
                    driver=self.driver,
                    prober=self.prober,
                    programs=self.programs,
                    workload=work,
                    inputs=shared.inputs,
                    clock=shared.clock,
                    loop=loop,
                )
            )
        else:
            loop.add(
                CommandRank(
                    rank,
                    channel=channel,
                    prober=self.prober,
                    argv=command_line(workload.command or ()),
                    variables=environment(rank, len(shared.addresses), shared.addresses[0], shared.run),
                    clock=shared.clock,
                    loop=loop,
                )
            )
        loop.add(self.prober)
        loop.run()
