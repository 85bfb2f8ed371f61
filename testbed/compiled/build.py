"""Compiles the modules into the user's cache: mypyc on a copy of the sources, in a process of its own."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from testbed.compiled import MODULES, PACKAGE, cache_folder, key, ready, sources
from testbed.errors import MachineLacks, RunFailed

COMPILE_LIMIT_S = 1800
_KEPT = 4  # versions of the sources; the ones that were used last
_WORK = "build-"  # how folders begin in which something is made
_ABANDONED_S = 24 * 3600  # whoever made such a folder that long ago is dead
_LAST_WORDS = 12  # lines
# mypyc looks up the types of a tuple's fields in its module alone.
_NEEDS = "from builtins import memoryview"


def lacks() -> str | None:
    """What this machine lacks to compile; None: nothing."""
    if importlib.util.find_spec("mypyc") is None:
        return "mypyc (pip install 'testbed[fast]')"
    if shutil.which(os.environ.get("CC", "cc")) is None:
        return "a C compiler"
    return None


def build() -> Path:
    """Compile the present sources, unless they are; the folder. Raises MachineLacks, RunFailed."""
    if ready():
        return cache_folder() / key()
    if (lack := lacks()) is not None:
        raise MachineLacks(f"this machine has no {lack}", hint="without it, all runs as before, only slower")
    try:
        target = _built()
    except OSError as error:
        raise RunFailed(
            f"the cache of compiled endpoints cannot be written: {error.filename or cache_folder()}: {error.strerror}",
            hint="XDG_CACHE_HOME names the folder that it is in (default ~/.cache)",
        ) from error
    with suppress(OSError):  # another process does it too
        _prune()
    return target


def _built() -> Path:
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=_WORK, ignore_cleanup_errors=True) as folder:
        work, made = Path(folder, "work"), Path(folder, "made")
        _copy(work)
        target = cache_folder() / key(work / PACKAGE.name)  # of what is compiled, whatever is edited meanwhile
        _prepare(work)
        _compile(work)
        made.mkdir()
        for file in work.rglob("*.so"):
            if "build" not in file.relative_to(work).parts:
                shutil.copy2(file, made / f"{_module(file.relative_to(work))}.so")
        missing = [name for name in MODULES if not (made / f"{name}.so").is_file()]
        if missing:
            raise RunFailed(f"mypyc made no {', '.join(missing)}")
        with suppress(OSError):  # another process was faster
            made.rename(target)
    return target


def _copy(work: Path) -> None:
    """What mypyc reads: the package's sources and stubs."""
    for path in sources(PACKAGE):
        copied = work / PACKAGE.name / path.relative_to(PACKAGE)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copied)


def _prepare(work: Path) -> None:
    """What the copies must have more than the sources do."""
    for name in MODULES:
        source = work / _file(name)
        lines = source.read_text(encoding="utf-8").split("\n")
        first = next(i for i, line in enumerate(lines) if line.startswith(("from ", "import ")))
        source.write_text("\n".join([*lines[:first], _NEEDS, *lines[first:]]), encoding="utf-8")


def _compile(work: Path) -> None:
    argv = [sys.executable, "-m", "mypyc", "--ignore-missing-imports", *(str(_file(name)) for name in MODULES)]
    environment = {**os.environ, "MYPYC_OPT_LEVEL": "2", "MYPYC_DEBUG_LEVEL": "0"}
    try:
        done = subprocess.run(
            argv, cwd=work, env=environment, capture_output=True, text=True, timeout=COMPILE_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunFailed(f"mypyc could not be run to its end: {error}") from error
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().split("\n")[-_LAST_WORDS:])
        raise RunFailed(f"mypyc refuses the endpoints:\n{last}", hint="TESTBED_COMPILED=0 runs them as they are")


def _file(name: str) -> Path:
    return Path(*name.split(".")).with_suffix(".py")


def _module(file: Path) -> str:
    """The module in a shared object, which is called by it and the ABI."""
    return ".".join((*file.parent.parts, file.name.split(".")[0]))


def _prune() -> None:
    """Remove all but those that were used last, and what the dead left behind."""
    used_s = {path: path.stat().st_mtime for path in cache_folder().iterdir()}
    versions = sorted((path for path in used_s if not path.name.startswith(_WORK)), key=used_s.__getitem__)
    abandoned = (path for path in used_s.keys() - set(versions) if time.time() - used_s[path] > _ABANDONED_S)
    for path in (*versions[:-_KEPT], *abandoned):
        shutil.rmtree(path, ignore_errors=True)
