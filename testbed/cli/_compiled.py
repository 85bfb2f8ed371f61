"""Before a large simulation: have the endpoints compiled, once, and begin anew with what was compiled."""

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from testbed import compiled
from testbed.compiled.build import build, lacks
from testbed.errors import TestbedError
from testbed.plan.predict import schedule_of
from testbed.spec.model import Spec, TransportSpec
from testbed.spec.reader import Experiment

FEWEST_MESSAGES = 200_000  # in less, compiling would take longer than it saves
_BEGAN_ANEW = "again"  # of TESTBED_COMPILED


def compile_first(experiment: Experiment, tell: Callable[[str], None]) -> None:
    """Returns where it does not pay or cannot be; else this process is exchanged for one that runs the same command."""
    state = os.environ.get("TESTBED_COMPILED")
    if compiled.running() or not compiled.wanted() or state == _BEGAN_ANEW or not is_command(sys.argv[0]):
        return
    if not large(point.spec for point in experiment.points):
        return
    if (lack := lacks()) is not None:
        tell(f"the endpoints run interpreted, some three times as slow: this machine has no {lack}")
        return
    tell("compiling the endpoints, once: about a minute")
    try:
        build()
    except TestbedError as error:
        tell(f"the endpoints run interpreted: {error.message}")
        return
    os.environ["TESTBED_COMPILED"] = _BEGAN_ANEW
    os.execv(sys.executable, [sys.executable, "-m", "testbed", *sys.argv[1:]])


def is_command(program: str) -> bool:
    """Whether a process that was started so is `testbed` or `python -m testbed`, not another's that calls it."""
    path = Path(program)
    return path.name == "testbed" or path.resolve() == compiled.PACKAGE / "__main__.py"


def large(specs: Iterable[Spec]) -> bool:
    """Whether their ranks exchange so many messages, packet by packet in simulation, that compiling pays.

    Those are not counted that the fast path has, as long as nothing is lost (`testbed.simulation.fast`).
    """
    left = FEWEST_MESSAGES
    for spec in specs:
        left -= _messages(spec)
        if left <= 0:
            return True
    return False


def _messages(spec: Spec) -> int:
    if spec.engine != "simulation" or spec.fidelity == "message":
        return 0
    total = 0
    unharmed = not spec.faults and not any(
        link.loss or link.duplicate or link.corrupt or link.reorder or link.ecn for link in spec.links
    )
    for job in spec.all_jobs.values():
        schedule = schedule_of(job)
        if schedule is not None and job.workload is not None and not (unharmed and _has_fast_path(job.transport)):
            total += len(schedule.transfers) * (job.workload.warmup + job.workload.iterations)
    return total


def _has_fast_path(given: TransportSpec) -> bool:
    from testbed.transport.congestion import CONGESTIONS  # with it come modules that may have been compiled
    from testbed.transport.parameters import kind_of

    control = CONGESTIONS.get(kind_of(given.congestion)[0])
    quiet = control is not None and control.quiet
    return quiet and given.kind == "roce" and given.parameters.get("verb", "write") == "write"
