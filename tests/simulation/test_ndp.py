"""NDP in simulation: an incast at the bound without a timeout where switches trim, exact sums, all paths used."""

from pathlib import Path
from typing import Any

import pytest

from tests.simulation.runs import Run, simulate

EIGHT_PACKETS = "9296B"  # of 1024 B of payload: as long as NDP's own queues
LINK = {"rate": "10Gbps", "delay": "2us", "queue": EIGHT_PACKETS}
TRIMMING = {"kind": "native", "trim": "64B"}
RING = {"collective": "allreduce", "algorithm": "ring", "size": "128KiB", "dtype": "int32", "iterations": 3}


def incast(directory: Path, senders: int, kind: str = "ndp", **keys: Any) -> Run:
    """All send 64 packets to one at once, and get as many back."""
    workload = {"algorithm": "parameter-server", "size": "64KiB", "dtype": "int32", "iterations": 2, "warmup": 1}
    return simulate(
        directory,
        topology={"kind": "star", "hosts": senders + 1},
        workers={"count": senders + 1},
        **{
            "transport": {"kind": kind, "mtu": 1024},
            "links": [{**LINK, "jitter": "200ns"}],
            "workload": workload,
            "switches": TRIMMING,
            **keys,
        },
    )


@pytest.mark.parametrize("senders", [8, 24])
def test_an_incast_ends_at_the_bound_without_a_timeout(senders: int, tmp_path: Path) -> None:
    run = incast(tmp_path / "run", senders)
    result = run.result
    assert (result.status, result.wrong, result.verdict.value) == ("ok", 0, "valid")
    assert result.bound_ratio is not None
    assert result.bound_ratio < 1.01
    assert (result.timeouts, result.packets.dropped_queue, result.packets.dropped_corrupt) == (0, 0, 0)
    assert result.packets.retransmitted == result.packets.trimmed > 0


def test_what_is_trimmed_is_told_by_links_and_switches_and_by_who_receives_it(tmp_path: Path) -> None:
    run = incast(tmp_path / "run", 8, workload={"algorithm": "parameter-server", "size": "64KiB", "warmup": 0})
    packets = run.result.packets
    by_links = {row["link"]: int(row["job_shortened"]) for row in run.rows("links.csv") if int(row["job_shortened"])}
    by_program = {row["name"]: int(row["packets"]) for row in run.rows("switches.csv") if row["kind"] == "program"}
    assert by_links == {"s0>h0": packets.trimmed}
    assert by_program["trimmed"] == run.job.counters["trimmed"] == run.job.counters["naks"] == packets.trimmed > 0
    assert packets.dropped_trimmed == 0


@pytest.mark.parametrize("loss", ["0%", "1%", "5%"])
@pytest.mark.parametrize("trim", [0, "64B"])
def test_sums_are_exact(loss: str, trim: str | int, tmp_path: Path) -> None:
    result = simulate(
        tmp_path / "run",
        transport={"kind": "ndp", "mtu": 1024},
        workload={**RING, "warmup": 0},
        links=[{**LINK, "loss": loss}],
        switches={"kind": "native", "trim": trim},
    ).result
    assert (result.status, result.wrong, result.verdict.value) == ("ok", 0, "valid")
    assert (result.packets.dropped_loss > 0) == (loss != "0%")


def test_where_switches_drop_a_timeout_finds_it(tmp_path: Path) -> None:
    run = incast(tmp_path / "run", 8, switches={"kind": "native"})
    assert (run.result.status, run.result.wrong) == ("ok", 0)
    assert run.result.packets.trimmed == 0
    assert run.result.timeouts > 0
    assert run.result.packets.retransmitted == run.result.packets.dropped_queue > 0


def test_a_ring_is_as_fast_as_the_bound_lets_it(tmp_path: Path) -> None:
    """Which knows of no answers: one of 82 bytes a packet of 1,112 here."""
    run = simulate(tmp_path / "run", transport={"kind": "ndp", "mtu": 1024}, workload={**RING, "warmup": 0})
    assert run.result.bound_ns is not None
    assert max(run.cct_ns) < 1.09 * run.result.bound_ns
    assert run.result.packets.retransmitted == 0


def test_packets_take_all_paths_alike(tmp_path: Path) -> None:
    run = simulate(
        tmp_path / "run",
        transport={"kind": "ndp", "mtu": 1024},
        workload={**RING, "size": "512KiB", "warmup": 0},
        topology={"kind": "leaf-spine", "spines": 4, "leaves": 2, "hosts": 1},
        workers={"count": 2},
        links=[LINK],
        switches=TRIMMING,
    )
    up = [int(row["packets"]) for row in run.rows("links.csv") if row["link"].startswith("leaf0>spine")]
    assert len(up) == 4
    assert min(up) > 0.1 * sum(up), "64 entropies, hashed to four"
    assert run.result.wrong == 0


def test_headers_cut_on_the_way_come_through_the_switches_behind(tmp_path: Path) -> None:
    """Two leaves of four; the uplinks of one are half as fast together as its hosts."""
    run = simulate(
        tmp_path / "run",
        transport={"kind": "ndp", "mtu": 1024},
        workload={**RING, "algorithm": "parameter-server", "warmup": 0},
        topology={"kind": "leaf-spine", "spines": 2, "leaves": 2, "hosts": 4},
        workers={"count": 8},
        links=[LINK],
        switches=TRIMMING,
    )
    result = run.result
    cut = {row["switch"] for row in run.rows("switches.csv") if row["name"] == "trimmed" and int(row["packets"])}
    assert len(cut) > 1
    assert (result.status, result.wrong, result.timeouts) == ("ok", 0, 0)
    assert result.packets.dropped_queue == 0


@pytest.mark.parametrize("kind", ["ndp", "falcon"])
def test_a_timeout_that_what_was_heard_makes_due_is_heeded(kind: str, tmp_path: Path) -> None:
    """News end the doubling of timeouts, so that one may be over already."""
    slow = {"rate": "10Gbps", "delay": "5us", "jitter": "500ns", "queue": "33KiB", "mtu": 4200}
    result = incast(
        tmp_path / "run", 8, kind, links=[slow], switches={"kind": "native"}, transport={"kind": kind}
    ).result
    assert (result.status, result.wrong) == ("ok", 0)
    assert result.timeouts > 0
