"""UBT in simulation: as fast as the network lets it without loss, bounded with stalls, and ended by its safeguard."""

from pathlib import Path
from typing import Any

import pytest

from tests.simulation.runs import Run, simulate

STAR = {
    "topology": {"kind": "star", "hosts": 4},
    "links": [{"rate": "1Gbps", "delay": "10us", "queue": "256KiB"}],
    "workers": {"count": 4},
}
WORK = {"algorithm": {"kind": "tar", "incast": 0}, "size": "64KiB", "iterations": 4, "warmup": 2}


def run(
    directory: Path, transport: dict[str, Any] | None = None, work: dict[str, Any] | None = None, **keys: Any
) -> Run:
    return simulate(
        directory, transport={"kind": "ubt", **(transport or {})}, workload={**WORK, **(work or {})}, **STAR, **keys
    )


@pytest.mark.parametrize("algorithm", [{"kind": "tar", "incast": 0}, "tar", {"kind": "tar-2d", "groups": 2}, "ring"])
def test_without_loss_it_takes_what_the_network_takes_and_misses_nothing(tmp_path: Path, algorithm: object) -> None:
    made = run(tmp_path / "run", work={"algorithm": algorithm, "size": "256KiB"})
    assert made.result.missing_bytes == 0
    assert made.result.nmse == pytest.approx(0, abs=1e-12)
    assert made.result.bound_ns is not None
    assert max(made.cct_ns) < 1.05 * made.result.bound_ns
    assert made.result.packets is not None
    assert made.result.packets.retransmitted == 0
    assert made.result.verdict.value == "valid"


@pytest.mark.parametrize("algorithm", [{"kind": "tar", "incast": 0}, "tar", "ring"])
@pytest.mark.parametrize("size", ["32B", "256B", "8KiB"])
def test_what_takes_as_long_as_the_only_warm_up_is_in_time(tmp_path: Path, size: str, algorithm: object) -> None:
    made = run(tmp_path / "run", work={"algorithm": algorithm, "size": size, "warmup": 1})
    assert made.result.status == "ok"
    assert made.result.missing_bytes == 0


def test_a_rank_that_stalls_is_waited_for_no_longer_than_t_b_in_each_stage(tmp_path: Path) -> None:
    """64 KiB take 0.9 ms; rank 0 stalls for 50 ms before either stage."""
    stall = {"kind": "stall", "worker": 0, "probability": "100%", "for": "50ms", "of": "step"}
    made = run(tmp_path / "run", {"bound": "2ms", "skip": 0}, faults=[stall])
    assert max(made.cct_ns) <= 2 * 2_000_000 + 3 * 100_000
    rows = made.rows("iterations.csv")
    lost = {
        int(row["rank"]): int(row["missing_bytes"]) for row in rows if row["iteration"] == "0" and row["warmup"] == "0"
    }
    assert lost == {0: 0, 1: 32_768, 2: 32_768, 3: 32_768}  # a shard of each stage
    assert made.result.status == "ok"


def test_what_was_lost_once_is_lost_to_one_pair_with_tar_and_to_all_behind_it_with_a_ring(tmp_path: Path) -> None:
    links = [*STAR["links"], {"select": "h*>s0", "loss": "2%"}]
    nmse = []
    for algorithm in (WORK["algorithm"], "ring"):
        keys = {**STAR, "links": links}
        work = {**WORK, "algorithm": algorithm, "iterations": 10}
        made = simulate(tmp_path / str(len(nmse)), transport={"kind": "ubt", "skip": 0}, workload=work, **keys)
        nmse.append(made.result.nmse)
    assert 0 < nmse[0] < 0.8 * nmse[1]


def test_the_safeguard_ends_a_run_that_loses_too_much(tmp_path: Path) -> None:
    made = run(tmp_path / "run", {"bound": "200us"})
    assert made.result.status == "failed"
    assert "3 updates in a row had lost more than 0.1 of their bytes" in made.result.failure
    assert "t_B is transport.bound, 200us" in made.result.failure


def test_where_warm_up_was_too_short_it_says_so(tmp_path: Path) -> None:
    slow = {"kind": "link-set", "select": "all", "at": "0s", "rate": "100Mbps"}
    made = run(tmp_path / "run", work={"warmup": 1}, faults=[slow])
    assert made.result.status == "failed"
    assert "is what 2 stages took in warm-up" in made.result.failure
    assert "a larger workload.warmup or a transport.bound" in made.result.failure
