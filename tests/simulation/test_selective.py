"""IRN, SRNIC and the Falcon-like transport in simulation: exact sums under loss, and what sets them apart."""

from pathlib import Path
from typing import Any

import pytest

from tests.simulation.runs import Run, simulate

KINDS = ["irn", "srnic", "falcon"]
RING = {"collective": "allreduce", "algorithm": "ring", "size": "128KiB", "dtype": "int32", "iterations": 3}


def ring(directory: Path, kind: str, loss: str = "0%", **keys: Any) -> Run:
    return simulate(
        directory,
        transport={"kind": kind, "mtu": 1024},
        workload={**RING, "warmup": 0},
        **{"links": [{"rate": "1Gbps", "delay": "10us", "loss": loss}], **keys},
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["0%", "1%", "5%"])
def test_sums_are_exact(kind: str, loss: str, tmp_path: Path) -> None:
    result = ring(tmp_path / "run", kind, loss).result
    assert (result.status, result.wrong, result.verdict.value) == ("ok", 0, "valid")
    lost = result.packets.dropped_loss
    assert (lost > 0) == (loss != "0%")
    assert result.packets.retransmitted <= 2 * lost, "not more than is lost, and what answers lost make look so"


@pytest.mark.parametrize("kind", KINDS)
def test_without_loss_it_is_as_fast_as_the_bound_lets_it(kind: str, tmp_path: Path) -> None:
    """Which knows of no acknowledgements: one of 86 bytes a packet of 1,122 here, where a BDP is six packets."""
    run = ring(tmp_path / "run", kind)
    assert run.result.bound_ns is not None
    assert max(run.cct_ns) < 1.08 * run.result.bound_ns


def test_falcon_s_paths_use_several_ways_through_the_network(tmp_path: Path) -> None:
    ways = {}
    for kind in ("irn", "falcon"):
        run = ring(
            tmp_path / kind,
            kind,
            topology={"kind": "leaf-spine", "spines": 4, "leaves": 2, "hosts": 1},
            workers={"count": 2},
            links=[{"rate": "1Gbps", "delay": "10us"}],
        )
        up = [int(row["packets"]) for row in run.rows("links.csv") if row["link"].startswith("leaf0>spine")]
        ways[kind] = sum(packets > 20 for packets in up)
        assert len(up) == 4
    assert ways["irn"] == 1
    assert ways["falcon"] >= 2


def test_falcon_keeps_away_from_a_slow_path(tmp_path: Path) -> None:
    """Of four spines one has a tenth of the rate; two of the paths are hashed to it at the start."""
    run = simulate(
        tmp_path / "run",
        transport={"kind": "falcon", "mtu": 1024},
        workload={**RING, "size": "512KiB", "warmup": 1},
        topology={"kind": "leaf-spine", "spines": 4, "leaves": 2, "hosts": 1},
        workers={"count": 2},
        links=[{"rate": "1Gbps", "delay": "10us", "queue": "256KiB"}, {"select": "leaf0-spine0", "rate": "100Mbps"}],
    )
    up = {row["link"]: int(row["packets"]) for row in run.rows("links.csv") if row["link"].startswith("leaf0>spine")}
    assert 0 < up["leaf0>spine0"] < 0.15 * sum(up.values())
    assert max(run.cct_ns) < 1.25 * 512 * 1024 * 8, "ns at 1 Gb/s"
    assert run.result.packets.retransmitted == 0
