"""Carries out the spec's timed faults: at each one's instant, by whoever owns the thing that fails."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import PurePath

from testbed.emulation.network import EmulatedNetwork
from testbed.plan.aggregation import cables as cables_of
from testbed.plan.aggregation import waits_for_all
from testbed.plan.model import JobPlan
from testbed.results.samples import SwapSample
from testbed.run.conductor import Conductor
from testbed.stress.draws import TimedFault, Upcoming, cut_for_good, places

_NS = 1e9
_LOST_S, _LOST_RTTS = 2.0, 64  # real seconds and model round trips in which a job without a member may still end


class FaultTimeline:
    """The faults of one run, in order of time; started at the release of the first measured iteration.

    in_warmup: the `link-set`s that strike before that too, as if warm-up began at zero.
    """

    def __init__(
        self,
        faults: Iterable[TimedFault],
        network: EmulatedNetwork,
        conductor: Conductor,
        record: Callable[..., None],
        in_warmup: Iterable[TimedFault] = (),
    ) -> None:
        self._faults = faults
        self._in_warmup = in_warmup
        self._upcoming = Upcoming(())
        self._changed: set[int] = set()  # links
        self._network = network
        self._conductor = conductor
        self._record = record
        self.swaps: list[SwapSample] = []
        self._zero_ns: int | None = None
        self._dilation = network.plan.dilation

    def warm_up(self, now_ns: int) -> None:
        """Warm-up begins. now_ns: CLOCK_MONOTONIC."""
        self._follow(self._in_warmup, now_ns)

    def start(self, zero_ns: int) -> None:
        """Links are as the spec has them, and faults begin. zero_ns: CLOCK_MONOTONIC at model time zero."""
        for index in sorted(self._changed):
            self._network.set_link(index, self._network.plan.graph.links[index].parameters)
        self._follow(self._faults, zero_ns)

    def _follow(self, faults: Iterable[TimedFault], zero_ns: int) -> None:
        self._upcoming = Upcoming(faults)
        self._zero_ns = zero_ns
        self._conductor.due = self.due
        self._conductor.on_due = self.carry_out

    def due(self) -> float:
        """Real seconds until the next fault."""
        at_ns = self._upcoming.at_ns
        if self._zero_ns is None or at_ns is None:
            return float("inf")
        return (self._zero_ns + at_ns * self._dilation - time.monotonic_ns()) / _NS

    def carry_out(self) -> None:
        """Do what is due."""
        while self.due() <= 0:
            fault = self._upcoming.pop()
            self._do(fault)
            assert self._zero_ns is not None
            late_ns = (time.monotonic_ns() - self._zero_ns) // self._dilation - fault.at_ns
            self._record(
                "fault", fault=fault.kind, at_ns=fault.at_ns, late_ns=late_ns, where=places(self._network.plan, fault)
            )

    def _do(self, fault: TimedFault) -> None:
        if fault.kind == "kill":
            for rank in set(fault.workers) - self._conductor.planned_deaths:
                self._conductor.planned_deaths.add(rank)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._conductor.ranks[rank].hello["pid"], signal.SIGKILL)
                self._lose(rank)
        elif fault.kind == "link-down":
            for cable in fault.cables:
                self._network.link_down(cable)
            self._lose_ways(fault)
        elif fault.kind == "link-up":
            for cable in fault.cables:
                self._network.link_up(cable)
        elif fault.kind == "link-set":
            for index, parameters in fault.parameters.items():
                self._network.set_link(index, parameters)
                self._changed.add(index)
        else:
            for switch in fault.switches:
                self._swap(switch, fault)

    def _lose(self, rank: int) -> None:
        """A rank was killed: sums that its job's switches add up lack it from now on."""
        plan = self._network.plan
        for job in plan.jobs:
            if rank in job.numbers and waits_for_all(job):
                who = f"{plan.called(rank)} on {plan.placement[rank]}"
                self._end(job, f"{who} was killed (a fault of the spec), and sums need its contribution")

    def _lose_ways(self, fault: TimedFault) -> None:
        """Cables were cut: where they stay so, sums cannot go round them."""
        plan = self._network.plan
        cut = set(fault.cables) & cut_for_good(plan, fault.at_ns)
        for job in plan.jobs:
            if job.aggregation is None or not waits_for_all(job):
                continue
            for cable in sorted(cables_of(plan.graph, job.aggregation, job.hosts) & cut):
                name = plan.graph.links[2 * cable].name.replace(">", "-")
                self._end(job, f"{name} was cut for good (a fault of the spec), and sums go by it")

    def _end(self, job: JobPlan, why: str) -> None:
        grace_s = _LOST_S + _LOST_RTTS * job.prediction.base_rtt_ns * self._dilation / _NS
        self._conductor.lose(job.numbers, why, grace_s)

    def _swap(self, switch: str, fault: TimedFault) -> None:
        swapped = self._network.swap(
            switch, fault.program, fault.entries, keep_registers=fault.keep_registers, foreseen=True
        )
        blackout_ns = swapped.blackout_ns // self._dilation
        program = PurePath(fault.program).stem
        sample = SwapSample(fault.at_ns, switch, program, blackout_ns, swapped.kept, swapped.reset)
        self.swaps.append(sample)
        self._record("swap", **asdict(sample))
