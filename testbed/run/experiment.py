"""An experiment: the runs that a spec asks for, one after another, each in a directory of its own.

One run goes straight into the experiment's directory; several get one below it each, with `sweep.csv` beside them. A
run that fails does not keep the others from running; an interrupt does.
"""

import secrets
import time
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from os import environ
from pathlib import Path
from typing import Protocol

from testbed.emulation.state import RunState, new_id
from testbed.errors import (
    ExpectationRefuted,
    Interrupted,
    InvalidMeasurement,
    MachineLacks,
    RunFailed,
    TestbedError,
    UsageError,
)
from testbed.plan.model import Capabilities, Plan
from testbed.plan.network import endpoint_path
from testbed.plan.planner import plan as make_plan
from testbed.plan.predict import buffers
from testbed.plan.serial import to_json
from testbed.results.environment import describe_environment
from testbed.results.expect import Judgement, judge_expectations
from testbed.results.model import Result, Simulation
from testbed.results.reading import RunRecord, read_run
from testbed.results.result import make_result, unfinished
from testbed.results.rundir import RUNS, RunDirectory
from testbed.results.samples import Samples
from testbed.results.sweepcsv import write_sweep_csv
from testbed.run.environment import Environments
from testbed.run.progress import Progress
from testbed.spec.model import Spec
from testbed.spec.reader import Experiment
from testbed.spec.resolved import resolved_text
from testbed.spec.sweep import Point
from testbed.transport import written

_MOST_ATTEMPTS = 4  # at a run, each at twice the dilation of the last


class ExperimentProgress(Progress, Protocol):
    """Told which run of how many begins."""

    def point(self, number: int, of: int, point: Point) -> None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an experiment came to."""

    directory: Path
    results: tuple[Result, ...]
    judgements: tuple[Judgement, ...]
    error: TestbedError | None  # the interrupt, or the first of a run that failed
    strict: bool  # what could not be decided counts as refuted

    @property
    def exit_status(self) -> int:
        """As the contract says: failed before invalid before refuted."""
        if self.error is not None:
            return self.error.exit_status
        if any(result.verdict.value == "invalid" for result in self.results):
            return InvalidMeasurement.exit_status
        refuting = ("refuted", "undecided") if self.strict else ("refuted",)
        refuted = any(judgement.outcome in refuting for judgement in self.judgements)
        return ExpectationRefuted.exit_status if refuted else 0


def emulates(experiment: Experiment) -> bool:
    """Whether any of its runs needs this machine's network."""
    return any(point.spec.engine == "emulation" for point in experiment.points)


def run_experiment(
    experiment: Experiment,
    capabilities: Capabilities,
    out: Path | None,
    progress: ExperimentProgress,
    *,
    strict: bool = False,
    trace: bool = False,
) -> Outcome:
    """Run every point. Raises UsageError where the directory cannot be had; failures of runs are in the outcome.

    trace: simulated runs also write a timeline.
    """
    _check_machine(experiment)
    directory, several = _directory(experiment, out), len(experiment.points) > 1
    records: list[RunRecord] = []
    ending: TestbedError | None = None
    environments = Environments()
    for number, point in enumerate(experiment.points):
        progress.point(number, len(experiment.points), point)
        place = directory / f"{point.index:03d}-repeat{point.repeat}" if several else directory
        error = _run_point(point, capabilities, place, progress, environments, trace=trace)
        records.append(_read(place, error))
        ending = error if isinstance(error, Interrupted) else ending or error
        if several:
            write_sweep_csv(directory / "sweep.csv", records)
        if isinstance(error, Interrupted):
            break
    records.sort(key=lambda record: record.path)  # as written, not as they were run
    judgements = judge_expectations(experiment.spec.expect, records)
    return Outcome(directory, tuple(record.result for record in records), tuple(judgements), ending, strict)


def _read(place: Path, error: TestbedError | None) -> RunRecord:
    """What a run has left. Raises its error where that kept it from leaving any result, as a full disk does."""
    try:
        return read_run(place)
    except UsageError:
        if error is None:
            raise
        raise error from None


def _check_machine(experiment: Experiment) -> None:
    """Raises MachineLacks for what the runs need and this machine has not."""
    jobs = [job for point in experiment.points for job in point.spec.all_jobs.values()]
    models = {job.workload.gradients for job in jobs if job.workload}
    if "digits-mlp" in models and find_spec("sklearn") is None:
        raise MachineLacks(
            "gradients: digits-mlp needs scikit-learn, which is not installed", hint="pip install scikit-learn"
        )
    needed_bytes, available_bytes = max(map(_memory_bytes, experiment.points)), _available_bytes()
    if needed_bytes > available_bytes:
        told = f"need {needed_bytes:,} bytes of memory and {available_bytes:,} are available"
        raise MachineLacks(f"the ranks' inputs and buffers {told}", hint="lower workload.size or workers.count")


