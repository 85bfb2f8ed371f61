"""Root-only tests are skipped without root, and say so."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.emulation.state import RunState

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() != 0:
        for item in items:
            if HERE in item.path.parents and item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="needs root (network namespaces)"))


@pytest.fixture
def state(tmp_path: Path) -> Iterator[RunState]:
    """A registered run of this process; forgotten afterwards."""
    state = RunState.create("run", "test", tmp_path)
    yield state
    if state.directory.exists():
        state.remove()
