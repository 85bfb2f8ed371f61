"""A job's part of one switch that adds up, on the tables of `p4/include/aggregation.p4`: `jobs`, `children`, a group.

The job's entry tells of its slots and of how many contribute here; its children are a multicast group, with entries
that give a result its addresses. What the program keeps by slot can be read: who has contributed to which chunk, and
what became of contributions.

Best-effort jobs (`p4/aggregate_besteffort.p4`) share the slots, aggregators there, and their counters are by job.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Protocol

from testbed.dataplane.declared import ARRIVALS, CHILDREN, CHUNKS, JOBS, LEAF, ROOT, SHARED, UNIT, UNIT_LEAF
from testbed.dataplane.native.control import ActionCall, Control, ControlError, FieldMatch

STATE = ("sums", "exponents", ARRIVALS, CHUNKS)  # the registers that a switch with slots goes by
LEAF_STATE = (*STATE, "answers")  # and one that passes its sums on
SLOT_COUNTERS = ("completed", "answered_again", "ignored", "asked_again", "came_twice", "abandoned")
JOB_COUNTERS = ("completed", "collided", "flushed", "taken_over", "ignored", "congested")  # of a best-effort job
REFUSED = "refused"
REASONS = ("malformed", "job", "worker", "slot", "values", "damaged")  # as aggregation.p4 numbers them
_REASON_BITS = 3
_HALF_BITS = 32  # of a register with both versions: version 1 is the upper half


@dataclass(frozen=True, slots=True)
class Contributor:
    """A child: its port, and where results go to it."""

    port: int
    ip: str
    mac: str


@dataclass(frozen=True, slots=True)
class Server:
    """The host that adds up what finds no room among `pool` aggregators."""

    ip: str
    mac: str
    pool: int


@dataclass(frozen=True, slots=True)
class JobHere:
    """A job at one switch. `index`: the switch's own number among its parent's children; None: it is the root.

    ip, mac: the root's, of the whole job. server: of a best-effort job. shift: of a unit that averages.
    """

    number: int
    ip: str
    mac: str
    first_slot: int
    slots: int
    values: int
    children: Sequence[Contributor]
    index: int | None
    server: Server | None = None
    shift: int | None = None


class Switch(Protocol):
    """What is filled."""

    @property
    def control(self) -> Control: ...

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None: ...


@dataclass(frozen=True, slots=True)
class Waiting:
    """A slot with a chunk that lacks contributions, which for a best-effort job may be at the server: `missing` are the
    children's numbers."""

    slot: int
    version: int
    chunk: int
    missing: tuple[int, ...]


class Adder:
    """One job at one switch, installed when it is made. Raises ControlError if the program lacks a table."""

    def __init__(self, switch: Switch, job: JobHere) -> None:
        self._control = switch.control
        self._job = job
        group = job.number + 1
        parameters = {
            "number": job.number,
            "children": len(job.children),
            "slots": job.slots,
            "values": job.values,
            "group": group,
        }
        if job.server is not None:
            served = {"server": int(IPv4Address(job.server.ip)), "server_mac": _mac(job.server.mac)}
            call = ActionCall(SHARED, {**parameters, "aggregators": job.server.pool, **served})
        else:
            root, leaf = ROOT, LEAF
            parameters["first_slot"] = job.first_slot
            if job.shift is not None:
                root, leaf = UNIT, UNIT_LEAF
                parameters["shift"] = job.shift
            call = ActionCall(root, parameters)
            if job.index is not None:
                call = ActionCall(leaf, {**parameters, "index": job.index})
        switch.set_group(group, [(child.port, number) for number, child in enumerate(job.children, 1)])
        for number, child in enumerate(job.children, 1):
            addresses = {
                "source": _mac(job.mac),
                "destination": _mac(child.mac),
                "address": int(IPv4Address(child.ip)),
                "queue_pair": number,
            }
            key = [FieldMatch(job.number), FieldMatch(number)]
            self._control.insert(CHILDREN, key, ActionCall("to_child", addresses))
        self._control.insert(JOBS, [FieldMatch(int(IPv4Address(job.ip)))], call)

    def counts(self) -> Iterator[tuple[str, int | None, int]]:
        """(what, slot of the job, packets) of all that is not 0, by slot; of a best-effort job all, without a slot."""
        job = self._job
        if job.server is not None:
            yield from ((name, None, self._control.read_counter(name, job.number)[0]) for name in JOB_COUNTERS)
            return
        for name in SLOT_COUNTERS:
            try:
                found = [self._control.read_counter(name, job.first_slot + slot)[0] for slot in range(job.slots)]
            except ControlError:
                continue  # a root has fewer than a switch below it
            yield from ((name, slot, packets) for slot, packets in enumerate(found) if packets)

    def refused(self) -> Mapping[str, int]:
        """Reason -> packets that were dropped for it."""
        first = self._job.number << _REASON_BITS
        return {reason: self._control.read_counter(REFUSED, first + i)[0] for i, reason in enumerate(REASONS)}

    def waiting(self) -> Iterator[Waiting]:
        """The slots that some have contributed to, and others not. The chunk is that of the newer of the versions."""
        everyone = (1 << len(self._job.children)) - 1
        if self._job.server is not None:
            yield from self._partial(self._job.server.pool, everyone)
            return
        for slot in range(self._job.slots):
            arrivals = _halves(self._control.read_register(ARRIVALS, self._job.first_slot + slot))
            chunks = _halves(self._control.read_register(CHUNKS, self._job.first_slot + slot))
            for version, (here, chunk) in enumerate(zip(arrivals, chunks, strict=True)):
                newer = (chunk - chunks[1 - version]) % (1 << _HALF_BITS) < 1 << _HALF_BITS - 1
                if newer and here not in (0, everyone):
                    yield Waiting(slot, version, chunk, self._missing(here))

    def _partial(self, pool: int, everyone: int) -> Iterator[Waiting]:
        """The aggregators that the job has now."""
        for slot in range(pool):
            here, _ = _halves(self._control.read_register(ARRIVALS, slot))
            chunk, number = _halves(self._control.read_register(CHUNKS, slot))
            if number == self._job.number and here not in (0, everyone):
                yield Waiting(slot, 0, chunk, self._missing(here))

    def _missing(self, here: int) -> tuple[int, ...]:
        return tuple(child for child in range(len(self._job.children)) if not here >> child & 1)


def _halves(value: int) -> tuple[int, int]:
    """Of version 0 and of version 1."""
    return value & (1 << _HALF_BITS) - 1, value >> _HALF_BITS


def _mac(address: str) -> int:
    return int(address.replace(":", ""), 16)
