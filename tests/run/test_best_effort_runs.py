"""`testbed run` with best-effort jobs: exact sums, of which those without room in the switch are the servers'."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli import runs
from tests.cli.runs import Run

from .test_aggregation_runs import SUMS, measured

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]
SERVED: dict[str, Any] = {"topology": {"hosts": 4}, "transport": {"protocol": "besteffort"}}


def sums_of(run: Run, job: str) -> dict[str, int]:
    return {
        row["name"].removeprefix(f"{job}: "): int(row["packets"])
        for row in run.table("switches.csv")
        if row["kind"] == "sums" and row["name"].startswith(f"{job}: ")
    }


@pytest.mark.parametrize("framing", ["udp", "roce"])
def test_with_room_for_all_a_server_gets_whole_sums(framing: str, tmp_path: Path) -> None:
    """Three workers send 64 chunks an iteration each; the server gets and sends one packet a chunk."""
    changes = runs.merged(SERVED, {"transport": {"framing": framing}, "workload": {"dtype": "int32"}})
    with Run(tmp_path, **runs.merged(SUMS, changes)) as run:
        result = measured(run)
    assert (result["wrong"], result["summed_in_network"]) == (0, 1.0)
    assert sums_of(run, "job")["completed"] == 4 * 64, "the warm-up's too"
    if not result["packets"]["retransmitted"]:
        assert result["packets"]["sent"] == result["packets"]["received"] == 3 * 64 * (3 + 1)


def test_floats_under_loss(tmp_path: Path) -> None:
    changes = runs.merged(SERVED, {"links": [{**SUMS["links"][0], "loss": "1%"}]})
    with Run(tmp_path, **runs.merged(SUMS, changes)) as run:
        result = measured(run)
    assert (result["wrong"], result["missing_bytes"]) == (0, 0)
    assert 0 < result["nmse"] < 1e-12
    assert result["packets"]["retransmitted"] > 0
    assert sums_of(run, "job")["flushed"] > 0


def test_two_jobs_in_a_pool_that_is_too_small_for_both(tmp_path: Path) -> None:
    job = {
        "workers": {"count": 3},
        "transport": {"kind": "aggregation", "protocol": "besteffort", "pool": 4},
        "workload": {"size": "64KiB", "dtype": "int32", "iterations": 3},
    }
    changes = {"topology": {"hosts": 8}, "jobs": {"a": job, "b": job}}
    alone = dict.fromkeys(("workers", "transport", "workload"))
    with Run(tmp_path, **{**SUMS, **changes, **alone}) as run:
        result = measured(run)
    assert result["wrong"] == 0
    for name in ("a", "b"):
        assert 0 < result["jobs"][name]["summed_in_network"] < 0.8
        assert sums_of(run, name)["collided"] > 0


def test_a_server_that_dies_ends_the_run(tmp_path: Path) -> None:
    with Run(tmp_path, **runs.merged(SUMS, runs.merged(SERVED, {"workload": {"iterations": 500}}))) as run:
        run.until_measuring()
        os.kill(run.child("server on h3"), signal.SIGKILL)
        assert run.end() == 1
    assert "the server is gone" in run.result["failure"]
