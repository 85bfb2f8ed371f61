"""`testbed clean`: remove what dead runs left behind, and nothing else."""

import os
import time
from typing import Annotated

import typer

from testbed.cli._networks import age
from testbed.errors import MachineLacks, RunFailed


def register(app: typer.Typer) -> None:
    app.command("clean")(clean)


def clean(
    everyone: Annotated[bool, typer.Option("--all", help="Everyone's leftovers, not this user's alone.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
) -> None:
    """Remove processes, namespaces and files of runs whose owner is dead; live runs are left, and named."""
    from testbed.emulation import cleanup

    found = cleanup.survey(everyone=everyone)
    if not dry_run and os.geteuid() != 0:
        raise MachineLacks("removing namespaces needs root", hint="sudo testbed clean (or --dry-run to look)")
    problems = []
    for leftover in found.leftovers:
        record = leftover.state.record
        what = f"{record.run_id} ({record.name}): {len(leftover.pids)} processes, {len(leftover.namespaces)} namespaces"
        typer.echo(f"{'would remove' if dry_run else 'removing'} {what}")
        if not dry_run:
            problems += cleanup.remove(leftover)
    if not dry_run:
        cleanup.remove_unborn()
    for state in found.live:
        how_long = age(time.time() - state.record.started_s)
        typer.echo(
            f"left {state.run_id} ({state.record.name}): it runs, since {how_long}, process {state.record.owner.pid}"
        )
    for state in found.others:
        typer.echo(f"left {state.run_id} ({state.record.name}): it is user {state.record.uid}'s; --all removes it too")
    if not (found.leftovers or found.live or found.others):
        typer.echo("nothing to remove")
    if problems:
        raise RunFailed("not everything could be removed: " + "; ".join(problems), hint="call `testbed clean` again")
