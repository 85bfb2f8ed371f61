"""From P4 source to what runs: BMv2 JSON and P4Info."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.dataplane.check import front_end
from testbed.dataplane.cursor import deep_trees
from testbed.dataplane.diagnostics import Diagnostic
from testbed.dataplane.lower.program import lower
from testbed.dataplane.p4info import P4Info, p4info
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
    checked = front_end(path, defines, (*include_dirs, shared_folder("p4")))
    with deep_trees():
        lowered = lower(checked)
        info = p4info(checked, lowered)
    return Compiled(lowered.json, info, tuple(checked.diagnostics.warnings))
