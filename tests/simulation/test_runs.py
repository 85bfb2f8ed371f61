"""Simulated runs: nothing is wrong, all packets are accounted for; impairments, jobs and hosts' costs have effect."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from testbed.simulation.network import SimulatedNetwork
from tests.simulation.runs import Run, simulate

SMALL = {"size": "64KiB", "iterations": 4, "warmup": 1}


def valid(run: Run) -> Run:
    assert run.error is None, run.error
    assert run.result.verdict.value == "valid", run.result.verdict
    assert run.result.wrong in (0, None)
    return run


@pytest.mark.parametrize(
    "link",
    [
        {},
        {"loss": "1%"},
        {"loss": {"kind": "gilbert-elliott", "mean": "1%", "burst": 4}},
        {"corrupt": "1%"},
        {"duplicate": "5%"},
        {"jitter": "30us", "reorder": True},
        {"queue": "16KiB"},
    ],
)
@pytest.mark.parametrize("routing", ["ecmp", "spray"])
def test_every_packet_is_accounted_for(tmp_path: Path, link: dict[str, Any], routing: str) -> None:
    run = valid(
        simulate(
            tmp_path / "run",
            topology={"kind": "leaf-spine", "spines": 2, "leaves": 2, "hosts": 2},
            links=[{"rate": "1Gbps", "delay": "10us", "queue": "64KiB", **link}],
            switches={"kind": "native"},
            routing={"kind": routing},
            transport={"kind": "roce", "mtu": 1024, "retries": 7},
            workload={**SMALL, "algorithm": "parameter-server"},
        )
    )
    assert run.job.packets.balance == 0
    assert run.job.packets.in_flight == 0
    packets = run.job.packets
    if "loss" in link:
        assert packets.dropped_loss > 0
        assert packets.retransmitted > 0
    if "corrupt" in link:
        assert packets.dropped_corrupt > 0
    if "duplicate" in link:
        assert packets.duplicated > 0
    if "queue" in link:
        assert packets.dropped_queue > 0


@pytest.mark.parametrize("routing", ["ecmp", "spray", "single"])
def test_open_vswitch_is_simulated_by_the_program_of_its_routing(tmp_path: Path, routing: str) -> None:
    run = valid(
        simulate(
            tmp_path / "run",
            topology={"kind": "fat-tree", "k": 4},
            switches={"kind": "ovs"},
            routing={"kind": routing},
            workload=SMALL,
        )
    )
    assert {switch.program for switch in run.plan.switching.native.values()} == {
        "spray" if routing == "spray" else "l3_ecmp"
    }
    assert run.plan.dilation == 1


def test_zero_is_the_release_of_the_first_measured_iteration(tmp_path: Path) -> None:
    run = valid(simulate(tmp_path / "run", workload={**SMALL, "warmup": 2}))
    rows = run.rows("iterations.csv")
    warm = [row for row in rows if row["warmup"] == "1"]
    assert len(rows) == 6 * 4
    assert len(warm) == 2 * 4
    assert all(int(row["end_ns"]) < 0 for row in warm)
    first = [row for row in rows if row["warmup"] == "0" and row["iteration"] == "0"]
    assert {row["start_ns"] for row in first} == {"0"}
    assert {row["cpu_ns"] for row in rows} == {"0"}
    starts = {row["iteration"]: int(row["start_ns"]) for row in rows if row["warmup"] == "0"}
    ends = {row["iteration"]: int(row["end_ns"]) for row in rows if row["warmup"] == "0"}
    assert starts["1"] >= ends["0"], "the next is released when nobody waits any more"


def test_a_rank_computes_before_it_sends(tmp_path: Path) -> None:
    """Ranks start so much later than they are released, so that it is no part of the CCT but lies between them."""
    plain = valid(simulate(tmp_path / "plain", workload=SMALL))
    computing = valid(simulate(tmp_path / "computing", workload={**SMALL, "compute": "3ms"}))
    assert plain.cct_ns == computing.cct_ns
    starts = sorted({int(row["start_ns"]) for row in computing.rows("iterations.csv") if row["warmup"] == "0"})
    assert starts[0] == 3_000_000
    assert min(later - earlier for earlier, later in pairwise(starts)) > 3_000_000


def test_what_a_hosts_cpu_takes(tmp_path: Path) -> None:
    """1 ms a packet is far more than anything else here takes: each packet of a rank's is served after the one before.

    Two ranks exchange 4 packets each way twice; each host serves 8 packets that it sends, 8 that come, and at least an
    acknowledgement.
    """
    spec = {"workers": {"count": 2}, "transport": {"kind": "roce", "mtu": 1024}, "limits": {"stall": "60s"}}
    work = {"size": "8KiB", "iterations": 1, "warmup": 0}
    free = valid(simulate(tmp_path / "free", **spec, workload=work))
    slow = valid(simulate(tmp_path / "slow", **spec, workload=work, host={"per_packet": "100us"}))
    assert 8 * 100_000 < slow.cct_ns[0] - free.cct_ns[0] < 30 * 100_000
    by_byte = valid(simulate(tmp_path / "bytes", **spec, workload=work, host={"per_byte": "100ns"}))
    assert by_byte.cct_ns[0] > free.cct_ns[0] + 8 * 1024 * 100


def test_jobs_side_by_side(tmp_path: Path) -> None:
    """Each with its own ranks, transport and workload; the one that starts later is alone before and after."""
    jobs = {
        "early": {"workers": {"count": 2}, "workload": {"size": "64KiB", "iterations": 5, "warmup": 1}},
        "late": {
            "workers": {"count": 2},
            "workload": {"collective": "broadcast", "size": "32KiB", "iterations": 3, "warmup": 0},
            "start": "2ms",
        },
    }
    run = valid(simulate(tmp_path / "run", workers=None, jobs=jobs))
    assert [job.name for job in run.samples.jobs] == ["early", "late"]
    assert all(job.packets.balance == 0 and job.packets.sent for job in run.samples.jobs)
    rows = [row for row in run.rows("iterations.csv") if row["job"] == "late"]
    assert {row["start_ns"] for row in rows if row["iteration"] == "0"} == {"2000000"}
    assert set(run.result.jobs) == {"early", "late"}


def test_what_the_simulation_came_to(tmp_path: Path) -> None:
    """Each of the packets crosses two links of a star, and nothing else moves."""
    run = valid(simulate(tmp_path / "run", workload={**SMALL, "warmup": 0}))
    told = run.result.simulation
    assert told is not None
    assert told.hops == 2 * run.job.packets.sent
    assert told.events >= told.hops
    assert told.virtual_ns >= sum(run.cct_ns)


def test_a_failure_is_at_its_instant(tmp_path: Path) -> None:
    """And not where the stretch of virtual time began in which it came: how long those are is as real time has it."""
    work = {"size": "1MiB", "iterations": 1, "warmup": 0}
    ends = []
    for at in ("0ns", "1234567ns"):
        run = simulate(tmp_path / at, workload=work, faults=[{"kind": "kill", "worker": [0, 1, 2, 3], "at": at}])
        assert "no rank is left" in str(run.error)
        assert run.result.simulation is not None
        ends.append(run.result.simulation.virtual_ns)
    assert ends[1] - ends[0] == 1_234_567


def test_lack_of_memory_fails_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def play(*_: object) -> int:
        raise MemoryError

    monkeypatch.setattr(SimulatedNetwork, "play", play)
    run = simulate(tmp_path / "run", workload=SMALL)
    assert run.result.status == "failed"
    assert "there is no memory for more" in str(run.error)


def test_gradients_without_numbers_take_the_same_time(tmp_path: Path) -> None:
    with_numbers = valid(simulate(tmp_path / "numbers", workload=SMALL))
    without = valid(simulate(tmp_path / "none", workload={**SMALL, "gradients": "none"}))
    assert with_numbers.cct_ns == without.cct_ns
    assert without.result.wrong is None


@pytest.mark.slow
def test_the_limit_ends_also_what_is_far_denser_than_it_was(tmp_path: Path) -> None:
    """Some 10^8 flows in the first stretch of virtual time alone: minutes of real time, without the limit."""
    flows = {"kind": "flows", "sizes": "1KiB", "every": "1ns", "start": "1ms"}
    run = simulate(
        tmp_path / "run",
        limits={"wall": "1s"},
        workload={"size": "16KiB", "iterations": 20, "warmup": 1},
        traffic=[flows],
    )
    assert run.error is not None
    assert "the run's limit of 1 s of real time was reached" in str(run.error)
    assert float(run.result.wall_s) < 60
