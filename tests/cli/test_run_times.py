"""`testbed run` on a real network where the times are what is judged: the machine must have nothing else to do."""

from pathlib import Path

import pytest

from tests.cli.runs import Run, measured

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]


def test_a_stall_shows_in_the_rows_and_is_no_skew(tmp_path: Path) -> None:
    with Run(
        tmp_path, faults=[{"kind": "stall", "worker": 1, "probability": "100%", "for": "5ms", "of": "iteration"}]
    ) as run:
        result = measured(run)
    starts: dict[str, dict[str, int]] = {}
    for row in run.table("iterations.csv"):
        starts.setdefault(row["iteration"] + row["warmup"], {})[row["rank"]] = int(row["start_ns"])
    assert len(starts) == 3 + 1, "and one to warm up"
    for of in starts.values():
        assert of["1"] - max(of["0"], of["2"]) > 3_000_000  # the others may have started late on a busy machine
    assert result["cct_ns"]["min"] >= 5_000_000
