"""From a spec and what the machine has to the plan, touching nothing."""

from testbed.errors import MachineLacks
from testbed.plan.dilation import Dilation, check_range, dilate
from testbed.plan.drivers import datapath_of, drivers
from testbed.plan.failures import failing_sets
from testbed.plan.model import Address, Capabilities, Carried, Plan
from testbed.plan.network import rank_paths
from testbed.plan.paths import Paths, RankPaths
from testbed.plan.placement import place
from testbed.plan.predict import predict, schedule_of
from testbed.plan.switching import switching_of
from testbed.plan.timing import longest_hops
from testbed.routing import Router, assign
from testbed.spec.model import Spec
from testbed.topology import build
from testbed.topology.graph import Graph
from testbed.topology.links import apply_links

# For a machine that was never measured: two cores, Open vSwitch in userspace with shaped links (40-70 k packet-hops/s
# were measured on such), and the delay its switches were seen to add.
DEFAULT_CAPABILITIES = Capabilities(
    datapath="user",
    netem=False,
    tun_segmentation=False,
    cores=2,
    packet_hops_per_s=40_000,
    path_excess_ns=250_000,
    switch_ns=1_000_000,
    native=Carried(packet_hops_per_s=200_000, path_excess_ns=250_000),
)


def plan(spec: Spec, capabilities: Capabilities = DEFAULT_CAPABILITIES) -> Plan:
    """Work `spec` out; raises UsageError (of the part that is wrong) or MachineLacks."""
    graph = network_graph(spec)
    switching = switching_of(spec, graph, capabilities)
    datapath = datapath_of(spec, capabilities) if switching.kind == "ovs" else None
    if datapath == "kernel" != capabilities.datapath and spec.engine == "emulation":
        raise MachineLacks(
            "switches.datapath is kernel, but this kernel has no Open vSwitch datapath",
            hint="datapath: user (or auto); once the module is there, `testbed doctor --again`",
        )
    addressing = assign(graph)
    router = Router(graph, addressing, spec.routing.kind, spec.seed)
    switches = router.switches()
    addresses = {host: Address(ip, mac(i)) for i, (host, ip) in enumerate(addressing.hosts.items())}
    placement = place(spec.workers, graph, spec.seed) if spec.workers else ()
    ranks = RankPaths(graph, Paths(graph, addresses, switches), placement or graph.hosts)
    prediction = predict(spec, ranks, schedule_of(spec), switching)
    dilation = dilate(spec, prediction, longest_hops(ranks), capabilities, switching.kind).value
    check_range(spec, graph, prediction, dilation)
    core = router.core_cables()
    failing = [frozenset([cable]) for cable in core]
    # A host's only cable leaves nothing to choose, so only switch-to-switch cables count.
    failing += [cables & frozenset(core) for cables in failing_sets(graph, spec.faults)]
    return Plan(
        spec=spec,
        graph=graph,
        addresses=addresses,
        switches=switches,
        alternates=tuple(router.alternates(dict.fromkeys(cables for cables in failing if cables))),
        placement=placement,
        switching=switching,
        datapath=datapath,
        drivers=drivers(spec, graph, datapath, capabilities),
        dilation=dilation,
        prediction=prediction,
    )


def explain_dilation(plan: Plan, capabilities: Capabilities) -> Dilation:
    """The plan's dilation with its reasons."""
    return dilate(plan.spec, plan.prediction, longest_hops(rank_paths(plan)), capabilities, plan.switching.kind)


def network_graph(spec: Spec) -> Graph:
    """The spec's topology with its links' parameters; raises TopologyError or SelectError."""
    return apply_links(build(spec.topology), spec.links)


def mac(host: int) -> str:
    """A host's MAC: locally administered, unicast; the low four bits are 0, since spraying draws a sender's anew."""
    number = (0x0254 << 32) | (host << 4)
    return ":".join(f"{number >> shift & 0xFF:02x}" for shift in range(40, -1, -8))
