"""The plots of a run in a report: its completion times, its ranks, its links; and several points' times side by side.

Each function takes rows of one run (or the times of several points) and draws one figure.
"""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from testbed.results.drawing import (
    AMBER,
    BLUE,
    INK,
    MANY_MARKS,
    MUTED,
    PALE_BLUE,
    RED,
    SERIES,
    STYLE,
    TEAL,
    VIOLET,
    legend_above,
    new_figure,
    shortened,
    time_unit,
)
from testbed.results.result import Timing
from testbed.results.samples import IterationRow, LinkRow
from testbed.results.statistics import nearest_rank, percentile_interval

_BARS = {"even iterations": BLUE, "odd iterations": PALE_BLUE, "suspect": AMBER, "incomplete": RED}
MOST_LINKS = 24


def completion_times(times: Sequence[Timing], bound_ns: int | None, suspect: Sequence[int]) -> Figure:
    """The distribution of CCT (with the bound and percentiles) beside every iteration's."""
    cct = np.array([t.cct_ns for t in times])
    scale, unit = time_unit(int(cct.max()))
    ordered = sorted(int(c) for c in cct)
    with mpl.rc_context(STYLE):
        figure, (cdf, dots) = new_figure(2.9, 2, width_ratios=(1, 1.25))
        steps = np.arange(1, len(ordered) + 1) / len(ordered)
        cdf.step([ordered[0] / scale, *(c / scale for c in ordered)], [0, *steps], where="post", color=BLUE, lw=1.8)
        for percent, colour in ((50, TEAL), (95, AMBER), (99, RED)):
            value = nearest_rank(ordered, percent) / scale
            cdf.plot([value], [percent / 100], "o", color=colour, ms=5, label=f"p{percent}  {value:,.4g} {unit}")
        cdf.set(ylim=(0, 1.03), xlabel=f"completion time ({unit})", title="distribution")
        cdf.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        if bound_ns:
            cdf.axvline(
                bound_ns / scale, color=MUTED, lw=1, ls=(0, (4, 3)), label=f"bound  {bound_ns / scale:,.4g} {unit}"
            )
        cdf.legend(loc="best", handlelength=1.2)
        doubtful = set(suspect)
        for wanted, colour, name in ((False, BLUE, "iteration"), (True, AMBER, "suspect")):
            shown = [t for t in times if (t.iteration in doubtful) is wanted]
            if shown:
                xs, ys = [t.iteration for t in shown], [t.cct_ns / scale for t in shown]
                dots.plot(xs, ys, "o", color=colour, ms=4, label=name, rasterized=len(shown) > MANY_MARKS)
        if bound_ns:
            dots.axhline(bound_ns / scale, color=MUTED, lw=1, ls=(0, (4, 3)), label="bound")
        dots.set(xlabel="iteration", ylabel=unit, title="every iteration")
        dots.set_ylim(0, 1.12 * cct.max() / scale)
        dots.xaxis.set_major_locator(MaxNLocator(integer=True))
        dots.legend(loc="lower right", ncols=3, handlelength=1.2)
        return figure


