"""The books of the measured part: all counters, read when it begins and when it ends; what must balance in between."""

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from testbed.emulation.drops import CHECKSUM_WRONG, PORT_WITHOUT_LISTENER
from testbed.emulation.network import EmulatedNetwork
from testbed.errors import RunFailed
from testbed.fabric.counters import SwitchCounters
from testbed.fabric.links import LinkCounters
from testbed.plan.model import JobPlan
from testbed.results.samples import LinkRow, SwitchRow
from testbed.routing.model import MISS
from testbed.run.channel import Channel, Message
from testbed.run.conductor import Conductor
from testbed.run.counting import (
    JobCounters,
    JobTally,
    Tally,
    in_order,
    job_tally,
    link_rows,
    native_rows,
    peak,
    risen,
    strayed,
)
from testbed.run.iterations import Measured
from testbed.run.losses import describe_losses, describe_pauses
from testbed.transport import find
from testbed.transport.framing import ROCE

_QUIESCE_LIMIT_S = 10.0
_QUIESCE_POLL_S = 0.02
_COUNTERS_LIMIT_S = 10.0
_NS = 1e9


class Books:
    """One run's counters."""

    def __init__(self, network: EmulatedNetwork, conductor: Conductor) -> None:
        self._network = network
        self._plan = network.plan
        self._conductor = conductor
        self._links: dict[int, LinkCounters] = {}
        self._drops: dict[str, int] = {}
        self._switches: tuple[SwitchRow, ...] = ()
        self._programs: tuple[SwitchCounters, ...] = ()
        self._jobs: dict[str, JobCounters] = {}
        self._late: dict[str, tuple[int, str]] = {}  # by job: the worst since it last asked
        self._peaks: dict[int, LinkCounters] = {}  # each link's gauges, the highest of all iterations

    def open(self) -> None:
        """The network is empty: what is counted from here on is the measured part."""
        self._programs = self._network.switch_counters()
        self._switches = self._rows_or_loss(self._programs)
        self._links = dict(self._network.link_counters())
        self._jobs = {job.name: self._counters_of(number) for number, job in enumerate(self._plan.jobs)}
        self._drops = self._network.host_drops()
        self._late, self._peaks = {}, {}
        self._network.mark()

    def link_lateness(self, job: str) -> tuple[int | None, str]:
        """The worst p99 since a job last asked, in model time, of the links that end at its hosts, and the link's name.

        What comes late out of a link into a switch counts only as far as the links after it do not make up for it.
        """
        now = self._network.link_counters(mark=True)
        self._peaks = {index: peak(self._peaks.get(index), counters) for index, counters in now.items()}
        ends = {link.target: link for link in self._plan.graph.links if link.index in now}
        for each in self._plan.jobs:
            for link in (ends[host] for host in each.placement if host in ends):
                late_ns = now[link.index].late_p99_ns
                if late_ns is not None:
                    late = late_ns // self._plan.dilation, link.name
                    self._late[each.name] = max(self._late.get(each.name, late), late)
        return self._late.pop(job, (None, ""))

    def quiesce(self) -> None:
        """Wait until nothing of any job is under way: twice nothing is inside, and nothing was delivered in between."""
        last: tuple[int, int] | None = None

        def still() -> bool:
            nonlocal last
            time.sleep(_QUIESCE_POLL_S)
            delivered = sum(counters.job_packets for counters in self._network.link_counters().values())
            before, last = last, (self._network.in_flight(), delivered)
            return last[0] == 0 and last == before

        longest_s = _QUIESCE_LIMIT_S + 4 * self._plan.prediction.base_rtt_ns * self._plan.dilation / _NS
        self._conductor.until(still, lambda: f"{self._network.in_flight()} packets stay in the network", longest_s)

    def close(self, measured: Mapping[str, Measured]) -> Tally:
        """The sums of the measured part; `measured`: by job."""
        plan, programs = self._plan, self._network.switch_counters()
        tally = Tally(links=self._link_rows(), switches=self._rows_or_loss(programs))
        lost = self._lost_at_hosts()
        tally.unmodelled_drops = self._drops_elsewhere(tally.links, lost)
        dropped = [row.dropped for row in self._flows(tally.switches)]
        missed = sum(row.dropped for row in self._flows(tally.switches) if row.name == MISS)
        if missed:
            tally.unmodelled_drops["switches without a matching flow"] = missed
        # Native switches tell each job's own drops; Open vSwitch does not tell whose packets it dropped.
        unreachable = 0 if plan.spec.traffic or programs or len(plan.jobs) > 1 else sum(dropped) - missed
        tally.jobs = {
            job.name: self._of_job(number, job, measured[job.name], unreachable, lost)
            for number, job in enumerate(plan.jobs)
        }
        return tally

    def _of_job(
        self, number: int, job: JobPlan, measured: Measured, unreachable: int, lost: Mapping[str, int]
    ) -> JobTally:
        ranks = risen(measured.before, measured.after)
        if _checked_by_kernel(job):
            corrupt = sum(lost.get(f"{host}: {CHECKSUM_WRONG}", 0) for host in job.hosts)
            ranks = {**ranks, "corrupt_packets": ranks.get("corrupt_packets", 0) + corrupt}
        return job_tally(
            self._plan,
            job,
            self._jobs[job.name],
            self._counters_of(number),
            self._peaks,
            ranks,
            measured.rows,
            at_hosts=self._counted_at_hosts(job),
            in_flight=self._network.in_flight(number),
            unreachable=unreachable,
        )

    def _counters_of(self, job: int) -> JobCounters:
        return JobCounters(self._network.link_counters(job), self._network.switch_counters(job))

    def close_early(self) -> tuple[Tally, str]:
        """What links and switches did in the measured part, or before it since the network is up, of a run that failed;
        and what of it may say why.
        """
        programs = self._network.switch_counters()
        tally = Tally(links=self._link_rows())
        with contextlib.suppress(RunFailed):  # then the links alone must do
            tally.switches = self._switch_rows(programs, Channel.request)
        told = (
            describe_losses(
                self._plan,
                tally.links,
                () if programs else self._flows(tally.switches),
                self._programs,
                programs,
                self._drops_elsewhere(tally.links, self._lost_at_hosts()),
            ),
            describe_pauses(self._plan, self._network.pauses()),
            *self._network.waiting(),
        )
        return tally, "; ".join(filter(None, told))

    def _link_rows(self) -> tuple[LinkRow, ...]:
        return link_rows(self._plan, self._links, self._network.link_counters(), self._peaks)

    def _flows(self, rows: Iterable[SwitchRow]) -> list[SwitchRow]:
        """Those of flows, with what they dropped since the books were opened."""
        before = {(row.switch, row.name): row.dropped for row in self._switches if row.kind == "flow"}
        return [
            replace(row, dropped=row.dropped - before.get((row.switch, row.name), 0))
            for row in rows
            if row.kind == "flow"
        ]

    def _lost_at_hosts(self) -> dict[str, int]:
        """Place -> packets lost outside all queues since the books were opened."""
        return {where: n - self._drops.get(where, 0) for where, n in self._network.host_drops().items()}

    def _drops_elsewhere(self, links: Iterable[LinkRow], lost: Mapping[str, int]) -> dict[str, int]:
        """Those of `lost` that nothing explains."""
        links = tuple(links)
        return {where: n for where, n in lost.items() if n and not self._expected(where, n, links)}

    def _counted_at_hosts(self, job: JobPlan) -> bool:
        """Whether hosts' own links count the job's packets, because ranks cannot, or some of them are dead."""
        command = job.spec.workload is not None and job.spec.workload.kind == "command"
        dead = not self._conductor.planned_deaths.isdisjoint(job.numbers)
        served = job.aggregation is not None and job.aggregation.server is not None
        mixed = _checked_by_kernel(job) and bool(self._plan.spec.traffic)  # whose damaged packets kernels drop too
        return command or served or job.spec.transport.kind == "tcp" or dead or mixed

    def _expected(self, where: str, count: int, links: Iterable[LinkRow]) -> bool:
        """Whether a loss is one that the spec asks for, or that the packets' balance holds already."""
        if CHECKSUM_WRONG in where:  # of background traffic: a job's corrupted packets have none, but for sums
            sums = any(_checked_by_kernel(job) for job in self._plan.jobs)
            return any(row.corrupted > (0 if sums else row.job_corrupted) for row in links)
        if PORT_WITHOUT_LISTENER not in where:
            return False
        host = where.partition(":")[0]
        hosts = self._plan.hosts
        copies = host not in hosts and count <= strayed(self._plan, hosts, links)[host]
        return copies or any(self._counted_at_hosts(job) for job in self._plan.jobs)

    def _rows_or_loss(self, native: tuple[SwitchCounters, ...]) -> tuple[SwitchRow, ...]:
        """The switches' rows; a controller that does not tell them is lost."""
        try:
            return self._switch_rows(native, self._conductor.ask)
        except RunFailed as error:
            self._conductor.lost.append(f"controller ({error.message})")
            return ()

    def _switch_rows(
        self, native: tuple[SwitchCounters, ...], ask: Callable[[Channel, Message, float], Message]
    ) -> tuple[SwitchRow, ...]:
        """Raises RunFailed where a controller has them and does not answer."""
        if native:
            return in_order(native_rows(native, self._network.link_counters(), self._plan.graph))
        controller = next((c for c in self._network.hub.channels if c.hello["hello"] == "controller"), None)
        if controller is None:
            return ()
        return in_order(SwitchRow(**row) for row in ask(controller, {"op": "counters"}, _COUNTERS_LIMIT_S)["rows"])


def _checked_by_kernel(job: JobPlan) -> bool:
    """Whether kernels throw away what is damaged: links take the UDP checksum away of RoCE's packets alone."""
    if job.aggregation is not None:
        return bool(job.spec.transport.parameters.get("framing", "udp") == "udp")
    transport = find(job.spec.transport.kind)
    return transport.make is not None and transport.framing.port != ROCE.port
