"""`testbed compare DIR DIR...`: metrics side by side, with ratios to the first and their 95 % intervals."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from testbed.cli.console import console
from testbed.results.comparison import Comparison, compare
from testbed.results.metrics import Estimate
from testbed.results.reading import read_runs
from testbed.results.table import significant

_MANY = 10_000  # an error against one of rounding is 1e12 times it


def register(app: typer.Typer) -> None:
    app.command("compare")(compare_runs)


def compare_runs(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR", help="Run directories or sweeps.")],
    force: Annotated[bool, typer.Option("--force", help="Take invalid and unfinished runs in.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare runs (paired by repeat) or sweeps (point by point); invalid runs are left out, and named."""
    found = compare([(directory, read_runs(directory)) for directory in directories], force=force)
    for line in found.left_out:
        typer.echo(f"left out: {line}", err=True)
    if as_json:
        data = {"schema": 1, "comparisons": [c.to_json() for c in found.tables], "left_out": found.left_out}
        typer.echo(json.dumps(data, indent=1))
        return
    out = console()
    for number, comparison in enumerate(found.tables):
        if number:
            out.print()
        out.print(_fitting(comparison, out))
    if any(
        estimate and estimate.interval is None for c in found.tables for line in c.lines for estimate in line.ratios
    ):
        out.print(Text("no interval: too few iterations or repeats for one", style="dim"))


def _fitting(comparison: Comparison, console: Console) -> Table:
    """Sets side by side where the terminal is wide enough, else below each other."""
    wide = _side_by_side(comparison)
    fits = Measurement.get(console, console.options.update(max_width=10_000), wide).maximum <= console.width
    return wide if fits else _below_each_other(comparison)


def _empty(comparison: Comparison, *columns: str) -> Table:
    title = Text(comparison.point, style="bold") if comparison.point else None
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    return table


def _side_by_side(comparison: Comparison) -> Table:
    table = _empty(comparison, "metric")
    for place, (label, runs) in enumerate(zip(comparison.labels, comparison.runs, strict=True)):
        table.add_column(f"{label}\n{_runs(runs)}", justify="right")
        if place:
            table.add_column("ratio to first\n(95 %)", justify="right")
    for line in comparison.lines:
        name, scale = _unit(line.metric)
        cells: list[str | Text] = [name, _value(line.values[0], scale)]
        for value, ratio in zip(line.values[1:], line.ratios, strict=True):
            cells += [_value(value, scale), _ratio(ratio)]
        table.add_row(*cells)
    return table


def _below_each_other(comparison: Comparison) -> Table:
    table = _empty(comparison, "metric", "of")
    table.add_column("value", justify="right")
    table.add_column("ratio to first (95 %)", justify="right")
    for line in comparison.lines:
        name, scale = _unit(line.metric)
        sets = zip(comparison.labels, comparison.runs, line.values, (None, *line.ratios), strict=True)
        for place, (label, runs, value, ratio) in enumerate(sets):
            first = (name, f"{label} ({_runs(runs)})", _value(value, scale), "")
            table.add_row(*first if place == 0 else ("", *first[1:3], _ratio(ratio)))
    return table


def _runs(count: int) -> str:
    return f"{count} run" if count == 1 else f"{count} runs"


def _unit(metric: str) -> tuple[str, float]:
    """The metric's name with the terminal's unit (as in `testbed run`), and how many of result.json's make one."""
    if "_ns" in metric:
        return metric.replace("_ns", "") + " (us)", 1e3
    if "_bps" in metric:
        return metric.replace("_bps", "") + " (GB/s)", 8e9
    return metric.replace("packets.", ""), 1.0


def _value(estimate: Estimate | None, scale: float) -> str:
    if estimate is None:
        return "-"
    value = estimate.value / scale
    return f"{value:,.0f}" if scale == 1.0 and value == int(value) else significant(value, 4)


def _ratio(estimate: Estimate | None) -> Text:
    if estimate is None:
        return Text("-")
    text = _times(estimate.value)
    if estimate.basis == "exact":
        return Text(text)
    if estimate.interval is None:
        return Text(f"{text} (no interval)", style="dim")
    low, high = estimate.interval
    return Text(f"{text} ({_times(low)} to {_times(high)})", style="" if low <= 1 <= high else "bold")


def _times(ratio: float) -> str:
    return f"{ratio:.3f}" if ratio < _MANY else f"{ratio:.2e}"
