"""With one seed two simulations are the same to the byte, in whatever process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SPEC = """\
name: same
engine: simulation
topology: {kind: fat-tree, k: 4}
links:
  - {rate: 1Gbps, delay: 20us, queue: 64KiB, ecn: {min: 8KiB, max: 24KiB, probability: 20%}}
  - {select: core, loss: 0.5%, jitter: 5us, duplicate: 0.5%, corrupt: 0.5%}
switches: {kind: native, program: ecn_priority, entries: ecn_priority}
jobs:
  one: {workers: {count: 6, placement: random}, transport: {congestion: dcqcn}, workload: {size: 64KiB, iterations: 4}}
  two: {workers: {count: 4, placement: random}, workload: {collective: all-to-all, size: 64KiB, iterations: 4}}
traffic:
  - {kind: constant, from: h14, to: h3, rate: 200Mbps}
  - {kind: incast, from: [h13, h15], to: h2, size: 10000B, every: 500us}
faults:
  - {kind: stall, worker: one/all, probability: 20%, for: 100us, of: step}
  - {kind: link-down, select: c0-a0_0, at: 1ms, for: 1ms}
  - {kind: link-set, select: core, at: 2ms, delay: 30us}
  - {kind: swap-program, select: c1, at: 1ms, program: spray}
capture: {select: [h0, "e1_0>a1_0"], snap: 256B}
"""


def outcome(directory: Path, seed: str) -> dict[str, bytes]:
    """What a run in a process of its own leaves: its tables and captures."""
    spec = directory.parent / "spec.yaml"
    spec.write_text(SPEC)
    command = [sys.executable, "-m", "testbed", "run", str(spec), "--out", str(directory)]
    subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, check=True, capture_output=True, timeout=250)
    files = [*sorted(directory.glob("*.csv")), *sorted(directory.glob("pcap/*"))]
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


@pytest.mark.slow
def test_across_processes_and_hash_seeds(tmp_path: Path) -> None:
    first, second = outcome(tmp_path / "a", "1"), outcome(tmp_path / "b", "4242")
    assert first.keys() == second.keys()
    assert {"iterations.csv", "links.csv", "switches.csv", "pcap/h0-eth0.pcapng"} <= first.keys()
    assert [name for name in first if first[name] != second[name]] == []
    assert all(len(data) > 1000 for data in first.values())
