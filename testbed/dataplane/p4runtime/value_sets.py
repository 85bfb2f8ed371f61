"""Value sets of parsers: all members of one are written at once."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from finsy.proto import p4r
from grpc import StatusCode

from testbed.dataplane.native.control import Control
from testbed.dataplane.p4runtime.messages import Match, decode_match, encode_match
from testbed.dataplane.p4runtime.refusal import Refusal, invalid, refusing, unsupported
from testbed.dataplane.p4runtime.schema import Schema, ValueSet
from testbed.dataplane.p4runtime.undo import Undo


@dataclass(slots=True)
class ValueSetStore:
    schema: Schema
    control: Control
    _members: dict[int, tuple[Match, ...]] = field(default_factory=dict)

    def write(self, kind: int, message: p4r.ValueSetEntry) -> Undo:
        own = self.schema.value_sets.get(message.value_set_id)
        if own is None:
            raise invalid(f"there is no value set {message.value_set_id:#x}")
        if kind != p4r.Update.MODIFY:
            raise invalid(f"value set {own.name}: it is there always, and is modified only")
        members = tuple(decode_match(own.fields, each.match, own.name) for each in message.members)
        if any(each.kind == "range" for each in own.fields):
            raise unsupported(f"value set {own.name}: ranges")
        if len(set(members)) != len(members):
            raise Refusal(StatusCode.ALREADY_EXISTS, f"value set {own.name}: a member comes twice")
        if len(members) > own.size:
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, f"value set {own.name}: it has room for {own.size}")
        before = self._members.get(own.id, ())
        self._set(own, members)
        return lambda: self._set(own, before)

    def _set(self, own: ValueSet, members: tuple[Match, ...]) -> None:
        with refusing():
            self.control.clear_value_set(own.name)
            for member in members:
                parts = []
                for each, match in zip(own.fields, member, strict=True):
                    ones = (1 << each.bits) - 1
                    value, mask = (match.value, match.mask) if match is not None else (0, 0)
                    if match is not None and match.prefix is not None:
                        mask = ones ^ ones >> match.prefix
                    parts.append((value, ones if mask is None else mask, each.bits))
                self.control.add_fields_to_value_set(own.name, parts)
        self._members[own.id] = members

    def read(self, asked: p4r.ValueSetEntry) -> Iterator[p4r.Entity]:
        if asked.value_set_id and asked.value_set_id not in self.schema.value_sets:
            raise invalid(f"there is no value set {asked.value_set_id:#x}")
        for number in [asked.value_set_id] if asked.value_set_id else list(self.schema.value_sets):
            own = self.schema.value_sets[number]
            message = p4r.ValueSetEntry(value_set_id=number)
            for member in self._members.get(number, ()):
                message.members.add(match=encode_match(own.fields, member))
            yield p4r.Entity(value_set_entry=message)
