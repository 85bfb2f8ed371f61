"""`testbed run` under stress, in emulation: flows over kernel TCP, environments, tails that are dropped."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli import runs
from tests.cli.runs import Run

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]
STAR: dict[str, Any] = {
    "time_dilation": 5,
    "switches": {"kind": "native"},
    "topology": {"kind": "star", "hosts": 6},
    "links": [{"rate": "100Mbps", "delay": "100us", "queue": "256KiB"}],
    "workers": {"count": 4},
    "workload": {"algorithm": "ring", "size": "64KiB", "iterations": 10, "warmup": 2},
}
BUSY = {"start-skew", "late-departures", "rtt-excess", "rate"}  # a busy machine's


def measured(run: Run, *reasons: str) -> dict[str, Any]:
    """Wait for a run that must succeed; its result."""
    result = runs.measured(run)
    assert set(runs.reasons(result)) <= {*BUSY, *reasons}
    return result


def test_congestion_comes_over_kernel_tcp_and_is_timed(tmp_path: Path) -> None:
    environment = {"tail_ratio": 3, "by": "congestion", "severity": 1, "events": 0.5}
    with Run(tmp_path, **STAR, environment=environment) as run:
        result = measured(run, "undilated")
    told, traffic = result["environment"], result["traffic"]
    assert (told["severity"], told["reached"], told["load"]) == (1, None, pytest.approx(0.5 / 4))
    assert traffic["begun"] >= traffic["completed"] > 0
    assert traffic["slowdown"]["p50"] >= 1
    rows = run.table("flows.csv")
    assert len(rows) == traffic["begun"]
    assert {row["source"] for row in rows} <= {"h4", "h5"}
    assert result["wrong"] == 0
    assert result["background"]["received"] > 0


def test_a_slow_host_is_slow_in_windows(tmp_path: Path) -> None:
    environment = {"tail_ratio": 3, "by": "slow-host", "severity": 4, "events": 0.5}
    with Run(tmp_path, **STAR, environment=environment) as run:
        result = measured(run)
    struck = run.events("fault")
    assert {event["fault"] for event in struck} == {"link-set"}
    assert all(len(event["where"]) == 2 for event in struck)
    assert result["cct_ns"]["max"] > 1.5 * result["cct_ns"]["min"]


def test_tails_are_dropped_once_and_sent_again(tmp_path: Path) -> None:
    fault = {"kind": "tail-drop", "worker": "all", "share": "25%", "probability": "50%"}
    with Run(tmp_path, **STAR, faults=[fault]) as run:
        result = measured(run)
    assert result["wrong"] == 0
    assert result["packets"]["retransmitted"] > 0
    assert result["counters"]["tail_dropped_packets"] > 0
