"""Where what is kept of one run for the next is."""

import os
from contextlib import suppress
from pathlib import Path


def user_cache(name: str) -> Path:
    """A file or folder of the user's cache: `$XDG_CACHE_HOME/testbed/NAME`, by default below ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "testbed" / name


def keep(file: Path, text: str) -> None:
    """Put a file of the cache there, whole; one that cannot be is no error: it is worked out again next time."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_suffix(f".{os.getpid()}")
        fresh.write_text(text)
        fresh.replace(file)
