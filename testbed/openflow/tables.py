"""A switch's flows and groups, and the forwarding entries that they come to.

OpenFlow takes the matching flow of the highest priority, a switch's tables take the longest matching prefix. The
prefixes that hold an address are a chain, so that the two agree once a flow is left out wherever one with a shorter
prefix has a higher priority: of what remains the longest is the highest. (Of equal priorities, where the specification
leaves it open, the longer prefix wins.)
"""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from testbed.dataplane.native.control import ControlError
from testbed.netcore import CPU_PORT
from testbed.openflow.actions import Bucket, Target
from testbed.openflow.device import AgentSwitch, Traffic
from testbed.openflow.match import Match, mask
from testbed.openflow.numbers import (
    GROUP_ALL,
    GROUP_MAX,
    BadAction,
    BadMatch,
    FlowCommand,
    FlowFlag,
    FlowModFailed,
    GroupCommand,
    GroupModFailed,
    GroupType,
    ReservedPort,
)
from testbed.openflow.requests import FlowMod, GroupMod, Selection
from testbed.openflow.wire import Refusal
from testbed.routing.model import MISS, Entry

# Half of what `routes` and `members` of p4/include/routing.p4 hold: old and new are there together while they change.
MOST_FLOWS = 32_768
MOST_MEMBERS = 32_768
MOST_GROUPS = 32_768
Prefix = tuple[int, int]  # address and length


