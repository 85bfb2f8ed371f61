"""The requests of a controller that have more to them than a number: flow mods, group mods, packet-outs, selections."""

from dataclasses import dataclass
from struct import Struct

from testbed.openflow.actions import Bucket, Target, decode_actions, decode_buckets, decode_instructions
from testbed.openflow.match import Match, decode_match
from testbed.openflow.numbers import (
    GROUP_ANY,
    NO_BUFFER,
    TABLE_ALL,
    BadAction,
    BadRequest,
    FlowCommand,
    FlowFlag,
    FlowModFailed,
    GroupCommand,
    GroupModFailed,
    GroupType,
    ReservedPort,
)
from testbed.openflow.wire import Refusal, unpack

_FLOW_MOD = Struct("!QQBBHHHIIIH2x")
_GROUP_MOD = Struct("!HBxI")
_PACKET_OUT = Struct("!IIH6x")
_SELECTION = Struct("!B3xII4xQQ")
_ALL_FLAGS = sum(FlowFlag)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which flows are meant: those that `match` covers, further narrowed down (a cookie_mask of 0: by no cookie)."""

    match: Match
    cookie: int
    cookie_mask: int
    out_port: int
    out_group: int

    def wants(self, match: Match, cookie: int, target: Target) -> bool:
        return (
            self.match.covers(match)
            and not (cookie ^ self.cookie) & self.cookie_mask
            and self.out_port in (ReservedPort.ANY, target.port)
            and self.out_group in (GROUP_ANY, target.group)
        )


@dataclass(frozen=True, slots=True)
class FlowMod:
    """A change to the flows; `target` and `instructions` (as on the wire) are of ADD and MODIFY only."""

    command: FlowCommand
    selection: Selection
    priority: int
    flags: int
    target: Target
    instructions: bytes


@dataclass(frozen=True, slots=True)
class GroupMod:
    """A change to the groups; `wire` is its buckets as they came."""

    command: GroupCommand
    type: GroupType
    group: int
    buckets: tuple[Bucket, ...]
    wire: bytes


@dataclass(frozen=True, slots=True)
class PacketOut:
    """A frame and where copies of it go."""

    in_port: int
    targets: tuple[Target, ...]
    frame: bytes


def decode_flow_mod(body: bytes) -> FlowMod:
    (
        cookie, cookie_mask, table, command, idle, hard, priority, buffer, out_port, out_group, flags,
    ) = unpack(_FLOW_MOD, body, 0, BadRequest.BAD_LEN)  # fmt: skip
    match, end = decode_match(body, _FLOW_MOD.size, BadRequest.BAD_LEN)
    if command not in set(FlowCommand):
        raise Refusal(FlowModFailed.BAD_COMMAND)
    deletes = command in (FlowCommand.DELETE, FlowCommand.DELETE_STRICT)
    if table != 0 and not (deletes and table == TABLE_ALL):
        raise Refusal(FlowModFailed.BAD_TABLE_ID)
    if deletes:
        selection = Selection(match, cookie, cookie_mask, out_port, out_group)
        return FlowMod(FlowCommand(command), selection, priority, flags, Target(), b"")
    if flags & ~_ALL_FLAGS:
        raise Refusal(FlowModFailed.BAD_FLAGS)
    if idle or hard:
        raise Refusal(FlowModFailed.BAD_TIMEOUT)
    if buffer != NO_BUFFER:
        raise Refusal(BadRequest.BUFFER_UNKNOWN)
    selection = Selection(match, cookie, cookie_mask, ReservedPort.ANY, GROUP_ANY)
    target = decode_instructions(body[end:])
    return FlowMod(FlowCommand(command), selection, priority, flags, target, body[end:])


def decode_group_mod(body: bytes) -> GroupMod:
    command, of_type, group = unpack(_GROUP_MOD, body, 0, BadRequest.BAD_LEN)
    if command not in set(GroupCommand):
        raise Refusal(GroupModFailed.BAD_COMMAND)
    if command == GroupCommand.DELETE:
        return GroupMod(GroupCommand.DELETE, GroupType.ALL, group, (), b"")
    if of_type not in (GroupType.SELECT, GroupType.INDIRECT, GroupType.ALL):
        raise Refusal(GroupModFailed.BAD_TYPE)
    wire = body[_GROUP_MOD.size :]
    buckets = tuple(decode_buckets(wire))
    if of_type != GroupType.SELECT:
        buckets = tuple(Bucket(1, bucket.port) for bucket in buckets)  # only there have weights a meaning
    if of_type == GroupType.INDIRECT and len(buckets) != 1:
        raise Refusal(GroupModFailed.BAD_BUCKET)
    if of_type == GroupType.ALL and len(buckets) > 1:
        raise Refusal(GroupModFailed.BAD_TYPE)  # the programs make no copies
    return GroupMod(GroupCommand(command), GroupType(of_type), group, buckets, wire)


def decode_packet_out(body: bytes) -> PacketOut:
    buffer, in_port, length = unpack(_PACKET_OUT, body, 0, BadRequest.BAD_LEN)
    if buffer != NO_BUFFER:
        raise Refusal(BadRequest.BUFFER_UNKNOWN)
    actions, frame = body[_PACKET_OUT.size : _PACKET_OUT.size + length], body[_PACKET_OUT.size + length :]
    if len(actions) < length:
        raise Refusal(BadAction.BAD_LEN)
    return PacketOut(in_port, tuple(decode_actions(actions)), frame)


def decode_selection(body: bytes) -> Selection | None:
    """Of a request for flow or aggregate statistics; None: of a table that does not exist, which has no flows."""
    table, out_port, out_group, cookie, cookie_mask = unpack(_SELECTION, body, 0, BadRequest.BAD_LEN)
    match, _ = decode_match(body, _SELECTION.size, BadRequest.BAD_LEN)
    return Selection(match, cookie, cookie_mask, out_port, out_group) if table in (0, TABLE_ALL) else None
