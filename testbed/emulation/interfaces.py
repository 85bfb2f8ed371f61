"""The interfaces of a whole network at once: veth pairs, addresses, neighbours, offloads; one process a namespace."""

from collections.abc import Iterator, Sequence

from testbed.emulation.commands import in_parallel, ip_batch, output_of
from testbed.emulation.links import interface, namespace_of
from testbed.plan.model import Plan
from testbed.topology.graph import Link

PREFIX_LENGTH = 8  # every host of a plan is on-link in 10.0.0.0/8, and known to every other: nothing is ever looked up
_TAP_QUEUE_PACKETS = 20_000  # the ring between kernel and fabric: room for bursts while the fabric is not scheduled


def make_veths(plan: Plan, outer: str) -> None:
    """Make a veth pair for each cable of `tc`, its ends where they belong."""
    graph = plan.graph

    def commands() -> Iterator[str]:
        for link in _first_directions(plan, "tc"):
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


def set_offloads(plan: Plan, outer: str, settings: dict[str, str]) -> list[str]:
    """Set offloads (`ethtool -K` names to on or off) of every veth end; returns what reads back otherwise."""
    ends = [
        (namespace_of(plan.graph, link.source, outer), interface(link.source, link.source_port))
        for link in plan.graph.links
        if plan.drivers[link.cable] == "tc"
    ]
    words = [word for pair in settings.items() for word in pair]

    def one(end: tuple[str, str]) -> list[str]:
        namespace, device = end
        enter = ["nsenter", f"--net=/run/netns/{namespace}", "--"]
        output_of([*enter, "ethtool", "-K", device, *words])
        got = parse_features(output_of([*enter, "ethtool", "-k", device]))
        return [
            f"{device}: {feature} is {got.get(feature)} instead of {value}"
            for feature, value in ((_LONG_NAMES[name], value) for name, value in settings.items())
            if got.get(feature) != value
        ]

    return [problem for problems in in_parallel(one, ends) for problem in problems]


_LONG_NAMES = {
    "tx": "tx-checksumming",
    "tso": "tcp-segmentation-offload",
    "tx-udp-segmentation": "tx-udp-segmentation",
}


def parse_features(text: str) -> dict[str, str]:
    """`ethtool -k` -> feature: on or off."""
    pairs = (line.split(":", 1) for line in text.splitlines() if ": " in line)
    return {name.strip(): value.split()[0] for name, value in pairs}


def _host_commands(plan: Plan, host: str) -> Iterator[str]:
    address = plan.addresses[host]
    links = plan.graph.links_from(host)
    for link in links:
        device = interface(host, link.source_port)
        yield (
            f"link set dev {device} {f'address {address.mac} ' if link is links[0] else ''}"
            f"mtu {link.parameters.mtu_bytes} txqueuelen {_TAP_QUEUE_PACKETS} up"
        )
    first = interface(host, links[0].source_port)
    yield f"address add {address.ip}/{PREFIX_LENGTH} dev {first}"
    for other, theirs in plan.addresses.items():
        if other != host:
            yield f"neighbour replace {theirs.ip} lladdr {theirs.mac} dev {first} nud permanent"


def _first_directions(plan: Plan, driver: str) -> Sequence[Link]:
    return [link for link in plan.graph.links[::2] if plan.drivers[link.cable] == driver]
