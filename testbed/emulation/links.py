"""Links: Mininet's objects for them, and the one interface behind which the two drivers carry them out.

A cable is carried either by the kernel (`tc`: a veth pair and queueing disciplines) or by the fabric (`netcore`: two
TAP devices whose packets pass through the native core). The plan says which; both are asked the same things.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from mininet.link import Intf, Link

from testbed.emulation.hosts import LazyShell
from testbed.fabric.links import LinkCounters
from testbed.topology.graph import Graph, LinkParameters


class PlannedIntf(Intf):  # type: ignore[misc]  # mininet has no types
    """An interface that is configured in a batch with all others; here is only what Mininet's users ask of it."""

    def config(self, *, ip: str | None = None, prefix_length: int | None = None, **_params: Any) -> dict[str, Any]:
        if ip is not None:
            self.ip, self.prefixLen = ip, prefix_length
        return {}


class PlannedLink(Link):  # type: ignore[misc]
    """A cable of the plan; `cable` is its number."""

    def __init__(self, node1: LazyShell, node2: LazyShell, *, cable: int, **params: Any) -> None:
        self.cable = cable
        super().__init__(node1, node2, **params)

    @classmethod
    def makeIntfPair(cls, *_args: Any, **_kwargs: Any) -> None:  # noqa: N802 - Mininet's name
        """Nothing: the interfaces come into being in a batch."""

    def stop(self) -> None:
        """Nothing: the interfaces go with their namespaces."""


class LinkDriver(Protocol):
    """What carries some of the links. They are named by their index in the graph; parameters are in model time."""

    def set_link(self, index: int, parameters: LinkParameters) -> None:
        """Change a link while packets flow."""

    def link_down(self, cable: int) -> None:
        """Cut a cable: both directions lose everything, and the ends at switches lose their carrier."""

    def link_up(self, cable: int) -> None:
        """Mend a cable."""

    def counters(self, job: int | None = None) -> Mapping[int, LinkCounters]:
        """Counters by link index; job packets are those of job number `job`, or of all jobs."""


def namespace_of(graph: Graph, node: str, outer: str) -> str:
    """Where a node's interfaces live: a switch's in the outer namespace, a host's in its own."""
    return outer if graph.nodes[node].kind == "switch" else f"{outer}-{node}"
