"""What a rank computes around its collectives: its input of each iteration, how long that takes, and what came of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.spec.model import Spec
from testbed.worker.memory import SharedInputs
from testbed.worker.verify import verify


class Workload:
    def __init__(self, spec: Spec, rank: int) -> None:
        self._spec = spec
        self._rank = rank

    def fill(self, number: int, out) -> None:
        rng = np.random.default_rng([self._spec.seed, self._rank, number])
        if out.dtype.kind == "i":
            out[:] = rng.integers(-1000, 1000, len(out))
        else:
            out[:] = rng.standard_normal(len(out))

    def compute_ns(self, number):
        return self._spec.workload.compute_ns

    def step_delays(self, number):
        return {}

    def check(self, inputs, result):
        w = self._spec.workload
        return verify(w.collective, [inputs[r] for r in range(len(inputs))], result, self._rank, w.root)

    def digest(self, result):
        return str(hash(result.tobytes()))

    def metrics(self):
        return {}
