"""`testbed report DIR...`: one self-contained HTML page about runs."""

from pathlib import Path
from typing import Annotated

import typer

from testbed.errors import UsageError
from testbed.results.reading import read_runs
from testbed.results.rundir import write_whole


def register(app: typer.Typer) -> None:
    app.command("report")(report)


def report(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="Run directories, sweeps or folders of them.")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE.html", help="Where to; default DIR/report.html.")
    ] = None,
) -> None:
    """Write one self-contained HTML page: times, timeline, links, verdict; print where it is."""
    records = [record for directory in directories for record in read_runs(directory)]
    if output is None and len(directories) > 1:
        raise UsageError("several directories have no one place for the page", hint="say where with -o FILE.html")
    from testbed.results.report import make_report  # matplotlib takes most of a second to import

    path = output or directories[0] / "report.html"
    if path.exists() and not _is_report(path):
        raise UsageError(f"{path} exists and is not a report, so it is not overwritten", hint="name another with -o")
    page = make_report(records)
    write_whole(path, lambda file: file.write(page), UsageError)
    typer.echo(path)


def _is_report(path: Path) -> bool:
    return path.is_file() and b"Testbed report</title>" in path.read_bytes()[:2000]
