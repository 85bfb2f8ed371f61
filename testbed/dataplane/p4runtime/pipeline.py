"""A program's instance with all that clients wrote to it: updates are applied to it and entities read from it."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from finsy.proto import p4r

from testbed.dataplane.bmv2json import program_of
from testbed.dataplane.bmv2model import JsonError
from testbed.dataplane.native.build import CompilerFailed, build_program
from testbed.dataplane.native.control import Control
from testbed.dataplane.p4runtime.arrays import ArrayStore
from testbed.dataplane.p4runtime.digests import DigestStore
from testbed.dataplane.p4runtime.profiles import ProfileStore
from testbed.dataplane.p4runtime.refusal import invalid, unsupported
from testbed.dataplane.p4runtime.replication import ReplicationStore, Replicator
from testbed.dataplane.p4runtime.schema import Schema
from testbed.dataplane.p4runtime.tables import HeldEntry, TableStore
from testbed.dataplane.p4runtime.undo import Undo
from testbed.dataplane.p4runtime.value_sets import ValueSetStore

_NAME = "pipeline"  # of programs that come without one


@dataclass(frozen=True, slots=True)
class Verified:
    """A configuration that this switch can realise: what it says, and the shared object that it was compiled to."""

    config: p4r.ForwardingPipelineConfig
    schema: Schema
    object: Path


def verify(config: p4r.ForwardingPipelineConfig) -> Verified:
    """Read and compile a configuration: its P4Info, and BMv2 JSON. It may take seconds, and touches no switch.

    Raises Refusal (INVALID_ARGUMENT, or UNIMPLEMENTED for what P4Info asks for and this server has not), MachineLacks.
    """
    if not config.p4_device_config:
        raise invalid("the device config is empty: BMv2 JSON is wanted")
    try:
        document = json.loads(config.p4_device_config)
        name = str(document.get("program", "")) if isinstance(document, dict) else ""
        program = program_of(document, Path(name).stem or _NAME)
    except (ValueError, RecursionError) as error:
        raise invalid(f"the device config is no BMv2 JSON: {error}") from error
    except JsonError as error:
        raise invalid(f"the device config: {error}") from error
    schema = Schema(config.p4info, program)
    try:
        return Verified(config, schema, build_program(program))
    except (JsonError, CompilerFailed, RecursionError) as error:
        raise invalid(f"the device config: {error}") from error


def asks_switch(asked: p4r.Entity) -> bool:
    """Whether what is asked for is kept by the switch, so that no packet may move while it is read."""
    match asked.WhichOneof("entity"):
        case "table_entry":
            return asked.table_entry.HasField("counter_data") or asked.table_entry.HasField("time_since_last_hit")
        case "counter_entry" | "register_entry" | "direct_counter_entry":
            return True
    return False


class Pipeline:
    """One configuration on an instance."""

    def __init__(
        self,
        config: p4r.ForwardingPipelineConfig,
        schema: Schema,
        control: Control,
        switch: Replicator,
        ports: Collection[int],
        *,
        in_force: bool,
    ) -> None:
        self.config = config
        self.schema = schema
        self.replication = ReplicationStore(switch, ports, in_force)
        self.digests = DigestStore(schema)
        self._profiles = {number: ProfileStore(each, control) for number, each in schema.profiles.items()}
        self._tables = {
            number: TableStore(each, schema.program, control, self._profiles.get(each.profile))
            for number, each in schema.tables.items()
        }
        self._arrays = ArrayStore(schema, control)
        self._value_sets = ValueSetStore(schema, control)

    def apply(self, update: p4r.Update, now_ns: int) -> Undo:
        """Carry an update out, or raise Refusal and leave everything as it was."""
        kind, entity = update.type, update.entity
        if kind not in (p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE):
            raise invalid("an update inserts, modifies or deletes")
        match entity.WhichOneof("entity"):
            case "table_entry":
                return self._table(entity.table_entry.table_id).write(kind, entity.table_entry, now_ns)
            case "action_profile_member":
                member = entity.action_profile_member
                return self._profile(member.action_profile_id).write_member(kind, member)
            case "action_profile_group":
                group = entity.action_profile_group
                return self._profile(group.action_profile_id).write_group(kind, group)
            case "counter_entry":
                return self._arrays.write_counter(kind, entity.counter_entry)
            case "meter_entry":
                return self._arrays.write_meter(kind, entity.meter_entry)
            case "register_entry":
                return self._arrays.write_register(kind, entity.register_entry)
            case "direct_counter_entry":
                counter = entity.direct_counter_entry
                return self._table(counter.table_entry.table_id).write_counter(kind, counter)
            case "direct_meter_entry":
                meter = entity.direct_meter_entry
                return self._table(meter.table_entry.table_id).write_meter(kind, meter)
            case "packet_replication_engine_entry":
                return self.replication.write(kind, entity.packet_replication_engine_entry)
            case "value_set_entry":
                return self._value_sets.write(kind, entity.value_set_entry)
            case "digest_entry":
                return self.digests.write(kind, entity.digest_entry)
            case "extern_entry":
                raise unsupported("externs of one's own")
        raise invalid("an update without an entity")

    def read(self, asked: p4r.Entity, now_ns: int) -> Iterator[p4r.Entity]:
        """What a request of a ReadRequest asks for. Raises Refusal, maybe after some."""
        match asked.WhichOneof("entity"):
            case "table_entry":
                for table in self._tables_of(asked.table_entry.table_id):
                    yield from table.read(asked.table_entry, now_ns)
            case "action_profile_member":
                member = asked.action_profile_member
                for profile in self._profiles_of(member.action_profile_id):
                    yield from profile.members(member.member_id)
            case "action_profile_group":
                group = asked.action_profile_group
                for profile in self._profiles_of(group.action_profile_id):
                    yield from profile.groups(group.group_id)
            case "counter_entry":
                yield from self._arrays.counters(asked.counter_entry)
            case "meter_entry":
                yield from self._arrays.meters(asked.meter_entry)
            case "register_entry":
                yield from self._arrays.registers(asked.register_entry)
            case "direct_counter_entry":
                named = asked.direct_counter_entry.table_entry
                for table in self._tables_of(named.table_id):
                    if table.schema.counter:
                        yield from table.direct_counters(named)
                    elif named.table_id:
                        raise invalid(f"table {table.schema.name} has no direct counter")
            case "direct_meter_entry":
                named = asked.direct_meter_entry.table_entry
                for table in self._tables_of(named.table_id):
                    if table.schema.meter:
                        yield from table.direct_meters(named)
                    elif named.table_id:
                        raise invalid(f"table {table.schema.name} has no direct meter")
            case "packet_replication_engine_entry":
                yield from self.replication.read(asked.packet_replication_engine_entry)
            case "value_set_entry":
                yield from self._value_sets.read(asked.value_set_entry)
            case "digest_entry":
                yield from self.digests.read(asked.digest_entry)
            case "extern_entry":
                raise unsupported("externs of one's own")
            case _:
                raise invalid("a request without an entity")

    def state(self) -> Iterator[p4r.Update]:
        """The updates that make a fresh pipeline what this one is, each after those that it needs."""
        insert, modify = p4r.Update.INSERT, p4r.Update.MODIFY
        for profile in self._profiles.values():
            for entity in (*profile.members(0), *profile.groups(0)):
                yield p4r.Update(type=insert, entity=entity)
        for table in self._tables.values():
            yield from table.state()
        for entity in self._arrays.counters(p4r.CounterEntry()):
            if entity.counter_entry.data.packet_count or entity.counter_entry.data.byte_count:
                yield p4r.Update(type=modify, entity=entity)
        for entity in self._arrays.meters(p4r.MeterEntry()):
            if entity.meter_entry.HasField("config"):
                yield p4r.Update(type=modify, entity=entity)
        for entity in self._arrays.written_registers():
            yield p4r.Update(type=modify, entity=entity)
        for entity in self._value_sets.read(p4r.ValueSetEntry()):
            if entity.value_set_entry.members:
                yield p4r.Update(type=modify, entity=entity)
        groups, sessions = p4r.MulticastGroupEntry(), p4r.CloneSessionEntry()
        for asked in (
            p4r.PacketReplicationEngineEntry(multicast_group_entry=groups),
            p4r.PacketReplicationEngineEntry(clone_session_entry=sessions),
        ):
            for entity in self.replication.read(asked):
                yield p4r.Update(type=insert, entity=entity)
        for entity in self.digests.read(p4r.DigestEntry()):
            yield p4r.Update(type=insert, entity=entity)

    def held(self, table: str) -> list[HeldEntry]:
        """The entries of a table that is called so behind the last dot; none if there is no such table."""
        named = (each for each in self._tables.values() if each.schema.name.rpartition(".")[2] == table)
        return [entry for each in named for entry in each.held()]

    @property
    def shortest_timeout_ns(self) -> int | None:
        """How soon an entry may be idle, where it has to be seen whether entries are hit; None: there are none."""
        aging = [table for table in self._tables.values() if table.schema.idle and table.entries]
        return min((table.shortest_timeout_ns for table in aging), default=None)

    def idle(self, now_ns: int, epoch_ns: int) -> p4r.IdleTimeoutNotification | None:
        """Look which entries are hit; what is to be told of those that are not."""
        told = [e for table in self._tables.values() if table.schema.idle for e in table.idle(now_ns)]
        return p4r.IdleTimeoutNotification(table_entry=told, timestamp=epoch_ns) if told else None

    def _table(self, number: int) -> TableStore:
        if number not in self._tables:
            raise invalid(f"there is no table {number:#x}")
        return self._tables[number]

    def _tables_of(self, number: int) -> list[TableStore]:
        return [self._table(number)] if number else list(self._tables.values())

    def _profile(self, number: int) -> ProfileStore:
        if number not in self._profiles:
            raise invalid(f"there is no action profile {number:#x}")
        return self._profiles[number]

    def _profiles_of(self, number: int) -> list[ProfileStore]:
        return [self._profile(number)] if number else list(self._profiles.values())
