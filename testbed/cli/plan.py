"""`testbed plan SPEC`: what would happen, before anything does."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.console import console
from testbed.errors import UsageError
from testbed.plan.model import Capabilities, Plan

if TYPE_CHECKING:
    from testbed.spec.model import Spec
    from testbed.spec.reader import Experiment

_MOST_PLANNED = 32  # points of a sweep whose time is worked out


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("plan")(show)


def show(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The experiment's YAML file.")],
    settings: Annotated[list[str] | None, typer.Option("-S", metavar="KEY=VALUE", help="Set a key.")] = None,
    engine: Annotated[str | None, typer.Option(help="emulation or simulation.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole plan as JSON.")] = False,
    graph: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw the network.")] = None,
) -> None:
    """What would happen: network, routes, placement, schedule, predicted load. Touches nothing."""
    from testbed.doctor import load_capabilities
    from testbed.plan import DEFAULT_CAPABILITIES, plan
    from testbed.plan.outline import as_data, outline
    from testbed.spec.reader import read_experiment

    experiment = read_experiment(spec, settings or [], engine)
    measured = load_capabilities()
    machine = measured or DEFAULT_CAPABILITIES
    made = plan(_settled(experiment.spec), machine)
    if graph is not None:
        _draw(graph, made)
    noted, runs, seconds = _notes(made), len(experiment.points), _seconds(experiment, machine, made)
    if as_json:
        data = as_data(made, machine, noted, measured=measured is not None, runs=runs, seconds=seconds)
        print(json.dumps(data, indent=1))
        return
    out = console()
    for part in outline(made, machine, noted, measured=measured is not None, runs=runs, seconds=seconds):
        out.print(part)
    if graph is not None:
        out.print(f"drawn to {graph}", soft_wrap=True)


def _settled(spec: "Spec") -> "Spec":
    """The spec with its environment's severity, which is looked for by simulation if it was not found before."""
    if spec.environment is None:
        return spec
    from testbed.run.environment import Environments

    return Environments().settle(spec, _Stages())


class _Stages:
    """Says on stderr what takes a while."""

    def stage(self, what: str) -> None:
        print(what, file=sys.stderr)

    def iterations(self, done: int, of: int) -> None: ...


def _seconds(experiment: "Experiment", machine: Capabilities, first: Plan) -> float:
    """How long the runs of the first one's engine take; beyond some points of a sweep, as long as those on average."""
    from testbed.plan import plan
    from testbed.plan.outline import run_s

    repeats = Counter(point.index for point in experiment.points if point.spec.engine == first.spec.engine)
    specs = {point.index: point.spec for point in experiment.points}
    looked_at = [index for index, _ in repeats.most_common(_MOST_PLANNED)]
    if len(specs) == 1:
        return run_s(first) * repeats.total()
    known = sum(repeats[index] * run_s(plan(specs[index], machine)) for index in looked_at)
    return known * repeats.total() / sum(repeats[index] for index in looked_at)


def _notes(made: Plan) -> list[str]:
    from testbed.plan.notes import notes

    programs = {switch.program for switch in made.switching.native.values()}
    if not programs:
        return []
    from testbed.dataplane.programs import facts_of, path_of

    return notes(made, {program: facts_of(path_of(program)) for program in programs})


def _draw(file: Path, made: Plan) -> None:
    from testbed.plan.outline import link_kinds
    from testbed.topology.drawing import FORMATS, draw

    if file.suffix[1:] not in FORMATS:
        raise UsageError(f"{file} is no picture", hint=f"its name ends in one of {', '.join(FORMATS)}")
    ranks = {host: made.called(number) for number, host in enumerate(made.placement)}
    draw(made.graph, file, ranks, link_kinds(made))
