"""From C to a shared object: the compiler's run, and what the user's cache of programs keeps of it.

The cache holds `NAME-DIGEST.so` beside the generated `NAME-DIGEST.c`. The digest covers the source, the runtime, the
compiler and its flags. `NAME-DIGEST.built` names the shared object of a program, so that its source need not be made.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.dataplane.cache import cache_folder, content_of, keep, kept, maker, named, work_folder
from testbed.dataplane.native.names import identifier
from testbed.errors import MachineLacks, TestbedError, UsageError

if TYPE_CHECKING:
    from testbed.dataplane.bmv2model import Program

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


def build_text(text: bytes, name: str) -> Path:
    """The shared object of the program called `name` with that BMv2 JSON, which is not even read if the cache has it.

    Raises as `build_program`.
    """

    def read() -> "Program":
        from testbed.dataplane.bmv2json import read_text

        return read_text(text, name)

    return _built(name, text, read, sanitize=False)


def build_program(program: "Program", *, sanitize: bool = False) -> Path:
    """The shared object of a program, compiled unless the cache has it.

    Raises `JsonError`, `MachineLacks`, `CompilerFailed`, or `UsageError` where the cache cannot be written.
    """
    return _built(program.name, program, lambda: program, sanitize=sanitize)


def _built(name: str, told_by: object, program: Callable[[], "Program"], *, sanitize: bool) -> Path:
    """The shared object of a program that is told from others by its name and by something, as `repr` has it."""
    flags, by = _flags(sanitize), maker()
    known = named(identifier(name), (name, told_by, by, _identity(_compiler()), flags), "built")
    if by is not None and (content := content_of(known)) is not None and (found := kept(content.decode())):
        return found
    # Only here: to import the generator takes longer than all that is done for a program that the cache has.
    from testbed.dataplane.native.generator import generate

    runtime = _build("runtime", "o", (*flags, "-r", "-nostdlib"), PROGRAM_SOURCES)
    found = _build(identifier(name), "so", (*flags, "-shared", str(runtime)), (), generate(program()))
    if by is not None:
        with suppress(UsageError):  # it is only kept in vain
            keep(known, found.name.encode())
    return found


def build_trials() -> Path:
    """The shared object of the functions that make mutants and time a program."""
    return _build("trials", "so", (*_flags(False), "-shared", "-fvisibility=default"), TRIALS_SOURCES)


def _flags(sanitize: bool) -> tuple[str, ...]:
    return (*FLAGS, *(SANITIZED if sanitize else OPTIMISED))


def _build(name: str, kind: str, flags: Sequence[str], runtime: Sequence[str], source: str = "") -> Path:
    """What the compiler makes of files of the runtime and a generated source, unless the cache has it."""
    compiler = _compiler()
    target = named(name, (source, _runtime_digest(), runtime, _identity(compiler), flags), kind)
    if (found := kept(target)) is not None:
        return found
    from concurrent.futures import ThreadPoolExecutor

    with work_folder() as work:
        sources = [str(RUNTIME / file) for file in runtime]
        if source:
            generated = work / Path(target).with_suffix(".c")
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
    # As shutil.which, whose import takes longer than all that is done for a program that the cache has.
    for folder in [""] if os.sep in name else os.get_exec_path():
        found = Path(folder, name)
        if found.is_file() and os.access(found, os.X_OK):
            return str(found)
    raise MachineLacks(
        f"no C compiler ({name}): the native target compiles switch programs with it", hint="apt-get install gcc"
    )


def _run(command: list[str]) -> None:
    import subprocess

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
