"""`testbed down`: take down the network that `testbed up` brought up."""

from typing import Annotated

import typer

from testbed.cli._networks import chosen


def register(app: typer.Typer) -> None:
    app.command("down")(down)


def down(
    run_id: Annotated[str | None, typer.Option("--run", metavar="ID", help="Which one, if several.")] = None,
) -> None:
    """Take the network down and end what runs on its hosts."""
    from testbed.emulation.keeper import bring_down

    state = chosen(run_id, also_runs=False)
    bring_down(state)
    typer.echo(f"network {state.run_id} ({state.record.name}) is down")
