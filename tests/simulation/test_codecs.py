"""Coded gradients in simulated runs: the same sums, as many bytes as they have when coded, and losses that are spread.

(The figures of what the transform does to losses are in tests/codec.)
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.plan import DEFAULT_CAPABILITIES
from testbed.resources import shared_folder
from testbed.run.experiment import run_experiment
from testbed.spec.reader import read_experiment
from testbed.spec.sweep import Point
from tests.simulation.runs import Run, Silent, simulate

ONCE = f"{Path(__file__).parents[1] / 'transport' / 'once.py'}:ONCE"
WORK = {"size": "40kB", "iterations": 2, "warmup": 1}  # 10,000 float32
BLOCKS = {"kind": "hadamard", "block": 256, "stride": 8}


@pytest.mark.parametrize("algorithm", ["ring", "tar", "tar-2d", "double-tree", "parameter-server"])
@pytest.mark.parametrize(("codec", "elements"), [("hadamard", 16_384), (BLOCKS, 40 * 256)])
def test_sums_are_right_and_their_padding_is_on_the_wire(
    tmp_path: Path, algorithm: str, codec: Any, elements: int
) -> None:
    run = simulate(tmp_path / "run", workload={**WORK, "algorithm": algorithm, "codec": codec})
    result = run.result
    assert run.error is None
    assert (result.wrong, result.verdict.value) == (0, "valid")
    assert result.nmse is not None
    assert 0 < result.nmse < 1e-12  # float32, there and back
    assert result.size_bytes == 40_000
    shares = {"tar-2d": 4 * (2 * 1 + 1) / 2}  # of all four ranks: 2 (m - 1) + G - 1 shards of 1 / m, m = G = 2
    assert result.payload_bytes == 2 * 4 * elements * shares.get(algorithm, 2 * 3)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_broadcast_is_right_to_within_rounding(tmp_path: Path, dtype: str) -> None:
    workload = {**WORK, "collective": "broadcast", "codec": BLOCKS, "dtype": dtype, "root": 2}
    result = simulate(tmp_path / "run", workload=workload).result
    assert (result.wrong, result.verdict.value) == (0, "valid")


def test_without_numbers_the_bytes_are_the_same(tmp_path: Path) -> None:
    runs = [
        simulate(tmp_path / gradients, workload={**WORK, "algorithm": "tar", "codec": BLOCKS, "gradients": gradients})
        for gradients in ("random", "none")
    ]
    assert runs[0].cct_ns == runs[1].cct_ns
    assert runs[0].result.payload_bytes == runs[1].result.payload_bytes
    assert runs[1].result.nmse is None


def test_a_wrong_sum_is_still_found(tmp_path: Path) -> None:
    """A packet that a transport loses and says nothing of."""
    transport = {"kind": ONCE.replace("ONCE", "RELIABLE"), "omit": 2}
    run = simulate(tmp_path / "run", transport=transport, workload={**WORK, "algorithm": "ring", "codec": BLOCKS})
    assert run.result.wrong
    assert [reason.code for reason in run.result.verdict.reasons] == ["wrong-values"]


def learnt(run: Run) -> list[float]:
    return [event["accuracy"] for event in run.events if event["kind"] == "training"]


@pytest.mark.parametrize("algorithm", ["ring", "tar", "tar-2d"])
def test_what_is_learnt_from_coded_gradients_is_the_same(tmp_path: Path, algorithm: str) -> None:
    """All ranks have the same weights to the bit, in two groups of two as well, and learn as without."""
    pytest.importorskip("sklearn")
    runs = [
        simulate(
            tmp_path / name,
            workload={"gradients": "digits-mlp", "algorithm": algorithm, "iterations": 12, "warmup": 0, **coded},
        )
        for name, coded in (("plain", {}), ("coded", {"codec": BLOCKS}))
    ]
    plain, coded = (learnt(run) for run in runs)
    assert all(run.error is None and run.result.wrong == 0 for run in runs)
    assert len(coded) == 12
    assert coded == pytest.approx(plain, abs=0.01)
    assert coded[-1] > 0.75


def test_loss_leaves_the_same_error_at_random_and_spreads_it(tmp_path: Path) -> None:
    """2 % at random: the error is as large with the transform as without (it is orthonormal)."""
    links = [{"rate": "1Gbps", "delay": "10us", "loss": "2%"}]
    errors = {}
    for name, coded in (("plain", {}), ("coded", {"codec": {"kind": "hadamard", "block": 256, "stride": 64}})):
        workload = {"algorithm": "tar", "size": "256KiB", "iterations": 12, "warmup": 0, **coded}
        run = simulate(tmp_path / name, transport={"kind": ONCE}, links=links, workload=workload)
        assert run.error is None
        assert run.result.verdict.value == "valid"
        errors[name] = np.array([float(row["nmse"]) for row in run.rows("iterations.csv")])
        assert run.result.missing_bytes
    assert errors["coded"].mean() == pytest.approx(errors["plain"].mean(), rel=0.15)


class Looking(Silent):
    def point(self, number: int, of: int, point: Point) -> None: ...


@pytest.mark.slow
@pytest.mark.parametrize(("tail", "of", "to"), [("high", "none", "hadamard"), ("low", "hadamard", "none")])
def test_the_experiment_in_small(tmp_path: Path, tail: str, of: str, to: str) -> None:
    """A lost tail of 56 % of the energy costs nine times less with the transform, one of 0.07 % 94 times more."""
    settings = [
        "workload.iterations=3",
        f"workload.gradients={shared_folder('experiments') / f'hadamard_{tail}_tail.npy'}",
        "repeat=3",
        "sweep={faults.0.probability: [100%], workload.codec: [none, hadamard]}",
        f"expect=[{{metric: nmse, of: {{workload.codec: {of}}}, to: {{workload.codec: {to}}}, at_least: 8}}]",
    ]
    experiment = read_experiment(shared_folder("experiments") / "hadamard.yaml", settings)
    outcome = run_experiment(experiment, DEFAULT_CAPABILITIES, tmp_path / "run", Looking())
    assert [result.verdict.value for result in outcome.results] == ["valid"] * 6
    assert [each.outcome for each in outcome.judgements] == ["holds"]
