"""Reads run directories back: `result.json` checked against its model, the tables as rows.

A run that was killed may have left a last line of `iterations.csv` in pieces; that line is dropped. All else that is
not as it should be is a UsageError that names the file.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from testbed.errors import UsageError
from testbed.results.model import Result
from testbed.results.result import Timing, timings
from testbed.results.samples import IterationRow, LinkRow

_DEPTH = 3  # runs/<name>/<sweep>/<point>
_Row = TypeVar("_Row", IterationRow, LinkRow)
_CONVERTERS: dict[Any, Callable[[str], Any]] = {
    int: int,
    float: float,
    bool: lambda text: bool(int(text)),
    str: str,
    int | None: lambda text: int(text) if text else None,
    float | None: lambda text: float(text) if text else None,
}


@dataclass(frozen=True)
class RunRecord:
    """One run on disk, or what of it is of one job; the tables are read when asked for."""

    path: Path
    result: Result
    job: str = ""

    @cached_property
    def data(self) -> Mapping[str, Any]:
        """Its result as plain data, in which metrics are looked up."""
        return self.result.to_data()

    @cached_property
    def iterations(self) -> tuple[IterationRow, ...]:
        rows = _read_table(self.path / "iterations.csv", IterationRow)
        return tuple(row for row in rows if not self.job or row.job == self.job)

    @cached_property
    def by_job(self) -> "dict[str, RunRecord]":
        """Each of its jobs as a record of its own, by name; without `jobs` itself, by no name."""
        results = self.result.by_job()
        return {name: replace(self, result=result, job=name) for name, result in results.items()}

    @cached_property
    def links(self) -> tuple[LinkRow, ...]:
        return tuple(_read_table(self.path / "links.csv", LinkRow))

    @cached_property
    def timings(self) -> tuple[Timing, ...]:
        """The iterations that `result.json` counts."""
        left_out = set(self.result.incomplete_iterations)
        rows = [row for row in self.iterations if not row.warmup and row.iteration not in left_out]
        return timings(rows, frozenset())[0]

    @cached_property
    def training(self) -> tuple[Mapping[str, Any], ...]:
        """What its model did after each measured iteration: `iteration` and its metrics."""
        lines = (self.text("events.jsonl") or "").splitlines()
        told = (_event(line) for line in lines if '"training"' in line)
        return tuple(e for e in told if e.get("kind") == "training" and e.get("job", "") == self.job)

    def text(self, name: str) -> str | None:
        """A file of the directory as it is; None if it was never written."""
        path = self.path / name
        return path.read_text(errors="replace") if path.is_file() else None


def read_run(path: Path) -> RunRecord:
    """The run in directory `path`, which holds a `result.json`."""
    return RunRecord(path, _read_result(path / "result.json"))


def read_runs(path: Path) -> list[RunRecord]:
    """The run in `path`, or all runs below it (a sweep, a folder of runs), in order of their names."""
    if not path.exists():
        raise UsageError(f"there is no directory {path}")
    if not path.is_dir():
        hint = f"name its directory: {path.parent}" if path.name == "result.json" else ""
        raise UsageError(f"{path} is a file, not a run directory", hint=hint)
    records = [read_run(found) for found in _run_directories(path, _DEPTH)]
    if not records:
        raise UsageError(
            f"{path} is not a run directory: there is no result.json in it or below",
            hint="`testbed run SPEC` makes one; its path is the last line it prints",
        )
    return records


def _run_directories(path: Path, depth: int) -> Iterator[Path]:
    try:
        if (path / "result.json").is_file():
            yield path
        elif depth:
            for child in sorted(p for p in path.iterdir() if p.is_dir() and not p.is_symlink()):
                yield from _run_directories(child, depth - 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error


def _read_result(path: Path) -> Result:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not whole JSON: {error}", hint="it was cut or edited; run again") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != 1:
        raise UsageError(
            f"{path} has schema {schema!r}, and this Testbed reads schema 1",
            hint="it is not a result, or a newer Testbed wrote it",
        )
    try:
        return Result.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path}: {where}: {first['msg']}", hint="it was edited by hand; run again") from error


def _read_table(path: Path, kind: type[_Row]) -> Iterator[_Row]:
    """Rows of a table; none if it was never written.

    Columns that are not known are passed over; those with a default may be missing, for they came later.
    """
    if not path.is_file():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        del lines[-1]
    rows = csv.DictReader(lines)
    there = rows.fieldnames or ()
    wanted = [field for field in fields(kind) if field.name in there or field.default is MISSING]
    converters = {field.name: _CONVERTERS[field.type] for field in wanted}
    missing = [name for name in converters if name not in there]
    if missing and lines:
        raise UsageError(f"{path} has no column {missing[0]}", hint="another Testbed wrote it, or it was edited")
    for row in rows:
        try:
            yield kind(**{name: convert(row[name]) for name, convert in converters.items()})
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}: line {rows.line_num} is not a row of it ({error})") from error


def _event(line: str) -> Mapping[str, Any]:
    """A line of `events.jsonl`; empty if it was cut."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def point_text(point: Mapping[str, Any]) -> str:
    """`transport.kind=roce links.lossy.loss=1%`."""
    return " ".join(f"{key}={plain(value)}" for key, value in point.items())


def plain(value: object) -> str:
    """A swept value as the spec wrote it."""
    return value if isinstance(value, str) else json.dumps(value)
