"""The switch programs of a plan, compiled before anything is made: the fabric only loads them."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

P4INFO_SUFFIX = ".p4info.pb"  # of what is put beside a program's BMv2 JSON, if it was compiled from source


class CompiledProgram(NamedTuple):
    """A program's shared object (native ones only) and BMv2 JSON, and whether it ever gives packets a priority."""

    object: Path | None
    json: Path
    sets_priority: bool


def compile_programs(names: Iterable[str], folder: Path, *, native: bool) -> Mapping[str, CompiledProgram]:
    """Compile each program, as a plan names it, unless the cache has it; BMv2 JSON goes into `folder`, which is made.

    native: to a shared object too. P4Info is put beside the JSON of what is source.

    Raises UsageError for a program that is not there or cannot run, MachineLacks without a C compiler.
    """
    # Only here: most networks have no programs.
    from testbed.dataplane.compile import compile_p4
    from testbed.dataplane.native.build import build_text, prepare
    from testbed.dataplane.programs import facts_in, path_of, text_of

    compiled = {}
    for number, name in enumerate(dict.fromkeys(names)):
        path = path_of(name)
        target = folder / f"{number}-{path.stem}.json"
        folder.mkdir(exist_ok=True)
        of_source = compile_p4(path, begin=prepare if native else None) if path.suffix == ".p4" else None
        text = of_source.text if of_source else text_of(path)
        target.write_bytes(text)
        if of_source:
            target.with_suffix(P4INFO_SUFFIX).write_bytes(of_source.p4info.binary)
        facts = facts_in(text, path)
        built = build_text(text, path.stem) if native else None
        compiled[name] = CompiledProgram(built, target, facts.sets_priority)
    return compiled
