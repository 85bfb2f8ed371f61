"""`testbed run` with units that average: what it costs on the wire, and what comes of a cascade that loses packets."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli import runs
from tests.cli.runs import Run
from tests.run.test_aggregation_runs import SUMS, measured

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]
OPTICAL: dict[str, Any] = runs.merged(SUMS, {"time_dilation": 20, "transport": {"protocol": "optical", "block": 64}})
CASCADE: dict[str, Any] = {
    "topology": {"kind": "leaf-spine", "spines": 1, "leaves": 2, "hosts": 2},
    "workers": {"count": 4},
}


def test_a_ring_sends_one_and_a_half_times_as_much(tmp_path: Path) -> None:
    """With 4 ranks (OptINC's table). A rank sends 64 chunks of 1086 bytes, and before them 8 exponents of 62."""
    star = {"topology": {"kind": "star", "hosts": 4}, "workers": {"count": 4}, "workload": {"iterations": 3}}
    with Run(tmp_path / "units", **runs.merged(OPTICAL, star)) as run:
        units = measured(run)
    with Run(tmp_path / "ring", **runs.merged(SUMS, {**star, "transport": {"kind": "roce"}})) as run:
        ring = measured(run)
    assert (units["algorithm"], units["wrong"], units["missing_bytes"]) == ("in-network", 0, 0)
    assert units["packets"]["retransmitted"] == 0
    assert units["bytes_on_wire"] == 3 * 4 * (64 * 1086 + 8 * 62)
    assert 0 < units["nmse"] < 1e-6
    if not ring["packets"]["retransmitted"]:
        assert ring["bytes_on_wire"] / units["bytes_on_wire"] == pytest.approx(1.5, rel=0.02)


def test_a_cascade_under_loss_ends_with_what_came(tmp_path: Path) -> None:
    changes = {**CASCADE, "links": [{**SUMS["links"][0], "loss": "1%"}]}
    with Run(tmp_path, **runs.merged(OPTICAL, changes)) as run:
        assert run.end() in (0, 4), run.stderr  # its times may be in doubt
        result = run.result
    assert (result["status"], result["wrong"]) == ("ok", 0)
    assert "wrong-values" not in runs.reasons(result)
    assert 0 < result["missing_bytes"] < 3 * 4 * 65536
    assert 1e-6 < result["nmse"] < 1
    assert (result["packets"]["retransmitted"], result["packets"]["dropped_loss"] > 0) == (0, True)
    counted = {(row["switch"], row["name"].split()[1]) for row in run.table("switches.csv") if row["kind"] == "slot"}
    assert {("leaf0", "completed"), ("leaf1", "completed"), ("spine0", "completed"), ("spine0", "abandoned")} <= counted
