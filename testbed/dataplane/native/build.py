"""From C to a shared object: the compiler's run, and what the user's cache of programs keeps of it.

The cache holds `NAME-DIGEST.so` beside the generated `NAME-DIGEST.c`, and `runtime-DIGEST.o`, which is part of all.
The digest covers the source, the runtime, the compiler and its flags. `NAME-DIGEST.built` names the shared object of a
program by what the program is read from, so that neither its model nor its source need be made.
"""

import hashlib
import os
import threading
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
_PREPARING = threading.Lock()


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


def prepare(*, sanitize: bool = False) -> None:
    """Have what all programs share compiled from now on, beside what else is done, unless the cache has it."""
    if not (cache_folder() / _runtime_name(sanitize)).exists():
        threading.Thread(target=_prepare, args=(sanitize,)).start()


def _prepare(sanitize: bool) -> None:
    with suppress(Exception):  # whoever needs it tries again, and tells
        _runtime(sanitize)


def _built(name: str, told_by: object, program: Callable[[], "Program"], *, sanitize: bool) -> Path:
    """The shared object of a program that is told from others by its name and by something, as `repr` has it."""
    flags, by, compiler = _flags(sanitize), maker(), _identity(_compiler())
    known = named(identifier(name), (name, told_by, by, compiler, flags), "built")
    if by is not None and (content := content_of(known)) is not None and (found := kept(content.decode())):
        return found
    # Only here: to import the generator takes longer than all that is done for a program that the cache has.
    from testbed.dataplane.native.generator import generate

    source = generate(program())
    target = named(identifier(name), (source, _runtime_name(sanitize)), "so")
    if (found := kept(target)) is None:
        prepare(sanitize=sanitize)
        with work_folder() as work:
            generated = work / Path(target).with_suffix(".c")
            generated.write_text(source)
            object_ = _compiled(work, (generated,), flags)
            shared = _linked(work / target, (*object_, str(_runtime(sanitize))), (*flags, "-shared"))
            generated.replace(cache_folder() / generated.name)
            found = keep(target, shared)
    if by is not None:
        with suppress(UsageError):  # it is only kept in vain
            keep(known, found.name.encode())
    return found


def build_trials() -> Path:
    """The shared object of the functions that make mutants and time a program."""
    flags = (*_flags(False), "-fvisibility=default")
    target = named("trials", (_runtime_digest(), _identity(_compiler()), flags), "so")
    if (found := kept(target)) is None:
        with work_folder() as work:
            objects = _compiled(work, [RUNTIME / source for source in TRIALS_SOURCES], flags)
            found = keep(target, _linked(work / target, objects, ("-shared",)))
    return found


def _flags(sanitize: bool) -> tuple[str, ...]:
    return (*FLAGS, *(SANITIZED if sanitize else OPTIMISED))


def _runtime_name(sanitize: bool) -> str:
    return named("runtime", (_runtime_digest(), _identity(_compiler()), _flags(sanitize)), "o")


def _runtime(sanitize: bool) -> Path:
    """The object file that programs are linked with."""
    target = _runtime_name(sanitize)
    with _PREPARING:  # it may be on its way
        if (found := kept(target)) is None:
            with work_folder() as work:
                objects = _compiled(work, [RUNTIME / source for source in PROGRAM_SOURCES], _flags(sanitize))
                found = keep(target, _linked(work / target, objects, ("-r", "-nostdlib")))
    return found


def _compiled(work: Path, sources: Sequence[Path], flags: Sequence[str]) -> list[str]:
    """Object files in a folder, compiled side by side."""
    objects = [str(work / f"{source.stem}.o") for source in sources]
    pairs = zip(sources, objects, strict=True)
    _run([[_compiler(), f"-I{RUNTIME}", "-c", str(source), "-o", made, *flags] for source, made in pairs])
    return objects


def _linked(target: Path, objects: Sequence[str], flags: Sequence[str]) -> bytes:
    _run([[_compiler(), "-o", str(target), *objects, *flags]])
    return target.read_bytes()


def _compiler() -> str:
    name = os.environ.get("CC") or "cc"
    # As shutil.which, whose import takes longer than all that is done for a program that the cache has.
    for folder in [""] if os.sep in name else os.get_exec_path():
        found = Path(folder, name)
        if os.access(found, os.X_OK) and found.is_file():  # is_file alone raises in a folder that is closed to us
            return str(found)
    raise MachineLacks(
        f"no C compiler ({name}): the native target compiles switch programs with it", hint="apt-get install gcc"
    )


def _run(commands: Sequence[Sequence[str]]) -> None:
    """Run the compiler, all at the same time."""
    import subprocess

    ended = [subprocess.Popen(each, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for each in commands]
    try:
        for process in ended:
            _, said = process.communicate(timeout=COMPILE_LIMIT_S)
            if process.returncode:
                first = "\n".join(said.strip().splitlines()[:6])
                raise CompilerFailed(f"{commands[0][0]} refused the generated C:\n{first}")
    except subprocess.TimeoutExpired as error:
        raise CompilerFailed(f"{commands[0][0]} did not end within {COMPILE_LIMIT_S} s") from error
    finally:
        for process in ended:
            process.kill()
            process.communicate()


def _identity(compiler: str) -> tuple[str, int, int, int]:
    """Which compiler it is, without running it: an upgrade replaces the file."""
    path = Path(compiler).resolve()
    found = path.stat()
    return str(path), found.st_size, found.st_mtime_ns, found.st_ctime_ns


@cache
def _runtime_digest() -> str:
    digest = hashlib.sha256()
    for file in sorted(RUNTIME.iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
