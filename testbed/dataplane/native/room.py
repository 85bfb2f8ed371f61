"""The room that a program's arrays and tables take: what the native target has not is refused with its place."""

from collections.abc import Iterator

from testbed.dataplane.bmv2model import Array, JsonError, Profile, Program, Source, Table, ValueSet
from testbed.dataplane.native.numbers import stored_bytes
from testbed.units import format_bytes

MOST_BYTES = 1 << 30  # of one register, counter or meter: our choice
MOST_ENTRIES = 1 << 31  # of one table, action profile or value set: they are numbered in 32 bits
_COUNT_BYTES, _METER_BYTES, _WIDE_BYTES = 16, 64, 264  # struct p4_count, struct meter, struct wide


def check_room(program: Program) -> None:
    """Raise `JsonError` for an array or a table that is too large."""
    for what, array, cell_bytes in _arrays(program):
        if not 0 <= array.size * cell_bytes <= MOST_BYTES:
            most = MOST_BYTES // cell_bytes
            raise JsonError(
                f"{_place(array.source)}the {what} {array.name} has {array.size} elements: the native target"
                f" has room for {most} of {cell_bytes} bytes ({format_bytes(MOST_BYTES)})"
            )
    places = {table.name: _place(table.source) for table in program.tables}
    sized: tuple[Table | Profile | ValueSet, ...] = (*program.tables, *program.profiles, *program.value_sets)
    for each in sized:
        if not 0 <= each.max_size <= MOST_ENTRIES:
            raise JsonError(
                f"{places.get(each.name, '')}{each.name} is for {each.max_size} entries: the native target has at most"
                f" {MOST_ENTRIES}"
            )


def _place(source: Source | None) -> str:
    return f"{source.file}:{source.line}: " if source else ""


def _arrays(program: Program) -> Iterator[tuple[str, Array, int]]:
    for register in program.registers:
        yield "register", register, stored_bytes(register.bits) or _WIDE_BYTES
    yield from (("counter", counter, _COUNT_BYTES) for counter in program.counters)
    yield from (("meter", meter, _METER_BYTES) for meter in program.meters)
