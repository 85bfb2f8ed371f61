"""A program's objects by name: what control planes, tests and the fabric's binding need to fill tables of an instance.

Numbers in and out are Python integers; the ABI's byte strings are made here. Names are full control-plane names, or a
suffix that begins after a dot and is the only one.
"""

import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.dataplane.bmv2model import Array, Program, Table
from testbed.dataplane.native.loader import STATUS, Call, Count, Match, ProgramTable, Rates
from testbed.errors import UsageError

_MADE = "tbl_"  # how compilers call the tables that they make of statements


class ControlError(UsageError):
    """The control plane asks for something that this program or its present state does not have.

    `status`: the ABI's, of `STATUS`; 0 if the switch was not even asked.
    """

    def __init__(self, message: str, *, hint: str = "", status: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.status = status


@dataclass(frozen=True, slots=True)
class FieldMatch:
    """What one key field must be: `mask` for ternary and optional (0: anything), `prefix` for lpm, `high` for range."""

    value: int
    mask: int | None = None
    prefix: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action by name with its arguments by name; or a member or a group of the table's action profile."""

    action: str = ""
    arguments: Mapping[str, int] | None = None
    member: int | None = None
    group: int | None = None


def by_suffix(name: str, known: Iterable[str], what: str) -> str:
    """The full name among `known` that `name` is, or is the only suffix of. Raises `ControlError`."""
    names = list(known)
    if name in names:
        return name
    found = [n for n in names if n.endswith(f".{name}")]
    if len(found) == 1:
        return found[0]
    if found:
        raise ControlError(f"{what} {name!r} is ambiguous: {', '.join(found)}")
    told = ", ".join(n for n in names if not n.startswith(_MADE)) or "none"
    raise ControlError(f"there is no {what} {name!r}", hint=f"there are: {told}")


def element(what: str, arrays: Iterable[Array], name: str, index: int) -> Array:
    """The array that a name is; raises `ControlError` if there is none, or it has no such element."""
    named = {array.name: array for array in arrays if not array.direct}
    array = named[by_suffix(name, named, what)]
    if not 0 <= index < array.size:
        raise ControlError(f"{array.name} has no element {index}: it has {array.size}")
    return array


def _bytes(value: int, bits: int, what: str) -> bytes:
    if not 0 <= value < 1 << bits:
        raise ControlError(f"{what}: {value:#x} does not fit {bits} bits")
    return value.to_bytes((bits + 7) // 8, "big")


class Control:
    """The control functions of one instance."""

    def __init__(self, program: Program, functions: ProgramTable, instance: int) -> None:
        self._program = program
        self._functions = functions
        self._instance = instance
        self._tables = {t.name: (i, t) for i, t in enumerate(program.tables)}
        self._registers = {r.name: (i, r) for i, r in enumerate(program.registers)}
        self._counters = {c.name: i for i, c in enumerate(c for c in program.counters if not c.direct)}
        self._meters = {m.name: i for i, m in enumerate(m for m in program.meters if not m.direct)}
        self._value_sets = {v.name: (i, v) for i, v in enumerate(program.value_sets)}
        self._profiles = {p.name: i for i, p in enumerate(program.profiles)}

    @property
    def program(self) -> Program:
        return self._program

    # Tables

    def table(self, name: str) -> Table:
        return self._tables[by_suffix(name, self._tables, "table")][1]

    def _do(self, what: str, function: Any, *arguments: Any) -> None:
        status = function(self._instance, *arguments)
        if status:
            raise ControlError(f"{what}: {STATUS[status]}", status=status)

    def _bits(self, table: Table, index: int) -> int:
        target = table.keys[index].target
        if target.kind == "header" or target.value[1] == "$valid$":
            return 1
        return self._program.headers[target.value[0]].type.field(target.value[1]).bits

    def key_index(self, table: Table, name: str) -> int:
        """The place of a key field by its name or a suffix of it."""
        names = [k.name for k in table.keys]
        return names.index(by_suffix(name, names, f"key of {table.name}"))

    def key_bits(self, table: Table, index: int) -> int:
        return self._bits(table, index)

    def _parts(self, table: Table, fields: Sequence[FieldMatch | None]) -> Iterator[tuple[bytes, bytes]]:
        """Each key field's value and mask (of a range: its ends), both as wide as the field."""
        for i, (key, field) in enumerate(zip(table.keys, fields, strict=True)):
            bits, what = self._bits(table, i), f"{table.name}: {key.name}"
            ones = (1 << bits) - 1
            if field is None:
                if key.match in ("exact", "valid"):
                    raise ControlError(f"{what}: an exact field needs a value")
                low, high = 0, ones if key.match == "range" else 0
            elif key.match == "range":
                low, high = field.value, field.high if field.high is not None else field.value
            elif key.match == "lpm":
                prefix = bits if field.prefix is None else field.prefix
                high = ones >> prefix ^ ones
                low = field.value & high
            else:
                high = ones if field.mask is None else field.mask
                low = field.value & high if key.match in ("ternary", "optional") else field.value
            yield _bytes(low, bits, what), _bytes(high, bits, what)

    def _match(self, table: Table, fields: Sequence[FieldMatch | None], priority: int) -> Match:
        parts = list(self._parts(table, fields))
        if not 0 <= priority < 1 << 31:
            raise ControlError(f"{table.name}: a priority of {priority} does not fit 31 bits")
        return Match(b"".join(value for value, _ in parts), b"".join(mask for _, mask in parts), priority)

    def _call(self, actions: Sequence[int], call: ActionCall, what: str) -> Call:
        if call.member is not None:
            return Call(1, call.member, None)
        if call.group is not None:
            return Call(2, call.group, None)
        place, arguments = self._action(actions, call, what)
        return Call(0, place, b"".join(arguments))

    def _action(self, actions: Sequence[int], call: ActionCall, what: str) -> tuple[int, list[bytes]]:
        """An action's place among `actions`, and its arguments in order."""
        names = [self._program.actions[a].name for a in actions]
        place = names.index(by_suffix(call.action, names, f"action of {what}"))
        action = self._program.actions[actions[place]]
        given = dict(call.arguments or {})
        arguments = []
        for name, bits in action.parameters:
            if name not in given:
                raise ControlError(f"{action.name} needs an argument {name!r}")
            arguments.append(_bytes(given.pop(name), bits, f"{action.name}: {name}"))
        if given:
            raise ControlError(f"{action.name} has no parameter {', '.join(map(repr, given))}")
        return place, arguments

    def insert(self, name: str, fields: Sequence[FieldMatch | None], call: ActionCall, priority: int = 0) -> int:
        """Add an entry; its handle. The larger priority wins."""
        number, table = self._tables[by_suffix(name, self._tables, "table")]
        handle = ctypes.c_uint32()
        match, action = self._match(table, fields, priority), self._call(table.actions, call, table.name)
        self._do(f"add {table.name}", self._functions.insert, number, match, action, ctypes.byref(handle))
        return handle.value

    def find(self, name: str, fields: Sequence[FieldMatch | None], priority: int = 0) -> int:
        number, table = self._tables[by_suffix(name, self._tables, "table")]
        handle = ctypes.c_uint32()
        match = self._match(table, fields, priority)
        self._do(f"find in {table.name}", self._functions.find, number, match, ctypes.byref(handle))
        return handle.value

    def modify(self, name: str, handle: int, call: ActionCall) -> None:
        number, table = self._tables[by_suffix(name, self._tables, "table")]
        action = self._call(table.actions, call, table.name)
        self._do(f"modify {table.name}", self._functions.modify, number, handle, action)

    def remove(self, name: str, handle: int) -> None:
        number, table = self._tables[by_suffix(name, self._tables, "table")]
        self._do(f"remove from {table.name}", self._functions.remove, number, handle)

    def set_default(self, name: str, call: ActionCall | None) -> None:
        """Change the default action; None: back to the program's."""
        number, table = self._tables[by_suffix(name, self._tables, "table")]
        action = None if call is None else ctypes.byref(self._call(table.actions, call, table.name))
        self._do(f"default of {table.name}", self._functions.set_default, number, action)

    def entry_count(self, name: str, handle: int) -> tuple[int, int]:
        """Packets and bytes that an entry has seen."""
        number, table = self._tables[by_suffix(name, self._tables, "table")]
        count = Count()
        self._do(f"counter of {table.name}", self._functions.entry_count, number, handle, ctypes.byref(count))
        return count.packets, count.bytes

    def set_entry_count(self, name: str, handle: int, packets: int, size: int) -> None:
        number, table = self._tables[by_suffix(name, self._tables, "table")]
        count = ctypes.byref(Count(packets, size))
        self._do(f"counter of {table.name}", self._functions.entry_count_set, number, handle, count)

    def set_entry_rates(self, name: str, handle: int, rates: Rates) -> None:
        number, table = self._tables[by_suffix(name, self._tables, "table")]
        self._do(f"meter of {table.name}", self._functions.entry_meter_set, number, handle, ctypes.byref(rates))

    # Action profiles

    def _profile(self, name: str) -> tuple[int, Sequence[int]]:
        full = by_suffix(name, self._profiles, "action profile")
        actions = next((t.actions for t in self._program.tables if t.profile == full), ())
        return self._profiles[full], actions

    def add_member(self, profile: str, call: ActionCall) -> int:
        number, actions = self._profile(profile)
        member = ctypes.c_uint32()
        action = self._call(actions, call, profile)
        self._do(f"member of {profile}", self._functions.member_add, number, action, ctypes.byref(member))
        return member.value

    def modify_member(self, profile: str, member: int, call: ActionCall) -> None:
        number, actions = self._profile(profile)
        self._do(
            f"member of {profile}", self._functions.member_modify, number, member, self._call(actions, call, profile)
        )

    def remove_member(self, profile: str, member: int) -> None:
        """Forget a member that is in no group."""
        number, _ = self._profile(profile)
        self._do(f"member of {profile}", self._functions.member_remove, number, member)

    def set_group(self, profile: str, group: int, members: Sequence[int]) -> None:
        """Make a group, or change it; a member may be there several times, and is chosen as much oftener."""
        number, _ = self._profile(profile)
        array = (ctypes.c_uint32 * len(members))(*members)
        self._do(f"group of {profile}", self._functions.group_set, number, group, array, len(members))

    def remove_group(self, profile: str, group: int) -> None:
        number, _ = self._profile(profile)
        self._do(f"group of {profile}", self._functions.group_remove, number, group)

    # Arrays

    def read_register(self, name: str, index: int) -> int:
        array = element("register", self._program.registers, name, index)
        number, _ = self._registers[array.name]
        value = (ctypes.c_ubyte * ((array.bits + 7) // 8))()
        self._do(f"register {array.name}[{index}]", self._functions.register_read, number, index, value)
        return int.from_bytes(bytes(value), "big")

    def nonzero(self, name: str) -> Iterator[tuple[int, int]]:
        """Index and value of the elements of a register that are not 0, sooner than one by one."""
        number, array = self._registers[by_suffix(name, self._registers, "register")]
        size = (array.bits + 7) // 8
        value, zero, read = (ctypes.c_ubyte * size)(), bytes(size), self._functions.register_read
        for index in range(array.size):
            self._do(array.name, read, number, index, value)
            if (found := ctypes.string_at(value, size)) != zero:
                yield index, int.from_bytes(found, "big")

    def write_register(self, name: str, index: int, value: int) -> None:
        array = element("register", self._program.registers, name, index)
        number, what = self._registers[array.name][0], f"register {array.name}[{index}]"
        self._do(what, self._functions.register_write, number, index, _bytes(value, array.bits, what))

    def read_counter(self, name: str, index: int) -> tuple[int, int]:
        """Packets and bytes."""
        full = element("counter", self._program.counters, name, index).name
        count = Count()
        self._do(
            f"counter {full}[{index}]", self._functions.counter_read, self._counters[full], index, ctypes.byref(count)
        )
        return count.packets, count.bytes

    def nonzero_counts(self, name: str) -> Iterator[tuple[int, int, int]]:
        """Index, packets and bytes of the elements of a counter that are not 0, sooner than one by one."""
        array = element("counter", self._program.counters, name, 0)
        number, read, count = self._counters[array.name], self._functions.counter_read, Count()
        place = ctypes.byref(count)
        for index in range(array.size):
            self._do(array.name, read, number, index, place)
            packets, size = count.packets, count.bytes
            if packets or size:
                yield index, packets, size

    def write_counter(self, name: str, index: int, packets: int, size: int) -> None:
        full = element("counter", self._program.counters, name, index).name
        count = ctypes.byref(Count(packets, size))
        self._do(f"counter {full}[{index}]", self._functions.counter_write, self._counters[full], index, count)

    def set_meter(self, name: str, index: int, rates: Rates) -> None:
        full = element("meter", self._program.meters, name, index).name
        self._do(f"meter {full}[{index}]", self._functions.meter_set, self._meters[full], index, ctypes.byref(rates))

    def add_to_value_set(self, name: str, value: int, mask: int | None = None) -> None:
        """Add a value of a key with one field."""
        own = self._value_sets[by_suffix(name, self._value_sets, "value set")][1]
        ones = (1 << own.bits) - 1
        self.add_fields_to_value_set(name, [(value, ones if mask is None else mask, own.bits)])

    def add_fields_to_value_set(self, name: str, fields: Sequence[tuple[int, int, int]]) -> None:
        """Add a value: of each field of the key its value, mask and bits."""
        number, own = self._value_sets[by_suffix(name, self._value_sets, "value set")]
        values = b"".join(_bytes(value, bits, own.name) for value, _, bits in fields)
        masks = b"".join(_bytes(mask, bits, own.name) for _, mask, bits in fields)
        self._do(f"value set {own.name}", self._functions.value_set_add, number, values, masks)

    def clear_value_set(self, name: str) -> None:
        number, own = self._value_sets[by_suffix(name, self._value_sets, "value set")]
        self._do(f"value set {own.name}", self._functions.value_set_clear, number)
