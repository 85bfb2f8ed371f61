"""A folder of packet tests: every v1model program PROG.p4 that has a PROG.stf beside it, each in a process of its own.

So a program that crashes or never ends costs its own verdict only. Programs for other architectures are left out.
"""

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import TypeAlias

from testbed.dataplane.cache import work_folder
from testbed.dataplane.compile import compile_p4
from testbed.dataplane.stf import read_stf
from testbed.dataplane.stf_runner import run_stf
from testbed.errors import MachineLacks, TestbedError, UsageError

LIMIT_S = 120.0  # for one program, the C compiler included
PASSED, FAILED, REFUSED = OUTCOMES = ("passed", "failed", "refused")
_V1MODEL = re.compile(r'^\s*#\s*include\s*[<"](?:[^>"]*/)?v1model\.p4[>"]', re.MULTILINE)
_FORK = get_context("fork")  # children have everything imported


@dataclass(frozen=True, slots=True)
class Verdict:
    """`refused`: the program or its test is nothing that can be run; `failed`: it ran, and not as expected."""

    program: Path
    outcome: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Corpus:
    """The programs of a folder that can be tested, and how many with a test are for another architecture."""

    programs: tuple[Path, ...]
    others: int


@dataclass(frozen=True, slots=True)
class _Running:
    program: Path
    process: ForkProcess
    answer: Connection
    until: float


def read_corpus(folder: Path) -> Corpus:
    """What a folder (not those inside of it) holds. Raises `UsageError` if that is nothing."""
    tested = [path for path in sorted(folder.glob("*.p4")) if path.with_suffix(".stf").exists()]
    ours = tuple(path for path in tested if _V1MODEL.search(path.read_text(errors="replace")))
    if not ours:
        raise UsageError(f"{folder} has no v1model program PROG.p4 with a PROG.stf beside it")
    return Corpus(ours, len(tested) - len(ours))


def run_corpus(
    programs: Iterable[Path],
    target: str = "native",
    defines: Mapping[str, str] | None = None,
    includes: Sequence[Path] = (),
    limit_s: float = LIMIT_S,
) -> Iterator[Verdict]:
    """The verdicts as they come, as many programs at a time as there are cores. Raises `MachineLacks`."""
    waiting = list(reversed(list(programs)))
    running: list[_Running] = []
    with work_folder() as work:
        try:
            while waiting or running:
                while waiting and len(running) < (os.cpu_count() or 1):
                    given = (waiting.pop(), work, target, defines, includes)
                    running.append(_start(given, time.monotonic() + limit_s))
                soonest = min(one.until for one in running)
                wait([one.answer for one in running], max(0.0, soonest - time.monotonic()))
                for one in list(running):
                    verdict = _ended(one, limit_s)
                    if verdict is not None:
                        running.remove(one)
                        yield verdict
        finally:
            for one in running:
                _end(one)


_Given: TypeAlias = tuple[Path, Path, str, Mapping[str, str] | None, Sequence[Path]]  # as `_judged` takes them


def _start(given: _Given, until: float) -> _Running:
    answer, ours = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_answer, args=(ours, given))
    process.start()
    ours.close()
    return _Running(given[0], process, answer, until)


def _ended(one: _Running, limit_s: float) -> Verdict | None:
    """The verdict of a program that has ended or must."""
    if not one.answer.poll():
        if time.monotonic() < one.until:
            return None
        _end(one)
        return Verdict(one.program, FAILED, (f"did not end within {limit_s:g} s",))
    try:
        said = one.answer.recv()
    except EOFError:
        one.process.join(LIMIT_S)
        said = Verdict(one.program, FAILED, (f"its process ended with status {one.process.exitcode}",))
    _end(one)
    if isinstance(said, MachineLacks):
        raise said
    assert isinstance(said, Verdict)
    return said


def _end(one: _Running) -> None:
    """End a program's process, and what it has started if it is still there."""
    with suppress(ProcessLookupError):
        os.killpg(one.process.pid or 0, signal.SIGKILL)
    one.process.kill()
    one.process.join()
    one.answer.close()


def _answer(to: Connection, given: _Given) -> None:
    os.setpgrp()  # so that all it starts can be ended
    try:
        to.send(_judged(*given))
    except MachineLacks as error:
        to.send(error)


def _judged(
    program: Path, work: Path, target: str, defines: Mapping[str, str] | None, includes: Sequence[Path]
) -> Verdict:
    try:
        compiled = work / f"{program.stem}.json"
        compiled.write_bytes(compile_p4(program, defines, includes).text)
        stf = program.with_suffix(".stf")
        report = run_stf(compiled, read_stf(stf), target, str(stf))
    except MachineLacks:
        raise
    except UsageError as error:
        return Verdict(program, REFUSED, (error.message,))
    except TestbedError as error:
        return Verdict(program, FAILED, (error.message,))
    except Exception as error:  # a defect of ours: say so, and go on with the others
        return Verdict(program, FAILED, (f"unexpected {type(error).__name__}: {error}",))
    return Verdict(program, PASSED if report.passed else FAILED, report.failures)
