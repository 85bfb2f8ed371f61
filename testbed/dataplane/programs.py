"""Switch programs by name, as a spec names them, and what a network has to know of one before it runs."""

import marshal
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from testbed.dataplane.cache import content_of, keep, maker, named
from testbed.dataplane.declared import ARRIVALS, CHILDREN, JOBS, LEAF, MEMBERS, ROUTES, SALTS, SHARED, UNIT, UNIT_LEAF
from testbed.errors import UsageError
from testbed.resources import own_or_shipped, shared_folder
from testbed.wire.protocols import BEST_EFFORT, OPTICAL, SLOTS

if TYPE_CHECKING:
    from testbed.dataplane.bmv2model import Program

FILES = (".p4", ".json")


class SumFacts(NamedTuple):
    """What a program adds up (p4/include/aggregation.p4): contributions to one sum at the most, slots of all jobs
    together, whether it passes its sums on to a switch above (p4/aggregate_tree.p4), and by which of the transport's
    protocols (optical: it averages).
    """

    children: int
    slots: int
    passes_on: bool
    protocol: str = SLOTS


class Facts(NamedTuple):
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


def text_of(path: Path) -> bytes:
    """A program's BMv2 JSON, as a file has it; compiled if it is source.

    Raises P4Errors, or UsageError if it cannot be read.
    """
    if path.suffix == ".p4":
        from testbed.dataplane.compile import compile_p4

        return compile_p4(path).text
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def document_of(path: Path) -> dict[str, Any]:
    """A program's BMv2 JSON as data; raises as `program_in`."""
    import json

    text = text_of(path)
    _program(text, path)
    document: dict[str, Any] = json.loads(text)
    return document


def program_in(path: Path) -> "Program":
    """The program in a file. Raises P4Errors, JsonError, or UsageError if it cannot be read."""
    return _program(text_of(path), path)


def facts_of(path: Path) -> Facts:
    """What the program in a file does; raises as `program_in`."""
    return facts_in(text_of(path), path)


def facts_in(text: bytes, path: Path) -> Facts:
    """What the program in a file does whose BMv2 JSON is `text`, unless the cache knows it. Raises JsonError."""
    by = maker()
    name = named(path.stem, (path.stem, text, by), "facts")
    if by is not None and (content := content_of(name)) is not None:
        takes_routes, hashes, sets_priority_, sums = marshal.loads(content)
        return Facts(takes_routes, hashes, sets_priority_, sums and SumFacts(*sums))
    facts = _facts(_program(text, path))
    if by is not None:
        with suppress(UsageError):  # it is only kept in vain
            keep(name, marshal.dumps((*facts[:-1], facts.sums and tuple(facts.sums))))
    return facts


@lru_cache(maxsize=64)
def _program(text: bytes, path: Path) -> "Program":
    from testbed.dataplane.bmv2json import read_text

    return read_text(text, path.stem, str(path))


def _facts(program: "Program") -> Facts:
    tables = {table.name.rpartition(".")[2] for table in program.tables}
    return Facts({ROUTES, MEMBERS} <= tables, SALTS in tables, sets_priority(program), _sums(program))


def _sums(program: "Program") -> SumFacts | None:
    from testbed.wire.aggregation import MOST_WORKERS

    tables = {table.name.rpartition(".")[2] for table in program.tables}
    pool = next((array.size for array in program.registers if array.name.rpartition(".")[2] == ARRIVALS), 0)
    if not {JOBS, CHILDREN} <= tables or not pool:
        return None
    actions = {action.name.rpartition(".")[2] for action in program.actions.values()}
    protocol = BEST_EFFORT if SHARED in actions else OPTICAL if UNIT in actions else SLOTS
    return SumFacts(MOST_WORKERS, pool, bool({LEAF, UNIT_LEAF} & actions), protocol)


def sets_priority(program: "Program") -> bool:
    """Whether anything writes `standard_metadata.priority`."""
    priority = program.standard("priority")
    actions = [primitive for action in program.actions.values() for primitive in action.primitives]
    states = [operation for state in program.parser.states for operation in state.operations]
    # The first argument is what is written: of an assignment, of a parser's set, of what an extern gives.
    written = [each.arguments[0] for each in (*actions, *states) if each.arguments]
    return priority is not None and any(term.kind == "field" and term.value == priority for term in written)
