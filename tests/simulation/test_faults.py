"""Faults of a simulated run, each at its very instant; and runs that do not end say who waits for what."""

from pathlib import Path
from typing import Any

import pytest

from testbed.errors import RunFailed
from tests.simulation.runs import Run, simulate

SMALL = {"size": "64KiB", "iterations": 6, "warmup": 1}
LEAVES = {
    "topology": {"kind": "leaf-spine", "spines": 2, "leaves": 2, "hosts": 2},
    "links": [{"rate": "1Gbps", "delay": "10us", "queue": "256KiB"}],
    "switches": {"kind": "native"},
}


def ended(run: Run) -> Run:
    assert run.error is None, run.error
    assert run.result.verdict.value == "valid", run.result.verdict
    return run


def test_stalls_are_those_of_every_engine(tmp_path: Path) -> None:
    """Each of 6 steps of a ring of 4 waits for what went round, that is for the rank's own of 4 steps before: so two of
    a rank's stalls are one after another, and the others beside them."""
    plain = ended(simulate(tmp_path / "plain", workload=SMALL))
    stall = {"kind": "stall", "worker": 1, "probability": "100%", "for": "1ms", "of": "step"}
    stalled = ended(simulate(tmp_path / "stalled", workload=SMALL, faults=[stall]))
    assert min(stalled.cct_ns) - max(plain.cct_ns) == pytest.approx(2 * 1_000_000, rel=0.01)
    whole = {"kind": "stall", "worker": 1, "probability": "100%", "for": "1ms", "of": "iteration"}
    late = ended(simulate(tmp_path / "late", workload=SMALL, faults=[whole]))
    assert min(late.cct_ns) == pytest.approx(max(plain.cct_ns) + 1_000_000, rel=0.2)


def test_a_slow_rank_computes_longer(tmp_path: Path) -> None:
    run = ended(
        simulate(
            tmp_path / "run",
            workload={**SMALL, "compute": "1ms"},
            faults=[{"kind": "slow", "worker": 2, "factor": 3.0}],
        )
    )
    rows = [row for row in run.rows("iterations.csv") if (row["warmup"], row["iteration"]) == ("0", "0")]
    assert [int(row["start_ns"]) for row in rows] == [1_000_000, 1_000_000, 3_000_000, 1_000_000]


def test_a_cut_cable_is_gone_round(tmp_path: Path) -> None:
    """Half of the ways between leaves: what is under way on them is lost and sent again; later nothing is."""
    faults = [{"kind": "link-down", "select": "leaf0-spine*", "at": "100us", "for": "20us"}]
    faults += [{"kind": "link-down", "select": "leaf0-spine0", "at": "2ms"}]
    run = ended(simulate(tmp_path / "run", **LEAVES, workload={**SMALL, "iterations": 12}, faults=faults))
    assert run.job.packets.dropped_loss > 0
    assert run.result.wrong == 0
    told = [(event["fault"], event["at_ns"], event["late_ns"]) for event in run.events if event["kind"] == "fault"]
    assert told == [("link-down", 100_000, 0), ("link-up", 120_000, 0), ("link-down", 2_000_000, 0)]


def test_a_link_is_changed_for_a_while(tmp_path: Path) -> None:
    """From 10 us to 1 ms on all links: each of 6 steps crosses two of them."""
    plain = ended(simulate(tmp_path / "plain", workload={**SMALL, "iterations": 2}))
    fault = {"kind": "link-set", "select": "all", "at": f"{plain.cct_ns[0] * 3 // 2}ns", "delay": "1ms"}
    run = ended(simulate(tmp_path / "run", workload={**SMALL, "iterations": 4}, faults=[fault]))
    assert run.cct_ns[0] == plain.cct_ns[0]
    assert run.cct_ns[3] - plain.cct_ns[0] == pytest.approx(6 * 2 * 990_000, rel=0.05)


def test_a_program_is_exchanged_without_a_blackout(tmp_path: Path) -> None:
    fault = {"kind": "swap-program", "select": "leaf0", "at": "1ms", "program": "spray"}
    run = ended(simulate(tmp_path / "run", **LEAVES, workload=SMALL, faults=[fault]))
    (swap,) = run.samples.swaps
    assert (swap.switch, swap.program, swap.at_ns, swap.blackout_ns) == ("leaf0", "spray", 1_000_000, 0)


def test_a_killed_rank_is_missed_by_the_others(tmp_path: Path) -> None:
    run = simulate(
        tmp_path / "run",
        transport={"kind": "roce", "retries": 2},
        workload=SMALL,
        faults=[{"kind": "kill", "worker": 3, "at": "500us"}],
    )
    assert isinstance(run.error, RunFailed)
    assert "peer 3" in run.error.message
    assert run.samples.status == "failed"
    assert run.result.failure == run.error.message


def test_an_iteration_whose_last_rank_is_killed_with_one_that_was_done_ends_once(tmp_path: Path) -> None:
    """Root 3 and what it sends to are done after some 2 ms; rank 2 has all that it waits for, and computes on."""
    run = ended(
        simulate(
            tmp_path / "run",
            workload={**SMALL, "collective": "broadcast", "root": 3, "iterations": 1, "warmup": 0, "compute": "1ms"},
            faults=[
                {"kind": "slow", "worker": 2, "factor": 10.0},
                {"kind": "kill", "worker": [2, 3], "at": "5ms"},
            ],
        )
    )
    assert [row["rank"] for row in run.rows("iterations.csv")] == ["0", "1", "3"]


def stalled(directory: Path, **keys: Any) -> Run:
    """A ring whose link to h2 loses everything from 100 us on, with more patience than the run's limit."""
    return simulate(
        directory,
        transport={"kind": "roce", "retries": 7, "timeout": 19, "scale": "none"},
        workload=SMALL,
        faults=[{"kind": "link-down", "select": "h2", "at": "100us"}],
        **keys,
    )


def test_who_waits_for_what_from_whom_since_when(tmp_path: Path) -> None:
    run = stalled(tmp_path / "run", limits={"stall": "50ms"})
    assert isinstance(run.error, RunFailed)
    assert "an iteration is not over 50ms (model time) after its release" in run.error.message
    assert "rank 3 on h3: the message from rank 2 in step" in run.error.message
    assert "nothing for 49." in run.error.message
    assert "on h2>s0, which was down" in run.error.message
    told = [event for event in run.events if event["kind"] == "unfinished"]
    assert sorted(told[0]["waiting"]) == [f"rank {rank} on h{rank}" for rank in range(4)]
    assert run.result.simulation is not None
    assert run.result.simulation.virtual_ns >= 50_000_000


def test_the_limit_of_real_time_ends_a_run_by_name(tmp_path: Path) -> None:
    run = simulate(
        tmp_path / "run", workload={"size": "16MiB", "iterations": 10_000, "warmup": 0}, limits={"wall": "1s"}
    )
    assert isinstance(run.error, RunFailed)
    assert "the run's limit of 1 s of real time was reached after" in run.error.message
    assert run.samples.wall_s < 30
    assert run.result.simulation is not None
