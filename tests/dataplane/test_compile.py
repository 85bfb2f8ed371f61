"""What is kept of a compiled program: the same comes out, until anything that it was made from changes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.dataplane import cache as caching
from testbed.dataplane import compile as compiler
from testbed.dataplane.compile import Compiled, compile_p4
from testbed.dataplane.diagnostics import P4Errors
from testbed.dataplane.native.build import build_text
from testbed.dataplane.programs import facts_of
from testbed.errors import UsageError
from testbed.resources import shared_folder
from tests.dataplane.programs import program


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "testbed" / "programs"


def _forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_compiled", lambda *_: pytest.fail("compiled again"))


def _plain(compiled: Compiled) -> tuple[object, ...]:
    return compiled.text, compiled.p4info.text, compiled.p4info.binary, tuple(map(str, compiled.warnings))


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


def test_a_change_that_leaves_size_and_times_is_seen(tmp_path: Path) -> None:
    path, included = tmp_path / "program.p4", tmp_path / "value.p4"
    path.write_text('#include "value.p4"\n' + program(apply="h.k.a = VALUE;"))
    seen = []
    for value in "123":
        included.write_text(f"#define VALUE {value}\n")
        os.utime(included, (1, 1))
        seen.append(_plain(compile_p4(path)))
    assert seen[0] != seen[1] != seen[2]


def test_a_file_that_comes_before_another_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the program, then in the first folder; and the folders' order matters."""
    near, first, last = tmp_path, tmp_path / "first", tmp_path / "last"
    path = near / "program.p4"
    path.write_text('#include "value.p4"\n' + program(apply="h.k.a = VALUE;"))
    seen = []
    for value, folder in enumerate((last, first, near)):
        folder.mkdir(exist_ok=True)
        (folder / "value.p4").write_text(f"#define VALUE {value}\n")
        seen.append(_plain(compile_p4(path, include_dirs=[first, last])))
    assert len(set(seen)) == 3
    (near / "value.p4").unlink()
    assert _plain(compile_p4(path, include_dirs=[first, last])) == seen[1]
    assert _plain(compile_p4(path, include_dirs=[last, first])) == seen[0]
    _forbid(monkeypatch)
    assert _plain(compile_p4(path, include_dirs=[first, last])) == seen[1]


def test_a_file_that_becomes_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "program.p4"
    path.write_text(program())
    compile_p4(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UsageError, match="is no regular file"):
        compile_p4(path)


