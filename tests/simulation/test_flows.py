"""Background flows of simulated runs: carried as real packets, timed, yielding to others, and counted apart."""

from pathlib import Path
from typing import Any

import pytest

from tests.simulation.runs import Run, simulate

STAR = {"topology": {"kind": "star", "hosts": 6}, "links": [{"rate": "100Mbps", "delay": "50us", "queue": "256KiB"}]}
WORK = {"size": "64KiB", "iterations": 20, "warmup": 1, "gradients": "none"}
FLOWS = {"kind": "flows", "sizes": "100kB", "load": "20%", "from": ["h4", "h5"], "to": ["h4", "h5"]}


def run(directory: Path, *traffic: dict[str, Any], **keys: Any) -> Run:
    made = simulate(directory, **{**STAR, "workload": WORK, "traffic": list(traffic), **keys})
    assert made.error is None, made.error
    return made


def test_a_flow_alone_takes_what_the_network_takes(tmp_path: Path) -> None:
    """Seven segments go at once (slow start begins with ten): one over the first link, then all over the second."""
    made = run(tmp_path / "run", {**FLOWS, "sizes": "10kB", "load": "2%", "from": "h4", "to": "h5"})
    done = [row for row in made.samples.flows if row.fct_ns is not None]
    assert len(done) >= 4
    around = 14 + 20 + 32 + 24  # Ethernet, IPv4, TCP with timestamps; FCS, preamble and gap
    alone_ns = 80 * (1448 + around) + 80 * (10_000 + 7 * around) + 2 * 50_000  # 80 ns a byte
    assert {row.alone_ns for row in done} == {alone_ns}
    assert min(row.fct_ns or 0 for row in done) == pytest.approx(alone_ns, rel=0.001)


def test_flows_are_counted_and_timed_in_the_result(tmp_path: Path) -> None:
    made = run(tmp_path / "run", FLOWS)
    traffic, rows = made.result.traffic, made.samples.flows
    assert traffic is not None
    assert (traffic.begun, len(traffic.entries)) == (len(rows), 1)
    assert 0 < traffic.completed <= traffic.begun
    times = sorted(row.fct_ns for row in rows if row.fct_ns is not None)
    assert (traffic.fct_ns.n, traffic.fct_ns.max) == (len(times), times[-1])
    assert traffic.slowdown.p50 is not None
    assert traffic.slowdown.p50 >= 1
    assert traffic.entries[0].mean_bytes == 100_000
    assert made.result.background is not None
    assert made.result.background.received > traffic.completed * 69  # segments of 100 kB


def test_flows_are_not_the_job_s(tmp_path: Path) -> None:
    alone, beside = run(tmp_path / "alone"), run(tmp_path / "beside", FLOWS)
    assert alone.result.packets == beside.result.packets
    assert alone.cct_ns == beside.cct_ns


def test_flows_into_ranks_slow_them_and_are_the_same_for_every_transport(tmp_path: Path) -> None:
    flows = {**FLOWS, "to": ["h0", "h1", "h2", "h3"], "load": "50%"}
    drawn = []
    for kind in ("tcp", "roce"):
        made = run(tmp_path / kind, flows, transport={"kind": kind})
        alone = run(tmp_path / f"{kind}-alone", transport={"kind": kind})
        assert made.result.cct_ns.mean is not None
        assert alone.result.cct_ns.mean is not None
        assert made.result.cct_ns.mean > 1.05 * alone.result.cct_ns.mean
        drawn.append([(row.source, row.number, row.target, row.start_ns) for row in made.samples.flows])
    shorter = min(map(len, drawn))
    assert shorter > 10
    assert drawn[0][:shorter] == drawn[1][:shorter]


def test_a_flow_larger_than_a_message_comes_whole(tmp_path: Path) -> None:
    made = run(
        tmp_path / "run",
        {"kind": "flows", "sizes": "3MiB", "every": "10ms", "from": "h4", "to": "h5"},
        workload={**WORK, "iterations": 60},
    )
    first = made.samples.flows[0]
    assert first.fct_ns is not None
    assert first.fct_ns == pytest.approx(first.alone_ns, rel=0.1)


def test_two_runs_of_a_seed_have_the_same_flows(tmp_path: Path) -> None:
    flows = {**FLOWS, "sizes": "web-search", "scale": 0.02}
    first, second = run(tmp_path / "first", flows), run(tmp_path / "second", flows)
    assert first.samples.flows == second.samples.flows


@pytest.mark.parametrize("by", ["congestion", "slow-host"])
def test_an_environment_strikes_in_warm_up_and_begins_anew_at_zero(tmp_path: Path, by: str) -> None:
    """Nearly always, so that some warm-up iteration is struck; what is measured is the same whatever their number."""
    environment = {"tail_ratio": 3, "by": by, "severity": 4, "events": 0.8}
    shorter, longer = (
        run(tmp_path / str(warmup), environment=environment, workload={**WORK, "warmup": warmup}) for warmup in (2, 9)
    )
    alone = run(tmp_path / "alone")
    spans: dict[str, list[tuple[int, int]]] = {}
    for row in longer.rows("iterations.csv"):
        if row["warmup"] == "1":
            spans.setdefault(row["iteration"], []).append((int(row["start_ns"]), int(row["end_ns"])))
    warm = [max(end for _, end in rows) - min(start for start, _ in rows) for rows in spans.values()]
    assert len(warm) == 9
    assert max(warm) > 1.5 * max(alone.cct_ns)
    assert [(row.source, row.start_ns, row.size_bytes) for row in shorter.samples.flows[:5]] == [
        (row.source, row.start_ns, row.size_bytes) for row in longer.samples.flows[:5]
    ]
