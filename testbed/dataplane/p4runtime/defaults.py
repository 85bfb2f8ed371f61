"""A table's default entry: it is there always, and is changed or reset."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from finsy.proto import p4r
from grpc import StatusCode

from testbed.dataplane import bmv2model
from testbed.dataplane.native.control import Control
from testbed.dataplane.p4runtime.messages import Direct, decode_action, is_asked, told, written
from testbed.dataplane.p4runtime.refusal import Refusal, invalid, refusing, unsupported
from testbed.dataplane.p4runtime.schema import Table
from testbed.dataplane.p4runtime.undo import Undo


@dataclass(frozen=True, slots=True)
class _Default:
    """Without `action` it is the program's."""

    action: Direct | None = None
    metadata: bytes = b""
    controller_metadata: int = 0


@dataclass(slots=True)
class DefaultStore:
    schema: Table
    program: bmv2model.Program
    control: Control
    _held: _Default = field(default_factory=_Default)

    def write(self, kind: int, message: p4r.TableEntry, what: str) -> Undo:
        if kind != p4r.Update.MODIFY:
            raise invalid(f"{what}: the default entry is modified only")
        if message.match or message.priority or message.idle_timeout_ns:
            raise invalid(f"{what}: the default entry has no match, priority or timeout")
        if self.schema.profile:
            raise invalid(f"{what}: the default action of a table with an action profile is fixed")
        if message.HasField("counter_data") or message.HasField("meter_config"):
            raise unsupported(f"{what}: counters and meters of the default entry")
        if self.schema.default_fixed:
            raise Refusal(StatusCode.PERMISSION_DENIED, f"{what}: its default action is fixed by the program")
        wanted = _Default()
        if message.HasField("action"):
            if message.action.WhichOneof("type") != "action":
                raise invalid(f"{what}: an action is wanted")
            call = decode_action(self.schema.actions, self.schema.default_actions, message.action.action, what)
            action = Direct(message.action.action.action_id, call)
            wanted = _Default(action, message.metadata, message.controller_metadata)
        before = self._held
        self._set(wanted)
        return lambda: self._set(before)

    def _set(self, default: _Default) -> None:
        with refusing():
            self.control.set_default(self.schema.name, default.action.call if default.action is not None else None)
        self._held = default

    def read(self, asked: p4r.TableEntry) -> Iterator[p4r.Entity]:
        """The entry, if it is what a request asks for."""
        action, initial = self._held.action, self.schema.program.default
        if action is None and initial is not None:
            action = written(self.schema, self.program, *initial)
        message = p4r.TableEntry(table_id=self.schema.id, is_default_action=True)
        if action is not None:
            message.action.CopyFrom(told(self.schema, action))
        message.metadata, message.controller_metadata = self._held.metadata, self._held.controller_metadata
        if is_asked(message, asked):
            yield p4r.Entity(table_entry=message)

    def state(self) -> Iterator[p4r.Update]:
        """What makes a fresh one what this one is."""
        if self._held.action is not None:
            for entity in self.read(p4r.TableEntry()):
                yield p4r.Update(type=p4r.Update.MODIFY, entity=entity)
