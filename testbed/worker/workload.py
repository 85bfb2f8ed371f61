"""What a rank does around its collectives: its inputs, the time it computes, and the check of what came out."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.codec.layers import CodedLayers
from testbed.plan.model import JobPlan
from testbed.plan.predict import buffers
from testbed.spec.model import FaultSpec, WorkloadSpec
from testbed.stress.draws import slow_factor, stall_ns
from testbed.training.source import GradientSource
from testbed.transport import loses
from testbed.worker.verify import Checked, Results, verify_all, verify_sums

Numbers = npt.NDArray[Any]


class Workload:
    """The collective workload of a job's `rank`.

    Iterations are counted through, warm-up included; times are model time.
    """

    def __init__(
        self,
        faults: Sequence[FaultSpec],
        job: JobPlan,
        workload: WorkloadSpec,
        source: GradientSource,
        steps: int,
        rank: int,
        *,
        coding: CodedLayers | None = None,
    ) -> None:
        self._faults = faults
        self._job = job
        self._workload = workload
        self._source = source
        self._steps = steps
        self._rank = rank
        self._coding = coding
        self._edges = [0]  # between the layers of the last input

    def fill(self, iteration: int, values: Numbers, buffer: Numbers) -> None:
        """Compute this rank's input, all layers end to end, into `values`, and code it into `buffer`, to be reduced.

        Takes the real time it takes; without numbers nothing is done.
        """
        if self._workload.numeric:
            layers = self._source.layers(iteration)
            self._edges = np.cumsum([0, *map(len, layers)]).tolist()
            np.concatenate(layers, out=values)
            if self._coding is None:
                buffer[:] = values
            else:
                self._coding.encode(values, iteration, buffer)

    def result(self, iteration: int, buffer: Numbers) -> Numbers:
        """What `buffer` has come to, all layers end to end: itself, or what it was decoded to."""
        if self._coding is None:
            return buffer
        decoded = np.empty(self._coding.elements, buffer.dtype)
        self._coding.decode(buffer, iteration, decoded)
        return decoded

    def apply(self, iteration: int, result: Numbers) -> None:
        """Learn from the result of an iteration."""
        self._source.apply(iteration, [result[first:last] for first, last in pairwise(self._edges)])

    def compute_ns(self, iteration: int) -> int:
        """How long this rank computes, or stalls, between the release and the beginning of its collective."""
        bound_ns = self._job.prediction.bound_ns
        factor = slow_factor(self._faults, self._rank, self._job.name)
        return round(self._workload.compute_ns * factor) + self._stall_ns(iteration, None, bound_ns)

    def step_delays(self, iteration: int) -> dict[int, int]:
        """Step -> how long this rank stalls before it sends in that step."""
        if not any(fault.kind == "stall" and fault.of == "step" for fault in self._faults):
            return {}
        step_ns = self._job.prediction.bound_ns // max(1, self._steps)
        stalls = {step: self._stall_ns(iteration, step, step_ns) for step in range(self._steps)}
        return {step: stall for step, stall in stalls.items() if stall}

    def check(self, inputs: Sequence[Numbers], result: Numbers) -> tuple[int | None, float | None]:
        """How many elements of the result are wrong, and its normalised mean square error; as `check_all`."""
        return check_all(self._job, self._workload, inputs, {self._rank: result}, self._coding)[self._rank]

    def digest(self) -> str:
        """A hash of what was learnt, the same on all ranks; empty where nothing is."""
        return self._source.digest()

    def metrics(self) -> dict[str, float]:
        """How well the model does by now; empty if there is none."""
        return self._source.metrics()

    def _stall_ns(self, iteration: int, step: int | None, uncongested_ns: int) -> int:
        return stall_ns(
            self._faults,
            self._job.seed,
            job=self._job.name,
            rank=self._rank,
            iteration=iteration,
            step=step,
            uncongested_ns=uncongested_ns,
        )


def check_all(
    job: JobPlan,
    workload: WorkloadSpec,
    inputs: Sequence[Numbers],
    results: Results,
    coding: CodedLayers | None = None,
) -> Checked:
    """Of each rank's result how many elements are wrong, and its normalised mean square error.

    Of a lossy transport none counts as wrong. Without numbers there is neither.
    """
    if not workload.numeric:
        return dict.fromkeys(results, (None, None))
    lossy = loses(job.spec.transport)
    if job.aggregation is None:
        moved = [inputs[workload.root]] if workload.collective == "broadcast" else inputs
        slack = None if coding is None or lossy else coding.error_bound(moved)
        checked = verify_all(workload.collective, inputs, results, workload.root, slack)
    else:
        layers = [elements for elements, _ in buffers(workload)]
        checked = verify_sums(inputs, results, layers, job.aggregation.values)
    if not lossy:
        return checked
    return {rank: (0, nmse) for rank, (_, nmse) in checked.items()}
