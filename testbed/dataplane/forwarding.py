"""A switch's forwarding entries on the tables of `p4/include/routing.p4`: `routes`, `members` and `salts`.

A prefix with one port is one route; one with several goes to a *group*, a numbered set of ports that prefixes share,
whose members are entries of their own; one without any is dropped by its route. `routes` and `members` must be there.
`salts` is for programs that choose by a hash (include/flow_hash.p4); where it lacks, there is nothing to salt.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count

from testbed.dataplane.declared import MEMBERS, ROUTES, SALTS
from testbed.dataplane.native.control import ActionCall, Control, ControlError, FieldMatch
from testbed.routing.model import MISS, Entry

DROPS = "drops"  # the counter of drops by reason, whose elements are
DROP_REASONS = ("DROP_NOT_IPV4", "DROP_CHECKSUM", "DROP_TTL", "DROP_NO_ROUTE")
NO_ROUTE = DROP_REASONS.index("DROP_NO_ROUTE")
_KEYS = {ROUTES: 1, MEMBERS: 2}


@dataclass(frozen=True, slots=True)
class Traffic:
    """What packets of a prefix came to."""

    packets: int
    bytes: int
    dropped: int


@dataclass(slots=True)
class _Route:
    entry: Entry
    handle: int
    since: int = 0  # its packets when it got the present ports
    dropped: int = 0  # of those before

    def drops(self, packets: int) -> int:
        """How many of its packets were dropped on purpose."""
        return self.dropped + (0 if self.entry.ports else packets - self.since)


@dataclass(slots=True)
class _Group:
    number: int
    handles: tuple[int, ...]
    routes: int  # that lead to it


class Forwarding:
    """What one switch forwards by. Changes are atomic if whoever owns the instance holds it meanwhile.

    Raises ControlError if the program lacks a table, or a table is full.
    """

    def __init__(self, control: Control, switch: str) -> None:
        self._control = control
        self._switch = switch
        self._routes: dict[str, _Route] = {}
        self._groups: dict[tuple[int, ...], _Group] = {}
        self._dropped = 0  # by routes that are gone
        self._before: Mapping[str, Traffic] = {}  # what the programs before this one did
        for name, keys in _KEYS.items():
            self._check_table(name, keys)

    @property
    def entries(self) -> Mapping[str, Entry]:
        """prefix -> entry: what is installed."""
        return {prefix: route.entry for prefix, route in self._routes.items()}

    def replace(self, entries: Iterable[Entry]) -> int:
        """Have just these entries; returns how many were added, changed or removed."""
        wanted = {entry.prefix: entry for entry in entries}
        changes = sum(self.set(entry) for entry in wanted.values())
        for prefix in self._routes.keys() - wanted.keys():
            self.remove(prefix)
            changes += 1
        return changes

    def set(self, entry: Entry) -> bool:
        """Add an entry or change the one of its prefix; whether there was anything to do."""
        held = self._routes.get(entry.prefix)
        if held is not None and held.entry == entry:
            return False
        call = self._call(entry.ports)
        if held is None:
            network = ipaddress.IPv4Network(entry.prefix)
            key = [FieldMatch(int(network.network_address), prefix=network.prefixlen)]
            try:
                handle = self._control.insert(ROUTES, key, call)
            except ControlError:
                self._release(entry.ports)
                raise
            self._routes[entry.prefix] = _Route(entry, handle)
        else:
            packets, _ = self._control.entry_count(ROUTES, held.handle)
            self._control.modify(ROUTES, held.handle, call)
            held.dropped, held.since = held.drops(packets), packets
            left, held.entry = held.entry, entry
            self._release(left.ports)
        return True

    def remove(self, prefix: str) -> None:
        """Forget an entry, if there is one of this prefix."""
        held = self._routes.pop(prefix, None)
        if held is not None:
            packets, _ = self._control.entry_count(ROUTES, held.handle)
            self._dropped += held.drops(packets)
            self._control.remove(ROUTES, held.handle)
            self._release(held.entry.ports)

    def become(self, other: "Forwarding") -> None:
        """Stand for another from now on, on another program, whose counts go on from these."""
        before = self.traffic()
        self._control, self._routes, self._groups = other._control, other._routes, other._groups
        self._dropped, self._before = other._dropped, before

    @property
    def salted(self) -> bool:
        """Whether the program chooses among ports by a salted hash; else it has a way of its own."""
        try:
            self._control.table(SALTS)
        except ControlError:
            return False
        return True

    def set_salt(self, salt: int) -> None:
        """Salt the hash by which a program chooses among ports; nothing where it does not hash."""
        if self.salted:
            self._control.set_default(SALTS, ActionCall("salted", {"value": salt}))

    def traffic(self) -> Mapping[str, Traffic]:
        """prefix -> what its packets came to since it was installed; MISS counts those that no prefix matched.

        Misses are known where the program has the counter `drops` of routing.p4; they have no bytes.
        """
        counts = self._counts()
        for prefix, earlier in self._before.items():
            now = counts.get(prefix, Traffic(0, 0, 0))
            sums = (getattr(now, name) + getattr(earlier, name) for name in ("packets", "bytes", "dropped"))
            counts[prefix] = Traffic(*sums)
        return counts

    def _counts(self) -> dict[str, Traffic]:
        counts = {}
        for prefix, route in self._routes.items():
            packets, bytes_ = self._control.entry_count(ROUTES, route.handle)
            counts[prefix] = Traffic(packets, bytes_, route.drops(packets))
        try:
            unrouted, _ = self._control.read_counter(DROPS, NO_ROUTE)
        except ControlError:
            return counts
        missed = unrouted - self._dropped - sum(each.dropped for each in counts.values())
        return counts | {MISS: Traffic(missed, 0, missed)}

    def _call(self, ports: tuple[int, ...]) -> ActionCall:
        """The action of a route; its group is made, or has one route more."""
        if not ports:
            return ActionCall("drop")
        if len(ports) == 1:
            return ActionCall("to_port", {"port": ports[0]})
        group = self._groups.get(ports)
        if group is None:
            taken = {other.number for other in self._groups.values()}
            number = next(n for n in count(1) if n not in taken)
            group = self._groups[ports] = _Group(number, self._add_members(number, ports), 0)
        group.routes += 1
        return ActionCall("to_group", {"number": group.number, "members": len(ports)})

    def _add_members(self, number: int, ports: tuple[int, ...]) -> tuple[int, ...]:
        """Their handles; all or none."""
        handles: list[int] = []
        try:
            for i, port in enumerate(ports):
                key = [FieldMatch(number), FieldMatch(i)]
                handles.append(self._control.insert(MEMBERS, key, ActionCall("to_port", {"port": port})))
        except ControlError:
            for handle in handles:
                self._control.remove(MEMBERS, handle)
            raise
        return tuple(handles)

    def _release(self, ports: tuple[int, ...]) -> None:
        """One route less leads to a group; the last one takes it along."""
        group = self._groups.get(ports)
        if group is None:
            return
        group.routes -= 1
        if group.routes == 0:
            del self._groups[ports]
            for handle in group.handles:
                self._control.remove(MEMBERS, handle)

    def _check_table(self, name: str, keys: int) -> None:
        """Raise ControlError unless the program has this table of p4/include with so many keys."""
        try:
            found = len(self._control.table(name).keys)
        except ControlError as error:
            raise ControlError(
                f"switch {self._switch}: the program has no table {name!r}, so that the routes cannot be installed",
                hint=f"include routing.p4 (see p4/l3_ecmp.p4): {error.hint}",
            ) from error
        if found != keys:
            raise ControlError(f"switch {self._switch}: table {name!r} has {found} keys instead of {keys}")
