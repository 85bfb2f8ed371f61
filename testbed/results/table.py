"""The terminal's table: nccl-tests' columns, then the bound, percentiles, packets and the verdict with its reasons.

Columns, names and the meaning of `count` (elements a rank where each rank owns a part) are nccl-tests' (src/common.cu,
doc/PERFORMANCE.md). One point with one run gets a table and lines below it; several get one row a point, repeats
averaged.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Literal

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from testbed.results.model import EnvironmentEntry, Result, Simulation, TrafficEntry
from testbed.results.reading import plain, point_text
from testbed.results.statistics import mean

VERDICT_STYLES = {"valid": "green", "suspect": "yellow", "invalid": "red"}
_NCCL_TYPES = {"float32": ("float", 4), "float16": ("half", 2), "int32": ("int32", 4)}
_OWN_PART = ("reduce-scatter", "all-gather", "all-to-all")
_REDUCING = ("allreduce", "reduce-scatter")
_NONE = "-"
_TINY = 1e-6


def result_table(results: Sequence[Result]) -> RenderableType:
    """What `testbed run` prints at the end; `results` of one sweep, or of one run. Each job has a table of its own."""
    by_job: dict[str, list[Result]] = {}
    for result in results:
        for name, of_job in result.by_job().items():
            by_job.setdefault(name, []).append(of_job)
    parts: list[RenderableType] = []
    for name, of_jobs in by_job.items():
        if name:
            parts += [*([Text()] if parts else []), Text(f"job {name}", style="bold cyan")]
        alone = len(of_jobs) == 1
        parts += [_head(of_jobs[0]), _Points(of_jobs), *_details(of_jobs[0])] if alone else [_Points(of_jobs)]
    together = [r for r in results if r.jobs] if len(results) == 1 else []
    for result in together:
        parts += [Text(), Text(f"all jobs: {packets_text(result)}"), *_verdict_lines(result)]
    doubtful = [r for r in results if r.verdict.value != "valid" or r.status != "ok"] if len(results) > 1 else []
    return Group(*parts, *(line for r in doubtful for line in _verdict_lines(r, label=point_label(r) + "  ")))


def point_label(result: Result) -> str:
    """The swept values and the repeat; the run's id where it is of no sweep."""
    words = [point_text(result.point)] if result.point else []
    if result.repeat:
        words.append(f"repeat {result.repeat}")
    return " ".join(words) or f"run {result.run_id}"


def by_point(results: Sequence[Result]) -> list[list[Result]]:
    """The repeats of each point together, points in order of appearance."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(json.dumps(result.point, sort_keys=True), []).append(result)
    return list(groups.values())


def significant(value: float | None, digits: int = 3) -> str:
    """A number with at least `digits` significant digits; an exponent only where it would be all zeros."""
    if value is None:
        return _NONE
    if 0 < abs(value) < _TINY:
        return f"{value:.{digits - 1}e}"
    exponent = math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(digits - 1 - exponent, 0)}f}"


def microseconds(ns: float | None) -> str:
    return _NONE if ns is None else f"{ns / 1e3:,.1f}"


def gigabytes_per_s(bps: float | None) -> str:
    return _NONE if bps is None else significant(bps / 8e9)


def _head(result: Result) -> Text:
    what = [f"{result.name}: {result.engine}"]
    if result.collective:
        what.append(f"{result.collective} by {_short(result.algorithm)} over {_short(result.transport)}")
    if result.ranks:
        what.append(f"{result.ranks} ranks")
    what.append(f"{result.cct_ns.n} of {result.iterations} iterations")
    if result.time_dilation not in (None, 1):
        what.append(f"model time (run {result.time_dilation} times slower)")
    return Text(", ".join(what), style="bold")


def _short(name: str | None) -> str | None:
    """`own.py:NAME` of the whole path that the spec resolves to."""
    return name and name.rsplit("/", 1)[-1]


class _Points:
    """One row a point. Where the terminal has no room, swept mappings are broken into lines, and columns left out, the
    least telling first, and named.
    """

    def __init__(self, results: Sequence[Result]) -> None:
        self._points = by_point(results)
        swept = list(dict.fromkeys(key for result in results for key in result.point))
        self._swept = swept
        columns = []
        if len(self._points) < len(results):
            columns.append(_Column("runs", lambda runs: str(len(runs))))
        columns += _NCCL_COLUMNS
        if any(r.busbw_bps.in_network is not None for r in results):
            columns.append(_Column("busbw\n(in-network)", lambda runs: _bandwidth(runs, "busbw_bps", "in_network")))
        columns.append(_Column("#wrong", _wrong_cell))
        if any(r.missing_bytes for r in results):
            columns += _PARTIAL_COLUMNS
        self._columns = columns + (_FURTHER_COLUMNS if len(results) > 1 else [])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unbounded = options.update(max_width=_UNBOUNDED)

        def fits(table: Table) -> bool:
            return Measurement.get(console, unbounded, table).maximum <= options.max_width

        left_out: list[str] = []
        if not fits(table := self._table(self._columns, _UNBOUNDED)):
            for width in _SWEPT_WIDTHS:
                columns, left_out = list(self._columns), []
                while not (fitting := fits(table := self._table(columns, width))):
                    least = min(columns, key=lambda column: column.worth)
                    if least.worth == _ALWAYS:
                        break
                    columns.remove(least)
                    left_out.append(least.title.replace("\n", " "))
                if fitting:
                    break
        yield table
        if left_out:
            yield Text(f"(no room for: {', '.join(left_out)})", style="dim")

    def _table(self, columns: Sequence["_Column"], width: int) -> Table:
        """With lines of `width` in the cells of swept mappings; of 1, what is swept may break anywhere."""
        swept = [_Column(key, partial(_swept_cell, key, width), justify="left") for key in self._swept]
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        for column in swept:
            table.add_column(column.title, justify=column.justify, no_wrap=width > 1, overflow="fold")
        for column in columns:
            table.add_column(column.title, justify=column.justify, no_wrap=True)
        for runs in self._points:
            table.add_row(*(column.cell(runs) for column in (*swept, *columns)))
        return table


_Runs = Sequence[Result]
_ALWAYS = 99
_UNBOUNDED = 10_000
_SWEPT_WIDTHS = (28, 1)  # 1: a line a key


@dataclass(frozen=True, slots=True)
class _Column:
    """A column and what a point's runs put into it; the one of least `worth` is left out first."""

    title: str
    cell: Callable[[_Runs], str | Text]
    worth: int = _ALWAYS
    justify: Literal["left", "right"] = "right"


