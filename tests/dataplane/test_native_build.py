"""Compiling: the cache, a machine without compiler, and programs that the native target cannot run."""

import errno
import os
from pathlib import Path

import pytest

from testbed.dataplane.bmv2model import JsonError
from testbed.dataplane.cache import cache_folder
from testbed.dataplane.native.build import build_program
from testbed.dataplane.native.generator import generate
from testbed.errors import MachineLacks
from tests.dataplane.small_programs import action, assign, constant, field, program, table


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_program_is_compiled_once(tmp_path: Path) -> None:
    first = build_program(program([("a", 8)], [], []))
    made = first.stat().st_ino
    assert first.parent == cache_folder() == tmp_path / "testbed" / "programs"
    assert first.with_suffix(".c").exists()
    assert build_program(program([("a", 8)], [], [])) == first
    assert first.stat().st_ino == made
    assert build_program(program([("a", 16)], [], [])) != first
    assert not list(first.parent.glob("build-*"))


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(MachineLacks, match="no-such-compiler"):
        build_program(program([("a", 8)], [], []))


def test_a_folder_of_the_path_that_is_closed_to_us_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """`su` without a dash leaves root's PATH. (Nothing is closed to root: here it raises by itself.)"""
    build_program(program([("a", 8)], [], []))
    closed = "/closed-to-us"
    stat = Path.stat

    def refuse(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.parent == Path(closed):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setenv("PATH", f"{closed}:{os.environ['PATH']}")
    assert build_program(program([("a", 8)], [], [])).exists()


def test_what_the_native_target_does_not_know_is_named() -> None:
    strange = {"op": "teleport", "parameters": [], "source_info": {"filename": "x.p4", "line": 3, "column": 1}}
    own = table("t", {}, ["go"], "exact", default=("go", []))
    with pytest.raises(JsonError, match=r"x.p4:3.*teleport"):
        generate(program([("a", 8)], [action("go", {}, strange)], [own]))
    with pytest.raises(JsonError, match="no field 'b'"):
        generate(program([("a", 8)], [action("go", {}, assign("b", constant(1)))], [own]))
    odd = table("t", {"a": "fuzzy"}, ["go"], "exact")
    with pytest.raises(JsonError, match="fuzzy"):
        generate(program([("a", 8)], [action("go", {})], [odd]))


def test_generated_code_names_the_program_and_keeps_comments_closed() -> None:
    info = {"filename": "x.p4", "line": 3, "column": 1, "source_fragment": "a = 1 */ /*"}
    body = {**assign("a", field("a")), "source_info": info}
    source = generate(program([("a", 8)], [action("go", {}, body)], [table("t", {}, ["go"], "exact")]))
    assert "action_go(struct context *c" in source
    assert "/* x.p4:3: a = 1 * / / * */" in source
