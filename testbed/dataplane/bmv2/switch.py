"""A running `simple_switch` as whoever configures switches sees it: tables, multicast groups, clone sessions."""

from collections.abc import Sequence

from testbed.dataplane.bmv2.control import Bmv2Control
from testbed.dataplane.bmv2.runtime import CONTEXT, Runtime, interface
from testbed.dataplane.bmv2model import Program
from testbed.dataplane.native.control import ControlError

# More than ever waits where links are the bottleneck. By default a queue of bmv2's takes 64 packets of any size.
QUEUE_PACKETS = 1 << 16
_ALL_LAGS = ""


class Bmv2Switch:
    """What a control plane sets on one switch, over its runtime."""

    def __init__(self, program: Program, runtime: Runtime) -> None:
        self.control = Bmv2Control(program, runtime)
        self._runtime = runtime
        self._groups: dict[int, tuple[int, list[int]]] = {}  # handles of the group and its nodes
        self._sessions: set[int] = set()

    def open_queues(self) -> None:
        """Let the links be the only bottleneck: no queue of the switch's own drops or holds anything up."""
        self._runtime.call("set_all_egress_queue_depths", QUEUE_PACKETS)

    def set_group(self, group: int, replicas: Sequence[tuple[int, int]]) -> None:
        """Set a multicast group's copies: port and replication id of each."""
        handle, nodes = self._groups.get(group) or (self._runtime.call("bm_mc_mgrp_create", CONTEXT, group), [])
        for node in nodes:
            self._runtime.call("bm_mc_node_dissociate", CONTEXT, handle, node)
            self._runtime.call("bm_mc_node_destroy", CONTEXT, node)
        nodes = []
        for port, rid in replicas:
            node = self._runtime.call("bm_mc_node_create", CONTEXT, rid, "1" + "0" * port, _ALL_LAGS)
            self._runtime.call("bm_mc_node_associate", CONTEXT, handle, node)
            nodes.append(node)
        self._groups[group] = handle, nodes

    def set_session(self, session: int, *, port: int | None = None, group: int | None = None) -> None:
        """Set where clones of a session go."""
        if port is None and group is None:
            if session in self._sessions:
                self._runtime.call("mirroring_session_delete", session)
                self._sessions.remove(session)
            return
        self._runtime.call("mirroring_session_add", session, interface().Session(port=port, group=group))
        self._sessions.add(session)

    def set_queue_depth(self, depth: int) -> None:
        """Nothing can: what packets find in a queue is what waits there."""
        raise ControlError(f"the queues of simple_switch cannot be given a depth of {depth}")
