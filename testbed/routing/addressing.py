"""Who has which address: one subnet for the hosts of an edge switch, so that routes are by prefix and few.

Fat-tree: 10.pod.edge.(2 + host), as in Al-Fares et al. (SIGCOMM 2008), section 3.2, each pod within 10.pod.0.0/16.
Others: the i-th edge switch has 10.(i div 256).(i mod 256).0/24, and a next one where it has more hosts than fit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.topology.graph import Graph

ROOT = "10.0.0.0/8"
FIRST_HOST = 2
HOSTS_PER_SUBNET = 253  # .2 to .254


@dataclass(frozen=True, slots=True)
class Subnet:
    """The addresses of (some of) the hosts of one edge switch. `pod` is a wider prefix around it, if there is one."""

    prefix: str
    switch: str
    pod: str | None


@dataclass(frozen=True, slots=True)
class Addressing:
    """Every host's IPv4 address and the subnets they are in, by edge switch in order."""

    hosts: Mapping[str, str]
    subnets: tuple[Subnet, ...]


def assign(graph: Graph) -> Addressing:
    """Addresses for all hosts of `graph`."""
    by_switch: dict[str, list[str]] = {}
    for switch in graph.switches:
        if attached := [k.target for k in graph.links_from(switch) if graph.nodes[k.target].kind == "host"]:
            by_switch[switch] = attached
    hosts: dict[str, str] = {}
    subnets: list[Subnet] = []
    edges_in_pod: dict[int, int] = {}
    for switch, attached in by_switch.items():
        pod = graph.nodes[switch].pod if graph.kind == "fat-tree" else None
        for first in range(0, len(attached), HOSTS_PER_SUBNET):
            if pod is None:
                high, low = divmod(len(subnets), 256)
            else:
                high, low = pod, edges_in_pod.get(pod, 0)
                edges_in_pod[pod] = low + 1
            subnets.append(Subnet(f"10.{high}.{low}.0/24", switch, None if pod is None else f"10.{pod}.0.0/16"))
            for i, host in enumerate(attached[first : first + HOSTS_PER_SUBNET]):
                hosts[host] = f"10.{high}.{low}.{FIRST_HOST + i}"
    return Addressing({host: hosts[host] for host in graph.hosts}, tuple(subnets))
