"""The user's cache of compiled switch programs: `$XDG_CACHE_HOME/testbed/programs` (default ~/.cache).

What is in it is named by a digest of all that it was made from (NAME.compiled says itself of which source files), so
nothing there is ever out of date. A file ends with the digest of what stands before it, which no reader of shared
objects minds: a damaged one is seen, and made anew. When the whole grows beyond MOST_BYTES, what was not used for
longest goes.
"""

import hashlib
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from testbed.caches import user_cache
from testbed.errors import UsageError

MOST_BYTES = 256 << 20
_SMALL_BYTES = 256  # nobody looks at the whole for the sake of such a file: others come with it
_SEAL_BYTES = hashlib.sha256().digest_size
_IMPORTED_NS = time.time_ns()
_MADE_BY = (str(Path(__file__).parent), str(Path(__file__).parents[1] / "wire"))  # all that the compiler imports
_WORK = "build-"  # how folders begin in which something is made
_ABANDONED_S = 24 * 3600  # whoever made such a folder that long ago is dead


def cache_folder() -> Path:
    return user_cache("programs")


@cache
def maker() -> str | None:
    """A digest of what makes what is kept: of this package's files, told apart without reading them, and of Python.

    None: a file was exchanged since modules began to be imported, so that nobody knows of which one they are.
    """
    files = sorted((path, at) for folder in _MADE_BY for path, at in _files_below(folder))
    if any(at.st_ctime_ns > _IMPORTED_NS for _, at in files):
        return None
    told = [(path, at.st_size, at.st_mtime_ns, at.st_ctime_ns, at.st_ino) for path, at in files]
    return hashlib.sha256(repr((sys.hexversion, told)).encode()).hexdigest()


def _files_below(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files_below(entry.path)
            else:
                with suppress(OSError):  # what an editor puts there for a moment
                    yield entry.path, entry.stat()


def named(stem: str, made_from: object, ending: str) -> str:
    """The name of a file of the cache: of its kind what is made from that, as `repr` tells it."""
    return f"{stem[:60]}-{hashlib.sha256(repr(made_from).encode()).hexdigest()[:20]}.{ending}"


def kept(name: str) -> Path | None:
    """A file of the cache, used now; None: it is not there, or damaged."""
    return None if content_of(name) is None else cache_folder() / name


def content_of(name: str) -> bytes | None:
    """What `keep` was given for a file of the cache, used now; None: it is not there, or damaged."""
    path = cache_folder() / name
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    content = whole[:-_SEAL_BYTES]
    if hashlib.sha256(content).digest() != whole[-_SEAL_BYTES:]:
        return None
    with suppress(OSError):
        os.utime(path)
    return content


def keep(name: str, content: bytes) -> Path:
    """Put a file into the cache, at once and whole. Raises UsageError."""
    target = cache_folder() / name
    with work_folder() as work, _telling():
        made = work / name
        made.write_bytes(content + hashlib.sha256(content).digest())
        made.replace(target)
    if len(content) > _SMALL_BYTES:
        _prune()
    return target


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder inside of the cache, for the time that something takes. Raises UsageError."""
    import tempfile  # with all that it imports, nothing that is found takes longer

    with _telling():
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        made = tempfile.TemporaryDirectory(dir=folder, prefix=_WORK, ignore_cleanup_errors=True)
    with made as work:
        yield Path(work)


@contextmanager
def _telling() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"the cache of switch programs cannot be written: {error.filename or cache_folder()}: {error.strerror}",
            hint="XDG_CACHE_HOME names the folder that it is in (default ~/.cache)",
        ) from error


def _prune() -> None:
    """Remove what was not used for longest, until the rest is within the limit, and what the dead left behind."""
    import shutil

    used_s: dict[str, float] = defaultdict(float)  # by name without ending, as what belongs together stays so
    sizes: dict[str, list[tuple[str, int]]] = defaultdict(list)
    left = 0
    with os.scandir(cache_folder()) as entries:
        for entry in entries:
            with suppress(OSError):
                status = entry.stat()
                if not entry.name.startswith(_WORK):
                    stem = entry.name.rpartition(".")[0]
                    used_s[stem] = max(used_s[stem], status.st_mtime)
                    sizes[stem].append((entry.path, status.st_size))
                    left += status.st_size
                elif time.time() - status.st_mtime > _ABANDONED_S:
                    shutil.rmtree(entry.path, ignore_errors=True)
    if left <= MOST_BYTES:
        return
    for stem in sorted(sizes, key=lambda stem: used_s[stem]):
        for path, size in sizes[stem]:
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108 - of thousands
            left -= size
        if left <= MOST_BYTES:
            return
