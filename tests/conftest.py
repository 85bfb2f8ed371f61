"""Root-only tests are skipped without root, and say so; a test that registers a run leaves nothing of it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.emulation import cleanup
from testbed.emulation.state import RunState
from tests import shared
from tests.leftovers import left_of


def pytest_configure(config: pytest.Config) -> None:
    shared.begin(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="needs root (network namespaces)"))


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """Of the runs whose directories are below `tmp_path`."""
    yield
    for path in tmp_path.rglob("result.json"):
        assert left_of(json.loads(path.read_text())["run_id"]) == []


@pytest.fixture
def one_cleans() -> Iterator[None]:
    """`testbed clean` removes every run whose owner is dead: tests that leave such runs, or clean, take turns."""
    with shared.turn("clean"):
        yield


@pytest.fixture
def state(tmp_path: Path) -> Iterator[RunState]:
    """A registered run of this process; whatever a failed test leaves of it is removed."""
    state = RunState.create("run", "test", tmp_path)
    yield state
    if state.directory.exists():
        assert cleanup.remove(cleanup.leftover_of(state)) == []
