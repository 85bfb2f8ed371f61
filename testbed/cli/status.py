"""`testbed status`: what runs now."""

import json
import time
from typing import Annotated

import typer

from testbed.cli._networks import age


def register(app: typer.Typer) -> None:
    app.command("status")(status)


def status(as_json: Annotated[bool, typer.Option("--json", help="One JSON object a run.")] = False) -> None:
    """List runs and networks that are up, and dead ones that `testbed clean` would remove."""
    from testbed.emulation.state import runs

    now_s = time.time()
    rows = [
        {
            "run_id": state.run_id,
            "kind": state.record.kind,
            "name": state.record.name,
            "state": "live" if state.alive else "dead",
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
        doing = row["progress"] if row["state"] == "live" else "dead: `testbed clean` removes what it left"
        typer.echo(
            f"{row['run_id']}  {row['kind']:<3}  {row['name']}  {age(float(str(row['age_s'])))}  {doing}".rstrip()
        )
