"""A native switch of a fabric, and what a control plane sets on it: tables and arrays, groups, clone sessions."""

import ctypes
from collections.abc import Sequence

from testbed.dataplane.bmv2json import Program
from testbed.dataplane.native.control import Control
from testbed.dataplane.native.loader import ProgramTable
from testbed.netcore import Fabric


class ConfigurableSwitch:
    """A new switch of a fabric, which knows it by `number`; `control` fills its tables. Packets do not move meanwhile.

    `functions` are of the shared object that `program` was built to, which outlives the fabric. Raises ValueError for
    one of another ABI version.
    """

    def __init__(
        self, fabric: Fabric, program: Program, functions: ProgramTable, *, seed: int, dilation: int = 1
    ) -> None:
        self.number = fabric.add_switch(ctypes.addressof(functions), seed, dilation=dilation)
        self.control = Control(program, functions, fabric.switch_instance(self.number))
        self._fabric = fabric
        self._groups: dict[int, Sequence[tuple[int, int]]] = {}
        self._sessions: dict[int, tuple[int | None, int | None]] = {}

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Set a multicast group's copies: port and replication id of each."""
        self._groups[group] = replicas
        self._fabric.set_group(self.number, group, replicas)
        for session, (port, of) in self._sessions.items():
            if of == group:
                self.set_session(session, port=port, group=of)

    def set_session(self, session: int, *, port: int | None = None, group: int | None = None) -> None:
        """Set where clones of a session go."""
        self._sessions[session] = port, group
        to_group = self._groups.get(group, ()) if group is not None else ()
        to_port = () if port is None else ((port, 0),)
        self._fabric.set_session(self.number, session, (*to_group, *to_port))

    def set_queue_depth(self, depth: int) -> None:
        """Set what packets from now on find in their queue and leave behind in it."""
        self._fabric.set_depth(self.number, depth)
