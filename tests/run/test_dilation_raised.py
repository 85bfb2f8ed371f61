"""`time_dilation: auto` on a machine that carries less than was once measured: the run slows itself down."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testbed.doctor.capacity import capabilities
from testbed.doctor.store import cache_file, save_capabilities
from tests.cli.runs import Run, result_in

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]
BOAST = 64  # times what this machine carries
AUTO: dict[str, Any] = {
    "time_dilation": "auto",
    "topology": {"kind": "star", "hosts": 4},
    "workers": {"count": 4},
    "switches": {"kind": "native"},
    "workload": {"size": "512KiB", "iterations": 3, "warmup": 1},
    "capture": {"select": "h0", "snap": "64B"},
}


@pytest.fixture
def boastful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is said to carry more than it does, and to be on time."""
    native = capabilities(lambda _what: None).native
    assert native is not None
    real = capabilities(lambda _what: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    better = replace(native, packet_hops_per_s=BOAST * native.packet_hops_per_s, path_excess_ns=0)
    save_capabilities(replace(real, native=better))
    assert os.fspath(cache_file()).startswith(os.fspath(tmp_path))


@pytest.mark.usefixtures("boastful")
def test_late_warm_ups_raise_it_before_anything_is_measured(tmp_path: Path) -> None:
    with Run(tmp_path, **AUTO) as run:
        assert run.end() in (0, 4), run.stderr
        raised = run.events("dilation-raised")
    assert 1 <= len(raised) <= 3
    assert all(2 * each["from"] - 1 <= each["to"] <= 2 * each["from"] for each in raised)
    result = result_in(run.directory)
    assert result["time_dilation"] == raised[-1]["to"]
    assert json.loads((run.directory / "plan.json").read_text())["dilation"] == raised[-1]["to"]
    rows = [(row["warmup"], row["iteration"], row["rank"]) for row in run.table("iterations.csv")]
    assert rows == [(warm, n, rank) for warm, n in [("1", "0"), *(("0", n) for n in "012")] for rank in "0123"]
    assert [path.name for path in (run.directory / "pcap").iterdir()] == ["h0-eth0.pcapng"]


@pytest.mark.usefixtures("boastful")
def test_it_stays_where_the_wall_limit_leaves_no_time(tmp_path: Path) -> None:
    limits = {"wall": "12s"}
    with Run(tmp_path, **{**AUTO, "workload": {**AUTO["workload"], "iterations": 100_000}}, limits=limits) as run:
        run.until(lambda: run.directory.joinpath("iterations.csv").exists(), "measured iterations")
        assert not run.events("dilation-raised")
