"""The plots of what was delivered in a report: when, to which rank, how much of it, with what error, to what effect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator, PercentFormatter, SymmetricalLogLocator

from testbed.results.drawing import AMBER, BLUE, PALE_BLUE, RED, SERIES, STYLE, new_figure, shortened, time_unit
from testbed.results.result import Timing
from testbed.results.samples import IterationRow
from testbed.results.statistics import mean, nearest_rank

MOST_PANELS = 12
MOST_CURVES = 12
ROUNDING = 1e-6  # errors below are those of adding up 16-bit floats, or longer ones
_PANELS_A_ROW = 3
_LONGEST_TITLE = 24
_DASHES = ("-", (0, (4, 2)))


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a point of a sweep came to, its repeats together: every completion time, and the mean error."""

    cct_ns: Sequence[int]
    nmse: float | None = None


@dataclass(frozen=True, slots=True)
class Learnt:
    """How well a model did after an iteration, which ended at an instant."""

    end_ns: int
    accuracy: float
    loss: float


def by_rank(rows: Sequence[IterationRow], timings: Sequence[Timing]) -> Figure:
    """From the first start of an iteration to each rank's end: median, p99 and the longest, rank by rank."""
    counted = {t.iteration for t in timings}
    shown = [row for row in rows if row.iteration in counted and not row.warmup]
    first: dict[int, int] = {}
    for row in shown:
        first[row.iteration] = min(row.start_ns, first.get(row.iteration, row.start_ns))
    times: dict[int, list[int]] = {}
    for row in shown:
        times.setdefault(row.rank, []).append(row.end_ns - first[row.iteration])
    ranks = sorted(times)
    ordered = [sorted(times[rank]) for rank in ranks]
    scale, unit = time_unit(max(each[-1] for each in ordered))
    p50, p99 = ([nearest_rank(each, percent) / scale for each in ordered] for percent in (50, 99))
    with mpl.rc_context(STYLE):
        figure, (axes,) = new_figure(2.5, 1)
        axes.vlines(ranks, p50, p99, color=PALE_BLUE, lw=max(0.6, min(6.0, 240 / len(ranks))))
        axes.plot(ranks, [each[-1] / scale for each in ordered], "x", color=RED, ms=3.5, label="longest")
        axes.plot(ranks, p99, "_", color=AMBER, ms=7, mew=2, label="p99")
        axes.plot(ranks, p50, "o", color=BLUE, ms=3.5, label="median")
        axes.set(xlabel="rank", ylabel=unit)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=False, axis="x")
        axes.legend(loc="lower right", ncols=3, handlelength=1.2)
        return figure


def errors(rows: Sequence[IterationRow]) -> Figure:
    """Of each iteration, at its end: the error of the ranks' results (mean, least to most), and what was missing."""
    shown = [row for row in rows if not row.warmup]
    by_iteration: dict[int, list[IterationRow]] = {}
    for row in shown:
        by_iteration.setdefault(row.iteration, []).append(row)
    scale, unit = time_unit(max(row.end_ns for row in shown))
    at = [max(row.end_ns for row in each) / scale for each in by_iteration.values()]
    nmse = [[row.nmse for row in each if row.nmse is not None] or [0.0] for each in by_iteration.values()]
    missing = [
        sum(row.missing_bytes for row in each) / max(1, sum(row.missing_bytes + row.received_bytes for row in each))
        for each in by_iteration.values()
    ]
    with mpl.rc_context(STYLE):
        figure, (error, share) = new_figure(2.5, 2, width_ratios=(1.25, 1))
        error.fill_between(at, [min(each) for each in nmse], [max(each) for each in nmse], color=PALE_BLUE, alpha=0.6)
        error.plot(at, [mean(each) for each in nmse], ".-", color=BLUE, lw=1.2, ms=4)
        error.set(xlabel=f"model time ({unit})", title="NMSE against the exact result: mean, least and most of ranks")
        _logarithmic(error, [value for each in nmse for value in each])
        share.plot(at, missing, ".-", color=RED, lw=1.2, ms=4)
        share.set(xlabel=f"model time ({unit})", title="share of bytes missing")
        share.set_ylim(bottom=0)
        share.yaxis.set_major_formatter(PercentFormatter(1.0))
        return figure


