"""What a program counted, as its control plane reads it: by entries that a file added, and in its counters."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from testbed.dataplane.bmv2model import Program
from testbed.dataplane.native.control import Control


@dataclass(frozen=True, slots=True)
class EntryCounts:
    """An entry of a table that counts; `line` is where the file of entries has it."""

    table: str
    line: int
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CounterCounts:
    """An element of a counter that is not 0."""

    counter: str
    index: int
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ProgramCounts:
    """`unread`: counters with more elements than were to be read, and how many they have."""

    entries: tuple[EntryCounts, ...]
    counters: tuple[CounterCounts, ...]
    unread: tuple[tuple[str, int], ...]

    def rows(self, without: Collection[str] = ()) -> Iterator[tuple[str, str, int, int]]:
        """Kind, name, packets and bytes of each, without the counters whose names end so."""
        for entry in self.entries:
            yield "entry", f"{entry.table}:{entry.line}", entry.packets, entry.bytes
        for each in self.counters:
            if each.counter.rpartition(".")[2] not in without:
                yield "counter", f"{each.counter}[{each.index}]", each.packets, each.bytes
        for name, size in self.unread:
            yield "unread", f"{name}[0..{size - 1}]", 0, 0


def counted(
    program: Program, control: Control, added: Iterable[tuple[str, int, int]], most: int | None = None
) -> ProgramCounts:
    """Read them; `added`: `Configuration.entries`; `most`: elements of one counter (None: any number)."""
    entries = tuple(
        EntryCounts(table, line, *control.entry_count(table, handle))
        for table, handle, line in added
        if control.table(table).counted
    )
    arrays = [array for array in program.counters if not array.direct]
    unread = tuple((array.name, array.size) for array in arrays if most is not None and array.size > most)
    counters = tuple(
        CounterCounts(array.name, *found)
        for array in arrays
        if array.size and (most is None or array.size <= most)
        for found in control.nonzero_counts(array.name)
    )
    return ProgramCounts(entries, counters, unread)
