"""From a spec and what the machine has to the plan, touching nothing."""

from collections.abc import Mapping
from dataclasses import replace

from testbed.errors import MachineLacks
from testbed.plan.aggregation import routes, trees
from testbed.plan.dilation import Dilation, Journey, check_ceiling, check_range, dilate
from testbed.plan.drivers import datapath_of, drivers
from testbed.plan.environment import with_environment
from testbed.plan.failures import failing_sets
from testbed.plan.model import Address, Aggregation, Capabilities, Carried, JobPlan, Plan, Switching
from testbed.plan.network import rank_paths
from testbed.plan.paths import Paths, RankPaths
from testbed.plan.placement import place_jobs
from testbed.plan.predict import predict, predict_all
from testbed.plan.switching import spelled_out, switching_of
from testbed.plan.timing import longest_hops
from testbed.routing import Addressing, Router, assign
from testbed.spec.model import Spec
from testbed.streams import derive
from testbed.topology import build
from testbed.topology.graph import Graph
from testbed.topology.links import apply_links
from testbed.topology.switches import P4RUNTIME

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
    bmv2=Carried(packet_hops_per_s=20_000, path_excess_ns=500_000, switch_ns=1_000_000),
    bmv2_grpc=True,
)


def plan(spec: Spec, capabilities: Capabilities = DEFAULT_CAPABILITIES) -> Plan:
    """Work `spec` out; raises UsageError (of the part that is wrong) or MachineLacks."""
    if spec.fidelity == "message":
        from testbed.plan.message_level import plan_messages  # with what makes the messages, which others do without

        return plan_messages(spec)
    graph = network_graph(spec)
    switching = switching_of(spec, graph, capabilities)
    datapath = datapath_of(spec, capabilities) if switching.kind == "ovs" else None
    if datapath == "kernel" != capabilities.datapath and spec.engine == "emulation":
        raise MachineLacks(
            "switches.datapath is kernel, but this kernel has no Open vSwitch datapath",
            hint="datapath: user (or auto); once the module is there, `testbed doctor --again`",
        )
    if switching.kind == "bmv2" and switching.controller == P4RUNTIME and not capabilities.bmv2_grpc:
        raise MachineLacks(
            f"bmv2 with the controller {P4RUNTIME} needs bmv2's simple_switch_grpc, and this machine has none",
            hint="leave `controller` out, and simple_switch is filled over Thrift",
        )
    addressing, router = _router(spec, graph)
    switches, addresses = router.switches(), host_addresses(addressing)
    paths = Paths(graph, addresses, switches)
    jobs = _jobs(spec, graph, addresses, paths, switching)
    if spec.environment is not None:  # which goes with one job alone
        spec = with_environment(spec, RankPaths(graph, paths, jobs[0].placement), switching)
    for job in jobs:
        for name, entries in routes(graph, job.aggregation).items() if job.aggregation else ():
            switches[name] = replace(switches[name], entries=entries + switches[name].entries)
    everyone = RankPaths(graph, paths, graph.hosts)
    prediction = predict_all([job.prediction for job in jobs], spec.traffic, everyone, switching)
    emulated = spec.engine == "emulation"
    journeys = [_journey(job, RankPaths(graph, paths, job.placement or graph.hosts)) for job in jobs if emulated]
    dilation = dilate(spec, prediction.packet_hops_per_s, journeys, capabilities, switching.kind).value
    check_range(spec, graph, prediction, dilation)
    if switching.kind == "bmv2":
        check_ceiling(prediction, capabilities.through("bmv2"), dilation)
    core = router.core_cables()
    # In simulation nothing fails but what faults take down.
    failing = [frozenset([cable]) for cable in core] if emulated else []
    # A host's only cable leaves nothing to choose, so only switch-to-switch cables count.
    failing += [cables & frozenset(core) for cables in failing_sets(graph, spec.faults)]
    return Plan(
        spec=spelled_out(spec, switching),
        graph=graph,
        addresses=addresses,
        switches=switches,
        alternates=tuple(router.alternates(dict.fromkeys(cables for cables in failing if cables))),
        jobs=jobs,
        switching=switching,
        datapath=datapath,
        drivers=drivers(spec, graph, datapath, capabilities, dilation),
        dilation=dilation,
        prediction=prediction,
    )


def explain_dilation(plan: Plan, capabilities: Capabilities) -> Dilation:
    """The plan's dilation with its reasons."""
    emulated = plan.jobs if plan.spec.engine == "emulation" else ()
    journeys = [_journey(job, rank_paths(plan, job)) for job in emulated]
    return dilate(plan.spec, plan.prediction.packet_hops_per_s, journeys, capabilities, plan.switching.kind)


def network_graph(spec: Spec) -> Graph:
    """The spec's topology with its links' parameters; raises TopologyError or SelectError."""
    return apply_links(build(spec.topology), spec.links)


def trees_of(spec: Spec) -> dict[str, Aggregation]:
    """Where switches add up, by job; raises UsageError as `plan` does."""
    graph = network_graph(spec)
    addressing, router = _router(spec, graph)
    addresses = host_addresses(addressing)
    paths = Paths(graph, addresses, router.switches())
    switching = switching_of(spec, graph, DEFAULT_CAPABILITIES)
    return trees(spec.all_jobs, placed_jobs(spec, graph), graph, addresses, paths, switching)


def job_seed(seed: int, name: str) -> int:
    """What a job's draws come from: the run's seed, or 63 bits that are each named job's own."""
    return derive(seed, "job", name) >> 1 if name else seed


def _jobs(
    spec: Spec, graph: Graph, addresses: Mapping[str, Address], paths: Paths, switching: Switching
) -> tuple[JobPlan, ...]:
    placed = placed_jobs(spec, graph)
    summed = trees(spec.all_jobs, placed, graph, addresses, paths, switching)
    jobs: list[JobPlan] = []
    for name, job in spec.all_jobs.items():
        ranks = RankPaths(graph, paths, placed[name] or graph.hosts)
        prediction = predict(job, ranks, switching, summed.get(name))
        first = sum(len(before.placement) for before in jobs)
        seed = job_seed(spec.seed, name)
        jobs.append(JobPlan(name, job, seed, first, placed[name], prediction, summed.get(name)))
    return tuple(jobs)


def placed_jobs(spec: Spec, graph: Graph) -> dict[str, tuple[str, ...]]:
    """The host of each rank, by job; raises PlacementError."""
    seeds = {name: job_seed(spec.seed, name) for name in spec.all_jobs}
    return place_jobs({name: job.workers for name, job in spec.all_jobs.items()}, graph, seeds)


def _router(spec: Spec, graph: Graph) -> tuple[Addressing, Router]:
    addressing = assign(graph)
    return addressing, Router(graph, addressing, spec.routing.kind, spec.seed)


def host_addresses(addressing: Addressing) -> dict[str, Address]:
    """Of all hosts, in order."""
    return {host: Address(ip, mac(i)) for i, (host, ip) in enumerate(addressing.hosts.items())}


def _journey(job: JobPlan, ranks: RankPaths) -> Journey:
    return Journey(job.prediction.base_rtt_ns, longest_hops(ranks))


def mac(host: int) -> str:
    """A host's MAC: locally administered, unicast; the low four bits are 0, since spraying draws a sender's anew."""
    number = (0x0254 << 32) | (host << 4)
    return ":".join(f"{number >> shift & 0xFF:02x}" for shift in range(40, -1, -8))