def training(curves: Mapping[str, Sequence[Learnt]]) -> Figure:
    """Accuracy and loss on the samples held out, against model time; one curve a label."""
    scale, unit = time_unit(max(each.end_ns for curve in curves.values() for each in curve))
    with mpl.rc_context(STYLE):
        figure, (accuracy, loss) = new_figure(2.7, 2)
        for place, (label, curve) in enumerate(curves.items()):
            at, style = [each.end_ns / scale for each in curve], _style(place)
            accuracy.plot(at, [each.accuracy for each in curve], label=shortened(label), **style)
            loss.plot(at, [each.loss for each in curve], **style)
        accuracy.set(xlabel=f"model time ({unit})", title="accuracy")
        accuracy.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        loss.set(xlabel=f"model time ({unit})", title="loss")
        loss.set_ylim(bottom=0)
        if len(curves) > 1:
            figure.legend(loc="outside right center", handlelength=1.6)
        return figure


def distributions(panels: Mapping[str, Mapping[str, Delivered]]) -> Figure:
    """CDFs of completion times: a panel for each title, in it a curve a label, of one colour in all of them."""
    labels = list(dict.fromkeys(label for panel in panels.values() for label in panel))
    scale, unit = time_unit(max(max(each.cct_ns) for panel in panels.values() for each in panel.values()))
    columns = min(_PANELS_A_ROW, len(panels))
    rows = -(-len(panels) // columns)
    with mpl.rc_context(STYLE):
        figure, grid = new_figure(0.5 + 2.1 * rows, columns, rows, sharey=True)
        known: dict[str, Line2D] = {}
        for axes, (title, panel) in zip(grid, panels.items(), strict=False):
            for label, each in panel.items():
                scaled = np.sort(np.array(each.cct_ns)) / scale
                share = np.arange(len(scaled) + 1) / len(scaled)
                style = _style(labels.index(label))
                (line,) = axes.step([scaled[0], *scaled], share, where="post", **style)
                known.setdefault(label, line)
            axes.set(ylim=(0, 1.03), xlabel=f"completion time ({unit})", title=shortened(title, _LONGEST_TITLE))
            axes.set_xlim(left=0)
            axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        names = [shortened(label) for label in known]
        figure.legend(known.values(), names, loc="outside right center", handlelength=1.6)
        return figure


def error_against_time(points: Mapping[str, Delivered]) -> Figure:
    """Of each point, mean completion time (and p99, to the right of it) and error: what the time saved has cost."""
    shown = {label: (each, each.nmse) for label, each in points.items() if each.nmse is not None}
    scale, unit = time_unit(max(max(each.cct_ns) for each, _ in shown.values()))
    with mpl.rc_context(STYLE):
        figure, (axes,) = new_figure(3.0, 1)
        for place, (label, (each, nmse)) in enumerate(shown.items()):
            colour = SERIES[place % len(SERIES)]
            middle, tail = mean(each.cct_ns) / scale, nearest_rank(sorted(each.cct_ns), 99) / scale
            axes.plot([middle, max(middle, tail)], [nmse, nmse], color=colour, lw=1.2, alpha=0.6)
            name, mark = shortened(label), "o" if place < len(SERIES) else "s"
            axes.plot([middle], [nmse], mark, color=colour, ms=6, label=name)
        axes.set(xlabel=f"completion time: mean, and a line to p99 ({unit})", title="NMSE against the exact result")
        axes.set_xlim(left=0)
        _logarithmic(axes, [nmse for _, nmse in shown.values()])
        figure.legend(loc="outside right center", handlelength=1.0)
        return figure


def _style(place: int) -> dict[str, Any]:
    """Of the curve of that number; after all colours come dashes."""
    again, colour = divmod(place, len(SERIES))
    return {"color": SERIES[colour], "lw": 1.5, "ls": _DASHES[again % len(_DASHES)]}


def _logarithmic(axes: Axes, values: Sequence[float]) -> None:
    """A scale of errors: logarithmic down to the least that is more than rounding, and 0 at its foot."""
    least = min((value for value in values if value > ROUNDING), default=0.0)
    if least:
        axes.set_yscale("symlog", linthresh=10 ** np.floor(np.log10(least)), linscale=0.4)
        axes.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=10 ** np.floor(np.log10(least))))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylim(top=2 * max(values))
    axes.set_ylim(bottom=0)
