"""`testbed run` over UBT: what the links lose is missing, within the bounds of its stages, and the packets balance."""

from pathlib import Path

import pytest

from tests.cli import runs
from tests.cli.runs import Run

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]


def test_what_links_lose_is_missing_and_bounded_in_time(tmp_path: Path) -> None:
    """Two stages of at most 40 ms each, more than they take."""
    with Run(
        tmp_path,
        transport={"kind": "ubt", "bound": "40ms", "skip": "0%"},
        links=[{"rate": "100Mbps", "delay": "100us", "queue": "256KiB", "loss": "1%"}],
        workload={"algorithm": {"kind": "tar", "incast": 0}, "size": "64KiB"},
        limits={"wall": "100s", "stall": "20s"},
    ) as run:
        assert run.end() in (0, 4), run.stderr  # its times may be in doubt
        result = run.result
    assert result["status"] == "ok"
    assert result["packets"]["dropped_loss"] > 0
    assert result["packets"]["retransmitted"] == 0
    assert result["missing_bytes"] > 0
    assert 0 < result["nmse"] < 0.2
    assert runs.balance(result) == 0
    assert not {"wrong-values", "unmodelled-drops", "packet-balance"} & set(runs.reasons(result))


def test_warm_up_measures_the_bounds_and_nothing_is_missing_without_loss(tmp_path: Path) -> None:
    with Run(
        tmp_path,
        transport={"kind": "ubt"},
        links=[{"rate": "100Mbps", "delay": "100us", "queue": "256KiB"}],
        workload={"algorithm": {"kind": "tar", "incast": 0}, "size": "64KiB", "warmup": 3},
        limits={"wall": "100s", "stall": "20s"},
    ) as run:
        assert run.end() in (0, 4), run.stderr
        result = run.result
    assert result["status"] == "ok"
    assert result["nmse"] < 0.1  # a stage that a busy machine keeps longer than in warm-up loses its end
    assert runs.balance(result) == 0
