"""The network as a graph of nodes, numbered ports and directed links; knows no protocol and touches no machine.

A *cable* joins two ports; it is two *directed links*, `2 * cable` (first end to second) and `2 * cable + 1` (back), so
that each direction has parameters of its own. Ports are numbered as in Mininet and OpenFlow: a switch's from 1, a
host's from 0, in the order in which cables were added; an interface is named `<node>-eth<port>`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

NodeKind = Literal["host", "switch"]


@dataclass(frozen=True, slots=True)
class Ecn:
    """Marking on the instantaneous queue at arrival: linear from `min_bytes` to `max_bytes`, everything above."""

    min_bytes: int
    max_bytes: int
    probability: float


@dataclass(frozen=True, slots=True)
class Loss:
    """Loss after the queue. `mean` is a probability; `burst_packets` = 1.0 is Bernoulli, above is Gilbert-Elliott."""

    mean: float
    burst_packets: float = 1.0


@dataclass(frozen=True, slots=True)
class LinkParameters:
    """What one directed link does, in model time. `rate_bps` counts whole frames plus 24 B (FCS, preamble, gap)."""

    rate_bps: int
    delay_ns: int = 0
    queue_bytes: int = 262_144
    mtu_bytes: int = 1500
    jitter_ns: int = 0
    reorder: bool = False
    ecn: Ecn | None = None
    loss: Loss | None = None
    duplicate: float = 0.0
    corrupt: float = 0.0

    @property
    def impaired(self) -> bool:
        """Whether it does more than rate, byte queue and delay (then the kernel's qdiscs cannot carry it)."""
        return bool(self.jitter_ns or self.ecn or self.loss or self.duplicate or self.corrupt)


@dataclass(frozen=True, slots=True)
class Node:
    """A host or a switch. `tier` is the builder's word (edge, aggregation, core, leaf, spine, switch, host)."""

    name: str
    kind: NodeKind
    tier: str
    pod: int | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a cable."""

    index: int
    source: str
    source_port: int
    target: str
    target_port: int
    parameters: LinkParameters

    @property
    def cable(self) -> int:
        return self.index // 2

    @property
    def name(self) -> str:
        return f"{self.source}>{self.target}"


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes by name (in creation order) and directed links by index."""

    kind: str
    nodes: Mapping[str, Node]
    links: tuple[Link, ...]
    hosts: tuple[str, ...] = field(init=False, repr=False, compare=False)
    switches: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _out: dict[str, tuple[Link, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        out: dict[str, list[Link]] = {name: [] for name in self.nodes}
        for link in self.links:
            out[link.source].append(link)
        object.__setattr__(self, "_out", {name: tuple(links) for name, links in out.items()})
        for name, kind in (("hosts", "host"), ("switches", "switch")):
            object.__setattr__(self, name, tuple(n.name for n in self.nodes.values() if n.kind == kind))

    def links_from(self, node: str) -> tuple[Link, ...]:
        """The directed links leaving `node`, by port."""
        return self._out[node]

    def edge_switch(self, host: str) -> str:
        """The switch that `host` hangs on."""
        return self._out[host][0].target

    def reverse(self, link: Link) -> Link:
        """The other direction of the same cable."""
        return self.links[link.index ^ 1]

    def with_parameters(self, parameters: Mapping[int, LinkParameters]) -> "Graph":
        """The same graph with the parameters of some directed links (by index) replaced."""
        links = tuple(
            Link(k.index, k.source, k.source_port, k.target, k.target_port, parameters.get(k.index, k.parameters))
            for k in self.links
        )
        return Graph(self.kind, self.nodes, links)


class GraphBuilder:
    """Collects nodes and cables; every topology builder uses it."""

    def __init__(self, kind: str, default: LinkParameters) -> None:
        self._kind = kind
        self._default = default
        self._nodes: dict[str, Node] = {}
        self._links: list[Link] = []
        self._ports: dict[str, int] = {}

    def host(self, name: str, *, pod: int | None = None) -> str:
        return self._node(Node(name, "host", "host", pod))

    def switch(self, name: str, *, tier: str = "switch", pod: int | None = None) -> str:
        return self._node(Node(name, "switch", tier, pod))

    def cable(self, first: str, second: str) -> int:
        """Join two nodes at their next free ports; returns the cable's number."""
        cable = len(self._links) // 2
        a, b = self._port(first), self._port(second)
        self._links.append(Link(2 * cable, first, a, second, b, self._default))
        self._links.append(Link(2 * cable + 1, second, b, first, a, self._default))
        return cable

    def graph(self) -> Graph:
        return Graph(self._kind, dict(self._nodes), tuple(self._links))

    def _node(self, node: Node) -> str:
        if node.name in self._nodes:
            raise ValueError(f"node {node.name!r} exists twice")
        self._nodes[node.name] = node
        self._ports[node.name] = 0 if node.kind == "host" else 1
        return node.name

    def _port(self, node: str) -> int:
        port = self._ports[node]
        self._ports[node] = port + 1
        return port
