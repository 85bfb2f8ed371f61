"""From P4 source to what runs: BMv2 JSON and P4Info.

What a program without warnings compiles to is kept in the user's cache, by its path, its macros and this compiler, with
the files that it was made from: as long as these are as they were, it is found without reading them as a program.
"""

import marshal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.dataplane.cache import content_of, keep, maker, named
from testbed.dataplane.compiled import Compiled, P4Info
from testbed.dataplane.inputs import Inputs, unchanged
from testbed.errors import UsageError
from testbed.resources import shared_folder

if TYPE_CHECKING:
    from testbed.dataplane.diagnostics import Diagnostic


def compile_p4(
    path: Path,
    defines: Mapping[str, str] | None = None,
    include_dirs: Iterable[Path] = (),
    *,
    begin: Callable[[], None] | None = None,
) -> Compiled:
    """Compile a v1model program. Raises `P4Errors`, or `UsageError` if the file cannot be read.

    Every program finds the files that the programs of `p4/` share, as `include/...`: last of all. `begin` is called
    before one is compiled that the cache does not have.
    """
    macros, folders = dict(defines or {}), (*include_dirs, shared_folder("p4"))
    by = maker()
    name = named(path.stem, (by, str(path), sorted(macros.items()), [str(folder) for folder in folders]), "compiled")
    if by is not None and (content := content_of(name)) is not None:
        files, absent, text, p4info, warnings = marshal.loads(content)
        if unchanged(files, absent):
            return Compiled(text, P4Info(*p4info), tuple(map(_warning, warnings)))
    if begin is not None:
        begin()
    inputs = Inputs()
    made = _compiled(path, macros, folders, inputs)
    if by is not None:
        p4info = made.p4info.text, made.p4info.binary
        warnings = [_told(each) for each in made.warnings]
        with suppress(UsageError):  # it is only kept in vain
            keep(name, marshal.dumps((sorted(inputs.files), sorted(inputs.absent), made.text, p4info, warnings)))
    return made


def _told(warning: "Diagnostic") -> tuple[object, ...]:
    span, source = warning.span, warning.span.source
    place = span.line, span.column, span.end_line, span.end_column
    return source.path, source.lines, place, warning.message, warning.hint


def _warning(told: tuple[Any, ...]) -> "Diagnostic":
    from testbed.dataplane.diagnostics import Diagnostic, Source, Span

    path, lines, place, message, hint = told
    return Diagnostic(Span(Source(path, lines), *place), message, hint, is_error=False)


def _compiled(path: Path, defines: Mapping[str, str], include_dirs: Sequence[Path], inputs: Inputs) -> Compiled:
    # Only here: to import the compiler takes longer than all that is done for a program that the cache has.
    import json

    from testbed.dataplane.check import front_end_of
    from testbed.dataplane.cursor import deep_trees
    from testbed.dataplane.diagnostics import Diagnostics
    from testbed.dataplane.lower.program import lower
    from testbed.dataplane.p4info import p4info
    from testbed.dataplane.preprocess import preprocess

    diagnostics = Diagnostics()
    checked = front_end_of(preprocess(path, diagnostics, defines, include_dirs, inputs), diagnostics)
    with deep_trees():
        lowered = lower(checked)
        text = json.dumps(lowered.json, indent=1).encode() + b"\n"
        return Compiled(text, p4info(checked, lowered), tuple(diagnostics.warnings))
