"""Tails that are dropped: the last packets of the messages that are struck, once, and of all transports alike."""

from pathlib import Path
from typing import Any

import pytest

from tests.simulation.runs import Run, simulate

ONCE = {"kind": f"{Path(__file__).parents[1] / 'transport' / 'once.py'}:ONCE"}
TAIL = {"kind": "tail-drop", "worker": "all", "share": "25%"}


def run(directory: Path, transport: dict[str, Any], *faults: dict[str, Any], iterations: int = 1) -> Run:
    """A ring of 4 with messages of 16 KiB, 16 packets each over what sends once (a packet is a KiB)."""
    workload = {"size": "64KiB", "algorithm": "ring", "iterations": iterations, "warmup": 0}
    return simulate(directory, transport=transport, workload=workload, faults=list(faults))


def missing_bytes(made: Run) -> list[int]:
    return [int(row["missing_bytes"]) for row in made.rows("iterations.csv")]


def test_the_last_packets_of_each_message_are_missing(tmp_path: Path) -> None:
    """A quarter of each of a rank's 6 messages."""
    made = run(tmp_path / "run", ONCE, TAIL)
    assert made.error is None, made.error
    assert missing_bytes(made) == [6 * 4 * 1024] * 4
    assert made.job.packets.balance == 0
    assert made.result.nmse is not None
    assert made.result.nmse > 0


def test_only_the_named_rank_loses(tmp_path: Path) -> None:
    """Rank 1 of a ring receives from rank 0."""
    made = run(tmp_path / "run", ONCE, {**TAIL, "worker": 0})
    assert missing_bytes(made) == [0, 6 * 4 * 1024, 0, 0]


def test_a_message_is_struck_with_its_probability(tmp_path: Path) -> None:
    made = run(tmp_path / "run", ONCE, {**TAIL, "probability": "30%"}, iterations=10)
    struck = sum(missing_bytes(made)) / (4 * 1024)
    assert struck == pytest.approx(0.3 * 10 * 4 * 6, abs=5 * (0.3 * 0.7 * 240) ** 0.5)


@pytest.mark.parametrize("kind", ["roce", "tcp"])
def test_what_is_sent_again_goes_through(tmp_path: Path, kind: str) -> None:
    made = run(tmp_path / "run", {"kind": kind}, TAIL)
    assert made.error is None, made.error
    assert (made.result.wrong, made.result.missing_bytes) == (0, 0)
    assert made.job.packets.retransmitted >= 4 * 6 * 2  # at least half of each message's quarter, at any MTU
    assert made.job.packets.balance == 0


def test_a_share_less_than_a_packet_drops_nothing(tmp_path: Path) -> None:
    made = run(tmp_path / "run", ONCE, {**TAIL, "share": "5%"})
    assert missing_bytes(made) == [0, 0, 0, 0]
