"""A P4Info beside the program that it tells of: everything by id, and where it does not fit.

Names tie the two together; match fields and parameters have the same order in both. What P4Info says of sizes and
widths is what clients are held to.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from finsy.proto import p4i

from testbed.dataplane import bmv2model
from testbed.dataplane.p4runtime.data import Type, type_of
from testbed.dataplane.p4runtime.refusal import invalid, unsupported

MatchKind = Literal["exact", "lpm", "ternary", "range", "optional"]
_KINDS: Mapping[int, MatchKind] = {
    p4i.MatchField.EXACT: "exact",
    p4i.MatchField.LPM: "lpm",
    p4i.MatchField.TERNARY: "ternary",
    p4i.MatchField.RANGE: "range",
    p4i.MatchField.OPTIONAL: "optional",
}
_OWN_KINDS: Mapping[MatchKind, tuple[str, ...]] = {  # as compilers write them into BMv2 JSON, by the kind in P4Info
    "exact": ("exact", "valid", "ternary"),
    "lpm": ("lpm", "ternary"),
    "ternary": ("ternary",),
    "range": ("range",),
    "optional": ("optional", "ternary"),
}
_ORDERED = ("ternary", "range", "optional")
_PREFIX_SHIFT = 24  # of an id: its first byte says of what kind the object is


@dataclass(frozen=True, slots=True)
class Field:
    """A match field, or one of packet metadata (`kind` exact)."""

    id: int
    name: str
    bits: int
    kind: MatchKind = "exact"


@dataclass(frozen=True, slots=True)
class Parameter:
    id: int
    name: str
    bits: int
    own: str  # the name it has in the program


@dataclass(frozen=True, slots=True)
class Action:
    """`ids`: of its parameters."""

    id: int
    name: str
    parameters: tuple[Parameter, ...]
    ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Table:
    """`actions`: by id those of entries, `defaults`: those of the default entry; `fixed`: entries are the program's."""

    id: int
    name: str
    fields: tuple[Field, ...]
    actions: Mapping[int, Action]
    entry_actions: frozenset[int]
    default_actions: frozenset[int]
    default_fixed: bool
    profile: int  # id of its action profile, 0: none
    counter: int  # ids of direct resources
    meter: int
    idle: bool
    fixed: bool
    program: bmv2model.Table

    @property
    def ordered(self) -> bool:
        """Whether entries have priorities."""
        return any(each.kind in _ORDERED for each in self.fields)


@dataclass(frozen=True, slots=True)
class Profile:
    id: int
    name: str
    selects: bool
    size: int
    most_of_group: int  # 0: any number
    weighted: bool
    actions: Mapping[int, Action]
    tables: frozenset[int]


@dataclass(frozen=True, slots=True)
class Array:
    """A counter, meter or register array."""

    id: int
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Register(Array):
    type: Type


@dataclass(frozen=True, slots=True)
class ValueSet:
    id: int
    name: str
    size: int
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Digest:
    """`bits` of each of its fields, in the order in which a switch tells them."""

    id: int
    name: str
    type: Type
    bits: tuple[int, ...]


