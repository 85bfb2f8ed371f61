"""`testbed run` of a simulation: no root, no Mininet, and a line that tells what the simulation did."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

SPEC = """\
name: simulated
engine: simulation
time_dilation: 7
topology: {kind: star, hosts: 4}
links: [{rate: 1Gbps, delay: 10us}]
workers: {count: 4}
workload: {size: 64KiB, iterations: 3, warmup: 1}
"""


def called(*arguments: str | Path, file_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
    """file_bytes: how long a file may become that it writes."""
    limited = [] if file_bytes is None else ["prlimit", f"--fsize={file_bytes}"]
    command = [*limited, sys.executable, "-m", "testbed", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_table_tells_what_the_simulation_did(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    done = called("run", tmp_path / "spec.yaml", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "simulated: simulation, allreduce by ring over roce, 4 ranks, 3 of 3 iterations" in done.stdout
    told = re.search(
        r"simulated +([\d,]+) events, ([\d,]+) packet-hops \([\d,]+ a second\); .* s of virtual", done.stdout
    )
    assert told, done.stdout
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["engine"] == "simulation"
    assert result["time_dilation"] == 1
    assert result["simulation"]["events"] == int(told[1].replace(",", ""))
    assert result["simulation"]["hops"] == int(told[2].replace(",", ""))


def test_a_plan_needs_no_machine(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    done = called("plan", tmp_path / "spec.yaml", "--json")
    assert done.returncode == 0, done.stderr
    planned = json.loads(done.stdout)
    assert planned["dilation"] == 1
    assert planned["switching"]["kind"] == "native"
    assert planned["wall_s"] is None


def test_the_engine_needs_neither_mininet_nor_a_controller() -> None:
    code = "import testbed.simulation.run, sys; print({'mininet', 'os_ken', 'ryu', 'grpc'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("capture", "options", "file"), [("capture: {select: h1}\n", [], "pcap"), ("", ["--trace-events"], "trace.json")]
)
def test_a_file_that_cannot_be_written_whole_fails_the_run(
    tmp_path: Path, capture: str, options: list[str], file: str
) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC.replace("iterations: 3", "iterations: 40") + capture)
    done = called("run", tmp_path / "spec.yaml", "--out", tmp_path / "run", *options, file_bytes=100_000)
    assert done.returncode == 1, done.stderr
    message = f"cannot write {tmp_path / 'run' / file}: File too large"
    assert f"testbed: {message}\n" in done.stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["status"], result["failure"]) == ("failed", message)
    assert result["simulation"]["events"] > 0
