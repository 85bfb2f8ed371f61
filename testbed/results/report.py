"""`report.html`: one page that holds all it needs: what was measured, how it spread, where it went, what to believe.

It is made from run directories alone, of finished, failed and interrupted runs alike; what a run has not measured is
left out of its section. All text from files is escaped. Its plots are also to be had as they are, for files of their
own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from testbed import __version__
from testbed.results import delivered, drawing, plots
from testbed.results.delivered import Delivered, Learnt
from testbed.results.model import Pauses, Result
from testbed.results.reading import RunRecord, plain, point_text
from testbed.results.rundir import safe_name
from testbed.results.statistics import mean
from testbed.results.table import bound_ratio, gigabytes_per_s, packets_text, point_label, significant

MOST_DETAILED = 12
MOST_POINTS = 24
_FIGURES = ("time", "p50", "p95", "p99", "time/bound", "busbw GB/s", "#wrong", "retransmitted")
_PARTIAL = ("missing", "NMSE")
_SERIES = ("transport", "workload.codec", "workload.algorithm")  # sections whose keys tell curves apart
_STYLE_SHEET = Path(__file__).with_name("report.css")


@dataclass(frozen=True, slots=True)
class _Plot:
    """A figure of the page, under its title."""

    title: str
    figure: Figure


_Parts = Iterable[str | _Plot]  # of the page, in order: HTML, and plots
_Point = tuple[Mapping[str, Any], Delivered]  # of a sweep: the swept keys and its values, and what it came to


class Report(NamedTuple):
    """The page, and its plots by names that can be files': of which run, and the title."""

    page: str
    plots: Mapping[str, Figure]


def make_report(records: Sequence[RunRecord]) -> Report:
    """The page for these runs; with more than `MOST_DETAILED` of them only the first are shown one by one."""
    detailed, alone = records[:MOST_DETAILED], len(records) == 1
    sections = [] if alone else [("", [*_overview(records, len(detailed))])]
    for place, record in enumerate(detailed):
        sections.append(("" if alone else record.path.name, [*_run(record, f"run{place}", alone=alone)]))
    if len(records) > len(detailed):
        left_out = f"{len(records) - len(detailed)} more runs are in the table only; report their directories."
        sections.append(("", [_note(left_out)]))
    names = list(dict.fromkeys(record.result.name for record in records))
    subtitle = _subtitle(records[0].result) if alone else f"{len(records)} runs"
    return Report(
        _page(", ".join(names), subtitle, [part for _, parts in sections for part in parts]), _plots(sections)
    )


def _plots(sections: Iterable[tuple[str, _Parts]]) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    for of, parts in sections:
        for plot in parts:
            if isinstance(plot, _Plot):
                name = safe_name(" ".join(filter(None, (of, plot.title.lower()))))
                numbered = (f"{name}-{number}" for number in count(2))
                found[next(each for each in chain([name], numbered) if each not in found)] = plot.figure
    return found


def _page(title: str, subtitle: str, parts: _Parts) -> str:
    numbers = count()
    body = "\n".join(part if isinstance(part, str) else _drawn(part, f"f{next(numbers)}-") for part in parts)
    return "\n".join(
        (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)} – Testbed report</title>",
            f"<style>\n{_STYLE_SHEET.read_text()}</style>\n</head>\n<body>",
            f'<header><h1>{escape(title)}</h1><p class="sub">{escape(subtitle)}</p></header>\n<main>',
            body,
            f"</main>\n<footer>Testbed {escape(__version__)}. All times and rates are model time.</footer>",
            "</body>\n</html>\n",
        )
    )


