"""The books of a simulated run's measured part: counters when it begins and when it ends, and what lies between."""

from collections.abc import Iterable, Mapping
from typing import Any

from testbed.fabric.counters import SwitchCounters
from testbed.fabric.links import LinkCounters
from testbed.plan.model import JobPlan
from testbed.results.samples import LinkRow, SwitchRow
from testbed.run.counting import (
    JobCounters,
    JobTally,
    Tally,
    in_order,
    job_tally,
    link_rows,
    native_rows,
    risen,
)
from testbed.run.losses import describe_losses, describe_pauses
from testbed.simulation.job import SimulatedJob
from testbed.simulation.network import SimulatedNetwork

Counted = Mapping[int, dict[str, Any]]  # rank's number -> its counters, as `testbed.run.counting` takes them


class Books:
    """One run's counters."""

    def __init__(self, network: SimulatedNetwork, jobs: Mapping[str, SimulatedJob]) -> None:
        self._network = network
        self._plan = network.plan
        self._jobs = jobs
        self._links: Mapping[int, LinkCounters] = {}
        self._drops: dict[str, int] = {}
        self._programs: tuple[SwitchCounters, ...] = ()
        self._before: dict[str, tuple[JobCounters, Counted]] = {}

    def open(self) -> None:
        """The network is empty: what is counted from here on is the measured part."""
        self._programs = self._network.switch_counters()
        self._links = self._network.link_counters()
        self._before = {name: self._counters_of(number, job) for number, (name, job) in enumerate(self._jobs.items())}
        self._drops = self._network.unmodelled_drops()
        self._network.fabric.mark()

    def close(self) -> Tally:
        """The sums of the measured part."""
        tally = Tally(links=self._link_rows(), switches=self._switch_rows(self._network.switch_counters()))
        tally.unmodelled_drops = self._drops_elsewhere()
        tally.jobs = {name: self._of_job(number, job) for number, (name, job) in enumerate(self._jobs.items())}
        return tally

    def close_early(self) -> tuple[Tally, str]:
        """What links and switches did of a run that failed; and what of it may say why."""
        programs = self._network.switch_counters()
        tally = Tally(links=self._link_rows(), switches=self._switch_rows(programs))
        told = (
            describe_losses(self._plan, tally.links, (), self._programs, programs, self._drops_elsewhere()),
            describe_pauses(self._plan, self._network.fabric.pauses()),
            *self._network.fabric.waiting(),
        )
        return tally, "; ".join(filter(None, told))

    def _counters_of(self, number: int, job: SimulatedJob) -> tuple[JobCounters, Counted]:
        """Of a job, and of its ranks."""
        of_job = JobCounters(self._network.link_counters(number), self._network.switch_counters(number))
        return of_job, job.counters()

    def _of_job(self, number: int, job: SimulatedJob) -> JobTally:
        (before, ranks_before), (after, ranks_after) = self._before[job.plan.name], self._counters_of(number, job)
        return job_tally(
            self._plan,
            job.plan,
            before,
            after,
            {},
            risen(ranks_before, ranks_after),
            job.rows,
            at_hosts=_counted_at_hosts(job.plan, job),
            in_flight=self._network.in_flight(number),
        )

    def _link_rows(self) -> tuple[LinkRow, ...]:
        return link_rows(self._plan, self._links, self._network.link_counters(), {})

    def _switch_rows(self, programs: Iterable[SwitchCounters]) -> tuple[SwitchRow, ...]:
        rows = native_rows(programs, self._network.link_counters(), self._plan.graph)
        return in_order(rows)

    def _drops_elsewhere(self) -> dict[str, int]:
        """Place -> packets lost outside all queues."""
        risen_by = {where: n - self._drops.get(where, 0) for where, n in self._network.unmodelled_drops().items()}
        return {where: n for where, n in risen_by.items() if n}


def _counted_at_hosts(plan: JobPlan, job: SimulatedJob) -> bool:
    """Whether hosts' own links count the job's packets, because some ranks are dead, or a server sends too."""
    return job.some_dead or (plan.aggregation is not None and plan.aggregation.server is not None)
