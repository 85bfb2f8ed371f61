"""The native core under the address and undefined-behaviour sanitizers, for Python processes of their own.

Such a process starts with `environment()` and runs `prelude()` before anything of Testbed, which puts a core built with
the sanitizers in the place of the installed one.
"""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.shared import made_once

CORE = Path(__file__).parents[1] / "testbed" / "netcore"
_BINDING = {CORE / "module.c", *CORE.glob("*_type.c")}  # what makes a Python module of it
_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fno-omit-frame-pointer", "-fPIC")
_SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_BUILD_LIMIT_S = 280
_PRELUDE = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("testbed.netcore._core", {path!r})
core = sys.modules[spec.name] = module_from_spec(spec)
spec.loader.exec_module(core)
"""


def environment() -> dict[str, str]:
    """Of a Python process that loads code built with the sanitizers. Skips the test where they cannot be loaded."""
    compiler = os.environ.get("CC") or "cc"
    command = [compiler, "-print-file-name=libasan.so"]
    path = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    if not Path(path).is_absolute():
        pytest.skip(f"{compiler} has no shared address sanitizer")
    return {**os.environ, "LD_PRELOAD": path, "ASAN_OPTIONS": "detect_leaks=0"}


def prelude() -> str:
    """Python source that loads the sanitized core."""
    return _PRELUDE.format(path=str(_core()))


def assert_clean(file: str, *chosen: str) -> None:
    """The tests of a file that pytest's options choose pass on the sanitized core, up to the first that does not."""
    code = prelude() + f"import pytest; sys.exit(pytest.main(['-q', '-x', *{chosen!r}, {file!r}]))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]


def core_objects() -> list[str]:
    """The object files of the core without its binding."""
    return _objects("core", sorted({*CORE.glob("*.c")} - _BINDING))


def program(source: Path) -> Path:
    """A C program that has the core in it, warnings being errors."""

    def build(target: Path) -> None:
        _compile("-o", str(target), str(source), *core_objects(), "-lm")

    return made_once(source.stem, build)


def _core() -> Path:
    def build(target: Path) -> None:
        _compile("-shared", "-o", str(target), *core_objects(), *_objects("binding", sorted(_BINDING)))

    return made_once("_core.so", build)


def _objects(name: str, sources: Sequence[Path]) -> list[str]:
    def build(folder: Path) -> None:
        folder.mkdir()
        _compile("-c", *map(str, sources), folder=folder)

    return sorted(map(str, made_once(name, build).iterdir()))


def _compile(*arguments: str, folder: Path | None = None) -> None:
    command = [os.environ.get("CC") or "cc", *_FLAGS, *_SANITIZERS]
    command += [f"-I{CORE}", f"-I{sysconfig.get_path('include')}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_LIMIT_S, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