def _overview(records: Sequence[RunRecord], detailed: int) -> Iterator[str | _Plot]:
    swept = list(dict.fromkeys(key for record in records for key in record.result.point))
    repeats = any(record.result.repeat for record in records)
    jobs = any(record.result.jobs for record in records)
    columns = [*swept, *(["repeat"] if repeats else []), *(["job"] if jobs else []), "run", "verdict"]
    head = "".join(f'<th class="left">{escape(name)}</th>' for name in columns)
    partial = any(of_job.missing_bytes for record in records for of_job in record.result.by_job().values())
    head += "".join(f"<th>{name}</th>" for name in (*_FIGURES, *(_PARTIAL if partial else ())))
    rows = []
    results = [(i, job, result) for i, record in enumerate(records) for job, result in record.result.by_job().items()]
    for place, job, result in results:
        cells = [plain(result.point[key]) if key in result.point else "" for key in swept]
        cells += [str(result.repeat)] if repeats else []
        cells += [job] if jobs else []
        left = "".join(f'<td class="left">{escape(cell)}</td>' for cell in cells)
        name = escape(records[place].path.name)
        link = f'<a href="#run{place}">{name}</a>' if place < detailed else name
        cct = result.cct_ns
        figures = [_time(cct.mean), _time(cct.p50), _time(cct.p95), _time(cct.p99)]
        figures += [significant(bound_ratio(result)), gigabytes_per_s(result.busbw_bps.ring)]
        figures += [
            "–" if result.wrong is None else f"{result.wrong:,}",
            "–" if result.packets is None else f"{result.packets.retransmitted:,}",
        ]
        if partial:
            figures += [_share(result.missing_share), significant(result.nmse)]
        right = "".join(f"<td>{escape(figure)}</td>" for figure in figures)
        rows.append(f'<tr>{left}<td class="left">{link}</td><td class="left">{_badge(result)}</td>{right}</tr>')
    yield '<section class="card"><h2>All runs</h2>'
    yield from _points(records)
    yield from _side_by_side(records)
    table = f'<div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div>'
    yield f"<h3>Table</h3>{table}</section>"


def _points(records: Sequence[RunRecord]) -> Iterator[str | _Plot]:
    """CCT of each point (its repeats together), or of each run where they are of no sweep."""
    keys = {tuple(record.result.point) for record in records}
    times: dict[str, list[int]] = {}
    for record in records:
        point = record.result.point
        named = [(key.rpartition(".")[2], _in_short(value)) for key, value in point.items()]
        name = " · ".join(value if len(keys) == 1 else f"{key}={value}" for key, value in named)
        for job, of_job in record.by_job.items():
            label = " · ".join(filter(None, (name or record.path.name, job and f"job {job}")))
            times.setdefault(label, []).extend(t.cct_ns for t in of_job.timings)
    measured = {name: ns for name, ns in times.items() if ns}
    if len(measured) < 2:
        return
    shown = dict(list(measured.items())[:MOST_POINTS])
    by = ", ".join(min(keys)) if len(keys) == 1 else ""
    yield _Plot(f"Completion times by {by}" if by else "Completion times", plots.points(shown))
    if left_out := len(measured) - len(shown):
        yield _note(f"{left_out} more points are in the table only.")


def _side_by_side(records: Sequence[RunRecord]) -> Iterator[str | _Plot]:
    """What the points of a sweep delivered: distributions, error against time, and what was learnt."""
    points = _delivered(records)
    if len(points) > 1:
        series, panels = _panels(points)
        shown = dict(list(panels.items())[: delivered.MOST_PANELS])
        yield _Plot(f"Distributions of completion times by {series}", delivered.distributions(shown))
        if len(panels) > len(shown):
            yield _note(f"{len(panels) - len(shown)} more panels are left out; report parts of the sweep.")
    named = _by_name(points)
    if len(named) > 1 and any((each.nmse or 0) > delivered.ROUNDING for each in named.values()):
        few = dict(list(named.items())[: delivered.MOST_CURVES])
        yield _Plot("Error against time", delivered.error_against_time(few))
    curves = _learning(records)
    if len(curves) > 1:
        yield _Plot("Training", delivered.training(curves))


def _delivered(records: Sequence[RunRecord]) -> list[_Point]:
    """Each point's times and error, of all its repeats; a job counts as a swept key."""
    found: dict[str, tuple[dict[str, Any], list[int], list[float]]] = {}
    for record in records:
        for job, of_job in record.by_job.items():
            point = record.result.point | ({"job": job} if job else {})
            _, times, errors = found.setdefault(point_text(point), (point, [], []))
            times += [t.cct_ns for t in of_job.timings]
            errors += [] if of_job.result.nmse is None else [of_job.result.nmse]
    return [
        (point, Delivered(times, mean(errors) if errors else None)) for point, times, errors in found.values() if times
    ]


def _panels(points: Sequence[_Point]) -> tuple[str, dict[str, dict[str, Delivered]]]:
    """What tells curves apart (the transport, if that is swept), and title -> label -> times: a panel for each value of
    all other keys. Where each panel would have one curve (keys are swept in step) all are in one.
    """
    keys = list(dict.fromkeys(key for point, _ in points for key in point))
    series = next((name for name in _SERIES if any(_within(key, name) for key in keys)), keys[0] if keys else "run")
    panels: dict[str, dict[str, Delivered]] = {}
    for point, each in points:
        own = [_in_short(value) for key, value in point.items() if _within(key, series)]
        others = [f"{key}={_in_short(value)}" for key, value in point.items() if not _within(key, series)]
        panels.setdefault(" ".join(others), {})[" ".join(own)] = each
    if all(len(panel) == 1 for panel in panels.values()):
        panels = {"": _by_name(points)}
    return series, {title: dict(list(panel.items())[: delivered.MOST_CURVES]) for title, panel in panels.items()}


