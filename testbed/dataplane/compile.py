"""From P4 source to what runs: BMv2 JSON and P4Info.

What a program without warnings compiles to is kept in the user's cache, by its tokens and by this compiler.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.dataplane.cache import content_of, files_as_written, keep, kept
from testbed.dataplane.diagnostics import Diagnostic, Diagnostics
from testbed.dataplane.lexer import Token
from testbed.dataplane.p4info_format import P4Info
from testbed.dataplane.preprocess import preprocess
from testbed.errors import UsageError
from testbed.resources import shared_folder


@dataclass(frozen=True, slots=True)
class Compiled:
    """`json` is BMv2 JSON; `warnings` is what was said of the program besides."""

    json: dict[str, Any]
    p4info: P4Info
    warnings: tuple[Diagnostic, ...]


def compile_p4(path: Path, defines: Mapping[str, str] | None = None, include_dirs: Iterable[Path] = ()) -> Compiled:
    """Compile a v1model program. Raises `P4Errors`, or `UsageError` if the file cannot be read.

    Every program finds the files that the programs of `p4/` share, as `include/...`: last of all.
    """
    diagnostics = Diagnostics()
    tokens = preprocess(path, diagnostics, defines, (*include_dirs, shared_folder("p4")))
    name = f"{path.stem[:60]}-{_digest(tokens)[:20]}.json"
    if not diagnostics.errors and not diagnostics.warnings and (found := kept(name)) is not None:
        result = json.loads(content_of(found))
        return Compiled(result["json"], P4Info(result["text"], bytes.fromhex(result["binary"])), ())
    document, info = _compiled(tokens, diagnostics)
    if not diagnostics.warnings:
        with suppress(UsageError):  # it is only kept in vain
            keep(name, json.dumps({"json": document, "text": info.text, "binary": info.binary.hex()}).encode())
    return Compiled(document, info, tuple(diagnostics.warnings))


def _compiled(tokens: list[Token], diagnostics: Diagnostics) -> tuple[dict[str, Any], P4Info]:
    # Only here: to import the compiler takes longer than all that is done for a program that the cache has.
    from testbed.dataplane.check import front_end_of
    from testbed.dataplane.cursor import deep_trees
    from testbed.dataplane.lower.program import lower
    from testbed.dataplane.p4info import p4info

    checked = front_end_of(tokens, diagnostics)
    with deep_trees():
        lowered = lower(checked)
        return lowered.json, p4info(checked, lowered)


def _digest(tokens: Sequence[Token]) -> str:
    """Of all that the result depends on: tokens with their places, and lines that the JSON quotes."""
    sources = {id(token.span.source): token.span.source for token in tokens}
    numbers = {identity: number for number, identity in enumerate(sources)}
    places = [(t.text, numbers[id(t.span.source)], t.span.line, t.span.column) for t in tokens]
    lines = [(source.path, source.lines) for source in sources.values()]
    return hashlib.sha256(repr((files_as_written(Path(__file__).parent), places, lines)).encode()).hexdigest()