def _swept_cell(key: str, width: int, runs: _Runs) -> str:
    if key not in runs[0].point:
        return _NONE
    value = runs[0].point[key]
    if not isinstance(value, Mapping) or not value:
        return plain(value)
    lines: list[str] = []
    for part in (f"{name}: {plain(each)}" for name, each in value.items()):
        if lines and len(lines[-1]) + len(part) + 2 <= width:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return ",\n".join(lines)


def _count_cell(runs: _Runs) -> str:
    first = runs[0]
    if first.size_bytes is None or not first.ranks:
        return _NONE
    elements = first.size_bytes // _NCCL_TYPES[first.dtype or ""][1]
    return str(elements // first.ranks if first.collective in _OWN_PART else elements)


def _bandwidth(runs: _Runs, *path: str) -> str:
    return gigabytes_per_s(_mean([reduce(getattr, path, r) for r in runs]))


def _time(runs: _Runs, *path: str) -> str:
    return microseconds(_mean([reduce(getattr, path, r) for r in runs]))


def _wrong_cell(runs: _Runs) -> Text:
    wrong = [r.wrong for r in runs if r.wrong is not None]
    return Text(f"{sum(wrong)}", style="bold red" if any(wrong) else "") if wrong else Text("N/A")


def _verdict_cell(runs: _Runs) -> Text:
    """The worst of the repeats, or what ended one."""
    ended = [r.status for r in runs if r.status != "ok"]
    worst = max((r.verdict.value for r in runs), key=list(VERDICT_STYLES).index)
    return Text(ended[0], style="red") if ended else Text(worst, style=VERDICT_STYLES[worst])


_NCCL_COLUMNS = [
    _Column("size\n(B)", lambda runs: _NONE if runs[0].size_bytes is None else str(runs[0].size_bytes)),
    _Column("count\n(elements)", _count_cell, worth=4),
    _Column("type", lambda runs: _NCCL_TYPES.get(runs[0].dtype or "", (_NONE,))[0], worth=3),
    _Column("redop", lambda runs: "sum" if runs[0].collective in _REDUCING else "none", worth=2),
    _Column("root", lambda runs: str(-1 if runs[0].root is None else runs[0].root), worth=1),
    _Column("time\n(us)", lambda runs: _time(runs, "cct_ns", "mean")),
    _Column("algbw\n(GB/s)", lambda runs: _bandwidth(runs, "algbw_bps"), worth=8),
    _Column("busbw\n(GB/s)", lambda runs: _bandwidth(runs, "busbw_bps", "ring"), worth=9),
]
_PARTIAL_COLUMNS = [
    _Column("missing\n(%)", lambda runs: significant(_mean([100 * (r.missing_share or 0) for r in runs]))),
    _Column("nmse", lambda runs: significant(_mean([r.nmse for r in runs])), worth=12),
]
_FURTHER_COLUMNS = [
    _Column("bound\n(us)", lambda runs: _time(runs, "bound_ns"), worth=5),
    _Column("time/\nbound", lambda runs: significant(_mean([bound_ratio(r) for r in runs])), worth=10),
    _Column("p50\n(us)", lambda runs: _time(runs, "cct_ns", "p50"), worth=6),
    _Column("p95\n(us)", lambda runs: _time(runs, "cct_ns", "p95"), worth=7),
    _Column("p99\n(us)", lambda runs: _time(runs, "cct_ns", "p99"), worth=11),
    _Column("verdict", _verdict_cell),
]


def _details(result: Result) -> list[RenderableType]:
    cct, lines = result.cct_ns, Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(style="dim", no_wrap=True)
    lines.add_column()
    if ratio := bound_ratio(result):
        lines.add_row("bound", f"{microseconds(result.bound_ns)} us (alpha-beta); time is {ratio:.2f} times the bound")
    if cct.n:
        interval = cct.ci95.mean
        spread = "" if interval is None else f" (95 %: {microseconds(interval[0])} to {microseconds(interval[1])})"
        points = ", ".join(f"{p} {microseconds(getattr(cct, p))}" for p in ("min", "p50", "p95", "p99", "max"))
        lines.add_row("time", f"mean {microseconds(cct.mean)} us{spread}")
        lines.add_row("", f"{points} us")
        lines.add_row("exposed", f"p50 {microseconds(result.exposed_ns.p50)} us (last start to last end)")
    lines.add_row("packets", packets_text(result))
    if result.bytes_on_wire is not None:
        lines.add_row("wire", f"{result.bytes_on_wire:,} B in frames for {result.payload_bytes:,} B of payload")
    if result.simulation is not None:
        lines.add_row("simulated", _simulated(result.simulation, result.wall_s - result.setup_s))
    if result.missing_bytes:
        share = significant(100 * (result.missing_share or 0))
        lines.add_row("missing", f"{result.missing_bytes:,} B ({share} %); nmse {significant(result.nmse)}")
    if result.training.accuracy is not None:
        lines.add_row("learnt", f"accuracy {result.training.accuracy:.1%}, loss {significant(result.training.loss)}")
    if result.collective and cct.n and result.wrong is None:
        lines.add_row("checked", "nothing: with gradients: none there are no numbers")
    if result.environment is not None:
        lines.add_row("stress", _environment(result.environment))
    if result.traffic is not None:
        lines.add_row("flows", _flows(result.traffic))
    for note in result.notes:
        lines.add_row("note", Text(note))
    return [Text(), lines, *_verdict_lines(result)]


def _environment(environment: EnvironmentEntry) -> str:
    """What was asked for, and what was found."""
    found = "none found" if environment.severity is None else f"severity {significant(environment.severity)}"
    if environment.reached is not None:
        found += f", with which {_short(environment.algorithm)} over {_short(environment.transport)} reached "
        found += significant(environment.reached)
    return f"p99 / p50 of {environment.tail_ratio:g} by {environment.by}: {found}"


def _flows(traffic: TrafficEntry) -> str:
    """How many background flows there were, and how long they took."""
    fct, slow = traffic.fct_ns, traffic.slowdown
    text = f"{traffic.completed:,} of {traffic.begun:,} complete"
    if fct.n:
        text += f"; mean {microseconds(fct.mean)}, p50 {microseconds(fct.p50)}, p99 {microseconds(fct.p99)} us"
        text += f"; times alone {significant(slow.mean)}, {significant(slow.p50)}, {significant(slow.p99)}"
    return text


def _simulated(simulation: Simulation, took_s: float) -> str:
    """What a simulation did in the real time that it took once all was set up."""
    hops_a_s = f" ({simulation.hops / took_s:,.0f} a second)" if took_s > 0 else ""
    virtual_s = simulation.virtual_ns / 1e9
    ratio = significant(virtual_s / took_s) if took_s > 0 else _NONE
    return (
        f"{simulation.events:,} events, {simulation.hops:,} packet-hops{hops_a_s};"
        f" {significant(virtual_s)} s of virtual time in {significant(took_s)} s ({ratio} of wall time)"
    )


def packets_text(result: Result) -> str:
    """The counts that must balance, then those that are part of others; zeros of the rarer ones are left out."""
    p = result.packets
    if p is None:
        return "not counted"
    counts: Mapping[str, int] = {
        "duplicated": p.duplicated,
        "lost on links": p.dropped_loss,
        "corrupted": p.dropped_corrupt,
        "dropped by switch programs": p.dropped_program,
        "to hosts they were not for": p.dropped_strayed,
        "useless as they were trimmed": p.dropped_trimmed,
        "in flight": p.in_flight,
        "ECN-marked": p.ecn_marked,
        "trimmed": p.trimmed,
    }
    words = [f"{p.sent:,} sent", f"{p.received:,} received", f"{p.dropped_queue:,} dropped in queues"]
    words += [f"{count:,} {name}" for name, count in counts.items() if count]
    return ", ".join([*words, f"{p.retransmitted:,} retransmitted"])


def bound_ratio(result: Result) -> float | None:
    """Mean CCT over the alpha-beta bound."""
    return result.cct_ns.mean / result.bound_ns if result.cct_ns.mean and result.bound_ns else None


def _verdict_lines(result: Result, label: str = "") -> list[Text]:
    lines = []
    if result.status != "ok":
        lines.append(Text.assemble(label, (result.status, "bold red"), f": {result.failure or 'no reason given'}"))
    verdict = result.verdict
    lines.append(Text.assemble(label, "verdict: ", (verdict.value, f"bold {VERDICT_STYLES[verdict.value]}")))
    lines += [Text.assemble("  - ", (r.code, VERDICT_STYLES[r.level]), f": {r.text}") for r in verdict.reasons]
    return lines


def _mean(values: Sequence[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return mean(known) if known else None
