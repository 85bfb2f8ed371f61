"""`testbed status`: what runs now."""

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from testbed.cli._networks import age


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(as_json: Annotated[bool, typer.Option("--json", help="One JSON object a run.")] = False) -> None:
    """List runs and networks that are up, broken ones, and dead ones that `testbed clean` would remove."""
    from testbed.emulation.state import runs

    now_s = time.time()
    rows: list[dict[str, Any]] = [
        {
            "run_id": state.run_id,
            "kind": state.record.kind,
            "name": state.record.name,
            "state": ("broken" if state.died else "live") if state.alive else "dead",
            "died": state.died,
            "age_s": round(now_s - state.record.started_s, 1),
            "progress": state.progress,
            "pid": state.record.owner.pid,
            "uid": state.record.uid,
            "directory": state.record.out,
        }
        for state in runs()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    if not rows:
        typer.echo("nothing runs")
    for row in rows:
        typer.echo(
            f"{row['run_id']}  {row['kind']:<3}  {row['name']}  {age(float(str(row['age_s'])))}  {_doing(row)}".rstrip()
        )


def _doing(row: Mapping[str, Any]) -> str:
    if row["state"] == "dead":
        return "dead: `testbed clean` removes what it left"
    if row["state"] == "broken":
        return f"broken: {', '.join(row['died'])} died; `testbed down` takes down what is left"
    return str(row["progress"])
