"""`testbed run --check simulation`: the same experiment under the virtual clock, and how far apart the two are."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from testbed.cli.console import console
from testbed.errors import UsageError
from testbed.results.gap import Gap, gaps
from testbed.results.reading import read_runs
from testbed.results.table import microseconds
from testbed.spec.reader import read_experiment

if TYPE_CHECKING:
    from testbed.spec.reader import Experiment

ENGINE = "simulation"


def reference(spec: Path, overrides: list[str], experiment: "Experiment", check: str, out: Path | None) -> "Experiment":
    """The experiment in simulation; raises UsageError where it cannot be, or its directory is taken."""
    if check != ENGINE:
        raise UsageError(f"--check {check}: results are held against simulation only", hint=f"--check {ENGINE}")
    if any(point.spec.engine == ENGINE for point in experiment.points):
        raise UsageError(f"--check {ENGINE} is for emulated runs", hint="leave --check away, or set engine: emulation")
    if out is not None and place(out).exists():
        raise UsageError(f"{place(out)} is there already, and nothing is ever overwritten", hint="name another --out")
    return read_experiment(spec, overrides, ENGINE)


def place(directory: Path) -> Path:
    """Where the simulated runs of an experiment in `directory` are written."""
    return directory.with_name(f"{directory.name}-{ENGINE}")


def print_gaps(emulated: Path, simulated: Path) -> None:
    """The medians of both engines at each point, their ratio, and what the emulation can resolve."""
    out = console()
    if found := gaps(read_runs(emulated), read_runs(simulated)):
        out.print(_table(found))
        out.print("resolves: the least relative difference of mean times that two such sets of runs show (95 %)")
    out.print(f"simulated in {simulated}", soft_wrap=True)


def _table(found: list[Gap]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("point")
    for column in ("emulated p50 (us)", "simulated p50 (us)", "gap", "95 %", "resolves"):
        table.add_column(column, justify="right", no_wrap=True)
    for gap in found:
        interval = gap.ratio.interval
        table.add_row(
            gap.label or "as written",
            microseconds(gap.measured_ns),
            microseconds(gap.reference_ns),
            _percent(gap.ratio.value - 1),
            f"{_percent(interval[0] - 1)} to {_percent(interval[1] - 1)}" if interval else "too few samples",
            "-" if gap.resolves is None else f"{100 * gap.resolves:.2g} %",
        )
    return table


def _percent(share: float) -> str:
    return f"{100 * share:+.2f} %"
