"""`testbed run` over transports whose results may be partial: what links lose is missing, and nothing is wrong."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli import runs
from tests.cli.runs import Run

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]
ONCE = f"{Path(__file__).parents[1] / 'transport' / 'once.py'}:"
LINK = {"rate": "100Mbps", "delay": "100us", "queue": "256KiB"}


def lossy(name: str, link: dict[str, str], **changes: Any) -> dict[str, Any]:
    base = {
        "time_dilation": 5,
        "transport": {"kind": ONCE + name, "patience": "20ms"},
        "links": [LINK | link],
        "workload": {"size": "192KiB", "algorithm": "ring"},
    }
    return runs.merged(base, changes)


@pytest.mark.parametrize(("name", "link"), [("ONCE", "loss"), ("PLAIN", "loss"), ("PLAIN", "corrupt")])
def test_what_links_lose_is_missing(tmp_path: Path, name: str, link: str) -> None:
    with Run(tmp_path, **lossy(name, {link: "2%"})) as run:
        assert run.end() in (0, 4), run.stderr  # its times may be in doubt
        result = run.result
    lost = result["packets"]["dropped_loss" if link == "loss" else "dropped_corrupt"]
    assert (result["status"], result["wrong"], result["packets"]["retransmitted"]) == ("ok", 0, 0)
    assert runs.balance(result) == 0
    assert not {"wrong-values", "unmodelled-drops", "packet-balance"} & set(runs.reasons(result))
    assert lost > 0
    assert result["missing_bytes"] >= 1024 * lost  # what comes after its message was given up is missing too
    assert 1e-6 < result["nmse"] < 1
    gaps = [int(row["end_byte"]) - int(row["first_byte"]) for row in run.table("missing.csv")]
    assert sum(gaps) == result["missing_bytes"]


def test_training_over_partial_results(tmp_path: Path) -> None:
    workload = {"gradients": "digits-mlp", "size": None, "iterations": 6, "warmup": 2, "algorithm": "ring"}
    with Run(tmp_path, **{**lossy("ONCE", {"loss": "2%"}), "workload": workload}) as run:
        assert run.end() in (0, 4), run.stderr
        result = run.result
    assert result["status"] == "ok"
    assert result["missing_bytes"] > 0
    assert result["training"]["accuracy"] > 0.3
    assert result["training"]["accuracy"] == run.events("training")[-1]["accuracy"]
    assert result["counters"]["collectives"] == 3 * 6


def test_a_safeguard_ends_the_run(tmp_path: Path) -> None:
    with Run(tmp_path, **lossy("ONCE", {}, transport={"halt": 2})) as run:
        assert run.end() == 1, run.stderr
        result = run.result
    assert result["status"] == "failed"
    assert "enough after 2 collectives" in result["failure"]
