"""Switch programs by name, as a spec names them, and what a network has to know of one before it runs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from testbed.dataplane.bmv2json import program_of, read_json
from testbed.dataplane.bmv2model import Program
from testbed.resources import own_or_shipped, shared_folder
from testbed.wire.aggregation import BEST_EFFORT, OPTICAL, SLOTS

FILES = (".p4", ".json")


@dataclass(frozen=True, slots=True)
class SumFacts:
    """What a program adds up (p4/include/aggregation.p4): contributions to one sum at the most, slots of all jobs
    together, whether it passes its sums on to a switch above (p4/aggregate_tree.p4), and by which of the transport's
    protocols (optical: it averages).
    """

    children: int
    slots: int
    passes_on: bool
    protocol: str = SLOTS


@dataclass(frozen=True, slots=True)
class Facts:
    """What a program can do: take routes (the tables of p4/include/routing.p4), spread flows by a hash rather than
    packets (`salts`, of p4/include/flow_hash.p4), give packets a priority (without, all are of priority 0), and add up.
    """

    takes_routes: bool
    hashes: bool
    sets_priority: bool
    sums: SumFacts | None = None


def shipped() -> Mapping[str, Path]:
    """The programs of `p4/` by name."""
    return {path.stem: path for path in sorted(shared_folder("p4").glob("*.p4"))}


def path_of(name: str) -> Path:
    """Where a program is: the path of a .p4 or .json file, or the name of one in `p4/`. Raises UsageError."""
    return own_or_shipped(name, FILES, shipped(), "there is no switch program")


def document_of(path: Path) -> dict[str, Any]:
    """A program's BMv2 JSON, compiled if it is source.

    Raises P4Errors, JsonError, or UsageError if it cannot be read.
    """
    from testbed.dataplane.compile import compile_p4  # not small, and most networks have no programs

    if path.suffix == ".json":
        read_json(path)
        document: dict[str, Any] = json.loads(path.read_text())
        return document
    return compile_p4(path).json


def program_in(path: Path) -> Program:
    """The program in a file; raises as `document_of` does."""
    at = path.stat()
    return _program(path, at.st_mtime_ns, at.st_size)


def facts_of(path: Path) -> Facts:
    """What the program in a file does; raises as `document_of` does."""
    from testbed.dataplane.forwarding import MEMBERS, ROUTES, SALTS

    program = program_in(path)
    tables = {table.name.rpartition(".")[2] for table in program.tables}
    return Facts({ROUTES, MEMBERS} <= tables, SALTS in tables, sets_priority(program), _sums(program))


def _sums(program: Program) -> SumFacts | None:
    from testbed.dataplane.aggregation import ARRIVALS, CHILDREN, JOBS, LEAF, SHARED, UNIT, UNIT_LEAF
    from testbed.wire.aggregation import MOST_WORKERS

    tables = {table.name.rpartition(".")[2] for table in program.tables}
    pool = next((array.size for array in program.registers if array.name.rpartition(".")[2] == ARRIVALS), 0)
    if not {JOBS, CHILDREN} <= tables or not pool:
        return None
    actions = {action.name.rpartition(".")[2] for action in program.actions.values()}
    protocol = BEST_EFFORT if SHARED in actions else OPTICAL if UNIT in actions else SLOTS
    return SumFacts(MOST_WORKERS, pool, bool({LEAF, UNIT_LEAF} & actions), protocol)


def sets_priority(program: Program) -> bool:
    """Whether anything writes `standard_metadata.priority`."""
    priority = program.standard("priority")
    actions = [primitive for action in program.actions.values() for primitive in action.primitives]
    states = [operation for state in program.parser.states for operation in state.operations]
    # The first argument is what is written: of an assignment, of a parser's set, of what an extern gives.
    written = [each.arguments[0] for each in (*actions, *states) if each.arguments]
    return priority is not None and any(term.kind == "field" and term.value == priority for term in written)


@lru_cache(maxsize=64)
def _program(path: Path, changed_ns: int, size_bytes: int) -> Program:  # noqa: ARG001 - a file that changed is another
    return program_of(document_of(path), path.stem)
