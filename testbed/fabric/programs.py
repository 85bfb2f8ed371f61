"""The switch programs of a plan, compiled before anything is made: the fabric only loads them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

P4INFO_SUFFIX = ".p4info.pb"  # of what is put beside a program's BMv2 JSON, if it was compiled from source


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A program's shared object (native ones only) and BMv2 JSON, and whether it ever gives packets a priority."""

    object: Path | None
    json: Path
    sets_priority: bool


def compile_programs(names: Iterable[str], folder: Path, *, native: bool) -> Mapping[str, CompiledProgram]:
    """Compile each program, as a plan names it, unless the cache has it; BMv2 JSON goes into `folder`, which is made.

    native: to a shared object too. P4Info is put beside the JSON of what is source.

    Raises UsageError for a program that is not there or cannot run, MachineLacks without a C compiler.
    """
    # Only here: the compiler is not small, and most networks have no programs.
    from testbed.dataplane.bmv2json import program_of
    from testbed.dataplane.compile import compile_p4
    from testbed.dataplane.native.build import build_program
    from testbed.dataplane.programs import document_of, path_of, sets_priority

    compiled = {}
    for number, name in enumerate(dict.fromkeys(names)):
        path = path_of(name)
        target = folder / f"{number}-{path.stem}.json"
        folder.mkdir(exist_ok=True)
        target.write_text(json.dumps(document_of(path)))
        if path.suffix == ".p4":
            target.with_suffix(P4INFO_SUFFIX).write_bytes(compile_p4(path).p4info.binary)
        program = program_of(json.loads(target.read_text()), path.stem)
        built = build_program(program) if native else None
        compiled[name] = CompiledProgram(built, target, sets_priority(program))
    return compiled
