"""The timeline of a simulated run, as Perfetto and Chrome's tracing want it (Trace Event Format)."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import Run

RANKS, ITERATIONS = 4, 2
CHANGES: dict[str, Any] = {
    "engine": "simulation",
    "topology": {"kind": "star", "hosts": RANKS},
    "workers": {"count": RANKS},
    "workload": {"size": "64KiB", "iterations": ITERATIONS, "warmup": 0},
}
# What each kind of event must have besides ph, pid and name.
REQUIRED = {
    "X": {"ts", "dur", "tid"},
    "b": {"ts", "id", "cat"},
    "e": {"ts", "id", "cat"},
    "s": {"ts", "id", "cat", "tid"},
    "f": {"ts", "id", "cat", "tid"},
    "C": {"ts", "args"},
    "i": {"ts", "s"},
    "M": {"args"},
}


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with Run(tmp_path_factory.mktemp("traced"), "--trace-events", **CHANGES) as run:
        assert run.end() == 0, run.stderr
    return run.directory


@pytest.fixture(scope="module")
def events(traced: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads((traced / "trace.json").read_text())["traceEvents"]
    return events


def test_each_event_has_what_its_kind_must_have(events: list[dict[str, Any]]) -> None:
    assert {event["ph"] for event in events} == set(REQUIRED)
    for event in events:
        assert {"pid", "name", *REQUIRED[event["ph"]]} <= set(event), event


def test_ranks_iterations_and_messages_are_there(events: list[dict[str, Any]]) -> None:
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {*(f"rank {rank} on h{rank}" for rank in range(RANKS)), "bytes waiting before links"}
    iterations = [event for event in events if event["ph"] == "X"]
    assert Counter(event["name"] for event in iterations) == {f"iteration {i}": RANKS for i in range(ITERATIONS)}
    # A ring's ranks send 2 (n - 1) messages each, a quarter of 64 KiB long.
    begun = {event["id"]: event for event in events if event["ph"] == "b"}
    assert len(begun) == ITERATIONS * RANKS * 2 * (RANKS - 1)
    assert {event["args"]["bytes"] for event in begun.values()} == {16_384}
    assert {event["args"]["step"] for event in begun.values()} == set(range(2 * (RANKS - 1)))
    ended = {event["id"]: event for event in events if event["ph"] == "e"}
    there = {event["id"]: event for event in events if event["ph"] == "f"}
    assert set(begun) == set(ended) == set(there) == {event["id"] for event in events if event["ph"] == "s"}
    for identity, event in begun.items():
        # It takes as long as 16 KiB at 1 Gb/s at least, and the sender knows after the receiver has it.
        assert event["ts"] + 131 < there[identity]["ts"] < ended[identity]["ts"]
        assert there[identity]["pid"] == (event["pid"] + 1) % RANKS == event["args"]["to"]
    assert any(event["args"]["bytes"] > 0 for event in events if event["ph"] == "C")


def test_looking_changes_nothing(traced: Path, tmp_path: Path) -> None:
    with Run(tmp_path, **CHANGES) as run:
        assert run.end() == 0, run.stderr
    for name in ("iterations.csv", "links.csv"):
        assert (run.directory / name).read_bytes() == (traced / name).read_bytes()
    assert not (run.directory / "trace.json").exists()


def test_an_emulation_has_none(tmp_path: Path) -> None:
    with Run(tmp_path, "--trace-events") as run:
        assert run.end() == 2
    assert "--trace-events is for simulations of packets" in run.stderr