def test_a_file_that_changes_meanwhile_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is of what was read, not of what is there when it is kept."""
    path = tmp_path / "program.p4"
    path.write_text(program(apply="h.k.a = 1;"))

    really = compiler._compiled

    def compile_and_write(*given: object) -> Compiled:
        made = really(*given)  # type: ignore[arg-type]
        path.write_text(program(apply="h.k.a = 2;"))
        return made

    with monkeypatch.context() as patched:
        patched.setattr(compiler, "_compiled", compile_and_write)
        first = _plain(compile_p4(path))
    assert _plain(compile_p4(path)) != first


def test_warnings_are_said_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "program.p4"
    path.write_text(program(apply="mark_to_drop();"))
    first = _plain(compile_p4(path))
    assert "warning" in str(first[-1])
    _forbid(monkeypatch)
    assert _plain(compile_p4(path)) == first


def test_errors_are_said_each_time(tmp_path: Path) -> None:
    path = tmp_path / "program.p4"
    path.write_text(program(apply="h.k.a = nothing;"))
    for _ in range(2):
        with pytest.raises(P4Errors, match="nothing"):
            compile_p4(path)


DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda _: b"",
    lambda whole: whole[:-1],
    lambda whole: b"[" + whole[1:],
    lambda whole: whole[:40],
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_made_anew(damage: Callable[[bytes], bytes], tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "program.p4"
    path.write_text(program())
    first, facts = _plain(compile_p4(path)), facts_of(path)
    built = build_text(compile_p4(path).text, "program")
    kinds = {file.suffix for file in cache.iterdir()}
    assert kinds == {".compiled", ".facts", ".built", ".so", ".c", ".o"}
    for file in cache.iterdir():
        file.write_bytes(damage(file.read_bytes()))
    assert _plain(compile_p4(path)) == first
    assert facts_of(path) == facts
    assert build_text(compile_p4(path).text, "program") == built
    assert built.stat().st_size > len(first[0])


REPORT = """\
import sys; from pathlib import Path
from testbed.dataplane.native.build import build_text
from testbed.dataplane.programs import facts_of, text_of
path = Path(sys.argv[1])
print(build_text(text_of(path), path.stem).name)
print(facts_of(path))
parts = "check", "native.generator", "bmv2model", "preprocess", "forwarding"
print(*({f"testbed.dataplane.{part}" for part in parts} | {"numpy", "ctypes"}) & sys.modules.keys())
"""


def _report(path: Path, at: Path | None = None, **changed: str) -> tuple[str, str, set[str]]:
    """The name of the object, the facts, and what of the compiler a process imported for a program.

    at: where Testbed is, if not here.
    """
    command = [sys.executable, "-c", REPORT, str(path)]
    said = subprocess.check_output(command, text=True, timeout=120, env={**os.environ, **changed}, cwd=at)
    name, facts, modules = said.split("\n")[:3]
    return name, facts, set(modules.split())


def test_what_is_kept_is_found_without_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "own.p4").write_text(program())
    first, second = (_report(tmp_path / "own.p4") for _ in range(2))
    assert first[:2] == second[:2]
    assert {"testbed.dataplane.check", "testbed.dataplane.native.generator"} <= first[2]
    assert second[2] == set()


def test_another_c_compiler_compiles_anew(tmp_path: Path) -> None:
    (tmp_path / "own.p4").write_text(program())
    wrapper = tmp_path / "wrapped-cc"
    names = set()
    for version in "12":  # at the same path, of the same size
        wrapper.write_text(f'#!/bin/sh\n# {version}\nexec cc "$@"\n')
        wrapper.chmod(0o755)
        found = [_report(tmp_path / "own.p4", CC=str(wrapper)) for _ in range(2)]
        assert "testbed.dataplane.native.generator" in found[0][2]
        assert found[1][2] == set()
        names.add(found[0][0])
    assert len(names) == 2


@pytest.mark.slow
def test_another_testbed_compiles_anew(tmp_path: Path) -> None:
    """Any file of the compiler, even one exchanged for another of the same size and time."""
    (tmp_path / "own.p4").write_text(program())
    package = tmp_path / "lib" / "testbed"
    shutil.copytree(Path(compiler.__file__).parents[1], package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(shared_folder("p4"), package.parent / "p4")
    (package.parent / "pyproject.toml").touch()  # as a checkout has it
    assert _report(tmp_path / "own.p4", package.parent)[2]
    assert not _report(tmp_path / "own.p4", package.parent)[2]
    for file in ("lower/tables.py", "native/statements.py", "include/v1model.p4", "native/runtime/hash.c"):
        path = package / "dataplane" / file
        at, text = path.stat(), path.read_text()
        path.write_text(text[:5] + text[5].swapcase() + text[6:])  # in the comment at its head
        os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))
        assert _report(tmp_path / "own.p4", package.parent)[2], file
        assert not _report(tmp_path / "own.p4", package.parent)[2], file


def test_a_compiler_that_is_exchanged_meanwhile_keeps_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows which of its modules are imported already; it still says when it begins."""
    path, begun = tmp_path / "program.p4", []
    path.write_text(program())
    monkeypatch.setattr(caching, "_IMPORTED_NS", 0)
    caching.maker.cache_clear()
    try:
        assert [_plain(compile_p4(path)) == _plain(compile_p4(path)), cache.exists()] == [True, False]
        compile_p4(path, begin=lambda: begun.append(path))
        assert begun == [path]
    finally:
        caching.maker.cache_clear()
