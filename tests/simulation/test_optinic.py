"""Collectives over OptiNIC in simulation: as fast as RoCE where nothing is lost, and in bounded time where much is."""

from pathlib import Path
from typing import Any

import pytest

from testbed.plan import DEFAULT_CAPABILITIES
from testbed.resources import shared_folder
from testbed.results.model import Result
from testbed.run.experiment import run_experiment
from testbed.spec.reader import read_experiment
from tests.simulation.runs import Run, simulate
from tests.simulation.test_experiments import Looking

RING = {"algorithm": "ring", "size": "64KiB"}


def run(directory: Path, kind: str = "optinic", loss: str = "0%", **keys: Any) -> Run:
    links = [{"rate": "1Gbps", "delay": "10us", "queue": "1MiB"}, {"select": "s0>*", "loss": loss}]
    workload = {**RING, "iterations": 4, "warmup": 3, **keys.pop("workload", {})}
    transport = {"kind": kind, **keys.pop("transport", {})}
    return simulate(directory, links=links, transport=transport, workload=workload, **keys)


@pytest.mark.parametrize(
    "algorithm", ["ring", "halving-doubling", "recursive-doubling", "binomial", "parameter-server"]
)
def test_without_loss_all_is_there_in_the_time_that_roce_takes(tmp_path: Path, algorithm: str) -> None:
    """Whose packets are 12 to 32 bytes of 1,100 shorter."""
    found = {
        kind: run(
            tmp_path / kind,
            kind,
            workload={"algorithm": algorithm},
            topology={"kind": "star", "hosts": 6},
            workers={"count": 6},
        )
        for kind in ("roce", "optinic")
    }
    result = found["optinic"].result
    assert (result.verdict.value, result.wrong, result.missing_bytes) == ("valid", 0, 0)
    assert result.nmse is not None
    assert result.nmse < 1e-12
    ratios = [ours / roce for ours, roce in zip(found["optinic"].cct_ns, found["roce"].cct_ns, strict=True)]
    assert all(0.95 < ratio < 1.08 for ratio in ratios), ratios


def test_what_is_missing_is_what_links_lose(tmp_path: Path) -> None:
    made = run(tmp_path / "run", loss="2%")
    packets = made.result.packets
    assert packets is not None
    assert packets.retransmitted < 10
    lost = packets.dropped_loss - packets.retransmitted  # those of the timings were sent again
    assert 0 < made.result.missing_bytes <= 1024 * lost
    assert made.result.missing_bytes > 0.9 * 1024 * lost
    assert made.result.nmse is not None
    assert 0.005 < made.result.nmse < 0.2
    assert (made.result.wrong, made.result.verdict.value) == (0, "valid")


def test_a_stalled_rank_holds_nobody_up(tmp_path: Path) -> None:
    """Rank 2 stalls for 50 ms in some iterations before it sends in some step; with RoCE all wait for it."""
    stall = [{"kind": "stall", "worker": 2, "probability": "5%", "for": "50ms", "of": "step"}]
    roce, ours = (
        run(tmp_path / kind, kind, faults=stall, workload={"iterations": 12, "warmup": 9})
        for kind in ("roce", "optinic")
    )
    stalled = [cct_ns > 50_000_000 for cct_ns in roce.cct_ns]
    assert sum(stalled)
    assert max(ours.cct_ns) < 1.5 * min(roce.cct_ns)
    assert ours.result.missing_bytes is not None
    assert 0 < ours.result.missing_bytes < 0.5 * sum(stalled) * 4 * 6 * 16384


def test_collectives_go_on_without_a_rank_that_is_dead(tmp_path: Path) -> None:
    kill = [{"kind": "kill", "worker": 1, "at": "100us"}]
    made = run(tmp_path / "run", faults=kill)
    assert made.error is None
    assert made.result.status == "ok"
    assert len({row["iteration"] for row in made.rows("iterations.csv") if row["rank"] == "0"}) == 4


def test_parity_repairs_most_of_what_is_lost(tmp_path: Path) -> None:
    """1 % of loss and groups of 8: 0.077 % are left (the closed form), of 56 KiB in 8 iterations of 4 ranks some."""
    plain, coded = (
        run(tmp_path / str(k), loss="1%", transport={"parity": k}, workload={"size": "256KiB", "iterations": 8})
        for k in (0, 8)
    )
    assert plain.result.missing_bytes is not None
    assert coded.result.missing_bytes is not None
    assert coded.result.missing_bytes < 0.3 * plain.result.missing_bytes
    assert coded.result.bytes_on_wire is not None
    assert plain.result.bytes_on_wire is not None
    assert 1.10 < coded.result.bytes_on_wire / plain.result.bytes_on_wire < 1.13


def results(directory: Path, name: str, *settings: str) -> dict[str, Result]:
    """Those of a small instance of an experiment, by transport and loss, or by parity."""
    experiment = read_experiment(shared_folder("experiments") / name, [*settings, "repeat=1"], "simulation")
    outcome = run_experiment(experiment, DEFAULT_CAPABILITIES, directory, Looking())
    assert {(each.status, each.verdict.value, each.wrong) for each in outcome.results} == {("ok", "valid", 0)}
    assert [str(each) for each in outcome.judgements if each.outcome == "refuted"] == []
    return {" ".join(str(value) for value in (each.point or {}).values()): each for each in outcome.results}


@pytest.mark.slow
def test_the_experiment_with_parity(tmp_path: Path) -> None:
    """Two iterations of it: bytes as expected, and what is missing falls with k."""
    found = results(tmp_path / "run", "optinic_parity.yaml", "workload.iterations=2", "workload.warmup=1", "expect=[]")
    missing = [found[k].missing_bytes or 0 for k in ("0", "32", "16", "8", "4")]
    assert missing[0] > missing[1] > missing[4]
    assert missing[0] > missing[3]


@pytest.mark.slow
def test_the_experiment_beside_the_other_transports(tmp_path: Path) -> None:
    sweep = "sweep={transport.kind: [roce, optinic], links.down.loss: [0%, 1%]}"
    few = ("workload.iterations=2", "workload.warmup=2")
    found = results(tmp_path / "run", "optinic.yaml", sweep, *few, "expect=[]")
    assert {key: bool(each.missing_bytes) for key, each in found.items()} == {
        "roce 0%": False,
        "roce 1%": False,
        "optinic 0%": False,
        "optinic 1%": True,
    }
    assert 0.9 < found["optinic 0%"].cct_ns.mean / found["roce 0%"].cct_ns.mean < 1.1


@pytest.mark.slow
def test_a_slow_host_costs_what_the_congestion_control_makes_of_it(tmp_path: Path) -> None:
    """DCQCN comes back from a slow link by R_AI, far slower than from marks; Swift goes by each packet's delay."""
    sweep = "sweep={environment: [{tail_ratio: 3, by: slow-host, severity: 3}], transport.congestion: [dcqcn, swift]}"
    few = ("transport.kind=optinic", "workload.iterations=12", "workload.warmup=2", "expect=[]")
    dcqcn, swift = results(tmp_path / "run", "optinic_tails.yaml", sweep, *few).values()
    assert swift.cct_ns.mean < 0.8 * dcqcn.cct_ns.mean
    assert dcqcn.missing_bytes
    assert swift.missing_bytes