def _by_name(points: Sequence[_Point]) -> dict[str, Delivered]:
    return {" ".join(map(_in_short, point.values())): each for point, each in points}


def _within(key: str, section: str) -> bool:
    return key == section or key.startswith(f"{section}.")


def _in_short(value: object) -> str:
    """A swept value: of a mapping its kind and what else it says, of one's own its name."""
    if isinstance(value, list):
        return ", ".join(map(_in_short, value)) or "none"
    if not isinstance(value, dict):
        return plain(value).rsplit("/", 1)[-1]
    kind = [_in_short(value["kind"])] if "kind" in value else []
    return " ".join([*kind, *(f"{key}={_in_short(each)}" for key, each in value.items() if key != "kind")])


def _learning(records: Sequence[RunRecord]) -> dict[str, list[Learnt]]:
    """Each point's training, of its first repeat."""
    curves: dict[str, list[Learnt]] = {}
    for record in records:
        for job, of_job in record.by_job.items():
            point = " ".join(map(_in_short, record.result.point.values()))
            label = " ".join(filter(None, (point or record.path.name, job and f"job {job}")))
            if label not in curves and (curve := _learnt(of_job)):
                curves[label] = curve
    return dict(list(curves.items())[: delivered.MOST_CURVES])


def _learnt(record: RunRecord) -> list[Learnt]:
    """What its model did after each iteration that ended for all."""
    ends: dict[int, int] = {}
    for row in record.iterations:
        if not row.warmup:
            ends[row.iteration] = max(row.end_ns, ends.get(row.iteration, row.end_ns))
    return [
        Learnt(ends[told["iteration"]], float(told["accuracy"]), float(told["loss"]))
        for told in record.training
        if told["iteration"] in ends and "accuracy" in told and "loss" in told
    ]


def _run(record: RunRecord, anchor: str, *, alone: bool) -> Iterator[str | _Plot]:
    result = record.result
    title = record.path.name if alone or not (result.point or result.repeat) else point_label(result)
    subtitle = str(record.path) if alone else _subtitle(result)
    yield f'<section class="card" id="{anchor}">'
    yield f'<div class="title"><h2>{escape(title)}</h2>{_badge(result)}</div><p class="sub">{escape(subtitle)}</p>'
    yield _reasons(result)
    for name, job in record.by_job.items():
        yield from _job(name, job)
    yield from _links(record)
    if result.pfc and result.pfc.frames:
        yield _note(f"Priority flow control: {_pauses(result.pfc)}.")
    for name, of_job in result.by_job().items():
        if of_job.packets and of_job.packets.sent:
            yield _note(f"Packets of {f'job {name}' if name else 'the job'}: {packets_text(of_job)}.")
    yield from map(_note, result.notes)
    yield _folded("Spec", record.text("spec.yaml"))
    yield _folded("Environment", record.text("environment.json"))
    yield "</section>"


def _job(name: str, record: RunRecord) -> Iterator[str | _Plot]:
    """What is one job's; one without a name is the run's only one."""
    result = record.result
    of = f" of job {name}" if name else ""
    if name:
        yield f'<div class="title"><h3>Job {escape(name)}</h3>{_badge(result)}</div>'
        yield f'<p class="sub">{escape(_subtitle(result))}</p>'
    yield _tiles(result)
    if record.timings:
        suspect = result.verdict.suspect_iterations
        yield _Plot(f"Completion times{of}", plots.completion_times(record.timings, result.bound_ns, suspect))
    measured = [row for row in record.iterations if not row.warmup]
    if measured:
        yield _Plot(f"Iterations of each rank{of}", plots.timeline(measured, result.incomplete_iterations))
    if measured and record.timings and (result.ranks or 0) > 1:
        yield _Plot(f"Time to completion by rank{of}", delivered.by_rank(measured, record.timings))
    if result.missing_bytes:
        yield _Plot(f"Error and what was missing{of}", delivered.errors(measured))
    if curve := _learnt(record):
        yield _Plot(f"Training{of}", delivered.training({"": curve}))


def _links(record: RunRecord) -> Iterator[str | _Plot]:
    measured = [row for row in record.iterations if not row.warmup]
    if not measured:
        return
    used = [row for row in record.links if row.packets or plots.dropped(row)]
    if used:
        span_ns = max(row.end_ns for row in measured) - min(row.start_ns for row in measured)
        yield _Plot("Links", plots.link_use(used, max(span_ns, 1)))
        if len(used) > plots.MOST_LINKS:
            yield _note(f"The {plots.MOST_LINKS} busiest of {len(used)} directed links that carried packets.")


