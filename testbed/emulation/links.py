"""Links: Mininet's objects for them, and the one interface behind which the two drivers carry them out.

A cable is carried either by the kernel (`tc`: a veth pair and queueing disciplines) or by the fabric (`netcore`: two
TAP devices whose packets pass through the native core). The plan says which; both are asked the same things.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mininet.link import Intf, Link

from testbed.emulation.hosts import LazyShell
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


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """What one directed link did since it was configured, in real time; `None` where the driver cannot know.

    Job packets are apart where the driver sees them apart (netcore); tc counts all packets as the job's.
    """

    packets: int = 0  # delivered
    bytes: int = 0
    job_packets: int = 0
    job_bytes: int = 0
    dropped_queue: int = 0
    dropped_loss: int = 0
    dropped_down: int = 0
    corrupted: int = 0
    duplicated: int = 0
    ecn_marked: int = 0
    job_dropped_queue: int = 0
    job_dropped_loss: int = 0
    job_dropped_down: int = 0
    job_corrupted: int = 0
    job_duplicated: int = 0
    job_ecn_marked: int = 0
    job_strayed: int = 0  # delivered to a host that they are not addressed to
    job_shortened: int = 0  # delivered to their host, but trimmed
    in_flight: int = 0  # packets queued or on the wire
    job_in_flight: int = 0
    max_queue_bytes: int = 0
    busy_ns: int = 0
    measured_rate_bps: int | None = None
    late_p50_ns: int | None = None
    late_p99_ns: int | None = None
    paused_ns: int = 0  # by PFC
    pfc_sent: int = 0


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


def interface(node: str, port: int) -> str:
    """The name of a port's interface, as Mininet gives it."""
    return f"{node}-eth{port}"


def namespace_of(graph: Graph, node: str, outer: str) -> str:
    """Where a node's interfaces live: a switch's in the outer namespace, a host's in its own."""
    return outer if graph.nodes[node].kind == "switch" else f"{outer}-{node}"
