"""A program as BMv2 JSON has it (format 2.x, ours or p4c's), with types: what the native back end reads.

Expressions and primitive arguments are `Term`s; names are resolved to objects where the back end needs more than
the name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import UsageError

_GROUPS = ("standard_metadata", "intrinsic_metadata", "queueing_metadata")


class JsonError(UsageError):
    """This JSON is not a program that the native target can run."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a header type; a varbit field has `bits` as its maximum."""

    name: str
    bits: int
    signed: bool = False
    varbit: bool = False


@dataclass(frozen=True, slots=True)
class HeaderType:
    name: str
    fields: tuple[Field, ...]

    def field(self, name: str) -> Field:
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        raise JsonError(f"header type {self.name} has no field {name!r}")

    @property
    def max_bits(self) -> int:
        return sum(f.bits for f in self.fields)


@dataclass(frozen=True, slots=True)
class Header:
    """A header or metadata instance."""

    name: str
    id: int
    type: HeaderType
    metadata: bool


@dataclass(frozen=True, slots=True)
class Stack:
    name: str
    headers: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Union:
    name: str
    members: tuple[tuple[str, Header], ...]


@dataclass(frozen=True, slots=True)
class UnionStack:
    name: str
    unions: tuple[Union, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """A "type value object": an operand, or an operation on operands.

    `value` by `kind`: field (header, field) · hexstr int · bool · expression: None · local and runtime_data int ·
    lookahead (bit offset, bits) · stack_field (stack, field) · union_stack_field (stack, member, field) · string str ·
    parameters_vector tuple of terms · any named thing: its name.
    """

    kind: str
    value: Any
    op: str = ""
    left: "Term | None" = None
    right: "Term | None" = None
    condition: "Term | None" = None
    bits: int = 0  # of a hexstr: as it says, or as it is written


@dataclass(frozen=True, slots=True)
class Source:
    """Where in the program something was written."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class Primitive:
    op: str
    arguments: tuple[Term, ...]
    source: Source | None


@dataclass(frozen=True, slots=True)
class Action:
    id: int
    name: str
    parameters: tuple[tuple[str, int], ...]  # name, bits
    primitives: tuple[Primitive, ...]


@dataclass(frozen=True, slots=True)
class Transition:
    kind: str  # default, hexstr, parse_vset
    value: int | str | None
    mask: int | None
    next: str | None


@dataclass(frozen=True, slots=True)
class State:
    name: str
    operations: tuple[Primitive, ...]
    key: tuple[Term, ...]
    transitions: tuple[Transition, ...]


@dataclass(frozen=True, slots=True)
class Parser:
    name: str
    start: str
    states: tuple[State, ...]


@dataclass(frozen=True, slots=True)
class Key:
    match: str  # exact, lpm, ternary, range, optional, valid
    name: str
    target: Term
    mask: int | None


@dataclass(frozen=True, slots=True)
class EntryKey:
    match: str
    value: int
    mask: int | None = None
    prefix: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    key: tuple[EntryKey, ...]
    action: int
    data: tuple[int, ...]
    priority: int  # the smaller one wins


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    id: int
    match: str
    keys: tuple[Key, ...]
    profile: str | None
    max_size: int
    counted: bool
    meter: str | None
    timeout: bool
    actions: tuple[int, ...]  # ids
    next_tables: Mapping[str, str | None]
    next: str | None
    default: tuple[int, tuple[int, ...]] | None
    default_fixed: bool
    default_data_fixed: bool
    entries: tuple[Entry, ...] | None
    source: Source | None


@dataclass(frozen=True, slots=True)
class Conditional:
    name: str
    expression: Term
    true_next: str | None
    false_next: str | None
    source: Source | None


@dataclass(frozen=True, slots=True)
class ActionCall:
    name: str
    action: int
    next: str | None


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    max_size: int
    algorithm: str | None  # of its selector
    inputs: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    name: str
    start: str | None
    tables: tuple[Table, ...]
    profiles: tuple[Profile, ...]
    conditionals: tuple[Conditional, ...]
    calls: tuple[ActionCall, ...]


@dataclass(frozen=True, slots=True)
class Calculation:
    name: str
    algorithm: str
    inputs: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Checksum:
    name: str
    target: tuple[str, str]
    calculation: str
    verify: bool
    update: bool
    condition: Term | None


@dataclass(frozen=True, slots=True)
class Array:
    """A register, counter or meter array; a direct one has a `binding` and no size."""

    name: str
    size: int
    bits: int = 0
    direct: bool = False
    binding: str | None = None
    bytes: bool = False  # a meter of bytes
    target: tuple[str, str] | None = None  # where a direct meter writes its colour
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class ValueSet:
    name: str
    bits: int
    max_size: int


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    headers: Mapping[str, Header]
    stacks: Mapping[str, Stack]
    unions: Mapping[str, Union]
    union_stacks: Mapping[str, UnionStack]
    errors: Mapping[str, int]
    parser: Parser
    deparser_order: tuple[str, ...]
    deparser_primitives: tuple[Primitive, ...]
    actions: Mapping[int, Action]
    pipelines: Mapping[str, Pipeline]
    calculations: Mapping[str, Calculation]
    checksums: tuple[Checksum, ...]
    registers: tuple[Array, ...]
    counters: tuple[Array, ...]
    meters: tuple[Array, ...]
    value_sets: tuple[ValueSet, ...]
    field_lists: Mapping[int, tuple[Term, ...]]
    digests: Mapping[int, tuple[str, tuple[Term, ...]]]
    aliases: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[Table, ...]:
        """All tables, in the order of their numbers."""
        return tuple(t for p in self.pipelines.values() for t in p.tables)

    @property
    def profiles(self) -> tuple[Profile, ...]:
        return tuple(a for p in self.pipelines.values() for a in p.profiles)

    def standard(self, name: str) -> tuple[str, str] | None:
        """The header and field of a field of standard metadata; None: this program has none."""
        for header, member in (
            *(self.aliases[f"{group}.{name}"] for group in _GROUPS if f"{group}.{name}" in self.aliases),
            ("standard_metadata", name),
        ):
            if header in self.headers and any(f.name == member for f in self.headers[header].type.fields):
                return header, member
        return None
