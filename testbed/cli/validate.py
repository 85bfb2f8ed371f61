"""`testbed validate SPEC...`: every mistake of specs, before anything is touched."""

import json
from pathlib import Path
from typing import Annotated

import typer

from testbed.errors import UsageError


def register(app: typer.Typer) -> None:
    app.command("validate")(validate)


def validate(
    specs: Annotated[list[Path] | None, typer.Argument(metavar="SPEC", help="Spec files.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("-S", metavar="KEY=VALUE", help="Set a key, e.g. transport.kind=tcp.")
    ] = None,
    engine: Annotated[str | None, typer.Option("--engine", help="emulation or simulation.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a spec, for editors.")] = False,
) -> None:
    """Print `SPEC: ok`, or all that is wrong as file:line:column: key: what (did you mean …?); touches nothing."""
    if schema:
        from testbed.spec.schema import json_schema

        typer.echo(json.dumps(json_schema(), indent=1))
        return
    if not specs:
        raise UsageError("which spec?", hint="e.g. testbed validate experiments/quickstart.yaml")
    from testbed.spec.reader import read_spec

    wrong = False
    for spec in specs:
        try:
            read_spec(spec, settings or (), engine)
        except UsageError as error:
            wrong = True
            typer.echo(error.message, err=True)
            if error.hint:
                typer.echo(f"  {error.hint}", err=True)
        else:
            typer.echo(f"{spec}: ok")
    if wrong:
        raise typer.Exit(UsageError.exit_status)
