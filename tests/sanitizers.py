"""The native core under the address and undefined-behaviour sanitizers, for Python processes of their own.

Such a process starts with `environment()` and runs `prelude()` before anything of Testbed, which puts a core built with
the sanitizers in the place of the installed one.
"""

import atexit
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path

import pytest

CORE = Path(__file__).parents[1] / "testbed" / "netcore"
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fno-omit-frame-pointer")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
BUILD_LIMIT_S = 280
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


@cache
def _core() -> Path:
    """Built once a test run, in a folder that goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="sanitized-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = folder / "_core.so"
    sources = [str(path) for path in sorted(CORE.glob("*.c"))]
    command = [os.environ.get("CC") or "cc", *FLAGS, *SANITIZERS, "-fPIC", "-shared", "-o", str(target)]
    include = f"-I{sysconfig.get_path('include')}"
    done = subprocess.run(
        [*command, include, *sources], capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return target
