"""Running the system's tools to their end: argv lists, a time limit, and errors that say which line failed and why."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from testbed.errors import MachineLacks, RunFailed

TIMEOUT_S = 30.0
_THREADS = 4  # the tools wait on the kernel's locks; more threads than that only queue up
_FAILED_LINE = re.compile(r"Command failed -:(\d+)")
T = TypeVar("T")
R = TypeVar("R")


def environment() -> dict[str, str]:
    """This process's, with the folders in PATH where the system's tools are, which `su` and cron leave out."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}


def path_of(tool: str) -> str | None:
    """Where a tool is, looked for as the others here look for it; None if it is not installed."""
    return shutil.which(tool, path=environment()["PATH"])


def output_of(argv: Sequence[str], *, stdin: str = "", timeout_s: float = TIMEOUT_S) -> str:
    """What a command prints; raises RunFailed with its complaint, MachineLacks if it is not installed."""
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, timeout=timeout_s, env=environment(), check=False
        )
    except (FileNotFoundError, PermissionError) as error:
        raise MachineLacks(f"{argv[0]} is not installed", hint="`testbed doctor` lists what is missing") from error
    except subprocess.TimeoutExpired as error:
        raise RunFailed(f"`{' '.join(argv)[:200]}` did not end within {timeout_s:g} s") from error
    if done.returncode != 0:
        raise RunFailed(f"`{' '.join(argv)[:200]}` failed: {_complaint(done.stderr, stdin)}")
    return done.stdout


def ip_batch(lines: Iterable[str], namespace: str | None = None, *, keep_going: bool = False) -> None:
    """Run `ip` commands in one process, inside a namespace or here; stops at the first that fails, or goes on."""
    _batch("ip", lines, namespace, keep_going)


def tc_batch(lines: Iterable[str], namespace: str | None = None, *, keep_going: bool = False) -> None:
    """The same for `tc`."""
    _batch("tc", lines, namespace, keep_going)


def in_parallel(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """`work` for each item, some at a time, results in order; the first error is raised when all have ended."""
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(work, items))


def _batch(tool: str, lines: Iterable[str], namespace: str | None, keep_going: bool) -> None:
    script = "".join(f"{line}\n" for line in lines)
    if script:
        where = ("-n", namespace) if namespace else ()
        output_of([tool, *where, *(("-force",) if keep_going else ()), "-batch", "-"], stdin=script)


def _complaint(stderr: str, script: str) -> str:
    """The tool's own words, with the line of a batch that it stopped at."""
    failed = _FAILED_LINE.search(stderr)
    words = " ".join(stderr.split()) or "it said nothing"
    return f"{words} [{script.splitlines()[int(failed[1]) - 1]}]" if failed else words
