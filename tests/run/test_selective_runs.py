"""`testbed run` over IRN, SRNIC and the Falcon-like transport: losses are sent again, integers exact."""

from pathlib import Path

import pytest

from tests.cli import runs
from tests.cli.runs import Run

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]


@pytest.mark.parametrize("kind", ["irn", "srnic", "falcon"])
def test_integers_over_links_that_lose(kind: str, tmp_path: Path) -> None:
    with Run(
        tmp_path,
        time_dilation=5,
        transport={"kind": kind},
        links=[{"rate": "100Mbps", "delay": "100us", "queue": "256KiB", "loss": "1%"}],
        workload={"size": "64KiB", "dtype": "int32"},
        limits={"wall": "100s", "stall": "20s"},
    ) as run:
        assert run.end() in (0, 4), run.stderr  # its times may be in doubt
        result = run.result
    assert (result["status"], result["wrong"]) == ("ok", 0)
    assert result["packets"]["dropped_loss"] > 0
    assert result["packets"]["retransmitted"] > 0
    assert runs.balance(result) == 0
    assert not {"wrong-values", "unmodelled-drops", "packet-balance"} & set(runs.reasons(result))
