"""`testbed run` over NDP: headers that native switches leave of packets are read, and integers exact."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli import runs
from tests.cli.runs import Run

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]
INCAST: dict[str, Any] = {
    "topology": {"kind": "star", "hosts": 5},
    "links": [{"rate": "100Mbps", "delay": "50us", "queue": "9KiB"}],
    "workers": {"count": 5},
    "transport": {"kind": "ndp"},
    "workload": {"algorithm": "parameter-server", "size": "64KiB", "dtype": "int32", "iterations": 2, "warmup": 1},
    "limits": {"wall": "100s", "stall": "20s"},
}


def ended(run: Run) -> dict[str, Any]:
    assert run.end() in (0, 4), run.stderr  # its times may be in doubt
    result: dict[str, Any] = run.result
    assert (result["status"], result["wrong"]) == ("ok", 0)
    assert runs.balance(result) == 0
    assert not {"wrong-values", "unmodelled-drops", "packet-balance"} & set(runs.reasons(result))
    return result


def test_what_is_trimmed_is_asked_for_at_once(tmp_path: Path) -> None:
    with Run(tmp_path, switches={"kind": "native", "trim": "64B"}, **INCAST) as run:
        result = ended(run)
    packets, counters = result["packets"], result["counters"]
    assert packets["trimmed"] == counters["trimmed"] > 0
    assert packets["dropped_queue"] == packets["dropped_trimmed"] == packets["dropped_corrupt"] == 0
    assert counters["naks"] > 0


def test_what_switches_drop_is_found(tmp_path: Path) -> None:
    with Run(tmp_path, switches={"kind": "native"}, **INCAST) as run:
        result = ended(run)
    assert result["packets"]["dropped_queue"] > 0
    assert result["packets"]["retransmitted"] > 0
