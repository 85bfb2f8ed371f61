"""What several of pytest's workers share: a turn, and what takes long to make, which who needs it first makes."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_FOLDER = "TESTBED_TESTS_FOLDER"  # which the workers inherit


def begin(config: pytest.Config) -> None:
    """Make the folder of this test run; it goes when the run ends."""
    if not hasattr(config, "workerinput"):  # which a worker has
        folder = os.environ[_FOLDER] = tempfile.mkdtemp(prefix="tests-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@contextmanager
def turn(name: str) -> Iterator[None]:
    """One worker at a time has it."""
    with Path(os.environ[_FOLDER], f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # closing does not do where a test's child has it too


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The file or folder `name`, which `make` makes at the path that it is given."""
    made = Path(os.environ[_FOLDER], name)
    with turn(name):
        if not made.exists():
            half = made.with_name(f"{name}.half")
            assert not half.exists(), f"{name} could not be made, as another test says"
            make(half)
            half.rename(made)
    return made
