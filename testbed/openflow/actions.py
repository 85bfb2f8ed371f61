"""Where a flow or a bucket sends packets: instructions and actions, as far as a forwarding entry can say it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from testbed.openflow.numbers import (
    GROUP_ANY,
    Action,
    BadAction,
    BadInstruction,
    GroupModFailed,
    Instruction,
    ReservedPort,
)
from testbed.openflow.wire import Refusal, unpack

_HEAD = Struct("!HH")
_OUTPUT = Struct("!HHIH6x")
_GROUP = Struct("!HHI")
_TTL_BYTES = 8
_ACTIONS_OFFSET = 8  # of instructions with actions
_BUCKET = Struct("!HHII4x")


@dataclass(frozen=True, slots=True)
class Target:
    """One port (by OpenFlow's number), one group, or nothing: dropped."""

    port: int | None = None
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Bucket:
    """A group's bucket; `port` None: what comes here is dropped."""

    weight: int
    port: int | None


def decode_instructions(data: bytes) -> Target:
    """Where a flow leads. Raises Refusal for what the programs cannot do."""
    targets: list[Target] = []
    for kind, instruction in _elements(data, BadInstruction.BAD_LEN):
        if kind in (Instruction.APPLY_ACTIONS, Instruction.WRITE_ACTIONS):
            targets += decode_actions(instruction[_ACTIONS_OFFSET:])
        elif kind == Instruction.GOTO_TABLE:
            raise Refusal(BadInstruction.BAD_TABLE_ID)
        elif kind == Instruction.EXPERIMENTER:
            raise Refusal(BadInstruction.BAD_EXPERIMENTER)
        elif kind in (Instruction.WRITE_METADATA, Instruction.METER):
            raise Refusal(BadInstruction.UNSUP_INST)
        elif kind != Instruction.CLEAR_ACTIONS:
            raise Refusal(BadInstruction.UNKNOWN_INST)
    if len(targets) > 1:
        raise Refusal(BadAction.TOO_MANY)
    return targets[0] if targets else Target()


def decode_actions(data: bytes) -> list[Target]:
    """Where a list of actions sends copies, in order."""
    targets = []
    for kind, action in _elements(data, BadAction.BAD_LEN):
        if kind == Action.OUTPUT:
            targets.append(Target(port=_exactly(_OUTPUT, action)[2]))
        elif kind == Action.GROUP:
            targets.append(Target(group=_exactly(_GROUP, action)[2]))
        elif kind == Action.DEC_NW_TTL:
            if len(action) != _TTL_BYTES:
                raise Refusal(BadAction.BAD_LEN)
        elif kind == Action.SET_FIELD:
            raise Refusal(BadAction.BAD_SET_TYPE)
        elif kind == Action.EXPERIMENTER:
            raise Refusal(BadAction.BAD_EXPERIMENTER)
        else:
            raise Refusal(BadAction.BAD_TYPE)
    return targets


def decode_buckets(data: bytes) -> list[Bucket]:
    """A group's buckets, each with at most one port."""
    buckets, offset = [], 0
    while offset < len(data):
        length, weight, watch_port, watch_group = unpack(_BUCKET, data, offset, GroupModFailed.BAD_BUCKET)
        if length < _BUCKET.size or length % 8 or offset + length > len(data):
            raise Refusal(GroupModFailed.BAD_BUCKET)
        # Zero is no port; there are apps that write it for "none".
        if watch_port not in (ReservedPort.ANY, 0) or watch_group not in (GROUP_ANY, 0):
            raise Refusal(GroupModFailed.WATCH_UNSUPPORTED)
        targets = decode_actions(data[offset + _BUCKET.size : offset + length])
        if len(targets) > 1:
            raise Refusal(BadAction.TOO_MANY)
        if targets and targets[0].group is not None:
            raise Refusal(GroupModFailed.CHAINING_UNSUPPORTED)
        buckets.append(Bucket(weight, targets[0].port if targets else None))
        offset += length
    return buckets


def _elements(data: bytes, wrong: IntEnum) -> Iterator[tuple[int, bytes]]:
    """Type and bytes of each element of a list; their lengths are multiples of eight."""
    offset = 0
    while offset < len(data):
        kind, length = unpack(_HEAD, data, offset, wrong)
        if length < 8 or length % 8 or offset + length > len(data):
            raise Refusal(wrong)
        yield kind, data[offset : offset + length]
        offset += length


def _exactly(layout: Struct, action: bytes) -> tuple[int, ...]:
    if len(action) != layout.size:
        raise Refusal(BadAction.BAD_LEN)
    return layout.unpack(action)
