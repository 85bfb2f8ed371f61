"""From C to a shared object: the compiler's run, and what the user's cache of programs keeps of it.

The cache holds `NAME-DIGEST.so` beside the generated `NAME-DIGEST.c`. The digest covers the source, the runtime, the
compiler and its flags. `NAME-DIGEST.built` names the shared object of a program, so that its source need not be made.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

from testbed.dataplane.bmv2model import Program
from testbed.dataplane.cache import cache_folder, content_of, files_as_written, keep, kept, work_folder
from testbed.dataplane.native.names import identifier
from testbed.errors import MachineLacks, TestbedError, UsageError

RUNTIME = Path(__file__).resolve().parent / "runtime"
PROGRAM_SOURCES = ("program.c", "table.c", "packing.c", "tuples.c", "trie.c", "profile.c", "hash.c")
TRIALS_SOURCES = ("trials.c",)
FLAGS = (
    *("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-tautological-compare", "-Wno-type-limits", "-fPIC"),
    "-Wno-maybe-uninitialized",  # bytes for a hash of headers that are not there: none of them is read
    "-fvisibility=hidden",
    "-fno-tree-slp-vectorize",
    "-fno-builtin-memset",  # inline it is `rep stos`, which takes five times as long for a context as libc's
)
OPTIMISED = ("-O2",)
SANITIZED = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
COMPILE_LIMIT_S = 300


class CompilerFailed(TestbedError):
    """The C compiler did not take what was generated: a defect of Testbed, or an unusual compiler."""


def build_program(program: Program, *, sanitize: bool = False) -> Path:
    """The shared object of a program, compiled unless the cache has it.

    Raises `JsonError`, `MachineLacks`, `CompilerFailed`, or `UsageError` where the cache cannot be written.
    """
    runtime = _build("runtime", "o", (*_flags(sanitize), "-r", "-nostdlib"), PROGRAM_SOURCES)
    flags = (*_flags(sanitize), "-shared", str(runtime))
    made_from = (program, files_as_written(Path(__file__).parent), _identity(_compiler()), flags)
    name = identifier(program.name)
    built = f"{name[:60]}-{hashlib.sha256(repr(made_from).encode()).hexdigest()[:20]}.built"
    if (known := kept(built)) and (found := kept(content_of(known).decode())):
        return found
    # Only here: to import the generator takes longer than all that is done for a program that the cache has.
    from testbed.dataplane.native.generator import generate

    found = _build(name, "so", flags, (), generate(program))
    with suppress(UsageError):  # it is only kept in vain
        keep(built, found.name.encode())
    return found


def build_trials() -> Path:
    """The shared object of the functions that make mutants and time a program."""
    return _build("trials", "so", (*_flags(False), "-shared", "-fvisibility=default"), TRIALS_SOURCES)


def _flags(sanitize: bool) -> tuple[str, ...]:
    return (*FLAGS, *(SANITIZED if sanitize else OPTIMISED))


def _build(name: str, kind: str, flags: Sequence[str], runtime: Sequence[str], source: str = "") -> Path:
    """What the compiler makes of files of the runtime and a generated source, unless the cache has it."""
    compiler = _compiler()
    digest = hashlib.sha256(repr((source, _runtime_digest(), runtime, _identity(compiler), flags)).encode()).hexdigest()
    target = f"{name[:60]}-{digest[:20]}.{kind}"
    if (found := kept(target)) is not None:
        return found
    with work_folder() as work:
        sources = [str(RUNTIME / file) for file in runtime]
        if source:
            generated = work / f"{name[:60]}-{digest[:20]}.c"
            generated.write_text(source)
            sources.append(str(generated))
        made = work / target
        if len(sources) > 1:  # side by side
            objects = [str(work / f"{Path(file).stem}.o") for file in sources]
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                commands = ([compiler, "-c", "-o", *pair, *flags] for pair in zip(objects, sources, strict=True))
                list(pool.map(_run, commands))
            sources = objects
        _run([compiler, f"-I{RUNTIME}", "-o", str(made), *sources, *flags])
        if source:
            generated.replace(cache_folder() / generated.name)
        return keep(target, made.read_bytes())


def _compiler() -> str:
    name = os.environ.get("CC") or "cc"
    found = shutil.which(name)
    if found is None:
        raise MachineLacks(
            f"no C compiler ({name}): the native target compiles switch programs with it", hint="apt-get install gcc"
        )
    return found


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise CompilerFailed(f"{command[0]} did not end within {COMPILE_LIMIT_S} s") from error
    if done.returncode:
        first = "\n".join(done.stderr.strip().splitlines()[:6])
        raise CompilerFailed(f"{command[0]} refused the generated C:\n{first}")


def _identity(compiler: str) -> tuple[str, int, int]:
    """Which compiler it is, without running it: an upgrade replaces the file."""
    path = Path(compiler).resolve()
    found = path.stat()
    return str(path), found.st_size, found.st_mtime_ns


@cache
def _runtime_digest() -> str:
    digest = hashlib.sha256()
    for file in sorted(RUNTIME.iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
