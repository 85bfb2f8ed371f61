"""`testbed` as a process of its own: specs small enough to be over in seconds, and what a run leaves on the machine."""

import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from testbed.emulation.state import RunState, runs
from testbed.results.model import SCHEMA_FILE

LIMIT_S = 120.0
TICK_S = 0.02
TESTBED = [sys.executable, "-m", "testbed"]
SMALL: dict[str, Any] = {
    "name": "small",
    "time_dilation": 20,
    "topology": {"kind": "star", "hosts": 3},
    "links": [{"rate": "1Gbps", "delay": "20us", "queue": "256KiB"}],
    "workers": {"count": 3},
    "workload": {"size": "16KiB", "iterations": 3, "warmup": 1},
    "limits": {"wall": "100s", "stall": "1s"},
}
ENDLESS = {"workload": {"size": "4KiB", "iterations": 1_000_000, "warmup": 0}}


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Mappings key by key, all else replaced; what is changed to None is left away."""
    result = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return {key: value for key, value in result.items() if value is not None}


class Run:
    """One `testbed run` of `SMALL` with changes, in a directory of its own."""

    def __init__(self, folder: Path, *arguments: str, prefix: tuple[str, ...] = (), **changes: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.directory = folder / "run"
        self._out, self._err = folder / "stdout", folder / "stderr"
        spec = folder / "spec.yaml"
        spec.write_text(yaml.safe_dump(merged(SMALL, changes)))
        argv = [*prefix, *TESTBED, "run", str(spec), "--out", str(self.directory), *arguments]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(LIMIT_S)

    def end(self) -> int:
        """Its exit status."""
        return self.process.wait(LIMIT_S)

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    @property
    def state(self) -> RunState:
        """As it is registered now."""
        return next(state for state in runs() if state.record.out == str(self.directory))

    def until(self, done: Callable[[], Any], what: str, limit_s: float = LIMIT_S) -> None:
        deadline = time.monotonic() + limit_s
        while not done():
            assert time.monotonic() < deadline, f"{what}; it said:\n{self.stderr}"
            try:
                status = self.process.wait(TICK_S)
            except subprocess.TimeoutExpired:
                continue
            assert done(), f"{what}; it ended with {status} and said:\n{self.stderr}"

    def until_measuring(self) -> None:
        """Some iterations are over, and more to come."""
        rows = self.directory / "iterations.csv"
        self.until(lambda: rows.exists() and rows.read_text().count("\n") > 10, "measured iterations")

    def child(self, name: str) -> int:
        return self.state.record.children[name].pid

    @property
    def result(self) -> dict[str, Any]:
        return result_in(self.directory)

    def table(self, name: str) -> list[dict[str, str]]:
        with (self.directory / name).open() as file:
            return list(csv.DictReader(file))

    def links(self, column: str) -> dict[str, int]:
        return {row["link"]: int(row[column] or 0) for row in self.table("links.csv")}

    def events(self, kind: str) -> list[dict[str, Any]]:
        events = map(json.loads, (self.directory / "events.jsonl").read_text().splitlines())
        return [event for event in events if event["kind"] == kind]


def result_in(directory: Path) -> dict[str, Any]:
    """A run's result, which must be as the shipped schema says."""
    result: dict[str, Any] = json.loads((directory / "result.json").read_text())
    jsonschema.validate(result, json.loads(SCHEMA_FILE.read_text()))
    return result


def balance(result: dict[str, Any]) -> int:
    """Packets unaccounted for."""
    packets = result["packets"]
    drops = sum(count for name, count in packets.items() if name.startswith("dropped_"))
    return int(packets["sent"] + packets["duplicated"] - packets["received"] - drops - packets["in_flight"])


def measured(run: Run) -> dict[str, Any]:
    """Wait for a run that must succeed (its times may be in doubt: this machine may be busy); its result."""
    status = run.end()
    assert status in (0, 4), run.stderr
    result = run.result
    assert (result["status"], result["wrong"], result["missing_bytes"]) == ("ok", 0, 0)
    assert (status == 4) == (result["verdict"]["value"] == "invalid")
    assert balance(result) == 0
    assert "unmodelled-drops" not in reasons(result)
    return result


def reasons(result: dict[str, Any]) -> dict[str, str]:
    return {reason["code"]: reason["text"] for reason in result["verdict"]["reasons"]}
