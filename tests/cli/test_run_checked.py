"""`testbed run --check simulation`: an emulated run beside its simulation."""

from pathlib import Path

import pytest

from tests.cli.runs import LIMIT_S, Run, measured, result_in

MOST_GAP = (
    0.5  # this machine may be busy; how near both are on an idle one is tests/bench's and the experiments' to show
)


@pytest.mark.root
@pytest.mark.usefixtures("nothing_left")
def test_both_engines_are_told_side_by_side(tmp_path: Path) -> None:
    with Run(tmp_path, "--check", "simulation", time_dilation=100) as run:
        emulated = measured(run)
    simulated = result_in(run.directory.with_name("run-simulation"))
    assert (emulated["engine"], simulated["engine"]) == ("emulation", "simulation")
    assert (simulated["verdict"]["value"], simulated["wrong"]) == ("valid", 0)
    ratio = emulated["cct_ns"]["p50"] / simulated["cct_ns"]["p50"]
    assert 0.99 < ratio < 1 + MOST_GAP
    assert f"{100 * (ratio - 1):+.2f} %" in run.stdout
    assert f"simulated in {run.directory}-simulation" in run.stdout


def test_only_emulations_are_held_against_simulation(tmp_path: Path) -> None:
    with Run(tmp_path, "--check", "simulation", "--engine", "simulation") as run:
        assert run.process.wait(LIMIT_S) == 2
    assert "--check simulation is for emulated runs" in run.stderr
    with Run(tmp_path / "other", "--check", "emulation") as other:
        assert other.process.wait(LIMIT_S) == 2
    assert "results are held against simulation only" in other.stderr


def test_what_simulation_cannot_do_is_said_before_anything_is_run(tmp_path: Path) -> None:
    command = {"kind": "command", "command": "true", "size": None, "iterations": None, "warmup": None}
    with Run(tmp_path, "--check", "simulation", workload=command) as run:
        assert run.process.wait(LIMIT_S) == 2
    assert "workload.kind: is command, and a program of one's own needs a real host" in run.stderr
    assert not run.directory.exists()
