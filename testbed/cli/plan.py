"""`testbed plan SPEC`: what would happen, before anything does."""

import json
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.console import console
from testbed.errors import UsageError
from testbed.plan.model import Plan


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
    made = plan(experiment.spec, machine)
    if graph is not None:
        _draw(graph, made)
    noted, runs = _notes(made), len(experiment.points)
    if as_json:
        print(json.dumps(as_data(made, machine, noted, measured=measured is not None, runs=runs), indent=1))
        return
    out = console()
    for part in outline(made, machine, noted, measured=measured is not None, runs=runs):
        out.print(part)
    if graph is not None:
        out.print(f"drawn to {graph}", soft_wrap=True)


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
