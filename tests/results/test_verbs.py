"""`testbed report` and `testbed compare` as a user meets them."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from testbed.cli import execute
from testbed.results.samples import Evidence

from .synthetic import write_run


@pytest.fixture
def two_runs(tmp_path: Path) -> tuple[str, str]:
    return str(write_run(tmp_path / "a", [1000, 1100, 1200])), str(write_run(tmp_path / "b", [2000, 2200, 2400]))


def test_report_goes_into_the_run_s_directory(two_runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["report", two_runs[0]]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path == Path(two_runs[0]) / "report.html"
    assert path.read_text().startswith("<!DOCTYPE html>")


def test_report_of_several_directories_wants_a_place(
    two_runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["report", *two_runs]) == 2
    assert "-o FILE.html" in capsys.readouterr().err
    assert execute(["report", *two_runs, "-o", str(tmp_path / "both.html")]) == 0
    assert (tmp_path / "both.html").exists()
    assert execute(["report", two_runs[0], "-o", str(tmp_path / "no" / "such.html")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_report_replaces_reports_and_nothing_else(
    two_runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    precious = tmp_path / "notes.html"
    precious.write_text("mine")
    assert execute(["report", two_runs[0], "-o", str(precious)]) == 2
    assert "is not a report, so it is not overwritten" in capsys.readouterr().err
    assert precious.read_text() == "mine"
    assert execute(["report", two_runs[0], "-o", str(tmp_path)]) == 2
    for _ in range(2):
        assert execute(["report", two_runs[0]]) == 0


def test_report_gives_each_plot_as_a_file_for_a_paper(
    two_runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "figures" / "all"
    command = ["report", *two_runs, "-o", str(tmp_path / "both.html"), "--plots", str(folder)]
    assert execute(command) == 0
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert capsys.readouterr().out.splitlines()[1] == f"{len(files)} files in {folder}"
    assert {"completion-times.pdf", "a-completion-times.svg", "b-time-to-completion-by-rank.pdf"} <= files.keys()
    for name, content in files.items():
        if name.endswith(".svg"):
            assert ElementTree.fromstring(content).tag == "{http://www.w3.org/2000/svg}svg"
            assert b"<text" not in content, "it looks the same without the font"
        else:
            assert content.startswith(b"%PDF-")
            assert b"/FontFile2" in content, "its fonts are in it"
    plots = (tmp_path / "both.html").read_text().count("<svg")
    assert len(files) == 2 * plots, "two files for each plot of the page"
    assert execute(command) == 0, "what a report has written it may write again"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files, "the same bytes"


def test_report_overwrites_no_plot_of_others(
    two_runs: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "completion-times.svg"
    mine.write_text("<svg>mine</svg>")
    assert execute(["report", two_runs[0], "--plots", str(tmp_path)]) == 2
    assert "completion-times.svg exists and is no plot of a report" in capsys.readouterr().err
    assert mine.read_text() == "<svg>mine</svg>"
    assert execute(["report", two_runs[0], "--plots", str(mine)]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_compare_prints_ratios(two_runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["compare", *two_runs]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["cct.mean", "(us)", "1.100", "2.200", "2.000", "(2.000", "to", "2.000)"] in lines


def test_compare_prints_few_digits_of_a_large_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = write_run(tmp_path / "a", [1, 1, 1]), write_run(tmp_path / "b", [2_000_000, 2_200_000, 2_400_000])
    assert execute(["compare", *map(str, runs)]) == 0
    # b / mean(b) has the standard deviation 1/11: 2.2e6 exp(±4.303 / 11 / sqrt 3)
    assert "2.20e+06 (1.76e+06 to 2.76e+06)" in " ".join(capsys.readouterr().out.split())


def test_compare_in_json(two_runs: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["compare", "--json", *two_runs]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == 1
    ratio = data["comparisons"][0]["metrics"]["cct_ns.mean"]["ratios_to_first"][0]
    assert (ratio["value"], ratio["ci95"]) == (pytest.approx(2), pytest.approx([2, 2]))


def test_compare_names_on_stderr_what_it_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(write_run(tmp_path / name, [1000])) for name in "ab"]
    bad = str(write_run(tmp_path / "c", [1000], evidence=Evidence(unmodelled_drops={"h0": 1})))
    assert execute(["compare", *paths, bad]) == 0
    assert capsys.readouterr().err == f"left out: {bad}: invalid: unmodelled-drops\n"
    assert execute(["compare", *paths, bad, "--force"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verb", ["report", "compare"])
def test_bad_places_end_in_status_2(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([verb, str(tmp_path / "nowhere")]) == 2
    assert "there is no directory" in capsys.readouterr().err
    assert execute([verb]) == 2


def test_many_sets_are_shown_below_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in range(8):
        write_run(tmp_path / f"p{place}", [1000 + place] * 2, point={"links.lossy.loss": f"{place}%"})
    assert execute(["compare", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    assert "links.lossy.loss=7% (1 run)" in out
