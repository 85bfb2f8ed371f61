"""RoCE endpoints and what drives them in a simulation, compiled by mypyc: the same modules, some three times as fast.

What was compiled lies in the user's cache, `$XDG_CACHE_HOME/testbed/compiled/KEY` (default ~/.cache). The key is a
digest of the sources of these modules and of all whose types they rely on, and of Python. So a checkout that is edited
never runs what was compiled before: it runs its sources, until `python -m testbed.compiled` compiles them.
TESTBED_COMPILED=0 makes every process run the sources.
"""

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from testbed.caches import user_cache

MODULES = (  # none of them has a class that an interpreted one inherits from: mypyc forbids that
    "testbed.wire.roce",
    "testbed.transport.roce.endpoint",
    "testbed.transport.roce.flights",
    "testbed.transport.roce.machine",
    "testbed.transport.roce.requester",
    "testbed.transport.roce.responder",
    "testbed.collective.executor",
    "testbed.worker.iteration",
    "testbed.simulation.nic",
    "testbed.simulation.rank",
)
PACKAGE = Path(__file__).resolve().parents[1]
_WORK_WITH = ("collective", "compiled", "netcore", "simulation", "transport", "wire", "worker")  # the package's folders
_SHARED = "__mypyc"  # how the module is called that mypyc puts the code of all into


def cache_folder() -> Path:
    return user_cache("compiled")


def sources(folder: Path) -> Iterator[Path]:
    """Python files and stubs in it and below."""
    return (path for path in folder.rglob("*.py*") if path.suffix in (".py", ".pyi"))


@cache
def key(package: Path = PACKAGE) -> str:
    """What present sources and this Python are told by."""
    digest = hashlib.sha256(EXTENSION_SUFFIXES[0].encode())
    for folder in _WORK_WITH:
        for path in sorted(sources(package / folder)):
            digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:20]


def ready() -> bool:
    """Whether the present sources are compiled."""
    try:
        return cache_folder().is_dir() and (cache_folder() / key()).is_dir()
    except OSError:  # a cache that this user may not look into
        return False


def wanted() -> bool:
    """The user has not turned it off."""
    return os.environ.get("TESTBED_COMPILED") != "0"


def running() -> bool:
    """Whether this process has been told to take what is compiled, and does."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def install() -> None:
    """Have this process import what is compiled, if it is.

    Not once one of MODULES is imported: what is compiled knows the others' insides, and has them all compiled.
    """
    if wanted() and not running() and sys.modules.keys().isdisjoint(MODULES) and ready():
        folder = cache_folder() / key()
        with suppress(OSError):  # another user's
            os.utime(folder)
        sys.meta_path.insert(0, _Finder(folder))


class _Finder(MetaPathFinder):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname in MODULES or fullname.endswith(_SHARED):
            file = self._folder / f"{fullname}.so"
            return spec_from_file_location(fullname, file) if file.is_file() else None
        return None
