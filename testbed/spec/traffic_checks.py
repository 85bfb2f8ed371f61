"""What must hold of a spec's background traffic: its hosts are there, and its packets and flows can be sent."""

import math

from testbed.errors import UsageError
from testbed.spec.document import Step
from testbed.spec.keys import Keys, check_keys, given_keys
from testbed.spec.model import EVERYBODY, TrafficSpec
from testbed.spec.network_checks import MTU_BYTES, NOT_BEFORE, Network
from testbed.stress.arrivals import hosts
from testbed.stress.sizes import SIZES, sizes_of
from testbed.suggest import closest
from testbed.wire.ethernet import IPV4_BYTES, UDP_BYTES

Path = tuple[Step, ...]


_ALWAYS = ("start", "stop")
TRAFFIC = {
    "constant": Keys("packets from a host to a host at a rate", ("from", "to", "rate"), (), ("packet", *_ALWAYS)),
    "incast": Keys("bursts from several hosts to one", ("from", "to", "size", "every"), (), ("packet", *_ALWAYS)),
    "flows": Keys(
        "flows over TCP between hosts, with sizes from a distribution, as a Poisson process",
        ("sizes",),
        ("load", "every"),
        ("from", "to", "scale", "of", *_ALWAYS),
    ),
}
_EXAMPLES = {"every": "10ms", "sizes": "web-search"}
_MOST_SCALE = 1e6


def check_traffic(net: Network) -> None:
    """Report what is wrong with each entry."""
    for index, entry in enumerate(net.spec.traffic):
        path = ("traffic", index)
        check_keys(net.findings, path, entry, TRAFFIC, _EXAMPLES)
        _check_amounts(net, path, entry)
        _check_hosts(net, path, entry)
        _check_times(net, path, entry)
        if entry.kind == "flows":
            _check_flows(net, path, entry)
        else:
            _check_packet(net, (*path, "packet"), entry)


def _check_amounts(net: Network, path: Path, entry: TrafficSpec) -> None:
    add = net.findings.add
    if entry.kind == "flows" and given_keys(entry) >= {"load", "every"}:
        add((*path, "every"), "flows come at a load or one every time on average, not both", at_key=True)
    for key, value in (
        ("rate", entry.rate_bps),
        ("size", entry.size_bytes),
        ("every", entry.every_ns),
        ("load", entry.load),
    ):
        if value == 0:
            add((*path, key), "is 0, so nothing would be sent")
    if entry.packet_bytes == 0:
        add((*path, "packet"), "is 0: how many bytes a packet carries, e.g. 1024B")


def _check_hosts(net: Network, path: Path, entry: TrafficSpec) -> None:
    flows = entry.kind == "flows"
    given = given_keys(entry)
    for key, names, value in (("from", entry.sources, entry.source), ("to", entry.targets, entry.target)):
        if key not in given or (flows and value == EVERYBODY):
            continue
        if not names:
            net.findings.add((*path, key), "names no host")
        for index, name in enumerate(names):
            net.host((*path, key) if isinstance(value, str) else (*path, key, index), name)
    if flows:
        graph = net.graph
        if graph is not None and len(named := {*hosts(entry.sources, graph), *hosts(entry.targets, graph)}) == 1:
            net.findings.add((*path, "to"), f"{named.pop()!r} is also where flows come from: there is no other")
        return
    if len(entry.targets) > 1:
        net.findings.add((*path, "to"), f"{entry.kind} traffic goes to one host")
    for index, source in enumerate(entry.sources):
        if source in entry.targets and "to" in given and (net.graph is None or source in net.graph.hosts):
            where = (*path, "from") if isinstance(entry.source, str) else (*path, "from", index)
            message = f"{source!r} is also where it goes: a host does not send to itself over the network"
            net.findings.add(where, message)


def _check_times(net: Network, path: Path, entry: TrafficSpec) -> None:
    if entry.start_ns < 0:
        net.findings.add((*path, "start"), NOT_BEFORE)
    if entry.stop_ns is not None and entry.stop_ns < 0:
        net.findings.add((*path, "stop"), NOT_BEFORE)
    elif entry.stop_ns is not None and entry.stop_ns <= entry.start_ns:
        net.findings.add((*path, "stop"), "is not after start")


def _check_flows(net: Network, path: Path, entry: TrafficSpec) -> None:
    add = net.findings.add
    mean_bytes = math.inf
    if entry.sizes is not None:
        try:
            mean_bytes = entry.scale * sizes_of(entry.sizes).mean_bytes
        except UsageError as error:
            add((*path, "sizes"), error.message, closest(entry.sizes, SIZES))
    if not (math.isfinite(entry.scale) and 0 < entry.scale <= _MOST_SCALE):
        message = f"is {entry.scale:g} and must be more than 0 and at most {_MOST_SCALE:g}: flows' sizes are times this"
        add((*path, "scale"), message)
    elif mean_bytes < 1:
        add((*path, "scale"), f"is {entry.scale:g} and makes flows of {mean_bytes:.3g} bytes on average: less than one")
    if entry.of is not None:
        net.select((*path, "of"), entry.of)
        if "every" in given_keys(entry):
            add((*path, "of"), "says which links' rates `load` is a share of, and there is none", at_key=True)


def _check_packet(net: Network, path: Path, entry: TrafficSpec) -> None:
    """Whether a packet and its headers fit all links that it may cross."""
    graph, sources = net.graph, entry.sources
    hosts = {*sources, *entry.targets}
    if graph is None or net.findings.incomplete("links") or not hosts <= set(graph.hosts):
        return
    apart = len({graph.edge_switch(host) for host in hosts}) > 1
    crossed = (
        link
        for link in graph.links
        if link.source in sources
        or link.target in entry.targets
        or (apart and graph.nodes[link.source].kind == graph.nodes[link.target].kind)
    )
    tightest = min(crossed, key=lambda link: link.parameters.mtu_bytes)
    room = tightest.parameters.mtu_bytes - IPV4_BYTES - UDP_BYTES
    if entry.packet_bytes > room and tightest.parameters.mtu_bytes in MTU_BYTES:
        headers = f"{entry.packet_bytes} bytes and {IPV4_BYTES + UDP_BYTES} of headers"
        message = f"{headers} do not fit the link {tightest.name} of mtu {tightest.parameters.mtu_bytes}"
        net.findings.add(path, message, f"{room}B")
