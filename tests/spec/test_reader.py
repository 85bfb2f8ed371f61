"""Specs as they are read: overrides, what is replaced, own files, and all mistakes in one pass."""

import json
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest

from testbed.spec.errors import SpecErrors
from testbed.spec.model import LossSpec, WorkersSpec
from testbed.spec.reader import read_spec

from .examples import SMALL, mistakes


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def test_quantities_come_out_in_base_units(small: Path) -> None:
    spec = read_spec(small)
    assert spec.links[0].rate_bps == 10**9
    assert spec.workload is not None
    assert spec.workload.size_bytes == 4096
    assert spec.links[0].loss == LossSpec(kind="bernoulli", mean=0.005)
    assert spec.switches.kind == "ovs"


def test_overrides_set_keys_by_name_and_by_index_and_the_last_wins(small: Path) -> None:
    spec = read_spec(
        small, ["links.all.rate=2Gbps", "links.0.delay=5us", "workers.count=2", "workers.count=3", "seed=7"]
    )
    assert (spec.links[0].rate_bps, spec.links[0].delay_ns) == (2 * 10**9, 5000)
    assert spec.workers == WorkersSpec(count=3)
    assert spec.seed == 7


def test_an_override_goes_into_a_shorthand(small: Path) -> None:
    spec = read_spec(
        small, ["links.all.loss.kind=gilbert-elliott", "links.all.loss.burst=4", "transport.congestion.g=0.1"]
    )
    assert spec.links[0].loss == LossSpec(kind="gilbert-elliott", mean=0.005, burst=4.0)
    assert spec.transport.congestion == {"kind": "dcqcn", "g": 0.1}


def test_an_override_may_be_a_whole_section_or_take_a_key_out(small: Path) -> None:
    spec = read_spec(small, ["topology={kind: ring, hosts: 5}", "links.all.loss="])
    assert spec.topology.parameters == {"hosts": 5}
    assert spec.links[0].loss is None


def test_another_kind_leaves_the_constants_of_the_first_behind(small: Path) -> None:
    spec = read_spec(small, ["transport.kind=tcp", "topology.kind=fat-tree", "topology.k=4"])
    assert (spec.transport.kind, spec.transport.congestion, spec.transport.parameters) == ("tcp", "none", {})
    assert spec.topology.parameters == {"k": 4}


def test_but_in_one_file_they_are_a_mistake(tmp_path: Path) -> None:
    found = mistakes(tmp_path, SMALL.replace("kind: roce", "kind: tcp"))
    assert [error.key for error in found] == ["transport.mtu", "transport.congestion"]


def test_the_engine_option_is_an_override(small: Path) -> None:
    assert read_spec(small, engine="emulation").engine == "emulation"
    assert read_spec(small, engine="simulation").engine == "simulation"
    with pytest.raises(SpecErrors, match=r"--engine simulated: engine: .*did you mean simulation"):
        read_spec(small, engine="simulated")


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("workers.count=many", "-S workers.count=many: workers.count: 'many' is not a whole number"),
        ("links.al.rate=1Gbps", "-S links.al.rate=1Gbps: links.al: no such entry; there are all (did you mean all?)"),
        ("seed.x=1", "-S seed.x=1: seed: a mapping is not a whole number"),
        ("name.x=1", "-S name.x=1: name: has no keys to set"),
        ("seed", "-S seed: write key=value"),
        (".x=1", "-S .x=1: write key=value"),
        ("seed=[1", "-S seed=[1: seed: not YAML"),
        ("workerz.count=3", "-S workerz.count=3: workerz: unknown key (did you mean workers?)"),
    ],
)
def test_a_wrong_override_is_named(small: Path, override: str, text: str) -> None:
    with pytest.raises(SpecErrors) as caught:
        read_spec(small, [override])
    assert str(caught.value).splitlines()[0].startswith(text)


def test_all_mistakes_come_in_one_pass_in_the_order_of_their_places(tmp_path: Path) -> None:
    text = """\
name: a b
topology: {kind: fat-tree, k: 4}
links:
  - {rate: 1 Gb/s}
  - {select: h99, delay: 3}
workers: {count: 17}
transport: {kind: roce, mtu: 9}
workload: {size: 3B, algorithm: rings}
faults:
  - {kind: stal}
  - {kind: kill, worker: 99, at: 1ms}
limit: {}
"""
    found = [(error.line, error.key) for error in mistakes(tmp_path, text, "seed=x")]
    assert found == [
        (1, "name"),
        (4, "links.0.rate"),
        (5, "links.1.select"),
        (5, "links.1.delay"),
        (6, "workers.count"),
        (7, "transport.mtu"),
        (8, "workload.size"),
        (8, "workload.algorithm"),
        (10, "faults.0.kind"),
        (11, "faults.1.worker"),
        (12, "limit"),
        (1, "seed"),
    ]


def test_what_follows_from_a_mistake_is_not_told(tmp_path: Path) -> None:
    found = mistakes(tmp_path, SMALL.replace("kind: star", "kind: stra"))
    assert [error.key for error in found] == ["topology.kind"]


