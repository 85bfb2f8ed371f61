"""`testbed plan` at the command line: tables, JSON, pictures, and what it says of mistakes."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from testbed.cli import execute
from testbed.plan.model import Plan
from testbed.plan.serial import from_json

SPEC = """\
name: little
topology: {kind: fat-tree, k: 4}
links:
  - {rate: 1Gbps, delay: 20us}
  - {select: core, loss: 0.5%}
workers: {count: 4, placement: spread}
workload: {size: 64KiB, algorithm: ring, iterations: 5, warmup: 1}
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # a machine that was never measured
    file = tmp_path / "little.yaml"
    file.write_text(SPEC)
    return file


def test_the_outline_names_all_parts(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["plan", str(spec)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in (
        "16 hosts, 20 switches (8 edge, 8 aggregation, 4 core), 48 cables",
        "loss 0.005",
        "10.0.0.0/8 > 3,4 ecmp",
        "10.1.0.2",
        "allreduce by ring: 4 ranks, 6 steps",
        "assumed; `testbed doctor` measures it",
        "load asks for",
        "timing asks for",
        "switches ask for",
        "6 iterations at the bound",
    ):
        assert words in text


def test_nothing_is_broken_in_a_pipe(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["plan", str(spec)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "routes (one switch of each tier; alternates for 32 sets of failed cables)" in lines
    assert next(line for line in lines if line.startswith("allreduce by ring")).endswith(" in all")
    assert max(len(line.rstrip()) for line in lines) > 120, "as wide as it needs"


def test_a_large_plan_stays_short(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    big = ["-S", "topology.k=8", "-S", "workers.count=128", "-S", "workload.algorithm=halving-doubling"]
    assert execute(["plan", str(spec), *big]) == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) < 65
    assert "112 more" in text


def test_json_is_the_plan_and_more(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["plan", str(spec), "--json", "-S", "seed=3", "-S", "sweep={'workers.count': [2, 4, 8]}"]) == 0
    data = json.loads(capsys.readouterr().out)
    plan = from_json(data)
    assert plan.spec.seed == 3
    assert data["runs"] == 3
    assert data["machine"]["measured"] is False
    assert len(data["dilation_reasons"]) == 3  # load, timing, switches
    assert data["schedule"][0] == {
        "first": 0, "last": 0, "op": "reduce", "messages": 2, "bytes": 65536, "largest_bytes": 32768,
    }  # fmt: skip
    runs = [planned(spec, capsys, f"workers.count={count}") for count in (2, 4, 8)]
    assert data["wall_s"] == pytest.approx(sum(6 * run.prediction.bound_ns * run.dilation / 1e9 for run in runs))
    assert len({run.prediction.bound_ns for run in runs}) == 3


def planned(spec: Path, capsys: pytest.CaptureFixture[str], setting: str) -> Plan:
    assert execute(["plan", str(spec), "--json", "-S", setting]) == 0
    return from_json(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(
    "topology",
    [
        "{kind: fat-tree, k: 8}",
        "{kind: torus, dims: [3, 3]}",
        "{kind: star, hosts: 30}",
        "{kind: dumbbell, left: 2, right: 2}",
    ],
)
def test_a_picture_shows_every_node(spec: Path, tmp_path: Path, topology: str) -> None:
    file = tmp_path / "net.svg"
    assert execute(["plan", str(spec), "-S", f"topology={topology}", "-S", "links=[]", "--graph", str(file)]) == 0
    ET.parse(file)
    text = file.read_text()
    assert "<!-- h3 -->" in text or "<!-- h3\nrank 3 -->" in text
    assert "rank 3" in text


def test_a_file_that_is_no_picture(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["plan", str(spec), "--graph", "net.doc"]) == 2
    assert "svg" in capsys.readouterr().err


def test_mistakes_are_told_with_their_place(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_text(SPEC.replace("k: 4", "k: 5"))
    assert execute(["plan", str(spec)]) == 2
    assert "little.yaml:2" in capsys.readouterr().err
