"""Whole runs at message level: against the packet mode of the same spec; faults, jobs, limits, and what they tell.

Bounds on the agreement: where no link is shared 1 %, or 2 % with ranks that are late; where a rank's port is shared
3 %; where a link changes 5 %; where flows collide inside the network 10 %, since packets share a link by one queue, in
runs, and not fluidly.
"""

from pathlib import Path
from typing import Any

import pytest

from testbed.errors import RunFailed
from tests.simulation.runs import Run, simulate

FAST = [{"rate": "10Gbps", "delay": "2us", "queue": "4MiB"}]
WORK = {"kind": "collective", "size": "1MiB", "gradients": "none", "iterations": 1, "warmup": 0}
STAR8 = {"topology": {"kind": "star", "hosts": 8}, "links": FAST, "workers": {"count": 8}}
FAT_TREE = {"topology": {"kind": "fat-tree", "k": 4}, "links": FAST, "workers": {"count": 16}}


def messages(folder: Path, **keys: Any) -> Run:
    return simulate(folder / "message", fidelity="message", **keys)


def both(folder: Path, **keys: Any) -> tuple[int, int]:
    """The first iteration's time at message level and with packets."""
    found, packets = messages(folder, **keys), simulate(folder / "packet", **keys)
    assert found.error is None
    assert packets.error is None
    return found.cct_ns[0], packets.cct_ns[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("collective", "algorithm", "within"),
    [
        ("allreduce", "ring", 0.01),
        ("allreduce", "halving-doubling", 0.01),
        ("allreduce", "recursive-doubling", 0.01),
        ("allreduce", "tar", 0.01),
        ("allreduce", "tar-2d", 0.01),
        ("broadcast", "binomial", 0.03),
        ("all-to-all", "pairwise", 0.03),
    ],
)
def test_agrees_with_packets_without_collisions(collective: str, algorithm: str, within: float, tmp_path: Path) -> None:
    work = {**WORK, "collective": collective, "algorithm": algorithm}
    found, packets = both(tmp_path, **STAR8, workload=work)
    assert found == pytest.approx(packets, rel=within)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_agrees_with_packets_where_flows_collide(seed: int, tmp_path: Path) -> None:
    """Halving-doubling over ECMP: the same flows meet on the same links, which doubles the time or more."""
    work = {**WORK, "algorithm": "halving-doubling"}
    found, packets = both(tmp_path, **FAT_TREE, seed=seed, workload=work)
    assert found == pytest.approx(packets, rel=0.10)


@pytest.mark.slow
def test_agrees_with_packets_on_an_incast(tmp_path: Path) -> None:
    work = {**WORK, "algorithm": "parameter-server"}
    found, packets = both(tmp_path, **STAR8, workload=work)
    assert found == pytest.approx(packets, rel=0.02)


@pytest.mark.slow
def test_agrees_with_packets_when_ranks_are_late(tmp_path: Path) -> None:
    """Stalls, drawn from the seed as with packets, and a slow worker."""
    faults = [
        {"kind": "stall", "worker": "all", "probability": "20%", "for": "300us", "of": "step"},
        {"kind": "slow", "worker": 2, "factor": 3.0},
    ]
    work = {**WORK, "algorithm": "ring", "compute": "200us"}
    found, packets = both(tmp_path, **STAR8, faults=faults, workload=work)
    assert found == pytest.approx(packets, rel=0.02)


@pytest.mark.slow
def test_a_link_that_is_slow_for_a_while(tmp_path: Path) -> None:
    faults = [{"kind": "link-set", "select": "h3", "at": "500us", "for": "1ms", "rate": "2Gbps"}]
    work = {**WORK, "algorithm": "ring"}
    slow, packets = both(tmp_path, **STAR8, faults=faults, workload=work)
    assert slow == pytest.approx(packets, rel=0.05)
    plain = messages(tmp_path / "plain", **STAR8, workload=work).cct_ns[0]
    # In that millisecond a fifth as much gets through, and all wait for it: four fifths of it are lost, but for delays.
    assert slow - plain == pytest.approx(800_000, rel=0.05)


def test_a_cable_that_is_down_is_gone_around(tmp_path: Path) -> None:
    """One of the two ways out of a pod: all that went over it shares the other."""
    faults = [{"kind": "link-down", "select": "e0_0-a0_0", "at": "100us"}]
    run = messages(tmp_path, **FAT_TREE, faults=faults, workload={**WORK, "algorithm": "halving-doubling"})
    assert run.error is None
    assert [(event["fault"], event["where"]) for event in run.events if "fault" in event] == [
        ("link-down", ["e0_0-a0_0"])
    ]


def test_what_nothing_leads_to_stalls_and_is_named(tmp_path: Path) -> None:
    faults = [{"kind": "link-down", "select": "h3", "at": "100us"}]
    run = messages(tmp_path, **STAR8, faults=faults, workload=WORK, limits={"stall": "50ms"})
    assert isinstance(run.error, RunFailed)
    assert "is not over 50ms (model time) after its release" in run.error.message
    assert "rank 2: " in run.error.message
    assert "bytes of its message to rank 3" in run.error.message
    assert run.result.status == "failed"


def test_jobs_share_links(tmp_path: Path) -> None:
    """Two rings whose hosts are on the two sides of a dumbbell: each gets half of the middle while both are there."""
    work = {**WORK, "algorithm": "ring", "iterations": 2}
    jobs = {
        name: {"workers": {"count": 2, "placement": hosts}, "workload": work}
        for name, hosts in (("one", ["h0", "h2"]), ("two", ["h1", "h3"]))
    }
    network = {"topology": {"kind": "dumbbell", "left": 2, "right": 2}, "links": FAST}
    alone = messages(tmp_path / "alone", **network, jobs={"one": jobs["one"]})
    together = messages(tmp_path / "both", **network, jobs=jobs)
    assert together.error is None
    one, two = (job.evidence.iterations[0].cct_ns for job in together.samples.jobs)
    assert one == two
    assert one == pytest.approx(2 * alone.samples.jobs[0].evidence.iterations[0].cct_ns, rel=0.05)


def test_what_a_run_without_packets_says(tmp_path: Path) -> None:
    run = messages(tmp_path, **STAR8, workload={**WORK, "gradients": "random", "iterations": 2, "warmup": 1})
    result = run.result
    assert result.verdict.value == "valid"
    assert result.packets is None
    assert result.wrong is None
    assert result.nmse is None
    assert result.simulation is not None
    assert (result.simulation.hops, result.simulation.fidelity) == (0, "message")
    assert any("no packets" in note for note in result.notes)
    rows = run.rows("iterations.csv")
    assert [(row["iteration"], row["warmup"]) for row in rows if row["rank"] == "5"] == [
        ("0", "1"),
        ("0", "0"),
        ("1", "0"),
    ]
    first = [row for row in rows if row["warmup"] == "0" and row["iteration"] == "0"]
    assert {row["start_ns"] for row in first} == {"0"}
    assert {row["received_bytes"] for row in first} == {str(2 * 7 * (1 << 20) // 8)}
    assert len(set(run.cct_ns)) == 1


def test_the_same_twice(tmp_path: Path) -> None:
    work = {**WORK, "algorithm": "halving-doubling", "iterations": 2}
    texts = [
        (messages(tmp_path / name, **FAT_TREE, workload=work).directory / "iterations.csv").read_bytes()
        for name in ("a", "b")
    ]
    assert texts[0] == texts[1]
