"""What is kept of a compiled program: the same comes out, until anything that it was made from changes."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.dataplane import compile as compiler
from testbed.dataplane.compile import Compiled, compile_p4
from tests.dataplane.programs import program


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "testbed" / "programs"


def _forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_compiled", lambda *_: pytest.fail("compiled again"))


def _plain(compiled: Compiled) -> tuple[object, ...]:
    return json.loads(json.dumps(compiled.json)), compiled.p4info.text, compiled.p4info.binary, compiled.warnings


def test_a_second_compile_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "program.p4"
    path.write_text(program(apply="h.k.a = 1;"))
    first = compile_p4(path)
    _forbid(monkeypatch)
    assert _plain(compile_p4(path)) == _plain(first)


def test_changes_are_seen(tmp_path: Path) -> None:
    path, included = tmp_path / "program.p4", tmp_path / "value.p4"
    path.write_text('#include "value.p4"\n' + program(apply="h.k.a = VALUE + MORE;"))
    seen = []
    for value, more in (("1", "1"), ("2", "1"), ("2", "2")):
        included.write_text(f"#define VALUE {value}\n")
        seen.append(_plain(compile_p4(path, {"MORE": more})))
    assert seen[0] != seen[1] != seen[2]


def test_warnings_are_said_each_time(tmp_path: Path) -> None:
    path = tmp_path / "program.p4"
    path.write_text(program(apply="mark_to_drop();"))
    assert [len(compile_p4(path).warnings) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("damage", [lambda _: b"", lambda whole: whole[:-1], lambda whole: b"[" + whole[1:]])
def test_a_damaged_cache_is_made_anew(damage: Callable[[bytes], bytes], tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "program.p4"
    path.write_text(program())
    first = compile_p4(path)
    (kept,) = cache.iterdir()
    kept.write_bytes(damage(kept.read_bytes()))
    assert _plain(compile_p4(path)) == _plain(first)


def test_what_is_kept_is_found_without_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "own.p4").write_text(program())
    code = (
        "import sys; from pathlib import Path\n"
        "from testbed.dataplane.native.build import build_program\n"
        "from testbed.dataplane.programs import program_in\n"
        "print(build_program(program_in(Path(sys.argv[1]))).name)\n"
        "print({'testbed.dataplane.check', 'testbed.dataplane.native.generator'} & sys.modules.keys() or 'neither')\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "own.p4")]
    first, second = (subprocess.check_output(command, text=True, timeout=120).split("\n") for _ in range(2))
    assert first[0] == second[0]
    assert first[1] != "neither"
    assert second[1] == "neither"
