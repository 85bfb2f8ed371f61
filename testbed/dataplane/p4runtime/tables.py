"""Table entries: what was written of each, and what the switch keeps and counts of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from finsy.proto import p4r
from grpc import StatusCode

from testbed.dataplane import bmv2model
from testbed.dataplane.native.control import ActionCall, Control, FieldMatch
from testbed.dataplane.p4runtime.defaults import DefaultStore
from testbed.dataplane.p4runtime.messages import (
    Direct,
    Match,
    decode_action,
    decode_match,
    encode_match,
    is_asked,
    told,
    written,
)
from testbed.dataplane.p4runtime.profiles import OneShot, ProfileStore
from testbed.dataplane.p4runtime.rates import check_rates, rates_of
from testbed.dataplane.p4runtime.refusal import Refusal, invalid, missing, refusing, unsupported
from testbed.dataplane.p4runtime.schema import Field, Table
from testbed.dataplane.p4runtime.undo import Undo

Key = tuple[Match, int]  # and the priority
_FRESH_NS = 1_000_000_000


@dataclass(slots=True)
class Entry:
    """One entry; `action` is in canonical form. `hits` and `hit_ns`: its count when it was last seen to have risen."""

    key: Key
    action: Direct | p4r.TableAction
    metadata: bytes = b""
    controller_metadata: int = 0
    meter: p4r.MeterConfig | None = None
    idle_timeout_ns: int = 0
    const: bool = False
    handle: int = -1
    one_shot: OneShot | None = None
    hits: int = 0
    hit_ns: int = 0
    told_ns: int = 0  # when it was last told that it is idle


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """An entry as it is told to who is no client: what it matches, the action with its arguments, what it counted."""

    match: Match
    action: str
    arguments: Mapping[str, int]
    packets: int
    bytes: int


@dataclass(slots=True)
class TableStore:
    """One table. `now_ns` of its methods is model time."""

    schema: Table
    program: bmv2model.Program
    control: Control
    profile: ProfileStore | None
    entries: dict[Key, Entry] = field(default_factory=dict)
    _default: DefaultStore = field(init=False)
    _masked: bool = False  # whether a prefix is a mask to the program

    def __post_init__(self) -> None:
        """What the program brings along."""
        self._default = DefaultStore(self.schema, self.program, self.control)
        keys = zip(self.schema.fields, self.schema.program.keys, strict=True)
        self._masked = any(field.kind == "lpm" and key.match == "ternary" for field, key in keys)
        given = self.schema.program.entries or ()
        top = max((each.priority for each in given), default=0) + 1  # in BMv2 JSON the smaller one wins
        for each in given:
            match = tuple(_match_of(*pair) for pair in zip(each.key, self.schema.fields, strict=True))
            key = match, top - each.priority if self.schema.ordered else 0
            if key in self.entries:
                continue  # the first of two equal ones wins
            action = written(self.schema, self.program, each.action, each.data)
            handle = self.control.find(self.schema.name, self._own(match), top - each.priority)
            self.entries[key] = Entry(key, action, const=True, handle=handle)

    def _own(self, match: Match) -> Match:
        """As the program has it, where a prefix may be a mask."""
        if not self._masked:
            return match
        keys = zip(match, self.schema.fields, self.schema.program.keys, strict=True)
        return tuple(
            FieldMatch(found.value, mask=(1 << field.bits) - (1 << field.bits - found.prefix))
            if found is not None and found.prefix is not None and key.match == "ternary"
            else found
            for found, field, key in keys
        )

    # Writing

    def write(self, kind: int, message: p4r.TableEntry, now_ns: int) -> Undo:
        what = f"table {self.schema.name}"
        if message.is_const:
            raise invalid(f"{what}: is_const is the program's to say")
        if message.HasField("time_since_last_hit"):
            raise invalid(f"{what}: time_since_last_hit is for reading")
        if message.HasField("meter_counter_data"):
            raise unsupported(f"{what}: counters by colour")
        if message.is_default_action:
            return self._default.write(kind, message, what)
        if not self.schema.fields:
            raise invalid(f"{what} has no key, and so no entries but the default one")
        key = self.key(message, what)
        held = self.entries.get(key)
        if kind == p4r.Update.DELETE:
            return self._delete(held, what)
        if self.schema.fixed and (kind == p4r.Update.INSERT or message.HasField("action")):
            raise Refusal(StatusCode.PERMISSION_DENIED, f"{what}: its entries are the program's")
        if kind == p4r.Update.MODIFY and held is None:
            raise missing(f"{what}: there is no such entry")
        entry = self._decode(message, key, held, what)
        if kind == p4r.Update.INSERT:
            if held is not None:
                raise Refusal(StatusCode.ALREADY_EXISTS, f"{what}: there is such an entry already")
            entry.hit_ns = entry.told_ns = now_ns
            self._put(entry)
            if message.HasField("counter_data"):
                self.set_count(entry, message.counter_data)
            return lambda: self._take(entry)
        assert held is not None
        count = self._count(held)
        entry.hits, entry.hit_ns, entry.told_ns = held.hits, now_ns, now_ns
        self._exchange(held, entry)
        if message.HasField("counter_data"):
            self.set_count(entry, message.counter_data)

        def undo() -> None:
            self._exchange(entry, held)
            if count is not None:
                self.set_count(held, count)

        return undo

    def _delete(self, held: Entry | None, what: str) -> Undo:
        if self.schema.fixed:
            raise Refusal(StatusCode.PERMISSION_DENIED, f"{what}: its entries are the program's")
        if held is None:
            raise missing(f"{what}: there is no such entry")
        count = self._count(held)
        self._take(held)

        def undo() -> None:
            self._put(held)
            if count is not None:
                self.set_count(held, count)

        return undo

    def key(self, message: p4r.TableEntry, what: str) -> Key:
        """What names an entry. Raises Refusal."""
        match = decode_match(self.schema.fields, message.match, what)
        if self.schema.ordered != (message.priority > 0):
            wanted = "one above 0" if self.schema.ordered else "none"
            raise invalid(f"{what}: a priority of {message.priority}, where {wanted} is wanted")
        return match, message.priority

    def _decode(self, message: p4r.TableEntry, key: Key, held: Entry | None, what: str) -> Entry:
        """The entry that a message makes, in place of the one held if there is one."""
        if message.HasField("action"):
            action = self._decode_action(message.action, what)
        elif held is not None:
            action = held.action
        else:
            raise invalid(f"{what}: an action is wanted")
        if message.HasField("counter_data"):
            if not self.schema.counter:
                raise invalid(f"{what} has no direct counter")
            check_count(message.counter_data, what)
        meter = None
        if message.HasField("meter_config"):
            if not self.schema.meter:
                raise invalid(f"{what} has no direct meter")
            meter = check_rates(message.meter_config, what)
        if message.idle_timeout_ns and (not self.schema.idle or message.idle_timeout_ns < 0):
            raise invalid(f"{what} has no idle timeouts, or this one is negative")
        const = held is not None and held.const
        metadata = message.metadata, message.controller_metadata
        return Entry(key, action, *metadata, meter=meter, idle_timeout_ns=message.idle_timeout_ns, const=const)

    def _decode_action(self, message: p4r.TableAction, what: str) -> Direct | p4r.TableAction:
        """In canonical form."""
        match message.WhichOneof("type"):
            case "action" if self.profile is None:
                call = decode_action(self.schema.actions, self.schema.entry_actions, message.action, what)
                return Direct(message.action.action_id, call)
            case "action_profile_member_id" if self.profile is not None:
                self.profile.member_call(message.action_profile_member_id)
                self._check_style(what)
                return p4r.TableAction(action_profile_member_id=message.action_profile_member_id)
            case "action_profile_group_id" if self.profile is not None:
                self.profile.group_call(message.action_profile_group_id)
                self._check_style(what)
                return p4r.TableAction(action_profile_group_id=message.action_profile_group_id)
            case "action_profile_action_set" if self.profile is not None:
                given = self.profile.check_set(message.action_profile_action_set, what)
                return p4r.TableAction(action_profile_action_set=given)
        wanted = "an action" if self.profile is None else "a member, a group or an action set"
        raise invalid(f"{what}: {wanted} is wanted")

    def _check_style(self, what: str) -> None:
        if self.profile is not None and self.profile.one_shots:
            raise invalid(f"{what}: entries of {self.profile.schema.name} are programmed by one shot")

    def _realise(self, entry: Entry) -> ActionCall:
        """What the switch is told of an entry's action; of an action set its members and group are made."""
        action, profile = entry.action, self.profile
        if isinstance(action, Direct):
            return action.call
        assert profile is not None
        match action.WhichOneof("type"):
            case "action_profile_member_id":
                return profile.member_call(action.action_profile_member_id)
            case "action_profile_group_id":
                return profile.group_call(action.action_profile_group_id)
        entry.one_shot = profile.add_set(action.action_profile_action_set)
        return ActionCall(group=entry.one_shot.group)

    def _refer(self, entry: Entry, by: int) -> None:
        """Count what an entry refers to, once more or less."""
        if self.profile is None or isinstance(entry.action, Direct):
            return
        if entry.action.WhichOneof("type") == "action_profile_member_id":
            self.profile.used_members[entry.action.action_profile_member_id] += by
        elif entry.action.WhichOneof("type") == "action_profile_group_id":
            self.profile.used_groups[entry.action.action_profile_group_id] += by

    def _forget_set(self, entry: Entry) -> None:
        if entry.one_shot is not None:
            assert self.profile is not None
            self.profile.remove_set(entry.one_shot)
            entry.one_shot = None

    def _put(self, entry: Entry) -> None:
        call = self._realise(entry)
        try:
            with refusing():
                entry.handle = self.control.insert(self.schema.name, self._own(entry.key[0]), call, entry.key[1])
        except Refusal:
            self._forget_set(entry)
            raise
        self.entries[entry.key] = entry
        entry.hits = 0
        self._refer(entry, 1)
        self._set_meter(entry)

    def _take(self, entry: Entry) -> None:
        with refusing():
            self.control.remove(self.schema.name, entry.handle)
        del self.entries[entry.key]
        self._refer(entry, -1)
        self._forget_set(entry)

    def _exchange(self, held: Entry, entry: Entry) -> None:
        """Have an entry in place of the one with the same key, which keeps its count."""
        entry.handle, entry.one_shot = held.handle, None
        if entry.action != held.action:
            call = self._realise(entry)
            try:
                with refusing():
                    self.control.modify(self.schema.name, held.handle, call)
            except Refusal:
                self._forget_set(entry)
                raise
            self._forget_set(held)
        else:
            entry.one_shot, held.one_shot = held.one_shot, None
        self._refer(held, -1)
        self._refer(entry, 1)
        self.entries[entry.key] = entry
        if entry.meter != held.meter:
            self._set_meter(entry, always=True)

    def _set_meter(self, entry: Entry, *, always: bool = False) -> None:
        if self.schema.meter and (always or entry.meter is not None):
            with refusing():
                self.control.set_entry_rates(self.schema.name, entry.handle, rates_of(entry.meter))

    def write_counter(self, kind: int, message: p4r.DirectCounterEntry) -> Undo:
        what = f"table {self.schema.name}"
        if kind != p4r.Update.MODIFY or not self.schema.counter:
            raise invalid(f"{what}: direct counters are modified only, of tables that have them")
        entry = self._one(message.table_entry)
        before = self._count(entry)
        assert before is not None
        if message.HasField("data"):
            check_count(message.data, what)
            self.set_count(entry, message.data)
        return lambda: self.set_count(entry, before)

    def write_meter(self, kind: int, message: p4r.DirectMeterEntry) -> Undo:
        what = f"table {self.schema.name}"
        if kind != p4r.Update.MODIFY or not self.schema.meter:
            raise invalid(f"{what}: direct meters are modified only, of tables that have them")
        if message.HasField("counter_data"):
            raise unsupported(f"{what}: counters by colour")
        entry = self._one(message.table_entry)
        before = entry.meter
        self.set_meter(entry, check_rates(message.config, what) if message.HasField("config") else None)
        return lambda: self.set_meter(entry, before)

    def set_count(self, entry: Entry, data: p4r.CounterData) -> None:
        with refusing():
            self.control.set_entry_count(self.schema.name, entry.handle, data.packet_count, data.byte_count)
        entry.hits = data.packet_count

    def set_meter(self, entry: Entry, config: p4r.MeterConfig | None) -> None:
        entry.meter = config
        self._set_meter(entry, always=True)

    def _count(self, entry: Entry) -> p4r.CounterData | None:
        """None: this table does not count."""
        if not self.schema.counter:
            return None
        packets, size = self.control.entry_count(self.schema.name, entry.handle)
        return p4r.CounterData(packet_count=packets, byte_count=size)

    # Reading

    def read(self, asked: p4r.TableEntry, now_ns: int) -> Iterator[p4r.Entity]:
        """The entries that a request asks for, with what of them it asks for."""
        what = f"table {self.schema.name}"
        wanted = {
            "counter_data": asked.HasField("counter_data") and not self.schema.counter,
            "meter_config": asked.HasField("meter_config") and not self.schema.meter,
            "time_since_last_hit": asked.HasField("time_since_last_hit") and not self.schema.idle,
        }
        for flag, lacks in wanted.items():
            if lacks and asked.table_id:
                raise invalid(f"{what} has no {flag}")
        if asked.HasField("meter_counter_data"):
            raise unsupported(f"{what}: counters by colour")
        if asked.is_default_action:
            yield from self._default.read(asked)
            return
        for entry in self._asked(asked, what):
            message = self.message(entry)
            if not is_asked(message, asked):
                continue
            if asked.HasField("counter_data") and (count := self._count(entry)) is not None:
                message.counter_data.CopyFrom(count)
            if asked.HasField("meter_config") and entry.meter is not None:
                message.meter_config.CopyFrom(entry.meter)
            if asked.HasField("time_since_last_hit") and self.schema.idle:
                self._look(entry, now_ns)
                message.time_since_last_hit.elapsed_ns = now_ns - entry.hit_ns
            yield p4r.Entity(table_entry=message)

    def _asked(self, asked: p4r.TableEntry, what: str) -> list[Entry]:
        if not asked.match:
            return list(self.entries.values())
        match = decode_match(self.schema.fields, asked.match, what)
        if not self.schema.ordered or asked.priority:
            held = self.entries.get((match, asked.priority))
            return [held] if held is not None else []
        return [entry for entry in self.entries.values() if entry.key[0] == match]

    def message(self, entry: Entry) -> p4r.TableEntry:
        """All that was written of it but for its direct resources."""
        match, priority = entry.key
        return p4r.TableEntry(
            table_id=self.schema.id,
            match=encode_match(self.schema.fields, match),
            action=told(self.schema, entry.action) if isinstance(entry.action, Direct) else entry.action,
            priority=priority,
            metadata=entry.metadata,
            controller_metadata=entry.controller_metadata,
            idle_timeout_ns=entry.idle_timeout_ns,
            is_const=entry.const,
        )

    def direct_counters(self, asked: p4r.TableEntry) -> Iterator[p4r.Entity]:
        for entry in self._direct(asked):
            counted = p4r.DirectCounterEntry(table_entry=self._named(entry), data=self._count(entry))
            yield p4r.Entity(direct_counter_entry=counted)

    def direct_meters(self, asked: p4r.TableEntry) -> Iterator[p4r.Entity]:
        for entry in self._direct(asked):
            metered = p4r.DirectMeterEntry(table_entry=self._named(entry), config=entry.meter)
            yield p4r.Entity(direct_meter_entry=metered)

    def _direct(self, asked: p4r.TableEntry) -> list[Entry]:
        what = f"table {self.schema.name}"
        if asked.is_default_action:
            raise unsupported(f"{what}: counters and meters of the default entry")
        found = self._asked(asked, what)
        if asked.match and not found:
            raise missing(f"{what}: there is no such entry")
        return [entry for entry in found if asked.priority in (0, entry.key[1])]

    def _one(self, asked: p4r.TableEntry) -> Entry:
        """The entry that an update of a direct resource names."""
        what = f"table {self.schema.name}"
        if asked.is_default_action:
            raise unsupported(f"{what}: counters and meters of the default entry")
        held = self.entries.get(self.key(asked, what))
        if held is None:
            raise missing(f"{what}: there is no such entry")
        return held

    def _named(self, entry: Entry) -> p4r.TableEntry:
        match, priority = entry.key
        return p4r.TableEntry(table_id=self.schema.id, match=encode_match(self.schema.fields, match), priority=priority)

    def state(self) -> Iterator[p4r.Update]:
        """The updates that make a fresh table what this one is."""
        for entry in self.entries.values():
            message = self._named(entry) if entry.const else self.message(entry)
            if entry.meter is not None:
                message.meter_config.CopyFrom(entry.meter)
            if (count := self._count(entry)) is not None:
                message.counter_data.CopyFrom(count)
            if not entry.const or self.schema.counter or entry.meter is not None:
                kind = p4r.Update.MODIFY if entry.const else p4r.Update.INSERT
                yield p4r.Update(type=kind, entity=p4r.Entity(table_entry=message))
        yield from self._default.state()

    def held(self) -> Iterator[HeldEntry]:
        """All entries with what they do; members and groups of profiles are left out."""
        for (match, _), entry in self.entries.items():
            if isinstance(entry.action, Direct):
                count, call = self._count(entry) or p4r.CounterData(), entry.action.call
                yield HeldEntry(match, call.action, call.arguments or {}, count.packet_count, count.byte_count)

    # Idle timeouts

    @property
    def shortest_timeout_ns(self) -> int:
        """Of its entries; where none has one, what makes for a fresh `time_since_last_hit`."""
        timeouts = (entry.idle_timeout_ns for entry in self.entries.values() if entry.idle_timeout_ns)
        return min(timeouts, default=_FRESH_NS)

    def idle(self, now_ns: int) -> list[p4r.TableEntry]:
        """Look at all counts; the entries that were not hit as long as their timeout, and told of as long ago."""
        idle = []
        for entry in self.entries.values():
            self._look(entry, now_ns)
            since_ns = max(entry.hit_ns, entry.told_ns)
            if entry.idle_timeout_ns and now_ns - since_ns >= entry.idle_timeout_ns:
                entry.told_ns = now_ns
                idle.append(self.message(entry))
        return idle

    def _look(self, entry: Entry, now_ns: int) -> None:
        packets, _ = self.control.entry_count(self.schema.name, entry.handle)
        if packets != entry.hits:
            entry.hits, entry.hit_ns = packets, now_ns


def check_count(data: p4r.CounterData, what: str) -> None:
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid(f"{what}: a count is not negative")


def _match_of(key: bmv2model.EntryKey, field: Field) -> FieldMatch | None:
    """None where a ternary or optional field, a prefix or a range is of everything."""
    ones = (1 << field.bits) - 1
    match field.kind:
        case "exact":
            return FieldMatch(key.value)
        case "lpm":
            prefix = field.bits if key.prefix is None else key.prefix
            return FieldMatch(key.value, prefix=prefix) if prefix else None
        case "range":
            high = ones if key.high is None else key.high
            return FieldMatch(key.value, high=high) if (key.value, high) != (0, ones) else None
        case _:
            mask = ones if key.mask is None else key.mask
            return FieldMatch(key.value, mask=mask) if mask else None