@dataclass(slots=True)
class Counts:
    """What was counted up to the last `Tables.count`; a flow or a group that takes another's place has the same."""

    packets: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow as a controller gave it."""

    match: Match
    priority: int
    cookie: int
    flags: int
    target: Target
    instructions: bytes
    since_ns: int
    counts: Counts = field(default_factory=Counts)


@dataclass(frozen=True, slots=True)
class Group:
    """A group; `ports` are what its buckets come to, one of more weight being there more often."""

    type: GroupType
    ports: tuple[int, ...]
    wire: bytes  # the buckets as they came
    buckets: int
    since_ns: int
    counts: Counts = field(default_factory=Counts)


@dataclass(slots=True)
class _Installed:
    """What stands for a prefix, and how much of its entry's traffic has gone into the flow's counts."""

    flow: Flow
    group: Group | None
    entry: Entry
    packets: int = 0
    bytes: int = 0

    @property
    def default(self) -> bool:
        """Whether it is what the tables do with packets that they have no entry for: drop and count them."""
        return not self.flow.match.length and not self.entry.ports

    @property
    def counted_as(self) -> str:
        return MISS if self.default else self.entry.prefix


class Tables:
    """The flows and groups of one switch. Changes come into force by `commit`, all at once."""

    def __init__(self, switch: AgentSwitch) -> None:
        self.flows: dict[tuple[Match, int], Flow] = {}
        self.groups: dict[int, Group] = {}
        self.matched = 0  # packets, also of flows that are gone
        self.changed = False  # since the last commit
        self.asks_controller = False  # whether packets are sent there
        self._switch = switch
        self._ports = {port.number for port in switch.ports}
        self._installed: dict[Prefix, _Installed] = {}
        self._in_force: tuple[dict[tuple[Match, int], Flow], dict[int, Group]] = {}, {}  # since the last commit

    # Changes

    def change_flows(self, mod: FlowMod, now_ns: int) -> list[Flow]:
        """Carry a flow mod out; returns the flows that it removed. Raises Refusal, and nothing has changed then."""
        match mod.command:
            case FlowCommand.ADD:
                self._add(mod, now_ns)
                return []
            case FlowCommand.MODIFY | FlowCommand.MODIFY_STRICT:
                meant = self._meant(mod)
                for match in [mod.selection.match, *(flow.match for flow in meant)]:
                    self._check(match, mod.target)
                for flow in meant:
                    self._redirect(flow, mod)
                return []
            case _:
                return self._remove(self._meant(mod))

    def change_groups(self, mod: GroupMod, now_ns: int) -> list[Flow]:
        """Carry a group mod out; returns the flows that went with their group. Raises Refusal, as above."""
        if mod.command == GroupCommand.DELETE:
            gone = set(self.groups) if mod.group == GROUP_ALL else {mod.group} & set(self.groups)
            orphans = [flow for flow in self.flows.values() if flow.target.group in gone]
            for number in gone:
                del self.groups[number]
            return self._remove(orphans)
        old = self.groups.get(mod.group)
        if mod.group > GROUP_MAX:
            raise Refusal(GroupModFailed.INVALID_GROUP)
        if (old is None) == (mod.command == GroupCommand.MODIFY):
            raise Refusal(GroupModFailed.UNKNOWN_GROUP if old is None else GroupModFailed.GROUP_EXISTS)
        if old is None and len(self.groups) >= MOST_GROUPS:
            raise Refusal(GroupModFailed.OUT_OF_GROUPS)
        ports = self._ports_of(mod.buckets)
        others = sum(len(group.ports) for number, group in self.groups.items() if number != mod.group)
        if others + len(ports) > MOST_MEMBERS:
            raise Refusal(GroupModFailed.OUT_OF_BUCKETS)
        group = Group(mod.type, ports, mod.wire, len(mod.buckets), now_ns)
        self.groups[mod.group] = group if old is None else replace(group, since_ns=old.since_ns, counts=old.counts)
        self.changed = True
        return []

    def commit(self, held: Callable[[], AbstractContextManager[Any]]) -> None:
        """Bring what changed into force while packets stand still, for which `held` is there.

        Raises ControlError where the switch cannot hold it all: what changed since the last commit is taken back then.
        """
        installed = {prefix: self._standing(flow) for prefix, flow in self._visible().items()}
        with held():
            traffic = self.count()
            try:
                self._switch.forwarding.replace(_entries(installed))
            except ControlError:
                self._take_back()
                raise
            _count_from(installed, traffic)
        self._installed = installed
        self._in_force = dict(self.flows), dict(self.groups)
        self.asks_controller = any(CPU_PORT in entry.ports for entry in _entries(installed))
        self.changed = False

    def _take_back(self) -> None:
        """Be again as after the last commit; should that fail too, the next commit does it."""
        flows, groups = self._in_force
        self.flows, self.groups = dict(flows), dict(groups)
        self._switch.forwarding.replace(_entries(self._installed))
        _count_from(self._installed, self._switch.forwarding.traffic())  # anew for what was gone in between
        self.changed = False

    def count(self) -> Mapping[str, Traffic]:
        """Bring all counts up to date, while packets stand still; returns those of the entries."""
        traffic = self._switch.forwarding.traffic()
        for each in self._installed.values():
            packets, octets = _seen(traffic, each.counted_as)
            more, longer = packets - each.packets, octets - each.bytes
            each.packets, each.bytes = packets, octets
            self.matched += more
            for of in (each.flow, each.group):
                if of is not None:
                    of.counts.packets += more
                    of.counts.bytes += longer
        return traffic

    # Questions

    def selected(self, selection: Selection) -> list[Flow]:
        """The flows that are meant."""
        return [flow for flow in self.flows.values() if selection.wants(flow.match, flow.cookie, flow.target)]

    def flow_for(self, address: int) -> Flow | None:
        """The flow by which packets to an IPv4 address go."""
        chain = ((address & mask(length), length) for length in range(32, -1, -1))
        return next((self._installed[prefix].flow for prefix in chain if prefix in self._installed), None)

    # Flows

    def _add(self, mod: FlowMod, now_ns: int) -> None:
        match, cookie = mod.selection.match, mod.selection.cookie
        self._check(match, mod.target)
        old = self.flows.get((match, mod.priority))
        if mod.flags & FlowFlag.CHECK_OVERLAP and any(
            flow.priority == mod.priority and flow is not old and (match.covers(flow.match) or flow.match.covers(match))
            for flow in self.flows.values()
        ):
            raise Refusal(FlowModFailed.OVERLAP)
        if old is None:
            if len(self.flows) >= MOST_FLOWS:
                raise Refusal(FlowModFailed.TABLE_FULL)
            flow = Flow(match, mod.priority, cookie, mod.flags, mod.target, mod.instructions, now_ns)
            self.flows[match, mod.priority] = flow
            self.changed = True
        else:
            self._redirect(replace(old, cookie=cookie, flags=mod.flags, since_ns=now_ns), mod)

    def _redirect(self, flow: Flow, mod: FlowMod) -> None:
        """Have a flow, or what shall take its place, lead where a mod says; what it did not count yet is the old's."""
        counts = Counts() if mod.flags & FlowFlag.RESET_COUNTS else flow.counts
        self.flows[flow.match, flow.priority] = replace(
            flow, target=mod.target, instructions=mod.instructions, counts=counts
        )
        self.changed = True

    def _remove(self, flows: list[Flow]) -> list[Flow]:
        for flow in flows:
            del self.flows[flow.match, flow.priority]
        self.changed |= bool(flows)
        return flows

    def _meant(self, mod: FlowMod) -> list[Flow]:
        """The flows that a mod changes or removes."""
        if mod.command in (FlowCommand.MODIFY_STRICT, FlowCommand.DELETE_STRICT):
            one = self.flows.get((mod.selection.match, mod.priority))
            return [one] if one and mod.selection.wants(one.match, one.cookie, one.target) else []
        return self.selected(mod.selection)

    def _check(self, match: Match, target: Target) -> None:
        """Raise Refusal unless packets that match can go there."""
        if target.port not in (None, ReservedPort.CONTROLLER, *self._ports):
            raise Refusal(BadAction.BAD_OUT_PORT)
        if target.group is not None and target.group not in self.groups:
            raise Refusal(BadAction.BAD_OUT_GROUP)
        if not match.ipv4 and target not in (Target(), Target(port=ReservedPort.CONTROLLER)):
            raise Refusal(BadMatch.BAD_WILDCARDS)

    # Entries

    def _ports_of(self, buckets: Iterable[Bucket]) -> tuple[int, ...]:
        """The ports among which a group chooses with equal chances."""
        chosen = [bucket for bucket in buckets if bucket.weight]
        if all(bucket.port is None for bucket in chosen):
            return ()
        if any(bucket.port is None for bucket in chosen):
            raise Refusal(GroupModFailed.BAD_BUCKET)
        if any(bucket.port not in (*self._ports, ReservedPort.CONTROLLER) for bucket in chosen):
            raise Refusal(BadAction.BAD_OUT_PORT)
        unit = math.gcd(*(bucket.weight for bucket in chosen))
        if sum(bucket.weight for bucket in chosen) > unit * MOST_MEMBERS:
            raise Refusal(GroupModFailed.OUT_OF_BUCKETS)
        return tuple(p for b in chosen if (p := b.port) is not None for _ in range(b.weight // unit))

    def _visible(self) -> dict[Prefix, Flow]:
        """The flows that are the highest for some packets, but for those that are hidden by several longer ones."""
        best: dict[Prefix, Flow] = {}
        for flow in self.flows.values():
            prefix = flow.match.address, flow.match.length
            held = best.get(prefix)
            if held is None or (held.priority, held.match.ipv4) < (flow.priority, flow.match.ipv4):
                best[prefix] = flow
        lengths = sorted({length for _, length in best})
        return {
            (address, length): flow
            for (address, length), flow in best.items()
            if all(
                above.priority <= flow.priority
                for shorter in lengths
                if shorter < length and (above := best.get((address & mask(shorter), shorter)))
            )
        }

    def _standing(self, flow: Flow) -> _Installed:
        group = None if flow.target.group is None else self.groups[flow.target.group]
        if group is not None:
            ports = tuple(_program_port(port) for port in group.ports)
        else:
            ports = () if flow.target.port is None else (_program_port(flow.target.port),)
        kind = self._switch.kind if len(ports) > 1 else "single"
        return _Installed(flow, group, Entry(flow.match.prefix, kind, ports))


def _program_port(port: int) -> int:
    return CPU_PORT if port == ReservedPort.CONTROLLER else port


def _entries(installed: Mapping[Prefix, _Installed]) -> list[Entry]:
    return [each.entry for each in installed.values() if not each.default]


def _count_from(installed: Mapping[Prefix, _Installed], traffic: Mapping[str, Traffic]) -> None:
    """What came so far has been counted."""
    for each in installed.values():
        each.packets, each.bytes = _seen(traffic, each.counted_as)


def _seen(traffic: Mapping[str, Traffic], key: str) -> tuple[int, int]:
    """Packets and bytes; nothing of an entry that is new."""
    seen = traffic.get(key)
    return (seen.packets, seen.bytes) if seen is not None else (0, 0)
