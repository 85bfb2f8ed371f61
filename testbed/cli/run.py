"""`testbed run`: an experiment from its spec to a table, with progress on a terminal."""

import json
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed import compiled
from testbed.cli.console import console

if TYPE_CHECKING:
    from testbed.errors import TestbedError
    from testbed.plan.model import Capabilities
    from testbed.run.experiment import Outcome
    from testbed.spec.reader import Experiment
    from testbed.spec.sweep import Point


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command("run")
    def run(
        spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The experiment's YAML file.")],
        settings: Annotated[list[str] | None, typer.Option("-S", metavar="KEY=VALUE", help="Set a key.")] = None,
        engine: Annotated[str | None, typer.Option(help="emulation or simulation.")] = None,
        out: Annotated[Path | None, typer.Option(help="The run directory (default: runs/NAME/TIME-ID).")] = None,
        capture: Annotated[list[str] | None, typer.Option(metavar="SELECT", help="Capture these ports.")] = None,
        as_json: Annotated[bool, typer.Option("--json", help="Print result.json instead of the table.")] = False,
        strict: Annotated[bool, typer.Option(help="An expectation that cannot be decided counts as refuted.")] = False,
        check: Annotated[str | None, typer.Option(help="simulation: run it there too, and tell the gap.")] = None,
        trace_events: Annotated[bool, typer.Option(help="Simulation: write trace.json, for Perfetto.")] = False,
    ) -> int:
        """Run an experiment and print what it measured."""
        compiled.install()
        from testbed.plan import DEFAULT_CAPABILITIES
        from testbed.run.experiment import emulates, run_experiment
        from testbed.spec.reader import read_experiment

        overrides = [*(settings or []), *([f"capture.select={json.dumps(capture)}"] if capture else [])]
        experiment = read_experiment(spec, overrides, engine)
        if trace_events:
            _check_traced(experiment)
        simulated = None if check is None else _reference(spec, overrides, experiment, check, out)
        level = logging.getLogger("testbed").level
        with _Progress(quiet=as_json or level >= logging.ERROR, all_stages=level <= logging.DEBUG) as progress:
            _compile_first(experiment, progress)
            machine = _measured(progress) if emulates(experiment) else DEFAULT_CAPABILITIES
            outcome = run_experiment(experiment, machine, out, progress, strict=strict, trace=trace_events)
            beside = _run_beside(simulated, outcome, machine, progress)
        if as_json:
            print(json.dumps([result.to_data() for result in outcome.results], indent=1))
        else:
            _print(outcome)
            if beside is not None:
                _print_gaps(outcome.directory, beside.directory)
        for ended in filter(None, (outcome, beside)):
            if ended.error is not None:
                _tell(ended.error)
        return outcome.exit_status


def _compile_first(experiment: "Experiment", progress: "_Progress") -> None:
    if any(point.spec.engine == "simulation" for point in experiment.points):
        from testbed.cli._compiled import compile_first

        compile_first(experiment, progress.stage)


def _check_traced(experiment: "Experiment") -> None:
    """Raises UsageError where there would be no timeline."""
    from testbed.errors import UsageError

    if any(point.spec.engine != "simulation" or point.spec.fidelity != "packet" for point in experiment.points):
        raise UsageError(
            "--trace-events is for simulations of packets", hint="--engine simulation, without fidelity: message"
        )


def _measured(progress: "_Progress") -> "Capabilities":
    from testbed.doctor.capacity import capabilities  # with Mininet, which a simulation does without

    return capabilities(progress.stage)


def _print(outcome: "Outcome") -> None:
    from testbed.results.table import result_table

    out = console()
    out.print(result_table(outcome.results))
    for judgement in outcome.judgements:
        out.print(f"expect: {judgement}", soft_wrap=True)
    out.print(f"written to {outcome.directory}", soft_wrap=True)


def _reference(
    spec: Path, overrides: list[str], experiment: "Experiment", check: str, out: Path | None
) -> "Experiment":
    from testbed.cli._check import reference

    return reference(spec, overrides, experiment, check, out)


def _run_beside(
    simulated: "Experiment | None", outcome: "Outcome", machine: "Capabilities", progress: "_Progress"
) -> "Outcome | None":
    """What an emulation is held against; None if nothing is asked for, or it was interrupted."""
    from testbed.errors import Interrupted

    if simulated is None or isinstance(outcome.error, Interrupted):
        return None
    from testbed.cli._check import place
    from testbed.run.experiment import run_experiment

    return run_experiment(simulated, machine, place(outcome.directory), progress)


def _print_gaps(emulated: Path, simulated: Path) -> None:
    from testbed.cli._check import print_gaps

    print_gaps(emulated, simulated)


def _tell(error: "TestbedError") -> None:
    print(f"testbed: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)


class _Progress:
    """On a terminal one line, that says what happens and how long it will still take.

    Elsewhere a line a stage of the run, or, so as not to flood a log, a line a run where there are several. all_stages:
    then too a line a stage.
    """

    def __init__(self, *, quiet: bool, all_stages: bool = False) -> None:
        self._live = not quiet and sys.stderr.isatty()
        self._quiet = quiet
        self._all_stages = all_stages
        self._run = self._left = ""  # of several: which one, and how long all will still take
        self._began = self._first_began = time.monotonic()  # the stage, and the first of several runs

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def point(self, number: int, of: int, point: "Point") -> None:
        from testbed.results.reading import point_text

        if of == 1:
            return
        if number:
            left_s = (time.monotonic() - self._first_began) / number * (of - number)
            self._left = f", about {_duration(left_s)} left"
        else:
            self._first_began, self._left = time.monotonic(), ""
        values = point_text(point.values) or "as written"
        self._run = f"run {number + 1} of {of}{self._left} ({values}, repeat {point.repeat})"
        if not (self._live or self._all_stages):
            self._say("")

    def stage(self, what: str) -> None:
        if self._live or self._all_stages or not self._run:
            self._say(what)
        self._began = time.monotonic()

    def iterations(self, done: int, of: int) -> None:
        left_s = (time.monotonic() - self._began) / done * (of - done)
        if self._live:
            self._say(f"iteration {done} of {of}{'' if self._left else f', about {_duration(left_s)} left'}")

    def _say(self, what: str) -> None:
        line = ": ".join(filter(None, (self._run, what)))
        if self._live:
            self._clear()
            print(line, end="", file=sys.stderr, flush=True)
        elif not self._quiet:
            print(line, file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self._live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
