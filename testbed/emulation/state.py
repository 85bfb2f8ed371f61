"""The registry of what runs on this machine: one directory a run, written before anything of the run is made.

`/run/testbed/<run_id>/` holds `run.json` (who owns the run), its control sockets and the Open vSwitch database. The
record comes into being together with its directory (one rename), names every namespace before it exists, and is the
last thing to go, so that a `kill -9` at any instant leaves a record from which `testbed clean` finds the rest.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import string
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from testbed.errors import MachineLacks, RunFailed

ROOT = Path("/run/testbed")
RunKind = Literal["run", "up"]

_EXITING = 0x4  # of a process's flags: PF_EXITING (Linux, include/linux/sched.h)
_ID_ALPHABET = string.ascii_lowercase + string.digits
_ID = re.compile(r"[a-z0-9]{6}")
_UNBORN = re.compile(r"\.([a-z0-9]{6})\.(\d+)\.(\d+)")


def new_id() -> str:
    """A run's: six letters or digits."""
    return "".join(secrets.choice(_ID_ALPHABET) for _ in range(6))


@dataclass(frozen=True, slots=True)
class ProcessKey:
    """A process for good: its number and when the kernel started it (clock ticks since boot), as numbers are reused."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> "ProcessKey":
        """The key of a process that exists; raises RunFailed if it is gone."""
        fields = _stat(pid)
        if fields is None:
            raise RunFailed(f"process {pid} is gone")
        return cls(pid, int(fields[19]))

    @property
    def alive(self) -> bool:
        """Whether this very process exists and is more than a zombie."""
        fields = _stat(self.pid)
        return fields is not None and int(fields[19]) == self.start_ticks and fields[0] not in "ZX"


def exiting(pid: int) -> bool:
    """Whether a process is on its way out, or gone: the kernel takes away what it holds before it can be waited for."""
    fields = _stat(pid)
    return fields is None or bool(int(fields[6]) & _EXITING)


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat (proc(5)) from the state on; the name before them may hold blanks and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What `run.json` holds."""

    run_id: str
    kind: RunKind
    name: str
    owner: ProcessKey
    uid: int  # of the person, also under sudo
    out: str  # the run directory
    started_s: float  # Unix time
    namespaces: tuple[str, ...] = ()
    children: dict[str, ProcessKey] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: str) -> "RunRecord":
        fields: dict[str, Any] = json.loads(text)
        fields["owner"] = ProcessKey(**fields["owner"])
        fields["namespaces"] = tuple(fields["namespaces"])
        fields["children"] = {name: ProcessKey(**key) for name, key in fields["children"].items()}
        return cls(**fields)


class RunState:
    """One run's directory and record. Only the owner changes it."""

    def __init__(self, directory: Path, record: RunRecord) -> None:
        self.directory = directory
        self.record = record

    @classmethod
    def create(cls, kind: RunKind, name: str, out: Path, *, run_id: str | None = None, root: Path = ROOT) -> "RunState":
        """Register a run owned by this process; raises MachineLacks where `root` cannot be written.

        run_id: of one that was registered before and is forgotten, and begins again; None: a new one.
        """
        owner = ProcessKey.of(os.getpid())
        run_id = run_id or new_id()
        record = RunRecord(run_id, kind, name, owner, person(), str(out), time.time())
        unborn = root / f".{run_id}.{owner.pid}.{owner.start_ticks}"
        try:
            while not unborn.exists():
                root.mkdir(mode=0o755, exist_ok=True)
                with contextlib.suppress(FileNotFoundError):  # the last run to end has just removed the empty root
                    unborn.mkdir(mode=0o755)
        except PermissionError as error:
            raise MachineLacks(f"cannot write {root}: emulation needs root", hint="run it with sudo") from error
        (unborn / "run.json").write_text(json.dumps(asdict(record)))
        return cls(unborn.rename(root / run_id), record)

    @classmethod
    def load(cls, directory: Path) -> "RunState":
        """Read a run's record; raises RunFailed if it is not one."""
        try:
            return cls(directory, RunRecord.from_json((directory / "run.json").read_text()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFailed(f"{directory} holds no readable run.json ({error})") from error

    @property
    def run_id(self) -> str:
        return self.record.run_id

    @property
    def alive(self) -> bool:
        """Whether the owner still runs."""
        return self.record.owner.alive

    @property
    def died(self) -> tuple[str, ...]:
        """The processes of a network that stands which are gone before it was taken down."""
        if self.record.kind != "up":
            return ()  # a run sees by itself what becomes of its processes, and some end as planned
        return tuple(name for name, key in self.record.children.items() if not key.alive)

    @property
    def progress(self) -> str:
        """What the owner last said it was doing."""
        try:
            return (self.directory / "progress").read_text()
        except OSError:
            return ""

    def set_progress(self, text: str) -> None:
        """Tell `testbed status` what the run is doing."""
        _replace(self.directory / "progress", text)

    def add_namespaces(self, names: tuple[str, ...]) -> None:
        """Record namespaces; call it before they are made."""
        self._save(replace(self.record, namespaces=(*self.record.namespaces, *names)))

    def add_child(self, name: str, pid: int) -> None:
        """Record a child process."""
        self._save(replace(self.record, children={**self.record.children, name: ProcessKey.of(pid)}))

    def remove(self) -> None:
        """Forget the run: the last step, when all else is gone. Its record goes last, and an empty root with it."""
        with contextlib.suppress(FileNotFoundError):  # another clean-up was quicker
            for entry in self.directory.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry, ignore_errors=True)
                elif entry.name != "run.json":
                    entry.unlink(missing_ok=True)
            shutil.rmtree(self.directory)
        with contextlib.suppress(OSError):
            self.directory.parent.rmdir()

    def _save(self, record: RunRecord) -> None:
        _replace(self.directory / "run.json", json.dumps(asdict(record)))
        self.record = record


def runs(root: Path = ROOT) -> Iterator[RunState]:
    """All registered runs, oldest first; a directory that is none is passed over."""
    found = []
    for directory in _entries(root):
        if _ID.fullmatch(directory.name):
            try:
                found.append(RunState.load(directory))
            except RunFailed:
                continue
    yield from sorted(found, key=lambda state: state.record.started_s)


def unborn(root: Path = ROOT) -> Iterator[Path]:
    """Directories of owners that died before their run was registered (nothing else of theirs exists)."""
    for directory in _entries(root):
        match = _UNBORN.fullmatch(directory.name)
        if match and not ProcessKey(int(match[2]), int(match[3])).alive:
            yield directory


def person() -> int:
    """The uid of whoever is at the keyboard: sudo's caller, or this process's user."""
    uid = os.getuid()
    return int(os.environ.get("SUDO_UID", uid)) if uid == 0 else uid


def _entries(root: Path) -> list[Path]:
    try:
        return list(root.iterdir())
    except FileNotFoundError:  # no run yet, or the last one has just taken it away
        return []


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(text)
    fresh.replace(path)
