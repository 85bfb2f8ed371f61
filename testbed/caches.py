"""Where what is kept of one run for the next is."""

import os
from pathlib import Path


def user_cache(name: str) -> Path:
    """A file or folder of the user's cache: `$XDG_CACHE_HOME/testbed/NAME`, by default below ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "testbed" / name
