"""The experiments that hold emulation against simulation on the same draws, in short: fewer seeds, the same bounds.

What is compared are medians over all seeds; a run whose own verdict says that this machine was too busy proves nothing
and counts for nothing.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.resources import shared_folder
from testbed.results.gap import MEDIAN
from testbed.results.metrics import Estimate, pair_by_repeat, ratio
from testbed.results.reading import read_runs

LIMIT_S = 200
INVALID = 4


def gap(folder: Path, name: str, *settings: str) -> Estimate:
    """Emulated over simulated medians of the experiment `name`, each from runs that are valid."""
    settings = ("expect=[]", "limits.wall=100s", *settings)  # no run may slow itself down to more than that
    arguments = [argument for setting in settings for argument in ("-S", setting)]
    command = [sys.executable, "-m", "testbed", "run", str(shared_folder("experiments") / name), *arguments]
    ended = subprocess.run(
        [*command, "--out", str(folder / "runs")], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert ended.returncode in (0, INVALID), ended.stderr
    records = [record for record in read_runs(folder / "runs") if record.result.verdict.value == "valid"]
    engines = [[r for r in records if r.result.engine == engine] for engine in ("emulation", "simulation")]
    found = ratio(pair_by_repeat(*engines), MEDIAN)
    assert found is not None, json.dumps([str(record.result.verdict) for record in read_runs(folder / "runs")])
    return found


@pytest.mark.root
@pytest.mark.usefixtures("nothing_left")
def test_without_congestion_both_engines_are_within_five_percent(tmp_path: Path) -> None:
    assert 0.95 < gap(tmp_path, "fidelity.yaml", "repeat=2").value < 1.05


@pytest.mark.root
@pytest.mark.usefixtures("nothing_left")
def test_under_congestion_both_engines_are_within_ten_percent(tmp_path: Path) -> None:
    sweep = "sweep={engine: [emulation, simulation]}"
    assert 0.9 < gap(tmp_path, "fidelity_congested.yaml", "repeat=2", "workload.algorithm=ring", sweep).value < 1.1