OWN = """\
from testbed.topology.graph import GraphBuilder

def pair(parameters, default):
    net = GraphBuilder("pair", default)
    switch = net.switch("s0")
    for name in ("a", "b"):
        net.cable(net.host(name), switch)
    return net.graph()

def broken(parameters, default):
    raise RuntimeError("no luck")
"""


def test_an_own_topology_is_found_beside_the_spec(small: Path) -> None:
    (small.parent / "mine.py").write_text(OWN)
    spec = read_spec(small, ["topology={kind: mine.py:pair, any: 3}", "workers={count: 2, placement: [b, a]}"])
    assert spec.topology.kind == f"{small.parent / 'mine.py'}:pair"


def test_an_own_topology_that_fails_is_a_mistake_of_the_spec(small: Path) -> None:
    (small.parent / "mine.py").write_text(OWN)
    with pytest.raises(SpecErrors, match="failed: RuntimeError: no luck"):
        read_spec(small, ["topology={kind: mine.py:broken}"])
    with pytest.raises(SpecErrors, match="has no 'par'"):
        read_spec(small, ["topology={kind: mine.py:par}"])
    with pytest.raises(SpecErrors, match=r"there is no file 'yours\.py'"):
        read_spec(small, ["topology={kind: yours.py:pair}"])


def test_files_are_found_beside_the_spec_before_the_current_folder(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    np.save(here / "g.npy", np.ones(8, np.float32))
    edit = ["workload={gradients: g.npy}"]
    assert read_spec(small, edit).workload.gradients == str(here / "g.npy")  # type: ignore[union-attr]
    np.save(tmp_path / "g.npy", np.ones(8, np.float32))
    assert read_spec(small, edit).workload.gradients == str(tmp_path / "g.npy")  # type: ignore[union-attr]


def test_a_gradients_file_that_is_none_is_told(small: Path) -> None:
    (small.parent / "g.npy").write_text("no numbers")
    with pytest.raises(SpecErrors, match=r"workload\.gradients: .*g\.npy cannot be read"):
        read_spec(small, ["workload={gradients: g.npy}"])


def test_an_own_algorithm_is_proved(small: Path) -> None:
    (small.parent / "mine.py").write_text(
        "from testbed.collective.schedule import Schedule, transfers, COPY\n"
        "def nothing(collective, ranks, root):\n"
        "    return Schedule(collective, 'nothing', ranks, 1, transfers(0, 0, 1, 0, COPY))\n"
    )
    with pytest.raises(SpecErrors) as caught:
        read_spec(small, ["workload.algorithm=mine.py:nothing"])
    assert [error.key for error in caught.value.errors] == ["workload.algorithm"]


def test_the_words_of_a_command_that_name_files_are_found_too(small: Path) -> None:
    (small.parent / "train.py").touch()
    script = str(small.parent / "train.py")
    listed = read_spec(small, ["workload={kind: command, command: [python3, train.py, --size, '4.0']}"])
    assert listed.workload is not None
    assert listed.workload.command == ("python3", script, "--size", "4.0")
    line = read_spec(small, ["workload={kind: command, command: python3 train.py -x}"])
    assert line.workload is not None
    assert line.workload.command == f"python3 {script} -x"


def test_a_shells_line_means_the_same_in_a_folder_with_a_blank(tmp_path: Path) -> None:
    """What the shell makes of the line is the same words, the script's among them by its whole path."""
    folder = tmp_path / "it's here"
    folder.mkdir()
    path, script = folder / "spec.yaml", folder / "train it.py"
    path.write_text(SMALL)
    for name in ("train.py", "train it.py"):
        (folder / name).write_text("import sys; print(sys.argv[1:])")

    def shells_line(line: str) -> str:
        command = read_spec(path, [f"workload={json.dumps({'kind': 'command', 'command': line})}"]).workload
        assert command is not None
        assert isinstance(command.command, str)
        again = read_spec(path, [f"workload={json.dumps({'kind': 'command', 'command': command.command})}"]).workload
        assert again == command
        return command.command

    line = shells_line(
        "python3 train.py 'a b' \"$HOME/train.py\" pre'train.py' && python3 'train it.py' | cat >&2; echo train.py\\ x"
    )
    assert shlex.split(line)[:5] == ["python3", str(folder / "train.py"), "a b", "$HOME/train.py", "pretrain.py"]
    assert str(script) in shlex.split(line)
    assert line.endswith("| cat >&2; echo train.py\\ x")
    done = subprocess.run(
        ["/bin/sh", "-c", shells_line("python3 train.py one 'two three'")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['one', 'two three']\n"


def test_capture_selects_by_a_word_or_a_list(small: Path) -> None:
    for selector in ("all", ("h0", "s0>h1")):
        spec = read_spec(small, [f"capture={json.dumps({'select': selector})}"])
        assert spec.capture is not None
        assert spec.capture.select == selector


def test_the_quickstart_is_right() -> None:
    spec = read_spec(Path(__file__).parents[2] / "experiments" / "quickstart.yaml")
    assert spec.workers == WorkersSpec(count=8, placement="spread")
