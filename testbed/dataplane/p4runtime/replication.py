"""Multicast groups and clone sessions of a switch: of a pipeline that is not in force they are remembered only."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from finsy.proto import p4r
from grpc import StatusCode

from testbed.dataplane.p4runtime.refusal import Refusal, invalid, missing, unsupported
from testbed.dataplane.p4runtime.undo import Undo
from testbed.netcore import CPU_PORT

_NUMBERS = 1 << 16  # of groups, sessions and instances (replication ids)
_PORT_BITS = 32  # of P4Runtime's own port numbers
_SDN_CPU = 0xFFFFFFFD  # SDN_PORT_CPU, which is -3


class Replicator(Protocol):
    """Who makes the copies: port and replication id of each; none of them: no group, no session."""

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None: ...

    def set_clones(self, session: int, replicas: Sequence[tuple[int, int]]) -> None: ...


@dataclass(slots=True)
class ReplicationStore:
    """`in_force`: whether the switch goes by it."""

    switch: Replicator
    ports: Collection[int]
    in_force: bool
    _groups: dict[int, p4r.MulticastGroupEntry] = field(default_factory=dict)
    _sessions: dict[int, p4r.CloneSessionEntry] = field(default_factory=dict)

    def enforce(self) -> None:
        """Have the switch go by it from now on."""
        self.in_force = True
        for group in list(self._groups.values()):
            self._set_group(group)
        for session in list(self._sessions.values()):
            self._set_session(session)

    def retire(self) -> None:
        """Take all of it off the switch."""
        for group in self._groups:
            self.switch.set_group(group, ())
        for session in self._sessions:
            self.switch.set_clones(session, ())
        self.in_force = False

    def write(self, kind: int, message: p4r.PacketReplicationEngineEntry) -> Undo:
        match message.WhichOneof("type"):
            case "multicast_group_entry":
                return self._write_group(kind, message.multicast_group_entry)
            case "clone_session_entry":
                return self._write_session(kind, message.clone_session_entry)
        raise invalid("a multicast group or a clone session is wanted")

    def _write_group(self, kind: int, message: p4r.MulticastGroupEntry) -> Undo:
        number, what = message.multicast_group_id, f"multicast group {message.multicast_group_id}"
        held = self._groups.get(number)
        _check(kind, number, held is not None, what)
        if held is not None and kind == p4r.Update.DELETE:
            self._remove_group(number)
            return lambda: self._set_group(held)
        self._replicas(message.replicas, what)
        copy = p4r.MulticastGroupEntry()
        copy.CopyFrom(message)
        self._set_group(copy)
        return lambda: self._remove_group(number) if held is None else self._set_group(held)

    def _set_group(self, message: p4r.MulticastGroupEntry) -> None:
        self._groups[message.multicast_group_id] = message
        if self.in_force:
            self.switch.set_group(message.multicast_group_id, self._replicas(message.replicas, ""))

    def _remove_group(self, number: int) -> None:
        del self._groups[number]
        if self.in_force:
            self.switch.set_group(number, ())

    def _write_session(self, kind: int, message: p4r.CloneSessionEntry) -> Undo:
        number, what = message.session_id, f"clone session {message.session_id}"
        held = self._sessions.get(number)
        _check(kind, number, held is not None, what)
        if held is not None and kind == p4r.Update.DELETE:
            self._remove_session(number)
            return lambda: self._set_session(held)
        if message.class_of_service:
            raise unsupported(f"{what}: a class of service")
        if message.packet_length_bytes:
            raise unsupported(f"{what}: a length of packets")
        self._replicas(message.replicas, what)
        copy = p4r.CloneSessionEntry()
        copy.CopyFrom(message)
        self._set_session(copy)
        return lambda: self._remove_session(number) if held is None else self._set_session(held)

    def _set_session(self, message: p4r.CloneSessionEntry) -> None:
        self._sessions[message.session_id] = message
        if self.in_force:
            self.switch.set_clones(message.session_id, self._replicas(message.replicas, ""))

    def _remove_session(self, number: int) -> None:
        del self._sessions[number]
        if self.in_force:
            self.switch.set_clones(number, ())

    def _replicas(self, given: Sequence[p4r.Replica], what: str) -> list[tuple[int, int]]:
        found = []
        for replica in given:
            if replica.backup_replicas:
                raise unsupported(f"{what}: backup replicas")
            port = self._port(replica, what)
            if replica.instance >= _NUMBERS:
                raise invalid(f"{what}: an instance of {replica.instance}; they are below {_NUMBERS}")
            found.append((port, replica.instance))
        if len(set(found)) != len(found):
            raise invalid(f"{what}: a port has the same instance twice")
        return found

    def _port(self, replica: p4r.Replica, what: str) -> int:
        if replica.WhichOneof("port_kind") == "port":
            port = int.from_bytes(replica.port, "big")
            if not replica.port or port >> _PORT_BITS:
                raise invalid(f"{what}: no port is called {replica.port!r}")
        else:
            port = replica.egress_port
        if port in (_SDN_CPU, CPU_PORT):
            return CPU_PORT
        if port not in self.ports:
            raise invalid(f"{what}: there is no port {port}")
        return port

    def read(self, asked: p4r.PacketReplicationEngineEntry) -> Iterator[p4r.Entity]:
        match asked.WhichOneof("type"):
            case "multicast_group_entry":
                number = asked.multicast_group_entry.multicast_group_id
                if number and number not in self._groups:
                    raise missing(f"there is no multicast group {number}")
                for group in [self._groups[number]] if number else list(self._groups.values()):
                    engine = p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
                    yield p4r.Entity(packet_replication_engine_entry=engine)
            case "clone_session_entry":
                number = asked.clone_session_entry.session_id
                if number and number not in self._sessions:
                    raise missing(f"there is no clone session {number}")
                for session in [self._sessions[number]] if number else list(self._sessions.values()):
                    engine = p4r.PacketReplicationEngineEntry(clone_session_entry=session)
                    yield p4r.Entity(packet_replication_engine_entry=engine)
            case _:
                raise invalid("multicast groups or clone sessions are wanted")


def _check(kind: int, number: int, held: bool, what: str) -> None:
    if not 0 < number < _NUMBERS:
        raise invalid(f"{what}: numbers are from 1 to {_NUMBERS - 1}")
    if kind == p4r.Update.INSERT and held:
        raise Refusal(StatusCode.ALREADY_EXISTS, f"{what} is there already")
    if kind != p4r.Update.INSERT and not held:
        raise missing(f"{what} is not there")
