"""What was measured is kept, and believed only for the machine that it was measured on."""

import json
from pathlib import Path

import pytest

from testbed.doctor import store
from testbed.plan.planner import DEFAULT_CAPABILITIES


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "testbed" / "capabilities.json"


def test_it_comes_back_as_it_was(cache: Path) -> None:
    assert store.load_capabilities() is None
    store.save_capabilities(DEFAULT_CAPABILITIES)
    assert store.load_capabilities() == DEFAULT_CAPABILITIES
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]


@pytest.mark.parametrize("key", ["kernel", "processor", "cores", "testbed"])
def test_another_machine_measures_anew(key: str, cache: Path) -> None:
    store.save_capabilities(DEFAULT_CAPABILITIES)
    kept = json.loads(cache.read_text())
    kept["fingerprint"][key] = "another"
    cache.write_text(json.dumps(kept))
    assert store.load_capabilities() is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"fingerprint": 1}', '{"capabilities": {}}'])
def test_what_cannot_be_read_is_as_nothing(text: str, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text(text)
    assert store.load_capabilities() is None


def test_a_measurement_of_another_shape_is_as_nothing(cache: Path) -> None:
    store.save_capabilities(DEFAULT_CAPABILITIES)
    kept = json.loads(cache.read_text())
    kept["capabilities"]["colour"] = "blue"
    cache.write_text(json.dumps(kept))
    assert store.load_capabilities() is None


def test_a_cache_that_cannot_be_written_is_no_error(cache: Path) -> None:
    cache.parent.parent.mkdir()
    cache.parent.write_text("a file where the folder should be")
    store.save_capabilities(DEFAULT_CAPABILITIES)
    assert store.load_capabilities() is None
