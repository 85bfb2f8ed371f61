"""The user's cache of compiled switch programs: `$XDG_CACHE_HOME/testbed/programs` (default ~/.cache).

What is in it is named by a digest of all that it was made from, so nothing there is ever out of date.
"""

import os
from pathlib import Path


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base if base else Path.home() / ".cache") / "testbed" / "programs"
