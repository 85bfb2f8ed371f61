"""Carries out the spec's timed faults: at each one's instant, by whoever owns the thing that fails."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import PurePath

from testbed.emulation.network import EmulatedNetwork
from testbed.results.samples import SwapSample
from testbed.run.conductor import Conductor
from testbed.stress.draws import TimedFault

_NS = 1e9


class FaultTimeline:
    """The faults of one run in order of time; started at the release of the first measured iteration."""

    def __init__(
        self,
        faults: Sequence[TimedFault],
        network: EmulatedNetwork,
        conductor: Conductor,
        record: Callable[..., None],
    ) -> None:
        self._pending = sorted(faults, key=lambda fault: fault.at_ns)
        self._network = network
        self._conductor = conductor
        self._record = record
        self.swaps: list[SwapSample] = []
        self._zero_ns: int | None = None
        self._dilation = network.plan.dilation

    def start(self, zero_ns: int) -> None:
        """`zero_ns`: CLOCK_MONOTONIC at model time zero."""
        self._zero_ns = zero_ns
        self._conductor.due = self.due
        self._conductor.on_due = self.carry_out

    def due(self) -> float:
        """Real seconds until the next fault."""
        if self._zero_ns is None or not self._pending:
            return float("inf")
        return (self._zero_ns + self._pending[0].at_ns * self._dilation - time.monotonic_ns()) / _NS

    def carry_out(self) -> None:
        """Do what is due."""
        while self.due() <= 0:
            fault = self._pending.pop(0)
            self._do(fault)
            assert self._zero_ns is not None
            late_ns = (time.monotonic_ns() - self._zero_ns) // self._dilation - fault.at_ns
            self._record("fault", fault=fault.kind, at_ns=fault.at_ns, late_ns=late_ns, where=self._places(fault))

    def _do(self, fault: TimedFault) -> None:
        if fault.kind == "kill":
            for rank in set(fault.workers) - self._conductor.planned_deaths:
                self._conductor.planned_deaths.add(rank)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._conductor.ranks[rank].hello["pid"], signal.SIGKILL)
        elif fault.kind == "link-down":
            for cable in fault.cables:
                self._network.link_down(cable)
        elif fault.kind == "link-up":
            for cable in fault.cables:
                self._network.link_up(cable)
        elif fault.kind == "link-set":
            for index, parameters in fault.parameters.items():
                self._network.set_link(index, parameters)
        else:
            for switch in fault.switches:
                self._swap(switch, fault)

    def _swap(self, switch: str, fault: TimedFault) -> None:
        swapped = self._network.swap(
            switch, fault.program, fault.entries, keep_registers=fault.keep_registers, foreseen=True
        )
        blackout_ns = swapped.blackout_ns // self._dilation
        program = PurePath(fault.program).stem
        sample = SwapSample(fault.at_ns, switch, program, blackout_ns, swapped.kept, swapped.reset)
        self.swaps.append(sample)
        self._record("swap", **asdict(sample))

    def _places(self, fault: TimedFault) -> list[str]:
        links = self._network.plan.graph.links
        return [
            *(self._network.plan.called(number) for number in fault.workers),
            *(links[2 * cable].name.replace(">", "-") for cable in fault.cables),
            *(links[index].name for index in fault.parameters),
            *fault.switches,
        ]
