"""The cache of compiled programs: never believed when damaged, never larger than it may be, told when it cannot be."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.cli import execute
from testbed.dataplane import cache
from testbed.dataplane.native.build import build_program
from tests.dataplane.small_programs import document, program, written

TEST = "packet 0 07\nexpect 1 07 $\n"
DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda _: b"",
    lambda whole: whole[:1000],
    lambda whole: whole[: len(whole) // 2],
    lambda whole: whole[:-1],
    lambda whole: whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:],
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "testbed" / "programs"


@pytest.mark.slow
def test_a_damaged_object_is_made_anew(folder: Path, tmp_path: Path) -> None:
    """In a process of its own, as a loader that maps a file cut short ends the process."""
    source = written(tmp_path / "small.json", document([("a", 8)], [], []))
    source.with_suffix(".stf").write_text(TEST)
    command = [sys.executable, "-m", "testbed", "p4", "test", str(source)]
    for kind in ("so", "o"):
        for damage in (None, *DAMAGES) if kind == "so" else DAMAGES[:2]:
            if damage is not None:
                (kept,) = folder.glob(f"*.{kind}")
                kept.write_bytes(damage(kept.read_bytes()))
                if kind == "o":
                    next(folder.glob("small-*.so")).unlink()  # so that the other one is needed
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("below", ["/dev/null/cache", "file/cache", "file"])
def test_a_cache_that_cannot_be_made_is_told(
    below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / below))
    source = written(tmp_path / "small.json", document([("a", 8)], [], []))
    source.with_suffix(".stf").write_text(TEST)
    assert execute(["p4", "test", str(source)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("testbed: the cache of switch programs cannot be written: ")
    assert "Not a directory\n  XDG_CACHE_HOME names the folder that it is in" in told
    assert execute(["p4", "build", "l3_ecmp", "-o", str(tmp_path)]) == 0, "which needs no cache"


def test_what_was_not_used_for_longest_goes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_BYTES", 3000)
    for age, name in enumerate(("new", "middle", "old"), 1):
        for ending in ("c", "so"):
            path = cache.keep(f"{name}.{ending}", bytes(468))
            os.utime(path, (1e9 - age, 1e9 - age))
    assert cache.kept("old.so") == folder / "old.so", "which is a use"
    cache.keep("one.so", bytes(968))
    assert sorted(path.name for path in folder.iterdir()) == ["new.c", "new.so", "old.c", "old.so", "one.so"]


def test_folders_that_the_dead_left_behind_go(folder: Path) -> None:
    for name, age_s in (("build-dead", 2 * 24 * 3600), ("build-alive", 60)):
        (folder / name).mkdir(parents=True)
        (folder / name / "x.c").write_text("")
        then = (folder / name).stat().st_mtime - age_s
        os.utime(folder / name, (then, then))
    build_program(program([("a", 8)], [], []))
    assert [path.name for path in folder.glob("build-*")] == ["build-alive"]
