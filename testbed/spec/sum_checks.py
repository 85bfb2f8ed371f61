"""What must hold of jobs whose buffers the network sums up: an allreduce, on native switches whose programs add up."""

from testbed.collective import ALGORITHMS, IN_NETWORK
from testbed.errors import UsageError
from testbed.plugins import is_reference
from testbed.spec.document import Step
from testbed.spec.findings import Findings
from testbed.spec.model import JobSpec
from testbed.spec.network_checks import MTU_BYTES, Network
from testbed.transport import TRANSPORTS, loses
from testbed.transport.aggregation import packet_bytes
from testbed.wire.aggregation import BLOCK_VALUES, VALUE_BYTES
from testbed.wire.ethernet import IPV4_BYTES, UDP_BYTES

_PARTS = ("topology", "links", "switches", "workers", "transport", "jobs")


def check_sums(net: Network) -> None:
    """Report what is wrong with each such job, and with their trees."""
    summed = {name: job for name, job in net.spec.all_jobs.items() if _summed(job)}
    for name, job in net.spec.all_jobs.items():
        path = ("jobs", name) if name else ()
        if name in summed:
            _check_workload(net.findings, path, job)
            _check_mtu(net, path, job)
        elif job.workload is not None and job.workload.algorithm == IN_NETWORK:
            message = f"{IN_NETWORK} goes with transport: aggregation, and this is {job.transport.kind}"
            net.findings.add((*path, "workload", "algorithm"), message)
    if not summed:
        return
    if net.spec.switches.kind not in ("native", "auto"):
        message = f"is {net.spec.switches.kind}, and only native switches add up what aggregation sends"
        net.findings.add(("switches", "kind"), message, "native")
    elif not any(net.findings.incomplete(part) for part in _PARTS):
        _check_trees(net)


def _summed(job: JobSpec) -> bool:
    transport = TRANSPORTS.get(job.transport.kind)
    return transport is not None and transport.reduce is not None


def _check_workload(findings: Findings, path: tuple[Step, ...], job: JobSpec) -> None:
    work = job.workload
    if work is None or work.kind != "collective":
        return
    if work.collective != "allreduce":
        message = f"is {work.collective}, and aggregation gives every rank the sum: it does allreduce alone"
        findings.add((*path, "workload", "collective"), message, "allreduce")
    if work.algorithm in ALGORITHMS or is_reference(work.algorithm or ""):
        message = f"{work.algorithm} exchanges messages, and with aggregation switches add up: leave this out"
        findings.add((*path, "workload", "algorithm"), message, IN_NETWORK)
    if work.dtype == "int32" and loses(job.transport):
        message = "is int32, and means of words are rounded: only floats are for protocol: optical"
        findings.add((*path, "workload", "dtype"), message, "float32")
    if work.root:
        findings.add((*path, "workload", "root"), f"{IN_NETWORK} has no root rank: leave this out", at_key=True)


def _check_mtu(net: Network, path: tuple[Step, ...], job: JobSpec) -> None:
    """A packet of `values`, where they are given, must fit every link."""
    values = job.transport.parameters.get("values")
    if net.graph is None or values is None or net.findings.incomplete("links"):
        return
    tightest = min(net.graph.links, key=lambda link: link.parameters.mtu_bytes)
    room = tightest.parameters.mtu_bytes
    framing = job.transport.parameters.get("framing", "udp")
    around = packet_bytes({"framing": framing, "values": 0}) + IPV4_BYTES + UDP_BYTES
    if room < MTU_BYTES[0] or around + VALUE_BYTES * values <= room:
        return
    fitting = (room - around) // VALUE_BYTES // BLOCK_VALUES * BLOCK_VALUES
    message = f"{values} values are a packet of {around + VALUE_BYTES * values} bytes, and the link {tightest.name} has"
    net.findings.add((*path, "transport", "values"), f"{message} an mtu of {room}", str(fitting))


def _check_trees(net: Network) -> None:
    # Only here: the plan is not small, and most specs have no trees.
    from testbed.plan.aggregation import AggregationError
    from testbed.plan.planner import trees_of

    try:
        trees_of(net.spec)
    except AggregationError as error:
        net.findings.add(error.key, error.what, error.suggestion)
    except (UsageError, OSError):
        pass  # which is told of where it comes from
