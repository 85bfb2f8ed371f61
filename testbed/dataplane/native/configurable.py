"""What a control plane sets on one native switch of a fabric: tables and arrays, multicast groups, clone sessions."""

from collections.abc import Sequence

from testbed.dataplane.native.control import Control
from testbed.netcore import Fabric


class ConfigurableSwitch:
    """A switch of a fabric by its number; `control` fills its tables. Packets do not move meanwhile."""

    def __init__(self, fabric: Fabric, switch: int, control: Control) -> None:
        self.control = control
        self._fabric = fabric
        self._switch = switch
        self._groups: dict[int, Sequence[tuple[int, int]]] = {}
        self._sessions: dict[int, tuple[int | None, int | None]] = {}

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Set a multicast group's copies: port and replication id of each."""
        self._groups[group] = replicas
        self._fabric.set_group(self._switch, group, replicas)
        for session, (port, of) in self._sessions.items():
            if of == group:
                self.set_session(session, port=port, group=of)

    def set_session(self, session: int, *, port: int | None = None, group: int | None = None) -> None:
        """Set where clones of a session go."""
        self._sessions[session] = port, group
        to_group = self._groups.get(group, ()) if group is not None else ()
        to_port = () if port is None else ((port, 0),)
        self._fabric.set_session(self._switch, session, (*to_group, *to_port))

    def set_queue_depth(self, depth: int) -> None:
        """Set what packets from now on find in their queue and leave behind in it."""
        self._fabric.set_depth(self._switch, depth)
