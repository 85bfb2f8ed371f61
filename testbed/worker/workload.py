"""What a rank does around its collectives: its inputs, the time it computes, and the check of what came out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.plan.model import Plan
from testbed.spec.model import WorkloadSpec
from testbed.stress.draws import slow_factor, stall_ns
from testbed.training.source import GradientSource
from testbed.worker.verify import verify

Numbers = npt.NDArray[Any]


class Workload:
    """The collective workload of `rank`. Iterations are counted through, warm-up included; times are model time."""

    def __init__(self, plan: Plan, workload: WorkloadSpec, source: GradientSource, steps: int, rank: int) -> None:
        self._plan = plan
        self._workload = workload
        self._source = source
        self._steps = steps
        self._rank = rank

    def fill(self, iteration: int, values: Numbers) -> None:
        """Compute this rank's input, all layers end to end, into `values`; takes the real time it takes."""
        np.concatenate(self._source.layers(iteration), out=values)

    def apply(self, iteration: int, layers: list[Numbers]) -> None:
        """Learn from the result of an iteration."""
        self._source.apply(iteration, layers)

    def compute_ns(self, iteration: int) -> int:
        """How long this rank computes, or stalls, between the release and the beginning of its collective."""
        faults, seed = self._plan.spec.faults, self._plan.spec.seed
        bound_ns = self._plan.prediction.bound_ns
        stall = stall_ns(faults, seed, rank=self._rank, iteration=iteration, step=None, uncongested_ns=bound_ns)
        return round(self._workload.compute_ns * slow_factor(faults, self._rank)) + stall

    def step_delays(self, iteration: int) -> dict[int, int]:
        """Step -> how long this rank stalls before it sends in that step."""
        faults, seed = self._plan.spec.faults, self._plan.spec.seed
        if not any(fault.kind == "stall" and fault.of == "step" for fault in faults):
            return {}
        step_ns = self._plan.prediction.bound_ns // max(1, self._steps)
        stalls = {
            step: stall_ns(faults, seed, rank=self._rank, iteration=iteration, step=step, uncongested_ns=step_ns)
            for step in range(self._steps)
        }
        return {step: stall for step, stall in stalls.items() if stall}

    def check(self, inputs: Sequence[Numbers], result: Numbers) -> tuple[int, float]:
        """How many elements of the result are wrong, and its normalised mean square error."""
        return verify(self._workload.collective, inputs, result, self._rank, self._workload.root)

    def digest(self) -> str:
        """A hash of what was learnt, the same on all ranks; empty where nothing is."""
        return self._source.digest()

    def metrics(self) -> dict[str, float]:
        """How well the model does by now; empty if there is none."""
        return self._source.metrics()
