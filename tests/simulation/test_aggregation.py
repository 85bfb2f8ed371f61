"""Sums in the network, in simulation: by slots, with a server's help, and by optical averages."""

from pathlib import Path
from typing import Any

import pytest

from tests.simulation.runs import simulate

TREE = {
    "topology": {"kind": "leaf-spine", "spines": 1, "leaves": 2, "hosts": 3},
    "links": [{"rate": "1Gbps", "delay": "10us", "queue": "512KiB"}],
    "switches": {"kind": "native"},
}
STAR = {**TREE, "topology": {"kind": "star", "hosts": 5}}


@pytest.mark.parametrize(
    ("transport", "network"),
    [
        ({}, TREE),
        ({"framing": "roce"}, TREE),
        ({"protocol": "besteffort", "pool": 64}, STAR),
        ({"protocol": "besteffort", "pool": 4}, STAR),
        ({"protocol": "optical"}, STAR),
    ],
)
@pytest.mark.parametrize("loss", ["0%", "1%"])
def test_sums_are_right(tmp_path: Path, transport: dict[str, Any], network: dict[str, Any], loss: str) -> None:
    lossy = [*network["links"], {"select": "h1", "loss": loss}]
    run = simulate(
        tmp_path / "run",
        **{**network, "links": lossy},
        transport={"kind": "aggregation", **transport},
        workload={"size": "64KiB", "iterations": 3, "warmup": 1},
    )
    assert run.error is None, run.error
    assert run.result.verdict.value == "valid", run.result.verdict
    assert run.result.wrong == 0
    assert run.job.packets.balance == 0
    if loss == "0%":
        assert run.result.missing_bytes == 0


def test_a_stall_names_whose_contributions_slots_lack(tmp_path: Path) -> None:
    run = simulate(
        tmp_path / "run",
        **TREE,
        transport={"kind": "aggregation"},
        workload={"size": "64KiB", "iterations": 3, "warmup": 0},
        faults=[{"kind": "link-down", "select": "h2", "at": "100us"}],
        limits={"stall": "20ms"},
    )
    assert run.error is not None
    assert "of job lack the contribution of rank 2 on h2" in run.error.message