def _subtitle(result: Result) -> str:
    words = [f"{result.collective} by {result.algorithm} over {result.transport}"] if result.collective else []
    words += [f"{result.ranks} ranks"] if result.ranks else []
    words += [f"{result.size_bytes:,} B"] if result.size_bytes else []
    words.append(f"{result.cct_ns.n} of {result.iterations} iterations")
    words.append(result.engine)
    if result.time_dilation not in (None, 1):
        words.append(f"time dilation {result.time_dilation}")
    return " · ".join(words)


def _badge(result: Result) -> str:
    word = result.verdict.value if result.status == "ok" else result.status
    return f'<span class="badge {word}">{word}</span>'


def _reasons(result: Result) -> str:
    items: list[tuple[str, str, str]] = []
    if result.status != "ok":
        items.append((result.status, result.status, result.failure or "no reason given"))
    items += [(reason.level, reason.code, reason.text) for reason in result.verdict.reasons]
    lines = [
        f'<li class="{level}"><b>{escape(code)}</b><span>{escape(text)}</span></li>' for level, code, text in items
    ]
    return f'<ul class="reasons">{"".join(lines)}</ul>' if lines else ""


def _tiles(result: Result) -> str:
    cct, ratio = result.cct_ns, bound_ratio(result)
    tiles: list[tuple[str, str, str]] = []
    if cct.n:
        interval = cct.ci95.mean
        tiles.append(("Mean completion time", _time(cct.mean), f"95 %: {_span(interval)}" if interval else ""))
        interval = cct.ci95.p50
        tiles.append(("Median", _time(cct.p50), f"95 %: {_span(interval)}" if interval else ""))
        tiles.append(("p95 / p99", _time(cct.p95), f"p99 {_time(cct.p99)}, max {_time(cct.max)}"))
        tiles.append(("Exposed (p50)", _time(result.exposed_ns.p50), "last start to last end"))
    if ratio:
        tiles.append(("Time over bound", significant(ratio), f"α-β bound {_time(result.bound_ns)}"))
    if result.busbw_bps.ring is not None:
        tiles.append(
            (
                "busbw",
                f"{gigabytes_per_s(result.busbw_bps.ring)} GB/s",
                f"algbw {gigabytes_per_s(result.algbw_bps)} GB/s",
            )
        )
    if result.wrong is not None:
        tiles.append(("Wrong elements", f"{result.wrong:,}", "in all measured iterations"))
    if result.missing_bytes:
        tiles.append(
            ("Missing", _share(result.missing_share), f"{result.missing_bytes:,} B; NMSE {significant(result.nmse)}")
        )
    if result.training.accuracy is not None:
        tiles.append(
            ("Accuracy", f"{result.training.accuracy:.1%}", f"loss {significant(result.training.loss)}, at the end")
        )
    if result.packets and result.packets.sent:
        tiles.append(("Retransmitted", f"{result.packets.retransmitted:,}", f"of {result.packets.sent:,} packets sent"))
    cells = []
    for name, value, more in tiles:
        bad = ' class="bad"' if name == "Wrong elements" and result.wrong else ""
        cells.append(f'<div class="tile"><dt>{name}</dt><dd{bad}>{escape(value)}</dd><p>{escape(more)}</p></div>')
    return f'<dl class="tiles">{"".join(cells)}</dl>' if cells else ""


def _pauses(pfc: Pauses) -> str:
    return f"{pfc.frames:,} pause and resume frames, {_time(pfc.paused_ns)} of all priorities together"


def _share(share: float | None) -> str:
    return "–" if share is None else f"{significant(100 * share)} %"


def _drawn(plot: _Plot, prefix: str) -> str:
    """In the page, where no two figures may share an id: with a prefix of its own."""
    title, svg = escape(plot.title), drawing.with_own_ids(drawing.as_svg(plot.figure), prefix)
    return f'<h3>{title}</h3><figure role="img" aria-label="{title}">{svg}</figure>'


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _folded(title: str, text: str | None) -> str:
    if text is None:
        return ""
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def _time(ns: int | None) -> str:
    if ns is None:
        return "–"
    scale, unit = drawing.time_unit(ns)
    return f"{significant(ns / scale)} {unit}"


def _span(interval: tuple[int, int]) -> str:
    scale, unit = drawing.time_unit(interval[1])
    return f"{significant(interval[0] / scale)} to {significant(interval[1] / scale)} {unit}"