@dataclass(slots=True)
class Schema:
    """All objects by id. Raises Refusal (INVALID_ARGUMENT, UNIMPLEMENTED) for a P4Info that is not of the program."""

    p4info: p4i.P4Info
    program: bmv2model.Program
    tables: dict[int, Table] = field(default_factory=dict)
    profiles: dict[int, Profile] = field(default_factory=dict)
    counters: dict[int, Array] = field(default_factory=dict)
    meters: dict[int, Array] = field(default_factory=dict)
    registers: dict[int, Register] = field(default_factory=dict)
    value_sets: dict[int, ValueSet] = field(default_factory=dict)
    digests: dict[int, Digest] = field(default_factory=dict)
    digest_lists: dict[int, int] = field(default_factory=dict)  # number of a field list -> id of its digest
    packet_in: tuple[Field, ...] = ()
    packet_out: tuple[Field, ...] = ()
    _actions: dict[int, p4i.Action] = field(default_factory=dict)

    def __post_init__(self) -> None:
        info, program = self.p4info, self.program
        if info.externs:
            raise unsupported(f"extern {info.externs[0].extern_type_name!r}")
        self._check_ids()
        self._actions = {each.preamble.id: each for each in info.actions}
        tables = {each.name: each for each in program.tables}
        for table in info.tables:
            self.tables[table.preamble.id] = self._table(table, _of(tables, table.preamble.name, "table"))
        for profile in info.action_profiles:
            self.profiles[profile.preamble.id] = self._profile(profile)
        for table_id, made in self.tables.items():
            if made.profile and made.profile not in self.profiles:
                raise invalid(f"table {made.name}: there is no action profile {made.profile:#x}")
            if bool(made.profile) != bool(made.program.profile):
                raise invalid(f"table {self.tables[table_id].name}: P4Info and program differ about an action profile")
        self.counters = _arrays(info.counters, (c for c in program.counters if not c.direct), "counter")
        self.meters = _arrays(info.meters, (m for m in program.meters if not m.direct), "meter")
        specs = {each.preamble.name: each.spec for each in info.meters}
        specs |= {each.preamble.name: each.spec for each in info.direct_meters}
        for name, spec in specs.items():
            if spec.type == p4i.MeterSpec.SINGLE_RATE_THREE_COLOR:
                raise unsupported(f"meter {name}: marking by a single rate with three colours")
        registers = {each.name: each for each in program.registers}
        for register in info.registers:
            own = _of(registers, register.preamble.name, "register")
            type_ = type_of(register.type_spec, info.type_info, own.name)
            if sum(leaf.bits for leaf in type_.leaves) != own.bits or len(type_.leaves) != 1:
                raise invalid(
                    f"register {own.name}: the program has {own.bits} bits in a cell, and P4Info something else"
                )
            self.registers[register.preamble.id] = Register(register.preamble.id, own.name, own.size, type_)
        sets = {each.name: each for each in program.value_sets}
        for value_set in info.value_sets:
            name = _of(sets, value_set.preamble.name, "value set").name
            fields = tuple(_field(match, name) for match in value_set.match)
            self.value_sets[value_set.preamble.id] = ValueSet(value_set.preamble.id, name, value_set.size, fields)
        for digest in info.digests:
            self._add_digest(digest)
        for header in info.controller_packet_metadata:
            metadata = tuple(_metadata(each, header.preamble.name) for each in header.metadata)
            if header.preamble.name == "packet_in":
                self.packet_in = metadata
            elif header.preamble.name == "packet_out":
                self.packet_out = metadata

    def _check_ids(self) -> None:
        seen: set[int] = set()
        for _, value in self.p4info.ListFields():
            for each in value if isinstance(value, Iterable) else ():
                number = each.preamble.id if hasattr(each, "preamble") else 0
                if hasattr(each, "preamble") and (number == 0 or number in seen):
                    raise invalid(f"{each.preamble.name!r} has the id {number:#x}, which is 0 or another's")
                seen.add(number)

    def _table(self, info: p4i.Table, own: bmv2model.Table) -> Table:
        fields = tuple(_field(match, own.name) for match in info.match_fields)
        kinds = [key.match for key in own.keys]
        told = [_OWN_KINDS[each.kind] for each in fields]
        if len(kinds) != len(told) or any(kind not in known for kind, known in zip(kinds, told, strict=True)):
            raise invalid(f"table {own.name}: the program matches {kinds}, and P4Info something else")
        actions = {ref.id: self._action(ref.id, own) for ref in info.action_refs}
        scopes = {ref.id: ref.scope for ref in info.action_refs}
        resources = {number >> _PREFIX_SHIFT: number for number in info.direct_resource_ids}
        counter = resources.get(p4i.P4Ids.DIRECT_COUNTER, 0)
        meter = resources.get(p4i.P4Ids.DIRECT_METER, 0)
        if (bool(counter), bool(meter)) != (own.counted, own.meter is not None):
            raise invalid(f"table {own.name}: P4Info and program differ about direct counters or meters")
        return Table(
            info.preamble.id,
            own.name,
            fields,
            actions,
            frozenset(number for number, scope in scopes.items() if scope != p4i.ActionRef.DEFAULT_ONLY),
            frozenset(number for number, scope in scopes.items() if scope != p4i.ActionRef.TABLE_ONLY),
            bool(info.const_default_action_id),
            info.implementation_id,
            counter,
            meter,
            own.timeout,
            own.entries is not None,
            own,
        )

    def _action(self, number: int, table: bmv2model.Table) -> Action:
        if number not in self._actions:
            raise invalid(f"table {table.name}: there is no action {number:#x}")
        info = self._actions[number]
        own = {self.program.actions[a].name: self.program.actions[a] for a in table.actions}
        action = _of(own, info.preamble.name, f"action of table {table.name}")
        if len(action.parameters) != len(info.params):
            raise invalid(f"action {action.name}: the program has {len(action.parameters)} parameters")
        parameters = tuple(
            Parameter(each.id, each.name, _bits(each.bitwidth, f"{action.name}: {each.name}"), name)
            for each, (name, _) in zip(info.params, action.parameters, strict=True)
        )
        return Action(number, action.name, parameters, frozenset(each.id for each in parameters))

    def _profile(self, info: p4i.ActionProfile) -> Profile:
        own = _of({each.name: each for each in self.program.profiles}, info.preamble.name, "action profile")
        users = [table for table in self.tables.values() if table.profile == info.preamble.id]
        if bool(own.algorithm) != info.with_selector:
            raise invalid(f"action profile {own.name}: P4Info and program differ about a selector")
        return Profile(
            info.preamble.id,
            own.name,
            info.with_selector,
            min(own.max_size, info.size or own.max_size),
            info.max_group_size,
            not info.weights_disallowed,
            {number: action for table in users for number, action in table.actions.items()},
            frozenset(table.id for table in users),
        )

    def _add_digest(self, info: p4i.Digest) -> None:
        name, number = info.preamble.name, info.preamble.id
        lists = {of: terms for of, (named, terms) in self.program.digests.items() if named == name}
        if not lists:
            raise invalid(f"the program has no digest {name!r}")
        type_ = type_of(info.type_spec, self.p4info.type_info, name)
        bits = {tuple(self._term_bits(term) for term in terms) for terms in lists.values()}
        if any(len(each) != len(type_.leaves) for each in bits) or len(bits) != 1:
            raise unsupported(f"digest {name}: fields that P4Info does not list one by one")
        self.digests[number] = Digest(number, name, type_, bits.pop())
        self.digest_lists |= dict.fromkeys(lists, number)

    def _term_bits(self, term: bmv2model.Term) -> int:
        if term.kind == "field":
            header, member = term.value
            return self.program.headers[header].type.field(member).bits
        return term.bits


def _of(known: Mapping[str, Any], name: str, what: str) -> Any:
    if name not in known:
        raise invalid(f"the program has no {what} {name!r}")
    return known[name]


def _bits(bits: int, what: str) -> int:
    if bits <= 0:
        raise unsupported(f"{what}: values that are strings (@p4runtime_translation)")
    return bits


def _field(info: p4i.MatchField, of: str) -> Field:
    if info.match_type not in _KINDS:
        raise unsupported(f"{of}: {info.name}: match kind {info.other_match_type or info.match_type}")
    return Field(info.id, info.name, _bits(info.bitwidth, f"{of}: {info.name}"), _KINDS[info.match_type])


def _metadata(info: p4i.ControllerPacketMetadata.Metadata, of: str) -> Field:
    return Field(info.id, info.name, _bits(info.bitwidth, f"{of}: {info.name}"))


def _arrays(infos: Iterable[Any], own: Iterable[bmv2model.Array], what: str) -> dict[int, Array]:
    known = {each.name: each for each in own}
    arrays = {}
    for info in infos:
        array = _of(known, info.preamble.name, what)
        arrays[info.preamble.id] = Array(info.preamble.id, array.name, array.size)
    return arrays
