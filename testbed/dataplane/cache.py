"""The user's cache of compiled switch programs: `$XDG_CACHE_HOME/testbed/programs` (default ~/.cache).

What is in it is named by a digest of all that it was made from, so nothing there is ever out of date. A file ends with
the digest of what stands before it, which no reader of shared objects minds: a damaged one is seen, and made anew. When
the whole grows beyond MOST_BYTES, what was not used for longest goes.
"""

import hashlib
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from testbed.errors import UsageError

MOST_BYTES = 256 << 20
_SEAL_BYTES = hashlib.sha256().digest_size
_WORK = "build-"  # how folders begin in which something is made
_ABANDONED_S = 24 * 3600  # whoever made such a folder that long ago is dead


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base if base else Path.home() / ".cache") / "testbed" / "programs"


@cache
def files_as_written(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """What the modules in a folder are, for what is kept of their results."""
    files = sorted(folder.rglob("*.py"))
    return tuple((str(file), (at := file.stat()).st_mtime_ns, at.st_size) for file in files)


def kept(name: str) -> Path | None:
    """A file of the cache, used now; None: it is not there, or damaged."""
    path = cache_folder() / name
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(whole[:-_SEAL_BYTES]).digest() != whole[-_SEAL_BYTES:]:
        return None
    with suppress(OSError):
        os.utime(path)
    return path


def content_of(path: Path) -> bytes:
    """What `keep` was given."""
    return path.read_bytes()[:-_SEAL_BYTES]


def keep(name: str, content: bytes) -> Path:
    """Put a file into the cache, at once and whole. Raises UsageError."""
    target = cache_folder() / name
    with work_folder() as work, _telling():
        made = work / name
        made.write_bytes(content + hashlib.sha256(content).digest())
        made.replace(target)
    _prune()
    return target


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder inside of the cache, for the time that something takes. Raises UsageError."""
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
    used_s: dict[str, float] = defaultdict(float)  # by name without ending, as what belongs together stays so
    sizes: dict[str, list[tuple[Path, int]]] = defaultdict(list)
    for path in cache_folder().iterdir():
        with suppress(OSError):
            status = path.stat()
            if not path.name.startswith(_WORK):
                used_s[path.stem] = max(used_s[path.stem], status.st_mtime)
                sizes[path.stem].append((path, status.st_size))
            elif time.time() - status.st_mtime > _ABANDONED_S:
                shutil.rmtree(path, ignore_errors=True)
    left = sum(size for files in sizes.values() for _, size in files)
    for stem in sorted(sizes, key=lambda stem: used_s[stem]):
        if left <= MOST_BYTES:
            return
        for path, size in sizes[stem]:
            with suppress(OSError):
                path.unlink()
            left -= size