def _memory_bytes(point: Point) -> int:
    """What the ranks of a run hold: the input and the buffer of each; without numbers all share a buffer and a sink."""
    if point.spec.fidelity == "message":  # whose ranks have none
        return 0
    return sum(
        2
        * (job.workers.count if job.workload.numeric else 1)
        * sum(size * each for size, each in buffers(job.workload))
        for job in point.spec.all_jobs.values()
        if job.workers and job.workload and job.workload.kind == "collective"
    )


def _available_bytes() -> int:
    """Source: proc(5), MemAvailable."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024


def _directory(experiment: Experiment, out: Path | None) -> Path:
    if out is not None:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(
                f"{out} is not an empty directory, and nothing is ever overwritten",
                hint="name a new directory with --out, or leave --out away",
            )
        return out
    return RUNS / experiment.spec.name / f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def _run_point(
    point: Point,
    capabilities: Capabilities,
    place: Path,
    progress: Progress,
    environments: Environments,
    *,
    trace: bool,
) -> TestbedError | None:
    """Run one point into `place`; returns the error that ended it early."""
    spec = point.spec
    state = RunState.create("run", spec.name, place.absolute()) if spec.engine == "emulation" else None
    run_id = state.run_id if state is not None else new_id()
    plan: Plan | None = None
    simulation: Simulation | None = None
    samples, error = unfinished("failed", "the run was ended from outside before it could say why"), None
    try:
        with RunDirectory.create(spec.name, place, run_id, now=datetime.now()) as directory:
            try:
                directory.write_spec(resolved_text(spec))
                directory.write_environment(describe_environment(environ))
                spec = environments.settle(spec, progress)
                plan = make_plan(spec, capabilities)
                transports = {job.name: written(job.spec.transport, endpoint_path(plan, job)) for job in plan.jobs}
                # Without what the environment has added, which its severity adds again.
                own = plan.spec.model_copy(update={"faults": spec.faults, "traffic": spec.traffic})
                directory.write_spec(resolved_text(own, transports))
                directory.write_plan(to_json(plan))
                directory.write_result(_result(point, plan, samples, run_id))
                if state is not None:
                    plan, samples, error = _emulated(spec, plan, capabilities, directory, state, progress)
                else:
                    samples, error, simulation = _simulated(plan, directory, run_id, progress, trace=trace)
            except TestbedError as failure:
                samples, error = _ended_by(failure), failure
            try:
                directory.write_links(samples.links)
                directory.write_switches(samples.switches)
                if samples.flows:
                    directory.write_flows(samples.flows)
                directory.write_result(_result(point, plan, samples, run_id, simulation))
            except RunFailed as failure:
                error = error or failure
                directory.mend_result(_result(point, plan, _ended_by(error), run_id))
    finally:
        if state is not None and not state.record.namespaces:
            state.remove()
    return error


def _ended_by(error: TestbedError) -> Samples:
    return unfinished("interrupted" if isinstance(error, Interrupted) else "failed", error.message)


def _emulated(
    spec: Spec, plan: Plan, capabilities: Capabilities, directory: RunDirectory, state: RunState, progress: Progress
) -> tuple[Plan, Samples, TestbedError | None]:
    """The plan that was carried out, with what came of it; slower than `plan` where the machine could not keep up."""
    from testbed.run.emulated import SLOWER, EmulatedRun, TooFast  # a simulation needs no Mininet

    began = time.monotonic()
    for left in reversed(range(_MOST_ATTEMPTS)):
        try:
            return plan, *EmulatedRun(plan, directory, state, progress, began=began, last=not left).run()
        except TooFast:
            slower = plan
            while slower.dilation <= plan.dilation:  # at 1 the machine seemed to have time to spare
                capabilities = capabilities.slowed(SLOWER)
                slower = make_plan(spec, capabilities)
            directory.event("dilation-raised", **{"from": plan.dilation, "to": slower.dilation})
            plan = slower
            directory.write_plan(to_json(plan))
            state = RunState.create("run", spec.name, directory.path.absolute(), run_id=state.run_id)
    raise AssertionError("the last attempt is never too fast")


def _simulated(
    plan: Plan, directory: RunDirectory, run_id: str, progress: Progress, *, trace: bool
) -> tuple[Samples, TestbedError | None, Simulation | None]:
    if plan.spec.fidelity == "message":
        from testbed.simulation.messages.run import MessageRun

        messages = MessageRun(plan, directory, progress)
        return *messages.run(), messages.simulation
    from testbed.simulation.run import SimulatedRun  # nor an emulation the native core in this process

    run = SimulatedRun(plan, directory, run_id, progress, trace=trace)
    return *run.run(), run.simulation


def _result(
    point: Point, plan: Plan | None, samples: Samples, run_id: str, simulation: Simulation | None = None
) -> Result:
    return make_result(
        point.spec,
        samples,
        run_id=run_id,
        plan=plan,
        repeat=point.repeat,
        point=point.values,
        simulation=simulation,
    )
