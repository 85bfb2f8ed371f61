"""Partial results in simulation: what is missing, what error that makes, and what becomes of a run and of training."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from testbed.training import gradient_source
from tests.simulation.runs import Run, simulate

TRANSPORT = f"{Path(__file__).parents[1] / 'transport' / 'once.py'}:"
PACKET = 256  # elements
CHUNK = 4 * PACKET
TWO = {"topology": {"kind": "star", "hosts": 2}, "workers": {"count": 2}}


def run(directory: Path, name: str, workload: dict[str, Any], **keys: Any) -> Run:
    transport = {"kind": TRANSPORT + name, **keys.pop("transport", {})}
    return simulate(directory, transport=transport, workload={"algorithm": "ring", "warmup": 0, **workload}, **keys)


def inputs(made: Run, iteration: int = 0) -> list[npt.NDArray[np.float64]]:
    """What both ranks contributed."""
    job = made.plan.jobs[0]
    sources = [
        gradient_source("random", rank=rank, ranks=2, seed=job.seed, dtype="float32", size_bytes=8 * CHUNK)
        for rank in range(2)
    ]
    return [source.layers(iteration)[0].astype(np.float64) for source in sources]


def error(lost: npt.NDArray[np.float64], made: Run) -> float:
    """Normalised mean square error of a result that lacks `lost`."""
    return float(np.sum(lost**2) / np.sum(sum(inputs(made)) ** 2))


@pytest.mark.parametrize("name", ["ONCE", "PLAIN"])
def test_a_packet_that_was_to_be_added_is_missing_in_the_sum_of_all(tmp_path: Path, name: str) -> None:
    """Ring of two: rank 0 sends chunk 1 to be added, of which its second packet does not come; rank 1 sends the sum."""
    made = run(tmp_path / "run", name, {"size": "8KiB", "iterations": 1}, transport={"omit": 2}, **TWO)
    rows = made.rows("iterations.csv")
    expected = error(inputs(made)[0][CHUNK + PACKET : CHUNK + 2 * PACKET], made)
    assert [float(row["nmse"]) for row in rows] == pytest.approx([expected] * 2, rel=1e-4)
    assert [int(row["missing_bytes"]) for row in rows] == [0, 1024]
    assert [int(row["received_bytes"]) for row in rows] == [8192, 8192 - 1024]
    gap = {"iteration": "0", "rank": "1", "step": "0", "source": "0", "first_byte": "5120", "end_byte": "6144"}
    assert made.rows("missing.csv") == [gap]  # bytes 1024 to 2048 of the second half
    assert made.result.nmse == pytest.approx(expected, rel=1e-4)
    assert (made.result.missing_bytes, made.result.wrong) == (1024, 0)
    assert (made.result.status, made.result.verdict.value) == ("ok", "valid")


@pytest.mark.parametrize("name", ["ONCE", "KEEPS"])
def test_a_packet_that_was_to_be_copied_leaves_zeros_or_what_was_there(tmp_path: Path, name: str) -> None:
    """Rank 0's second step brings the sum of chunk 0, of which rank 1 had its own part."""
    made = run(tmp_path / "run", name, {"size": "8KiB", "iterations": 1}, transport={"omit": 6}, **TWO)
    lost = slice(PACKET, 2 * PACKET)
    first, second = (values[lost] for values in inputs(made))
    expected = error(first + second if name == "ONCE" else first, made)
    rows = made.rows("iterations.csv")
    assert [float(row["nmse"]) for row in rows] == pytest.approx([0.0, expected], rel=1e-4, abs=1e-12)
    assert [int(row["missing_bytes"]) for row in rows] == [0, 1024]


def test_the_same_loss_over_a_transport_that_is_to_bring_all_is_wrong_and_invalid(tmp_path: Path) -> None:
    made = run(tmp_path / "run", "RELIABLE", {"size": "8KiB", "iterations": 1}, transport={"omit": 2}, **TWO)
    assert made.result.wrong == 2 * PACKET
    assert [reason.code for reason in made.result.verdict.reasons] == ["wrong-values"]


