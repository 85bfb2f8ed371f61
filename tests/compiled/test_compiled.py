"""Compiled endpoints are served for the very sources that they were made of alone, and do the same to the bit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import compiled
from testbed.cli._compiled import is_command, large
from testbed.compiled import build as building
from testbed.compiled.build import build, lacks
from testbed.errors import RunFailed
from testbed.spec.model import Spec

ROOT = Path(__file__).parents[2]
SPEC = """
name: small
engine: simulation
topology: {kind: fat-tree, k: 4}
links: [{select: all, rate: 10Gbps, delay: 1us, ecn: {min: 8KiB, max: 16KiB, probability: 1}}]
workers: {count: 8}
transport: {kind: roce, congestion: dcqcn}
workload: {kind: collective, algorithm: halving-doubling, size: 100kB, dtype: int32, iterations: 2, warmup: 0}
"""


def python(code: str, tree: Path = ROOT, **variables: str) -> str:
    """What a fresh interpreter prints that has `testbed` from `tree`."""
    environment = {**os.environ, "PYTHONPATH": str(tree), **variables}
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, env=environment, cwd=tree, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the package's Python files and stubs."""
    for path in compiled.sources(ROOT / "testbed"):
        copied = tmp_path / "tree" / path.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copied)
    return tmp_path / "tree"


def test_an_edit_of_any_source_gives_another_key_and_runs_the_source(tree: Path, tmp_path: Path) -> None:
    key = python("from testbed import compiled; print(compiled.key())", tree)
    served = tmp_path / "cache" / "testbed" / "compiled" / key
    served.mkdir(parents=True)
    (served / "testbed.wire.roce.so").write_bytes(b"not even a shared object")
    asks = (
        "from testbed import compiled; compiled.install(); import importlib.util;"
        "print(compiled.running(), importlib.util.find_spec('testbed.wire.roce').origin)"
    )
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert python(asks, tree, **cache) == f"True {served / 'testbed.wire.roce.so'}"
    source = tree / "testbed" / "wire" / "roce.py"
    assert python(asks, tree, TESTBED_COMPILED="0", **cache) == f"False {source}"
    for edited in ("wire/roce.py", "transport/endpoint.py", "collective/schedule.py", "netcore/__init__.pyi"):
        file = tree / "testbed" / edited
        before = file.read_text()
        file.write_text(before + "\n")
        assert python(asks, tree, **cache) == f"False {source}"
        file.write_text(before)
    assert python(asks, tree, **cache).startswith("True")
    assert python(f"import testbed.wire.roce; {asks}", tree, **cache) == f"False {source}"  # all of them or none


def test_what_is_edited_while_it_is_compiled_is_not_taken_for_what_was_there_before(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_nothing(work: Path) -> None:
        for name in compiled.MODULES:
            Path(work, *name.split(".")).with_suffix(".so").touch()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(building, "lacks", lambda: None)
    monkeypatch.setattr(building, "_compile", compile_nothing)
    monkeypatch.setattr(building, "PACKAGE", tree / "testbed")
    before = compiled.key()
    (tree / "testbed" / "wire" / "roce.py").write_text("import struct\n")
    served = build()
    assert served.name == compiled.key(tree / "testbed") != before
    assert {path.name for path in served.iterdir()} == {f"{name}.so" for name in compiled.MODULES}


def test_a_cache_that_cannot_be_used_is_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(building, "lacks", lambda: None)
    assert not compiled.ready()
    with pytest.raises(RunFailed, match="cannot be written"):
        build()


def test_only_the_command_itself_begins_anew() -> None:
    assert is_command("/usr/bin/testbed")
    assert is_command(str(ROOT / "testbed" / "__main__.py"))
    assert not is_command(f"{pytest.__path__[0]}/__main__.py")  # python -m pytest
    assert not is_command("-c")


def test_what_is_large_enough_to_compile_for() -> None:
    """A ring allreduce of n ranks has 2n(n-1) messages an iteration."""

    def spec(ranks: int, **keys: object) -> Spec:
        work = {"size": "1MiB", "algorithm": "ring", "iterations": 9, "warmup": 1}
        given = {"name": "t", "engine": "simulation", "topology": {"kind": "star", "hosts": 200}, "workload": work}
        links = [{"loss": "1%"}]
        return Spec.model_validate({**given, "links": links, "workers": {"count": ranks}, **keys})

    assert large([spec(101)])  # 202,000
    assert not large([spec(99)])  # 194,040
    assert large([spec(50)] * 9)  # 49,000 each
    assert not large([spec(200, engine="emulation")])
    assert not large([spec(200, links=[])])  # which the fast path has
    assert large([spec(200, links=[], transport={"kind": "roce", "congestion": "swift"})])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(lacks() is not None, reason="needs mypyc and a C compiler")
def test_compiled_endpoints_pass_the_same_tests_and_simulate_the_same_to_the_bit(tmp_path: Path) -> None:
    folder = build()
    assert {path.name for path in folder.iterdir()} >= {f"{name}.so" for name in compiled.MODULES}
    told = python(
        "from testbed import compiled; compiled.install(); import sys, pytest;"
        "status = pytest.main(['-q', '-p', 'no:cacheprovider', 'tests/transport/test_delivery.py',"
        " 'tests/transport/test_go_back_n.py', 'tests/transport/test_hostile.py',"
        " 'tests/transport/test_whole_messages.py', 'tests/collective/test_program.py']);"
        "from testbed.transport.roce import requester; print(requester.__spec__.origin); sys.exit(status)"
    )
    assert told.split("\n")[-1].startswith(str(folder))
    (tmp_path / "small.yaml").write_text(SPEC)
    for name, chosen in (("compiled", "1"), ("sources", "0")):
        argv = ["-q", "run", str(tmp_path / "small.yaml"), "--out", str(tmp_path / name)]
        run = f"from testbed.cli import execute; import sys; sys.exit(execute({argv!r}))"
        python(run, TESTBED_COMPILED=chosen)
        environment = (tmp_path / name / "environment.json").read_text()
        assert f'"compiled_endpoints": {str(chosen == "1").lower()}' in environment
    for table in ("iterations.csv", "links.csv", "switches.csv"):
        assert (tmp_path / "compiled" / table).read_bytes() == (tmp_path / "sources" / table).read_bytes()
