"""Matches and actions: from P4Runtime's messages to what a switch's control plane takes, and back in canonical form."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from finsy.proto import p4r
from grpc import StatusCode

from testbed.dataplane import bmv2model
from testbed.dataplane.native.control import ActionCall, FieldMatch
from testbed.dataplane.p4runtime.refusal import Refusal, invalid, unsupported
from testbed.dataplane.p4runtime.schema import Action, Field, Table
from testbed.dataplane.p4runtime.values import number, shortest

Match = tuple[FieldMatch | None, ...]  # None: whatever it is


@dataclass(frozen=True, slots=True)
class Direct:
    """An action of a table without action profile: its id, and what the switch is told."""

    id: int
    call: ActionCall


def decode_match(fields: Sequence[Field], given: Iterable[p4r.FieldMatch], what: str) -> Match:
    """The key's fields in order. Raises Refusal for what P4Runtime's match format forbids."""
    places = {each.id: place for place, each in enumerate(fields)}
    match: list[FieldMatch | None] = [None] * len(fields)
    for message in given:
        place = places.get(message.field_id)
        if place is None or match[place] is not None:
            raise invalid(f"{what}: a match field {message.field_id} that is not one of the table's, or comes twice")
        match[place] = _decode_field(fields[place], message, f"{what}: {fields[place].name}")
    for each, found in zip(fields, match, strict=True):
        if found is None and each.kind == "exact":
            raise invalid(f"{what}: {each.name}: an exact field needs a value")
    return tuple(match)


def _decode_field(field: Field, message: p4r.FieldMatch, what: str) -> FieldMatch:
    bits, ones = field.bits, (1 << field.bits) - 1
    if message.WhichOneof("field_match_type") != field.kind:
        raise invalid(f"{what}: it is matched as {field.kind}")
    match field.kind:
        case "exact":
            return FieldMatch(number(message.exact.value, bits, what))
        case "optional":
            return FieldMatch(number(message.optional.value, bits, what), mask=ones)
        case "lpm":
            value, prefix = number(message.lpm.value, bits, what), message.lpm.prefix_len
            if not 0 < prefix <= bits:
                raise invalid(f"{what}: a prefix of {prefix} bits (one of 0 is left out)")
            if value & ones >> prefix:
                raise invalid(f"{what}: bits behind the prefix are not 0")
            return FieldMatch(value, prefix=prefix)
        case "ternary":
            value, mask = number(message.ternary.value, bits, what), number(message.ternary.mask, bits, what)
            if not mask or value & ~mask:
                raise invalid(f"{what}: a mask of 0 is left out, and bits that are masked are 0")
            return FieldMatch(value, mask=mask)
        case "range":
            low, high = number(message.range.low, bits, what), number(message.range.high, bits, what)
            if low > high or (low, high) == (0, ones):
                raise invalid(f"{what}: a range goes up, and one of everything is left out")
            return FieldMatch(low, high=high)


def encode_match(fields: Sequence[Field], match: Match) -> list[p4r.FieldMatch]:
    pairs = zip(fields, match, strict=True)
    return [_encode_field(field, found) for field, found in pairs if found is not None]


def _encode_field(field: Field, match: FieldMatch) -> p4r.FieldMatch:
    message, value = p4r.FieldMatch(field_id=field.id), shortest(match.value)
    match field.kind:
        case "exact":
            message.exact.value = value
        case "optional":
            message.optional.value = value
        case "lpm":
            message.lpm.value = value
            message.lpm.prefix_len = match.prefix or 0
        case "ternary":
            message.ternary.value = value
            message.ternary.mask = shortest(match.mask or 0)
        case "range":
            message.range.low = value
            message.range.high = shortest(match.high or 0)
    return message


def decode_action(actions: Mapping[int, Action], allowed: frozenset[int], given: p4r.Action, what: str) -> ActionCall:
    """Raises Refusal: PERMISSION_DENIED for an action that is out of its scope here."""
    action = actions.get(given.action_id)
    if action is None:
        raise invalid(f"{what}: there is no action {given.action_id:#x}")
    if given.action_id not in allowed:
        raise Refusal(StatusCode.PERMISSION_DENIED, f"{what}: {action.name} is not for such an entry")
    values = {each.param_id: each.value for each in given.params}
    if len(values) != len(given.params) or values.keys() != action.ids:
        raise invalid(f"{what}: {action.name} takes the parameters {[each.id for each in action.parameters]}")
    arguments = {p.own: number(values[p.id], p.bits, f"{what}: {action.name}: {p.name}") for p in action.parameters}
    return ActionCall(action.name, arguments)


def encode_action(action: Action, call: ActionCall) -> p4r.Action:
    arguments = call.arguments or {}
    message = p4r.Action(action_id=action.id)
    for each in action.parameters:
        message.params.add(param_id=each.id, value=shortest(arguments[each.own]))
    return message


def told(table: Table, action: Direct) -> p4r.TableAction:
    """As a client is told it."""
    return p4r.TableAction(action=encode_action(table.actions[action.id], action.call))


def written(table: Table, program: bmv2model.Program, action: int, data: Sequence[int]) -> Direct:
    """An action that the program calls, by its number there."""
    own = program.actions[action]
    schema = next(each for each in table.actions.values() if each.name == own.name)
    arguments = {name: value for (name, _), value in zip(own.parameters, data, strict=True)}
    return Direct(schema.id, ActionCall(own.name, arguments))


def is_asked(entry: p4r.TableEntry, asked: p4r.TableEntry) -> bool:
    """Whether an entry is what a request filters by, whatever its match."""
    if asked.HasField("action"):
        if asked.action.WhichOneof("type") != "action":
            raise unsupported("entries filtered by members or groups")
        if entry.action.action.action_id != asked.action.action.action_id:
            return False
    return (
        asked.priority in (0, entry.priority)
        and asked.controller_metadata in (0, entry.controller_metadata)
        and asked.metadata in (b"", entry.metadata)
    )
