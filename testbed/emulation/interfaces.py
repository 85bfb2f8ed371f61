"""The interfaces of a whole network at once: veth pairs, addresses, neighbours; one process a namespace."""

from collections.abc import Iterator

from testbed.emulation.commands import in_parallel, ip_batch
from testbed.emulation.links import namespace_of
from testbed.fabric.model import interface
from testbed.plan.model import Plan

PREFIX_LENGTH = 8  # every host of a plan is on-link in 10.0.0.0/8, and known to every other: nothing is ever looked up
_TCP_RTO_MIN_MS = 200  # Linux, include/net/tcp.h; kernel TCP's one timer that can be slowed down with the network
_TAP_QUEUE_PACKETS = 20_000  # the ring between kernel and fabric: room for bursts while the fabric is not scheduled


def make_veths(plan: Plan, outer: str) -> None:
    """Make a veth pair for each cable of `tc`, its ends where they belong."""
    graph = plan.graph

    def commands() -> Iterator[str]:
        for link in (link for link in graph.links[::2] if plan.drivers[link.cable] == "tc"):
            first, second = interface(link.source, link.source_port), interface(link.target, link.target_port)
            here, there = (namespace_of(graph, node, outer) for node in (link.source, link.target))
            yield f"link add name {first} netns {here} type veth peer name {second} netns {there}"

    ip_batch(commands(), outer)


def configure_hosts(plan: Plan, outer: str) -> None:
    """Give every host its MTU, MAC and IP address and all its neighbours, and bring its interfaces up."""
    in_parallel(lambda host: ip_batch(_host_commands(plan, host), f"{outer}-{host}"), plan.graph.hosts)


def configure_switch_ports(plan: Plan, outer: str) -> None:
    """Bring the switches' ports up."""
    ip_batch(
        (
            f"link set dev {interface(link.source, link.source_port)} mtu {link.parameters.mtu_bytes} "
            f"txqueuelen {_TAP_QUEUE_PACKETS} up"
            for switch in plan.graph.switches
            for link in plan.graph.links_from(switch)
        ),
        outer,
    )


def _host_commands(plan: Plan, host: str) -> Iterator[str]:
    address = plan.addresses[host]
    links = plan.graph.links_from(host)
    for link in links:
        device = interface(host, link.source_port)
        # One segment at most leaves a veth at a time, so that queues and their drops are of wire packets.
        single = "gso_max_segs 1 " if plan.drivers[link.cable] == "tc" else ""
        mac = f"address {address.mac} " if link is links[0] else ""
        yield f"link set dev {device} {mac}{single}mtu {link.parameters.mtu_bytes} txqueuelen {_TAP_QUEUE_PACKETS} up"
    first = interface(host, links[0].source_port)
    yield f"address add {address.ip}/{PREFIX_LENGTH} dev {first} noprefixroute"
    rto_min_ms = _TCP_RTO_MIN_MS * plan.dilation
    yield f"route add 10.0.0.0/{PREFIX_LENGTH} dev {first} scope link src {address.ip} rto_min {rto_min_ms}ms"
    for other, theirs in plan.addresses.items():
        if other != host:
            yield f"neighbour replace {theirs.ip} lladdr {theirs.mac} dev {first} nud permanent"
    for job in plan.jobs:
        if job.aggregation is not None and host in job.hosts:
            sums = job.aggregation.address
            yield f"neighbour replace {sums.ip} lladdr {sums.mac} dev {first} nud permanent"
