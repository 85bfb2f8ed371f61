"""The long-lived children of a run (Open vSwitch, the fabric, the controller): started, watched and ended.

Each is a process group of its own, dies with the run (PDEATHSIG), writes to a log file, and is in the run's record.
They are started from the main thread only: the kernel takes the end of the *thread* that forked for the parent's death.
"""

import contextlib
import os
import resource
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from testbed.emulation import namespaces
from testbed.emulation.commands import environment
from testbed.emulation.state import RunState, exiting
from testbed.errors import MachineLacks, RunFailed

_POLL_S = 0.002
_TAIL_LINES = 12
# How long a child may take over each signal. None refuses the last, but the kernel may take its time: it closes an Open
# vSwitch daemon's packet sockets at 10 ms each.
_KILLED_S = 30.0
_NO_SIGNAL, _LEAVE_S = 0, 1.0
_LADDER = ((signal.SIGINT, 1.0), (signal.SIGTERM, 1.0), (signal.SIGKILL, _KILLED_S))


class Child:
    """One long-lived process."""

    def __init__(self, name: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def tail(self) -> str:
        """The last lines of its log."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])
        except OSError:
            return ""

    def check_ending(self) -> None:
        """As `check`, also if it is just ending: others may have seen that what it held is gone."""
        if exiting(self.pid):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILLED_S)
        self.check()

    def check(self) -> None:
        """Raise RunFailed, with the end of its log, if it has ended."""
        if (status := self._process.poll()) is not None:
            how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            raise RunFailed(f"{self.name} {how}", hint=self._log_hint())

    def wait_until(self, ready: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Wait until `ready()`; raises RunFailed if the child ends before, or takes longer than `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise RunFailed(f"{self.name}: {what} did not happen within {timeout_s:g} s", hint=self._log_hint())
            time.sleep(_POLL_S)

    def stop(self, *, leaving: bool = False) -> None:
        """End its process group, gently first; raises RunFailed if it outlives even SIGKILL.

        `leaving`: its control channel is closed, at which it ends by itself, given a moment.
        """
        for number, patience_s in ((_NO_SIGNAL, _LEAVE_S), *_LADDER) if leaving else _LADDER:
            if not self.alive:
                return
            os.killpg(self.pid, number)
            try:
                self._process.wait(patience_s)
            except subprocess.TimeoutExpired:
                continue
        if self.alive:
            raise RunFailed(f"{self.name} (process {self.pid}) does not end")

    def _log_hint(self) -> str:
        return f"the end of {self.log}:\n{self.tail()}"


def start(
    state: RunState, name: str, argv: Sequence[str], log: Path, *, namespace: str, env: dict[str, str] | None = None
) -> Child:
    """Start a child inside a namespace and record it; raises MachineLacks if the program is not installed."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("children must be started from the main thread (see the module's docstring)")
    most_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # one or more a port, in one process
    allow = ["prlimit", f"--nofile={'unlimited' if most_files == resource.RLIM_INFINITY else most_files}"]
    command = ["setpriv", "--pdeathsig", "KILL", *allow, *namespaces.entering(namespace, argv)]
    with log.open("ab") as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
                env={**environment(), **(env or {})},
            )
        except FileNotFoundError as error:
            raise MachineLacks(f"{command[0]} is not installed", hint="it is in util-linux") from error
    state.add_child(name, process.pid)
    return Child(name, process, log)


def stop_all(children: Iterable[Child], *, leaving: bool = False) -> list[str]:
    """Stop children one after another, whatever happens; returns what went wrong."""
    problems = []
    for child in children:
        try:
            child.stop(leaving=leaving)
        except (RunFailed, OSError) as error:
            problems.append(f"{child.name}: {error}")
    return problems


def end_all(pids: Iterable[int], patience_s: float = 0.5) -> list[str]:
    """End processes that are not this one's children: SIGTERM, and SIGKILL for those that stay."""
    handles = []
    for pid in pids:
        try:
            handles.append((pid, os.pidfd_open(pid)))  # the process itself, should its number be used again
        except ProcessLookupError:
            continue
    try:
        for number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, _KILLED_S)):
            _signal_and_wait(handles, number, wait_s)
        return [f"process {pid} does not end" for pid, handle in handles if not _ended(handle, 0.0)]
    finally:
        for _, handle in handles:
            os.close(handle)


def _signal_and_wait(handles: Sequence[tuple[int, int]], number: signal.Signals, wait_s: float) -> None:
    left = [handle for _, handle in handles if not _ended(handle, 0.0)]
    for handle in left:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
    deadline = time.monotonic() + wait_s
    for handle in left:
        _ended(handle, max(0.0, deadline - time.monotonic()))


def _ended(handle: int, wait_s: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(wait_s * 1000))
