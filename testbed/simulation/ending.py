"""How a simulated run ends, with packets or without: as planned, by an interrupt, or by one of its limits."""

from collections.abc import Callable, Sequence

from testbed.errors import Interrupted, RunFailed, TestbedError
from testbed.plan.model import JobPlan
from testbed.results.samples import Status
from testbed.run.interrupts import interruptible
from testbed.spec.model import LimitsSpec
from testbed.units import format_duration

_NAMED = 8  # in a message; events.jsonl has all


def until_end(measure: Callable[[], None]) -> tuple[Status, TestbedError | None]:
    """Measure, and tell how that ended, and the error that ended it early (None: it ended as planned)."""
    try:
        with interruptible():
            measure()
    except Interrupted as interrupt:
        return "interrupted", interrupt
    except TestbedError as failure:
        return "failed", failure
    except MemoryError:
        return "failed", RunFailed(
            "there is no memory for more of what is under way",
            hint="packets may have 2 GiB: lower transport.window, the size or the number of ranks",
        )
    return "ok", None


def wall_reached(limits: LimitsSpec, now_ns: float, unfinished: str) -> RunFailed:
    """The error of a run that takes too much real time."""
    return RunFailed(
        f"the run's limit of {limits.wall_ns / 1e9:g} s of real time was reached after {now_ns / 1e6:,.3f} ms of model"
        f" time: {unfinished}",
        hint="raise limits.wall or lower workload.iterations",
    )


def stall_reached(limits: LimitsSpec, job: JobPlan, unfinished: str) -> RunFailed:
    """The error of a run of whose job an iteration takes too much model time."""
    of = f" of job {job.name}" if job.name else ""
    return RunFailed(
        f"an iteration{of} is not over {format_duration(limits.stall_ns)} (model time) after its release: {unfinished}",
        hint="raise limits.stall if it may take so long",
    )


def first_of(told: Sequence[str], what: str) -> str:
    """Some of what is unfinished in words, and how many more of `what` there are."""
    rest = [f"and {len(told) - _NAMED} more {what} (events.jsonl)"] if len(told) > _NAMED else []
    return "; ".join([*told[:_NAMED], *rest])
