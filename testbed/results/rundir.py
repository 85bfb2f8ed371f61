"""The run directory: files written as the run goes, so that whatever becomes of the run, what was measured is on disk.

Nothing is ever overwritten: the directory is new, or was empty. `result.json` alone is replaced, whole and in one step,
so that a reader finds the old one or the new one.
"""

import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from testbed.errors import RunFailed, TestbedError, UsageError
from testbed.results.model import Result
from testbed.results.samples import FlowRow, GapRow, IterationRow, LinkRow, SwitchRow

RUNS = Path("runs")
_UNSAFE = re.compile(r"[^\w.+-]+")


class RunDirectory:
    """One run's files. `add_…` and `event` append and flush; close it, or use it in a `with`.

    Writing raises RunFailed with the system's reason (a full disk, a directory taken away).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tables: dict[str, tuple[IO[str], list[str]]] = {}  # that grow, by name: the file, and its columns
        self._events: IO[str] | None = None

    @classmethod
    def create(cls, name: str, out: Path | None, run_id: str, *, now: datetime) -> "RunDirectory":
        """`out`, or `runs/<name>/<time>-<run_id>`; raises UsageError where that cannot be had new or empty."""
        path = out or RUNS / (safe_name(name) or "run") / f"{now:%Y%m%d-%H%M%S}-{run_id}"
        try:
            path.mkdir(parents=True, exist_ok=True)
            taken = next(path.iterdir(), None)
            if taken is not None:
                raise UsageError(
                    f"{path} is not empty (it holds {taken.name}), and nothing is ever overwritten",
                    hint="name a new directory with --out, or leave --out away",
                )
            for part in ("logs", "pcap"):
                (path / part).mkdir()
        except OSError as error:
            raise UsageError(
                f"cannot make the run directory {path}: {error.strerror}",
                hint="name a directory that can be written with --out",
            ) from error
        return cls(path)

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def pcap(self) -> Path:
        return self.path / "pcap"

    def write_spec(self, text: str) -> None:
        """The resolved spec, as YAML."""
        self._replace("spec.yaml", text)

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        self._replace("plan.json", json.dumps(plan, indent=1) + "\n")

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        self._replace("environment.json", json.dumps(environment, indent=1) + "\n")

    def write_links(self, rows: Iterable[LinkRow]) -> None:
        self._replace_table("links.csv", LinkRow, rows)

    def write_switches(self, rows: Iterable[SwitchRow]) -> None:
        self._replace_table("switches.csv", SwitchRow, rows)

    def write_flows(self, rows: Iterable[FlowRow]) -> None:
        self._replace_table("flows.csv", FlowRow, rows)

    def write_result(self, result: Result) -> None:
        self._replace("result.json", result.to_json())

    def mend_result(self, result: Result) -> None:
        """As far as a full disk allows: what `result.json` holds is overwritten in its own place, or else stays."""
        data = result.to_json().encode()
        with suppress(OSError), (self.path / "result.json").open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, len(data))
            file.write(data)
            file.truncate()

    def add_iterations(self, rows: Iterable[IterationRow]) -> None:
        """Append rows to `iterations.csv`; on disk (as far as a killed process goes) when this returns."""
        self._append("iterations.csv", IterationRow, rows)

    def add_gaps(self, rows: Iterable[GapRow]) -> None:
        """Append rows to `missing.csv`, which there is only if something was missing."""
        self._append("missing.csv", GapRow, rows)

    def event(self, kind: str, **details: Any) -> None:
        """Append `{"kind": kind, ...}` to `events.jsonl`; say when by `at_ns` (model time)."""
        with writing(self.path / "events.jsonl"):
            if self._events is None:
                self._events = (self.path / "events.jsonl").open("x", encoding="utf-8")
            self._events.write(json.dumps({"kind": kind, **details}) + "\n")
            self._events.flush()

    def close(self) -> None:
        for file in (*(file for file, _ in self._tables.values()), self._events):
            if file is not None:
                with writing(self.path):
                    file.close()

    def __enter__(self) -> "RunDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, name: str, kind: type[IterationRow | GapRow], rows: Iterable[Any]) -> None:
        with writing(self.path / name):
            rows = list(rows)
            if name not in self._tables:
                named = any(row.job for row in rows)
                columns = [f.name for f in fields(kind) if named or f.name != "job"]
                self._tables[name] = (self.path / name).open("x", newline="", encoding="utf-8"), columns
                _write_row(self._tables[name][0], columns)
            file, columns = self._tables[name]
            for row in rows:
                _write_row(file, [getattr(row, column) for column in columns])
            file.flush()

    def _replace(self, name: str, text: str) -> None:
        write_whole(self.path / name, lambda file: file.write(text))

    def _replace_table(self, name: str, kind: type[LinkRow | SwitchRow | FlowRow], rows: Iterable[Any]) -> None:
        def write(file: IO[str]) -> None:
            names = [f.name for f in fields(kind)]
            _write_row(file, names)
            for row in rows:
                _write_row(file, [getattr(row, name) for name in names])

        write_whole(self.path / name, write)


def safe_name(text: str) -> str:
    """As a file or folder can be called; it may be empty."""
    return _UNSAFE.sub("-", text).strip(".")


def write_whole(path: Path, write: Callable[[IO[str]], object], failure: type[TestbedError] = RunFailed) -> None:
    """Write a file so that it is there in full or not at all, also after a power cut."""
    with writing(path, failure):
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with draft.open("w", newline="", encoding="utf-8") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def _write_row(file: IO[str], values: Iterable[object]) -> None:
    csv.writer(file, lineterminator="\n").writerow(
        [int(v) if isinstance(v, bool) else "" if v is None else v for v in values]
    )


@contextmanager
def writing(path: Path, failure: type[TestbedError] = RunFailed) -> Iterator[None]:
    """Within, an OSError becomes a failure that names the file and the system's reason."""
    try:
        yield
    except OSError as error:
        raise failure(
            f"cannot write {path}: {error.strerror or error}",
            hint="free some space or name another directory with --out; what was written before stays",
        ) from error
