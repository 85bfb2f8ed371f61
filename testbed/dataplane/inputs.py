"""The files that a program is made from: those that were read, and those that were looked for and are not there.

What was made of them holds as long as they are as they were, which is told without reading them as a program.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path


class Inputs:
    """`files` are paths with the digests of what was read there; `absent` are paths where no file could be read."""

    def __init__(self) -> None:
        self.files: set[tuple[str, bytes]] = set()
        self.absent: set[str] = set()

    def read(self, path: str, content: bytes) -> None:
        self.files.add((path, _digest(content)))

    def missed(self, path: str) -> None:
        self.absent.add(path)


def unchanged(files: Iterable[tuple[str, bytes]], absent: Iterable[str]) -> bool:
    """Whether the files are as they were read, and nothing came where there was none."""
    come = any(map(os.path.isfile, absent))
    return not come and all(_now(path) == digest for path, digest in files)


def _now(path: str) -> bytes | None:
    try:
        file = Path(path)
        return _digest(file.read_bytes()) if file.is_file() else None  # a device may have no end
    except OSError:
        return None


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
