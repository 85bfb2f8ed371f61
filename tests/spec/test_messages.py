"""What a run without packets cannot carry is refused by name, at its place."""

from pathlib import Path

import pytest

from testbed.spec.errors import SpecErrors
from testbed.spec.reader import read_spec

RIGHT = """\
name: messages
engine: simulation
fidelity: message
topology: {kind: fat-tree, k: 4}
links: [{rate: 10Gbps, queue: 64KiB, ecn: {min: 10KiB, max: 20KiB}}]
workers: {count: 4}
transport: {kind: roce, congestion: dcqcn}
workload: {size: 1MiB}
faults: [{kind: link-set, select: h0, at: 1ms, rate: 1Gbps}]
"""
WRONG = [
    ("engine: simulation", "engine: emulation", "fidelity", "what is emulated are packets"),
    ("queue: 64KiB", "loss: 1%", "links.0.loss", "loses packets"),
    ("queue: 64KiB", "delay: 2us, jitter: 1us", "links.0.jitter", "delays unevenly packets"),
    ("at: 1ms, rate: 1Gbps", "at: 1ms, corrupt: 1%", "faults.0.corrupt", "corrupts packets"),
    (
        "kind: link-set, select: h0, at: 1ms, rate: 1Gbps",
        "kind: kill, worker: 1, at: 1ms",
        "faults.0.kind",
        "kill is of",
    ),
    ("workload:", "routing: {kind: spray}\nworkload:", "routing.kind", "packet by packet"),
    ("workload:", "capture: {select: h0}\nworkload:", "capture", "is of packets"),
    ("workload:", "host: {per_packet: 1us}\nworkload:", "host", "is of packets"),
    ("workload:", "switches: {kind: native, pfc: {xoff: 9KiB, xon: 8KiB}}\nworkload:", "switches.pfc", "with packets"),
    ("workload:", "switches: {kind: native, trim: 64B}\nworkload:", "switches.trim", "with packets"),
    ("workload:", "traffic: [{kind: constant, from: h5, to: h6, rate: 1Gbps}]\nworkload:", "traffic", "is packets"),
    ("workload: {size: 1MiB}", "workload: {gradients: digits-mlp}", "workload.gradients", "learns from the result"),
    ("kind: roce, congestion: dcqcn", "kind: aggregation", "transport.kind", "added up by switches"),
    ("kind: roce, congestion: dcqcn", "kind: ubt", "transport.kind", "leaves missing"),
    ("kind: roce, congestion: dcqcn", "kind: dblp", "transport.kind", "leaves missing"),
]


def test_right(tmp_path: Path) -> None:
    path = tmp_path / "right.yaml"
    path.write_text(RIGHT)
    assert read_spec(path).fidelity == "message"


@pytest.mark.parametrize(("old", "new", "key", "what"), WRONG, ids=[f"{key}-{what[:9]}" for _, _, key, what in WRONG])
def test_wrong(old: str, new: str, key: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(RIGHT.replace(old, new))
    with pytest.raises(SpecErrors) as caught:
        read_spec(path)
    told = [error for error in caught.value.errors if error.key == key]
    assert any(what in error.message for error in told), caught.value.errors
