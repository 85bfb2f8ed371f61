"""The HTML page: complete, self-contained and well-formed for every kind of run."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from testbed.results import report
from testbed.results.reading import read_runs
from testbed.results.report import make_report
from testbed.results.samples import IterationEvidence, IterationRow, JobEvidence

from .synthetic import a_link, a_row, a_spec, iterations, write_run

VOID = {"meta", "br", "hr", "img", "link", "input"}


class _Checker(HTMLParser):
    """Fails on tags that do not match, and gathers ids and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def checked(*paths: Path) -> tuple[str, str]:
    """The page and its text, after the checks that every page must pass."""
    page = make_report([record for path in paths for record in read_runs(path)]).page
    checker = _Checker()
    checker.feed(page)
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(svg)
    outside = [
        url for url in re.findall(r'(?:href|src|url)[=(]"?([^")\s>]+)', page) if not url.startswith(("#", "data:"))
    ]
    assert outside == []
    assert "<script" not in page
    return page, " ".join(" ".join(checker.text).split())


def test_a_run(tmp_path: Path) -> None:
    times = JobEvidence(1000, iterations=tuple(IterationEvidence(i, 1000, 500 * (i == 1), 0) for i in range(4)))
    links = (a_link("h0>s0", packets=9, busy_ns=500_000), a_link("s0>h1", packets=9, dropped_queue=4, ecn_marked=2))
    page, text = checked(write_run(tmp_path / "run", times=times, links=links))
    assert page.count("<svg") == 4
    for expected in (
        *("tour", "allreduce by ring over roce", "1.15 ms", "95 %: 0.945 to 1.36 ms", "1.44", "0.912 GB/s"),
        *("rank 1", "h0 → s0", "dropped by a full queue", "ECN-marked", "late-departures", "suspect"),
        *("6.1 <slim>", "name: tour"),
    ):
        assert expected in text


def test_a_failed_run_has_its_reason_and_no_plots(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", iterations=(), links=(), status="failed", failure="ovsdb <died> & was lost")
    page, text = checked(run)
    assert "<svg" not in page
    assert "ovsdb <died> & was lost" in text


def test_an_interrupted_run_shows_what_it_has(tmp_path: Path) -> None:
    rows = (*iterations([1000]), a_row(1, 0, 2000, 2500))
    page, text = checked(write_run(tmp_path / "run", iterations=rows, links=(), status="interrupted", failure="Ctrl-C"))
    assert page.count("<svg") == 3
    assert "Ctrl-C" in text
    assert "incomplete" in text


def test_a_command_that_reported_no_iteration(tmp_path: Path) -> None:
    spec = a_spec(workload={"kind": "command", "command": "true"})
    page, _ = checked(write_run(tmp_path / "run", spec=spec, iterations=()))
    assert "None" not in page


def test_a_sweep_has_an_overview_and_few_details(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MOST_DETAILED", 2)
    for place in range(4):
        write_run(tmp_path / f"p{place:02}", [1000 + place, 1200], point={"n": place}, links=())
    page, text = checked(tmp_path)
    assert "Completion times by n" in text
    assert page.count("<section") == 3
    assert "2 more runs are in the table only" in text
    assert 'href="#run0"' in page


def partial(cct_ns: list[int], nmse: float) -> tuple[IterationRow, ...]:
    """What came, in iterations of which one byte in eight did not."""
    rows = (replace(row, missing_bytes=1 << 17, received_bytes=7 << 17, nmse=nmse) for row in iterations(cct_ns))
    return tuple(rows)


def test_what_was_not_delivered_and_what_came_of_it(tmp_path: Path) -> None:
    learnt = {"accuracy": 0.875, "loss": 0.5}
    run = write_run(tmp_path / "run", iterations=partial([1000, 1200], 0.01), training=learnt)
    told = [{"kind": "training", "iteration": i, "accuracy": 0.5 + 0.1 * i, "loss": 1.0} for i in range(2)]
    (run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in told) + '{"kind": "train')
    page, text = checked(run)
    assert page.count("<svg") == 6
    for expected in ("Time to completion by rank", "NMSE against the exact result", "12.5 %", "NMSE 0.0100", "87.5%"):
        assert expected in text


def test_transports_side_by_side(tmp_path: Path) -> None:
    """Curves by transport, a panel for each loss; and what error bought which time."""
    for loss in ("0%", "1%"):
        for kind, nmse in (("roce", 0.0), ("ubt", 0.02)):
            point = {"links.lossy.loss": loss, "transport.kind": kind}
            write_run(tmp_path / f"{kind}{loss}", iterations=partial([1000, 1200], nmse), point=point)
    _, text = checked(tmp_path)
    assert "Distributions of completion times by transport" in text
    assert "links.lossy.loss=1%" in text
    assert "Error against time" in text


def test_keys_that_are_swept_in_step_share_a_panel(tmp_path: Path) -> None:
    for kind, size in (("roce", "1MiB"), ("ubt", "2MiB")):
        write_run(tmp_path / kind, [1000, 1200], point={"transport.kind": kind, "workload.size": size})
    _, text = checked(tmp_path)
    assert "ubt 2MiB" in text


def test_long_values_are_told_in_short(tmp_path: Path) -> None:
    """By their kinds; a label's middle is left out, and two whose ends are alike stay two."""
    for place, at in enumerate(("5ms", "450ms")):
        fault = {"kind": "link-set", "select": ["h1>s0", "h2>s0"], "loss": "40%", "at": at, "for": "100ms"}
        write_run(tmp_path / f"p{place}", [1000, 1200], point={"transport": {"kind": "ubt"}, "faults": [fault]})
    write_run(tmp_path / "p2", [1000, 1200], point={"transport": {"kind": "ubt"}, "faults": []})
    page, text = checked(tmp_path)
    assert "ubt none" in text
    assert "=450ms for=100ms" in text
    assert "=5ms for=100ms" in text
    figures = page.split("<h3>Distributions")[1].split("<h3>Table")[0]
    assert not re.search(r">[^<]{40,}</text>", figures)


def test_runs_of_no_sweep_side_by_side(tmp_path: Path) -> None:
    _, text = checked(write_run(tmp_path / "before"), write_run(tmp_path / "after"))
    assert "before" in text
    assert "after" in text


@pytest.mark.slow
def test_a_large_run_makes_a_modest_page(tmp_path: Path) -> None:
    rows = tuple(a_row(i, r, i * 2000, i * 2000 + 1000 + r) for i in range(200) for r in range(64))
    links = tuple(a_link(f"s{i}>s{i + 1}", packets=1, busy_ns=i) for i in range(200))
    page, text = checked(write_run(tmp_path / "run", iterations=rows, links=links))
    assert len(page) < 400_000
    assert "The 24 busiest of 200 directed links" in text
