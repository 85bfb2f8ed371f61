"""A native switch of a fabric, and what a control plane sets on it: tables and arrays, groups, clone sessions."""

import ctypes
from collections.abc import Sequence

from testbed.dataplane.bmv2model import Program
from testbed.dataplane.native.control import Control, ControlError
from testbed.dataplane.native.loader import ProgramTable
from testbed.errors import MachineLacks
from testbed.netcore import CPU_PORT, Fabric

NUMBERS = 1 << 16  # of multicast groups, clone sessions and replication ids
DEPTHS = (1 << 32) - 1  # of a queue, in bytes


def check_number(what: str, number: int) -> None:
    """Raise ControlError for the number of a group, a session or a replica that cannot be."""
    if number >= NUMBERS:
        raise ControlError(f"a {what} is below {NUMBERS}, and this is {number}")


def check_port(port: int) -> None:
    """Raise ControlError for a port that no switch has."""
    if port > CPU_PORT:
        raise ControlError(
            f"there is no port {port}: they are 0 to {CPU_PORT - 1}, and {CPU_PORT} of the control plane"
        )


class ConfigurableSwitch:
    """A new switch of a fabric, which knows it by `number`; `control` fills its tables. Packets do not move meanwhile.

    `functions` are of the shared object that `program` was built to, which outlives the fabric. Raises ValueError for
    one of another ABI version, MachineLacks if there is no memory for its tables and arrays; the methods ControlError.
    """

    def __init__(
        self, fabric: Fabric, program: Program, functions: ProgramTable, *, seed: int, dilation: int = 1
    ) -> None:
        try:
            self.number = fabric.add_switch(ctypes.addressof(functions), seed, dilation=dilation)
        except MemoryError as error:
            raise MachineLacks(f"{program.name}: no memory for its tables, registers and counters") from error
        self.control = Control(program, functions, fabric.switch_instance(self.number))
        self._loaded: Control | None = None
        self._fabric = fabric
        self._groups: dict[int, Sequence[tuple[int, int]]] = {}
        self._sessions: dict[int, tuple[int | None, int | None]] = {}

    def load(self, program: Program, functions: ProgramTable, *, seed: int) -> Control:
        """Make an instance of another program, to be filled before `swap`; one that was loaded before is forgotten."""
        try:
            instance = self._fabric.load_program(self.number, ctypes.addressof(functions), seed)
        except MemoryError as error:
            raise MachineLacks(f"{program.name}: no memory for its tables, registers and counters") from error
        self._loaded = Control(program, functions, instance)
        return self._loaded

    def probe(self, port: int, frame: bytes) -> int | None:
        """Where the loaded instance would send a frame that came by `port`: a port, -1 (several, or round), or None."""
        return self._fabric.probe_program(self.number, port, frame)

    def swap(self) -> None:
        """Have the loaded instance in force, without the groups and sessions of the one before."""
        assert self._loaded is not None
        self._fabric.swap_program(self.number)
        self.control, self._loaded = self._loaded, None
        for session in list(self._sessions):
            self.set_session(session)
        for group in list(self._groups):
            self.set_group(group, ())
        self._groups.clear()
        self._sessions.clear()

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Set a multicast group's copies: port and replication id of each."""
        check_number("multicast group", group)
        for to, rid in replicas:
            check_port(to)
            check_number("replication id", rid)
        self._groups[group] = replicas
        self._fabric.set_group(self.number, group, replicas)
        for session, (port, of) in self._sessions.items():
            if of == group:
                self.set_session(session, port=port, group=of)

    def set_session(self, session: int, *, port: int | None = None, group: int | None = None) -> None:
        """Set where clones of a session go."""
        check_number("clone session", session)
        check_port(port or 0)
        check_number("multicast group", group or 0)
        self._sessions[session] = port, group
        to_group = self._groups.get(group, ()) if group is not None else ()
        to_port = () if port is None else ((port, 0),)
        self._fabric.set_session(self.number, session, (*to_group, *to_port))

    def set_clones(self, session: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Set a clone session's copies, as `set_group`: to more than one port, without a group."""
        self._fabric.set_session(self.number, session, replicas)

    def digests(self) -> Sequence[tuple[int, bytes]]:
        """Digests since the last call: number of the field list, and its fields, each padded to whole bytes."""
        return self._fabric.digests(self.number)

    def take_in(self, port: int, frame: bytes) -> None:
        """Treat a frame as if it came in by a port."""
        self._fabric.inject(self.number, port, frame)

    def set_queue_depth(self, depth: int) -> None:
        """Set what packets from now on find in their queue and leave behind in it."""
        if depth >= DEPTHS:
            raise ControlError(f"a queue's depth is below {DEPTHS}, and this is {depth}")
        self._fabric.set_depth(self.number, depth)