@pytest.mark.parametrize("name", ["ONCE", "PLAIN"])
def test_what_links_lose_is_missing_and_the_packets_balance(tmp_path: Path, name: str) -> None:
    links = [{"rate": "1Gbps", "delay": "10us", "loss": "2%"}]
    made = run(tmp_path / "run", name, {"size": "64KiB", "iterations": 4}, links=links)
    result = made.result
    assert result.packets is not None
    assert result.packets.dropped_loss > 0
    assert result.missing_bytes == 1024 * result.packets.dropped_loss
    assert result.payload_bytes == 4 * 2 * 3 * 65536 - result.missing_bytes  # of all ranks together
    assert made.job.packets.balance == 0
    assert result.nmse is not None
    assert 0 < result.nmse < 0.2
    assert (result.wrong, result.packets.retransmitted) == (0, 0)
    assert result.verdict.value == "valid"
    assert all((row.nmse or 0) > 0 for row in made.job.iterations if row.missing_bytes)
    gaps = [int(row["end_byte"]) - int(row["first_byte"]) for row in made.rows("missing.csv")]
    assert gaps == [1024] * result.packets.dropped_loss


def test_damaged_packets_are_missing_too(tmp_path: Path) -> None:
    links = [{"rate": "1Gbps", "delay": "10us", "corrupt": "2%"}]
    made = run(tmp_path / "run", "PLAIN", {"size": "64KiB", "iterations": 4}, links=links)
    assert made.result.packets is not None
    assert made.result.missing_bytes == 1024 * made.result.packets.dropped_corrupt > 0
    assert made.result.verdict.value == "valid"


def test_a_safeguard_ends_the_run_with_its_reason(tmp_path: Path) -> None:
    made = run(tmp_path / "run", "ONCE", {"size": "8KiB", "iterations": 5}, transport={"halt": 2}, **TWO)
    assert (made.result.status, len(made.job.iterations)) == ("failed", 2 * 2)
    assert "enough after 2 collectives" in made.result.failure


LEARNING = {"gradients": "digits-mlp", "iterations": 12, "warmup": 1}
LOSSY = [{"rate": "1Gbps", "delay": "10us", "loss": "2%"}]


def test_training_goes_on_with_what_came_though_ranks_come_to_differ(tmp_path: Path) -> None:
    """The same batches without loss do a little better; a guess would be right one time in ten."""
    made = run(tmp_path / "lossy", "ONCE", LEARNING, links=LOSSY)
    exact = run(tmp_path / "exact", "ONCE", LEARNING)
    assert not (tmp_path / "exact" / "missing.csv").exists()
    assert (made.result.status, made.result.verdict.value) == ("ok", "valid")
    assert made.result.missing_bytes
    assert exact.result.missing_bytes == 0
    accuracy, best = made.result.training.accuracy, exact.result.training.accuracy
    assert accuracy is not None
    assert best is not None
    assert 0.5 < accuracy < best + 0.05
    told = [event for event in made.events if event["kind"] == "training"]
    assert (told[-1]["accuracy"], told[-1]["loss"]) == (accuracy, made.result.training.loss)


def test_ranks_that_differ_end_a_run_over_a_transport_that_is_to_bring_all(tmp_path: Path) -> None:
    made = run(tmp_path / "run", "RELIABLE", LEARNING, links=LOSSY)
    assert made.result.status == "failed"
    assert "weights differ" in made.result.failure


def test_nothing_is_learnt_from_a_result_that_is_skipped(tmp_path: Path) -> None:
    """Of the warm-up and 12 iterations only the first two are used."""
    skipping = run(tmp_path / "skipping", "ONCE", LEARNING, transport={"skip": 2})
    short = run(tmp_path / "short", "ONCE", {**LEARNING, "iterations": 1})
    assert skipping.result.training == short.result.training
    assert skipping.result.counters["collectives"] == 4 * 12


def test_jobs_whose_packets_go_to_different_ports(tmp_path: Path) -> None:
    jobs = {
        name: {
            "workers": {"count": 2, "placement": hosts},
            "transport": {"kind": TRANSPORT + kind},
            "workload": {"size": "64KiB", "algorithm": "ring", "iterations": 3, "warmup": 0},
        }
        for name, kind, hosts in (("a", "ONCE", ["h0", "h1"]), ("b", "PLAIN", ["h2", "h3"]))
    }
    made = simulate(tmp_path / "run", jobs=jobs, workers=None, links=LOSSY)
    assert (made.result.status, made.result.verdict.value) == ("ok", "valid")
    for job in made.result.jobs.values():
        assert job.packets is not None
        assert job.missing_bytes == 1024 * job.packets.dropped_loss > 0
