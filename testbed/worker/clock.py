"""Model time out of the machine's monotonic clock: all ranks count from one epoch, slowed by the dilation."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelClock:
    """`monotonic` gives real nanoseconds (CLOCK_MONOTONIC unless a test injects another)."""

    epoch_ns: int
    dilation: int
    monotonic: Callable[[], int] = time.monotonic_ns

    def now(self) -> int:
        """Model nanoseconds since the epoch."""
        return (self.monotonic() - self.epoch_ns) // self.dilation

    def model(self, real_ns: int) -> int:
        """The model instant of a real one."""
        return (real_ns - self.epoch_ns) // self.dilation

    def real(self, model_ns: int) -> int:
        """The first real instant at which `now()` has reached `model_ns`."""
        return self.epoch_ns + model_ns * self.dilation
