"""`testbed schedule show|check ALGORITHM -n RANKS`: a collective's schedule, step by step, and its proof."""

import json
from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby
from typing import Annotated

import numpy as np
import typer

from testbed.collective import ALGORITHMS, generate
from testbed.collective.checker import check
from testbed.collective.cost import alpha_beta, bytes_sent
from testbed.collective.schedule import COPY, POOL, REDUCE, Schedule
from testbed.errors import UsageError

AlgorithmName = Annotated[str, typer.Argument(metavar="ALGORITHM", help="A name that `list` shows, or FILE.py:NAME.")]
Ranks = Annotated[int, typer.Option("-n", "--ranks", min=1, help="How many ranks.")]
CollectiveName = Annotated[
    str | None, typer.Option("--collective", help="Default: the first that the algorithm serves, or allreduce.")
]
Root = Annotated[int, typer.Option("--root", help="The root rank, where the algorithm has one.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option("-P", "--parameter", metavar="KEY=VALUE", help="One of the algorithm's, e.g. incast=3."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    schedule = typer.Typer(no_args_is_help=True, help="Show a collective's schedule and prove it.")
    schedule.command("show")(show)
    schedule.command("check")(check_schedule)
    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    schedule.command("export", help="Not supported yet: as MSCCL XML.", context_settings=anything)(_unbuilt)
    schedule.command("import", help="Not supported yet: from MSCCL XML.", context_settings=anything)(_unbuilt)
    app.add_typer(schedule, name="schedule")


def show(
    algorithm: AlgorithmName,
    ranks: Ranks,
    collective: CollectiveName = None,
    root: Root = 0,
    parameters: Parameters = None,
    as_json: AsJson = False,
) -> None:
    """Print the steps of a schedule: who sends which chunks to whom."""
    schedule = _generate(algorithm, ranks, collective, root, parameters or ())
    if as_json:
        rows = schedule.transfers
        names = rows.dtype.names or ()
        transfers = [dict(zip(names, row, strict=True)) for row in rows.tolist()]
        typer.echo(json.dumps({**_summary(schedule), "transfers": transfers}))
        return
    pools = ", & is held until all of its place are there and adds by rank"
    legend = "+ adds to what is there, = replaces it" + pools * bool((schedule.transfers["op"] == POOL).any())
    typer.echo("\n".join([*_headline(schedule), legend]))
    for step, rows_of_step in groupby(schedule.transfers, key=lambda row: int(row["step"])):
        typer.echo(f"step {step}: " + "  ".join(_arrow(row) for row in rows_of_step))


def check_schedule(
    algorithm: AlgorithmName,
    ranks: Ranks,
    collective: CollectiveName = None,
    root: Root = 0,
    parameters: Parameters = None,
    as_json: AsJson = False,
) -> None:
    """Prove that each rank ends with each contribution exactly once; exit status 2 names where it does not."""
    schedule = _generate(algorithm, ranks, collective, root, parameters or ())
    check(schedule)
    if as_json:
        typer.echo(json.dumps({**_summary(schedule), "proved": True}))
        return
    ports = (
        "several peers share a port in a step, as declared" if schedule.incast else "no port is used twice in a step"
    )
    lines = _headline(schedule)
    typer.echo("\n".join([*lines, f"proved: each rank ends with each contribution exactly once; {ports}"]))


def _unbuilt() -> None:
    raise UsageError("MSCCL XML is not supported yet", hint="an algorithm of one's own can be FILE.py:NAME")


def _generate(algorithm: str, ranks: int, collective: str | None, root: int, given: Sequence[str]) -> Schedule:
    if collective is None:
        collective = ALGORITHMS[algorithm].collectives[0] if algorithm in ALGORITHMS else "allreduce"
    parameters: dict[str, int | str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"-P {each} is not KEY=VALUE", hint="e.g. -P incast=3")
        parameters[key] = int(value) if value.isdecimal() else value
    return generate(collective, algorithm, ranks, root, parameters)


def _summary(schedule: Schedule) -> dict[str, object]:
    cost = alpha_beta(schedule, schedule.chunks)  # chunks of one byte
    return {
        "schema": 1,
        "collective": schedule.collective,
        "algorithm": schedule.algorithm,
        "ranks": schedule.ranks,
        "chunks": schedule.chunks,
        "steps": schedule.steps,
        "root": schedule.root,
        "barrier": schedule.barrier,
        "incast": schedule.incast,
        "alpha_beta": {"steps": cost.steps, "share": cost.bytes / schedule.chunks},
        "sent_share": (bytes_sent(schedule, schedule.chunks) / schedule.chunks).tolist(),
    }


def _headline(schedule: Schedule) -> list[str]:
    cost = alpha_beta(schedule, schedule.chunks)
    sent = bytes_sent(schedule, schedule.chunks)
    least, most = (_share(int(value), schedule) for value in (sent.min(), sent.max()))
    return [
        f"{schedule.collective} by {schedule.algorithm}: {schedule.ranks} ranks, {schedule.chunks} chunks, "
        f"{schedule.steps} steps, {len(schedule.transfers)} transfers",
        f"T = {cost.steps} α + {_share(cost.bytes, schedule)} S β step by step for a buffer of S bytes; "
        f"a rank sends {least if least == most else f'{least} to {most}'} S",
    ]


def _share(chunks: int, schedule: Schedule) -> str:
    share = Fraction(chunks, schedule.chunks)
    return str(share.numerator) if share.denominator == 1 else f"{share.numerator}/{share.denominator}"


def _arrow(row: np.void) -> str:
    sign = {REDUCE: "+", COPY: "=", POOL: "&"}[int(row["op"])]
    return f"{row['source']}→{row['destination']} {sign}{_range(row['chunk'], row['count'])}" + (
        f" at {_range(row['at'], row['count'])}" if row["at"] != row["chunk"] else ""
    )


def _range(first: int, count: int) -> str:
    return f"[{first}]" if count == 1 else f"[{first}-{first + count - 1}]"
