"""Action profiles: members and groups by the client's numbers, and those that one-shot entries bring along."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from finsy.proto import p4r
from grpc import StatusCode

from testbed.dataplane.native.control import ActionCall, Control
from testbed.dataplane.p4runtime.messages import decode_action, encode_action
from testbed.dataplane.p4runtime.refusal import Refusal, invalid, missing, refusing, unsupported
from testbed.dataplane.p4runtime.schema import Profile
from testbed.dataplane.p4runtime.undo import Undo

_MOST_OF_GROUP = 1 << 16  # weights of a group together: the switch keeps each member as often as it weighs
_GROUPS = 1 << 16  # their numbers in a switch


@dataclass(slots=True)
class _Member:
    own: int  # its number in the switch
    action: p4r.Action
    call: ActionCall


@dataclass(slots=True)
class _Group:
    own: int
    message: p4r.ActionProfileGroup

    @property
    def members(self) -> set[int]:
        return {member.member_id for member in self.message.members}


@dataclass(frozen=True, slots=True)
class OneShot:
    """A group that belongs to one entry, with its members: numbers in the switch."""

    group: int
    members: tuple[int, ...]


@dataclass(slots=True)
class ProfileStore:
    """One profile. What entries of tables refer to is counted by these: `used_members`, `used_groups`, `one_shots`."""

    schema: Profile
    control: Control
    used_members: Counter[int] = field(default_factory=Counter)
    used_groups: Counter[int] = field(default_factory=Counter)
    one_shots: int = 0
    _members: dict[int, _Member] = field(default_factory=dict)
    _groups: dict[int, _Group] = field(default_factory=dict)
    _free_groups: list[int] = field(default_factory=lambda: list(range(_GROUPS - 1, -1, -1)))

    # Members

    def write_member(self, kind: int, message: p4r.ActionProfileMember) -> Undo:
        number, what = message.member_id, f"{self.schema.name}: member {message.member_id}"
        if number == 0:
            raise invalid(f"{self.schema.name}: a member's number is not 0")
        held = self._members.get(number)
        if kind == p4r.Update.DELETE:
            if held is None:
                raise missing(f"{what} is not there")
            if self.used_members[number] or any(number in group.members for group in self._groups.values()):
                raise Refusal(StatusCode.FAILED_PRECONDITION, f"{what} is used by a group or an entry")
            self._remove(number)
            return lambda: self._add(number, held.action, held.call)
        call = self._decode(message.action, message.HasField("action"), what)
        action = encode_action(self.schema.actions[message.action.action_id], call)
        if kind == p4r.Update.INSERT:
            if self.one_shots:
                raise invalid(f"{what}: entries of this profile are programmed by one shot")
            if held is not None:
                raise Refusal(StatusCode.ALREADY_EXISTS, f"{what} is there already")
            self._add(number, action, call)
            return lambda: self._remove(number)
        if held is None:
            raise missing(f"{what} is not there")
        before = held.action, held.call
        self._modify(held, action, call)
        return lambda: self._modify(held, *before)

    def _add(self, number: int, action: p4r.Action, call: ActionCall) -> None:
        with refusing():
            self._members[number] = _Member(self.control.add_member(self.schema.name, call), action, call)

    def _modify(self, member: _Member, action: p4r.Action, call: ActionCall) -> None:
        with refusing():
            self.control.modify_member(self.schema.name, member.own, call)
        member.action, member.call = action, call

    def _remove(self, number: int) -> None:
        with refusing():
            self.control.remove_member(self.schema.name, self._members[number].own)
        del self._members[number]

    def _decode(self, action: p4r.Action, given: bool, what: str) -> ActionCall:
        if not given:
            raise invalid(f"{what}: an action is wanted")
        return decode_action(self.schema.actions, frozenset(self.schema.actions), action, what)

    # Groups

    def write_group(self, kind: int, message: p4r.ActionProfileGroup) -> Undo:
        number, what = message.group_id, f"{self.schema.name}: group {message.group_id}"
        if not self.schema.selects:
            raise invalid(f"{self.schema.name} has no selector, and so no groups")
        if number == 0:
            raise invalid(f"{self.schema.name}: a group's number is not 0")
        held = self._groups.get(number)
        if kind == p4r.Update.DELETE:
            if held is None:
                raise missing(f"{what} is not there")
            if self.used_groups[number]:
                raise Refusal(StatusCode.FAILED_PRECONDITION, f"{what} is used by an entry")
            self._remove_group(number)
            return lambda: self._set_group(held.message)
        self._check_group(message, what)
        if kind == p4r.Update.INSERT:
            if self.one_shots:
                raise invalid(f"{what}: entries of this profile are programmed by one shot")
            if held is not None:
                raise Refusal(StatusCode.ALREADY_EXISTS, f"{what} is there already")
            self._set_group(message)
            return lambda: self._remove_group(number)
        if held is None:
            raise missing(f"{what} is not there")
        if message.max_size != held.message.max_size:
            raise invalid(f"{what}: its max_size was {held.message.max_size} and stays so")
        before = held.message
        self._set_group(message)
        return lambda: self._set_group(before)

    def _check_group(self, message: p4r.ActionProfileGroup, what: str) -> None:
        most = self.schema.most_of_group
        if message.max_size < 0 or (most and not 0 < message.max_size <= most):
            raise invalid(
                f"{what}: a max_size of {message.max_size}, where P4Info allows {most or 'what is not negative'}"
            )
        numbers = [member.member_id for member in message.members]
        if len(set(numbers)) != len(numbers):
            raise invalid(f"{what}: a member comes twice; it has a weight instead")
        for member in message.members:
            if member.member_id not in self._members:
                raise missing(f"{what}: there is no member {member.member_id}")
        self._check_weights(message.members, message.max_size or most, what)

    def _check_weights(
        self, members: Sequence[p4r.ActionProfileGroup.Member | p4r.ActionProfileAction], most: int, what: str
    ) -> None:
        for member in members:
            if member.WhichOneof("watch_kind") is not None:
                raise unsupported(f"{what}: watch ports")
            if (member.weight < 1) if self.schema.weighted else member.weight:
                raise invalid(f"{what}: a weight of {member.weight}")
        size = sum(max(member.weight, 1) for member in members)
        if most and size > most:
            raise invalid(f"{what}: weights of {size}, where at most {most} are allowed")
        if size > _MOST_OF_GROUP:
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, f"{what}: weights of {size}; at most {_MOST_OF_GROUP}")

    def _set_group(self, message: p4r.ActionProfileGroup) -> None:
        held = self._groups.get(message.group_id)
        own = self._take_group() if held is None else held.own
        copy = p4r.ActionProfileGroup()
        copy.CopyFrom(message)
        copies = [self._members[m.member_id].own for m in message.members for _ in range(max(m.weight, 1))]
        with refusing():
            self.control.set_group(self.schema.name, own, copies)
        self._groups[message.group_id] = _Group(own, copy)

    def _remove_group(self, number: int) -> None:
        own = self._groups.pop(number).own
        with refusing():
            self.control.remove_group(self.schema.name, own)
        self._free_groups.append(own)

    def _take_group(self) -> int:
        if not self._free_groups:
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, f"{self.schema.name}: there are {_GROUPS} groups already")
        return self._free_groups.pop()

    # What entries refer to

    def member_call(self, number: int) -> ActionCall:
        if number not in self._members:
            raise missing(f"{self.schema.name}: there is no member {number}")
        return ActionCall(member=self._members[number].own)

    def group_call(self, number: int) -> ActionCall:
        if not self.schema.selects:
            raise invalid(f"{self.schema.name} has no selector, and so no groups")
        if number not in self._groups:
            raise missing(f"{self.schema.name}: there is no group {number}")
        return ActionCall(group=self._groups[number].own)

    def check_set(self, message: p4r.ActionProfileActionSet, what: str) -> p4r.ActionProfileActionSet:
        """A one-shot action set in canonical form. Raises Refusal."""
        if not self.schema.selects:
            raise invalid(f"{what}: {self.schema.name} has no selector")
        if self._members or self._groups:
            raise invalid(f"{what}: {self.schema.name} is programmed by members and groups")
        if message.action_selection_mode == p4r.ActionProfileActionSet.RANDOM:
            raise unsupported(f"{what}: selection at random")
        if message.size_semantics == p4r.ActionProfileActionSet.SUM_OF_MEMBERS:
            raise unsupported(f"{what}: sizes by members")
        self._check_weights(message.action_profile_actions, self.schema.most_of_group, what)
        canonical = p4r.ActionProfileActionSet()
        canonical.CopyFrom(message)
        for each in canonical.action_profile_actions:
            call = self._decode(each.action, each.HasField("action"), what)
            each.action.CopyFrom(encode_action(self.schema.actions[each.action.action_id], call))
        return canonical

    def add_set(self, message: p4r.ActionProfileActionSet) -> OneShot:
        """Members and a group for a canonical set; all or nothing."""
        own = self._take_group()
        members: list[int] = []
        copies: list[int] = []
        try:
            with refusing():
                for each in message.action_profile_actions:
                    call = self._decode(each.action, True, self.schema.name)
                    members.append(self.control.add_member(self.schema.name, call))
                    copies += [members[-1]] * max(each.weight, 1)
                self.control.set_group(self.schema.name, own, copies)
        except Refusal:
            self._drop(members)
            self._free_groups.append(own)
            raise
        self.one_shots += 1
        return OneShot(own, tuple(members))

    def remove_set(self, one_shot: OneShot) -> None:
        self.one_shots -= 1
        with refusing():
            self.control.remove_group(self.schema.name, one_shot.group)
        self._free_groups.append(one_shot.group)
        self._drop(one_shot.members)

    def _drop(self, members: Sequence[int]) -> None:
        for member in members:
            with refusing():
                self.control.remove_member(self.schema.name, member)

    # Reading

    def members(self, number: int) -> Iterator[p4r.Entity]:
        """One member, or all of them."""
        if number and number not in self._members:
            raise missing(f"{self.schema.name}: there is no member {number}")
        for each in [number] if number else list(self._members):
            message = p4r.ActionProfileMember(action_profile_id=self.schema.id, member_id=each)
            message.action.CopyFrom(self._members[each].action)
            yield p4r.Entity(action_profile_member=message)

    def groups(self, number: int) -> Iterator[p4r.Entity]:
        if number and number not in self._groups:
            raise missing(f"{self.schema.name}: there is no group {number}")
        for each in [number] if number else list(self._groups):
            yield p4r.Entity(action_profile_group=self._groups[each].message)
