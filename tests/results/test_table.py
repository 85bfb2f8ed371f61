"""The terminal's table."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from testbed.results.model import Distribution, EnvironmentEntry, Result, Slowdown, TrafficEntry
from testbed.results.samples import Evidence
from testbed.results.table import result_table, significant

from .synthetic import a_result, a_row, a_spec, iterations


def printed(*results: Result, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(result_table(results))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


def row_starting(text: str, word: str) -> list[str]:
    (line,) = [line.split() for line in text.splitlines() if line.split()[:1] == [word]]
    return line


def test_columns_of_nccl_tests() -> None:
    text = printed(a_result())
    names = next(line for line in text.splitlines() if "size" in line).split()
    assert names == ["size", "count", "time", "algbw", "busbw"]
    units = next(line for line in text.splitlines() if "(B)" in line).split()
    assert units == ["(B)", "(elements)", "type", "redop", "root", "(us)", "(GB/s)", "(GB/s)", "#wrong"]
    # 1 MiB in 1150 us is 0.912 GB/s
    assert row_starting(text, "1048576") == [
        "1048576",
        "262144",
        "float",
        "sum",
        "-1",
        "1,150.0",
        "0.912",
        "0.912",
        "0",
    ]


@pytest.mark.parametrize(
    ("workload", "cells"),
    [  # count is per rank where each rank owns a part; root and redop as nccl-tests prints them
        ({"collective": "all-gather", "dtype": "float16"}, ["262144", "half", "none", "-1"]),
        ({"collective": "reduce-scatter", "dtype": "int32"}, ["131072", "int32", "sum", "-1"]),
        ({"collective": "all-to-all"}, ["131072", "float", "none", "-1"]),
        ({"collective": "broadcast", "root": 1}, ["262144", "float", "none", "1"]),
    ],
)
def test_count_type_redop_and_root(workload: dict[str, Any], cells: list[str]) -> None:
    spec = a_spec(workload={"algorithm": "ring", "size": "1MiB", "iterations": 4} | workload)
    assert row_starting(printed(a_result(spec=spec)), "1048576")[1:5] == cells


def test_lines_below_a_single_run() -> None:
    text = " ".join(printed(a_result()).split())
    assert "bound 800.0 us (alpha-beta); time is 1.44 times the bound" in text
    assert "time mean 1,150.0 us (95 %: 944.6 to 1,355.4)" in text
    assert "min 1,000.0, p50 1,100.0, p95 1,300.0, p99 1,300.0, max 1,300.0 us" in text
    assert (
        "packets 1,000 sent, 985 received, 12 dropped in queues, 5 duplicated, 6 lost on links, 2 in flight, 0 retr"
        in text
    )
    assert text.endswith("verdict: valid")


def test_reasons_are_printed() -> None:
    text = printed(a_result(evidence=Evidence(unmodelled_drops={"socket of h0": 3}, notes=("spray",))))
    assert "verdict: invalid" in text
    assert "unmodelled-drops: 3 packets were lost outside the modelled queues: socket of h0 3" in text
    assert "note" in text


def test_a_failed_run_says_so_first() -> None:
    text = printed(a_result(status="failed", failure="worker 3 [h3] was lost", iterations=()))
    assert "failed: worker 3 [h3] was lost" in text
    assert text.index("failed:") < text.index("verdict:")


def test_wrong_elements_show() -> None:
    rows = (*iterations([1000]), a_row(1, 0, 2000, 3000, wrong=5), a_row(1, 1, 2000, 3000))
    assert row_starting(printed(a_result(iterations=rows)), "1048576")[-1] == "5"


def test_without_numbers_nothing_was_checked_and_the_table_says_so() -> None:
    rows = tuple(replace(row, wrong=None, nmse=None) for row in iterations([1000, 2000]))
    result = a_result(iterations=rows, spec=a_spec(workload={"size": "1MiB", "gradients": "none"}))
    assert (result.wrong, result.nmse) == (None, None)
    text = printed(result)
    assert row_starting(text, "1048576")[-1] == "N/A"
    assert row_starting(text, "checked") == [
        "checked",
        "nothing:",
        "with",
        "gradients:",
        "none",
        "there",
        "are",
        "no",
        "numbers",
    ]
    assert "checked" not in printed(a_result())


def _sweep() -> list[Result]:
    return [
        a_result([1000 * (r + 1)], point={"transport.kind": kind}, repeat=r, evidence=evidence)
        for kind, evidence in (("roce", Evidence()), ("tcp", Evidence(lost=("controller",))))
        for r in range(2)
    ]


def test_a_sweep_has_one_row_a_point_with_repeats_averaged() -> None:
    text = printed(*_sweep(), width=200)
    assert row_starting(text, "roce")[:8] == ["roce", "2", "1048576", "262144", "float", "sum", "-1", "1.5"]
    assert row_starting(text, "tcp")[-1] == "suspect"
    assert "transport.kind=tcp repeat 1  verdict: suspect" in text
    assert "transport.kind=roce repeat 1" not in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_narrow_terminal_loses_columns_not_digits(width: int) -> None:
    text = printed(*_sweep(), width=width)
    assert "…" not in text
    assert "no room for: root" in text
    assert max(len(line) for line in text.splitlines()) <= width
    assert "1.5" in row_starting(text, "roce")


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_swept_mappings_take_lines_not_digits(width: int) -> None:
    points: list[dict[str, Any]] = [
        {
            "environment": {"tail_ratio": ratio, "by": "congestion", "severity": 1.33},
            "transport": {"kind": kind, "halt": 0},
        }
        for ratio in (1.5, 3)
        for kind in ("roce", "ubt")
    ]
    text = printed(*(a_result([12_345_678], point=point) for point in points), width=width)
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= width
    assert text.count("12,345.7") >= len(points)
    assert ("p99" in text.split("(no room")[0]) == (width >= 100)
    assert ("tail_ratio: 1.5, " in text) == (width > 60)


def test_an_in_network_collective_has_both_bandwidths() -> None:
    spec = a_spec(workload={"algorithm": "in-network", "size": "1MiB", "iterations": 4})
    assert "(in-network)" in printed(a_result(spec=spec))


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0.00"), (0.0604, "0.0604"), (1.0, "1.00"), (12.345, "12.3"), (123456.7, "123,457")],
)
def test_significant_digits(value: float | None, text: str) -> None:
    assert significant(value) == text


def test_stress_and_flows_are_told_below() -> None:
    environment = EnvironmentEntry(
        tail_ratio=3, by="stalls", events=0.2, severity=2.0, reached=3.01, load=0.1, algorithm="ring", transport="tcp"
    )
    traffic = TrafficEntry(
        begun=12,
        completed=10,
        bytes=1_000_000,
        fct_ns=Distribution(n=10, mean=2_000_000, p50=1_500_000, p99=9_000_000),
        slowdown=Slowdown(mean=2.0, p50=1.5, p99=9.0),
        entries=(),
    )
    text = printed(a_result().model_copy(update={"environment": environment, "traffic": traffic}))
    assert "p99 / p50 of 3 by stalls: severity 2.00, with which ring over tcp reached 3.01" in text
    assert "10 of 12 complete; mean 2,000.0, p50 1,500.0, p99 9,000.0 us; times alone 2.00, 1.50, 9.00" in text