def timeline(rows: Sequence[IterationRow], incomplete: Sequence[int]) -> Figure:
    """When each rank was in each measured iteration: a bar from its start to its end."""
    shown = [row for row in rows if not row.warmup]
    ranks = sorted({row.rank for row in shown})
    scale, unit = time_unit(max(row.end_ns for row in shown))
    with mpl.rc_context(STYLE):
        figure, (axes,) = new_figure(min(0.9 + 0.2 * len(ranks), 6.0), 1)
        for kind, colour in _BARS.items():
            bars = [
                _bar(ranks.index(row.rank), row.start_ns / scale, row.end_ns / scale)
                for row in shown
                if _bar_kind(row, incomplete) == kind
            ]
            if bars:
                rasterized = len(shown) > MANY_MARKS
                axes.add_collection(PolyCollection(bars, color=colour, lw=0, label=kind, rasterized=rasterized))
        axes.autoscale_view()
        every = max(1, len(ranks) // 16)
        axes.set_yticks(range(0, len(ranks), every), [f"rank {rank}" for rank in ranks[::every]])
        axes.set(xlabel=f"model time since the first release ({unit})", ylim=(len(ranks) - 0.4, -0.6))
        axes.set_xlim(left=min(0, *(row.start_ns for row in shown)) / scale)
        axes.grid(visible=False, axis="y")
        legend_above(axes)
        return figure


def link_use(rows: Sequence[LinkRow], span_ns: int) -> Figure:
    """How busy the busiest directed links were, and what they dropped and marked (job and background together)."""
    shown = sorted(rows, key=lambda r: (-r.busy_ns, -dropped(r), r.link))[:MOST_LINKS]
    counts = {
        "dropped by a full queue": (RED, [r.dropped_queue for r in shown]),
        "lost": (AMBER, [r.dropped_loss for r in shown]),
        "dropped by a link that was down": (VIOLET, [r.dropped_down for r in shown]),
        "ECN-marked": (TEAL, [r.ecn_marked for r in shown]),
    }
    panels = {name: series for name, series in counts.items() if any(series[1])}
    with mpl.rc_context(STYLE):
        figure, (use, *others) = new_figure(
            0.95 + 0.19 * len(shown), 1 + len(panels), width_ratios=(1.5, *[1] * len(panels)), sharey=True
        )
        use.barh(range(len(shown)), [r.busy_ns / span_ns for r in shown], height=0.7, color=BLUE)
        use.set_yticks(range(len(shown)), [r.link.replace(">", " → ") for r in shown])
        use.set(xlim=(0, 1), title="time busy", ylim=(len(shown) - 0.4, -0.6))
        use.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        for axes, (name, (colour, series)) in zip(others, panels.items(), strict=True):
            axes.barh(range(len(shown)), series, height=0.7, color=colour)
            axes.set(title=name)
            axes.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        for axes in (use, *others):
            axes.grid(visible=False, axis="y")
        return figure


def points(times: Mapping[str, Sequence[int]]) -> Figure:
    """CCT of several points (label to ns): every iteration as a dot, the median with its interval, and all CDFs."""
    scale, unit = time_unit(max(max(ns) for ns in times.values()))
    with mpl.rc_context(STYLE):
        figure, (dots, cdf) = new_figure(max(1.2 + 0.3 * len(times), 2.8), 2, width_ratios=(1.25, 1))
        jitter = np.random.default_rng(0)
        many = sum(map(len, times.values())) > MANY_MARKS
        for place, ns in enumerate(times.values()):
            colour, ordered = SERIES[place % len(SERIES)], sorted(ns)
            scaled = np.array(ordered) / scale
            spread = place + jitter.uniform(-0.22, 0.22, len(ordered))
            dots.plot(scaled, spread, "o", ms=2.6, color=colour, alpha=0.35, mew=0, rasterized=many)
            median, interval = nearest_rank(ordered, 50), percentile_interval(ordered, 50)
            if interval:
                dots.plot(
                    [bound / scale for bound in interval], [place, place], color=INK, lw=1.6, solid_capstyle="butt"
                )
            dots.plot([median / scale], [place], "D", ms=5, color=colour, mec=INK, mew=0.9)
            cdf.step(
                [scaled[0], *scaled], np.arange(len(ordered) + 1) / len(ordered), where="post", color=colour, lw=1.5
            )
        dots.set_yticks(range(len(times)), list(map(shortened, times)))
        dots.set(ylim=(len(times) - 0.4, -0.6), xlabel=f"completion time ({unit})", title="median with 95 % interval")
        dots.grid(visible=False, axis="y")
        dots.tick_params(axis="y", labelcolor=INK)
        cdf.set(ylim=(0, 1.03), xlabel=f"completion time ({unit})", title="distribution")
        cdf.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        for axes in (dots, cdf):
            axes.set_xlim(left=0)
        return figure


def dropped(row: LinkRow) -> int:
    return row.dropped_queue + row.dropped_loss + row.dropped_down


def _bar(place: int, start: float, end: float) -> list[tuple[float, float]]:
    return [(start, place - 0.36), (end, place - 0.36), (end, place + 0.36), (start, place + 0.36)]


def _bar_kind(row: IterationRow, incomplete: Sequence[int]) -> str:
    if row.iteration in incomplete:
        return "incomplete"
    return ("odd iterations" if row.iteration % 2 else "even iterations") if row.valid else "suspect"
