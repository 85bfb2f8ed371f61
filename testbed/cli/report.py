"""`testbed report DIR...`: one self-contained HTML page about runs, and its plots as files."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.errors import UsageError
from testbed.results.reading import read_runs
from testbed.results.rundir import write_whole, writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def register(app: typer.Typer) -> None:
    app.command("report")(report)


def report(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="Run directories, sweeps or folders of them.")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE.html", help="Where to; default DIR/report.html.")
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write each plot there, as SVG and as PDF.")
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
    made = make_report(records)
    write_whole(path, lambda file: file.write(made.page), UsageError)
    typer.echo(path)
    if plots is not None:
        _write_plots(plots, made.plots)


def _write_plots(folder: Path, figures: "Mapping[str, Figure]") -> None:
    """Each as a file of each format; raises UsageError where one cannot be written, or is not of a report before."""
    from testbed.results.drawing import FILE_FORMATS, MAKER, as_file

    files = {
        folder / f"{name}.{ending}": (figure, ending) for name, figure in figures.items() for ending in FILE_FORMATS
    }
    for path in files:
        if path.exists() and not (path.is_file() and MAKER.encode() in path.read_bytes()):
            hint = "name another folder with --plots"
            raise UsageError(f"{path} exists and is no plot of a report, so it is not overwritten", hint=hint)
    with writing(folder, UsageError):
        folder.mkdir(parents=True, exist_ok=True)
        for path, (figure, ending) in files.items():
            path.write_bytes(as_file(figure, ending))
    typer.echo(f"{len(files)} files in {folder}")


def _is_report(path: Path) -> bool:
    return path.is_file() and b"Testbed report</title>" in path.read_bytes()[:2000]
