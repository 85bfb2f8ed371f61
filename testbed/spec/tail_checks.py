"""Whether a tail-drop can take anything: packets are lost that begin in the end that it takes of a message, and in the
end of messages of few packets none does.
"""

import math

from testbed.errors import UsageError
from testbed.spec.model import FaultSpec, JobSpec
from testbed.spec.network_checks import Network
from testbed.topology.graph import Graph
from testbed.transport import find
from testbed.transport.endpoint import Path
from testbed.units import format_bytes

_PARTS = ("topology", "links", "workers", "transport", "workload", "jobs", "faults")


def check_tails(net: Network) -> None:
    """Report each tail-drop to which none of the messages that it strikes could ever lose a packet."""
    if net.graph is None or any(net.findings.incomplete(part) for part in _PARTS):
        return
    for index, fault in enumerate(net.spec.faults):
        if fault.kind == "tail-drop" and fault.share:
            _check(net, net.graph, index, fault, fault.share)


def _check(net: Network, graph: Graph, index: int, fault: FaultSpec, share: float) -> None:
    ends: set[tuple[int, int]] = set()
    for name, job in net.spec.all_jobs.items():
        if job.workers is None or not any(fault.strikes(name, rank) for rank in range(job.workers.count)):
            continue
        try:
            found = _ends(graph, name, job, fault)
        except (UsageError, OSError):
            return  # which is told of where it comes from
        if found is None:
            return
        ends |= found
    if not ends or any(last <= int(share * size) for size, last in ends):
        return
    size, last = min(ends, key=lambda end: end[1] / end[0])
    net.findings.add(
        ("faults", index, "share"),
        f"is {int(share * size)} bytes of a message of {format_bytes(size)}, whose last packet has {last}: none begins "
        "there, and nothing would ever be dropped",
        f"{math.ceil(100 * last / size)}%",
    )


def _ends(graph: Graph, name: str, job: JobSpec, fault: FaultSpec) -> set[tuple[int, int]] | None:
    """(bytes, those of its last packet) of the messages that a job's struck ranks send.

    None: not known. On a connection packets begin anywhere in a message; a command's messages are its own.
    """
    # Only here: the plan is not small, and most specs drop no tails.
    from testbed.plan.framing import framing
    from testbed.plan.messages import messages
    from testbed.plan.predict import buffers, schedule_of

    schedule = schedule_of(job)
    if schedule is None or job.workload is None or find(job.transport.kind).make is None:
        return None
    links = [link.parameters for link in graph.links]
    path = Path(min(link.rate_bps for link in links), 1, min(link.mtu_bytes for link in links), 1)
    packet_bytes = framing(job.transport, path).payload_bytes
    return {
        (size, (size - 1) % packet_bytes + 1)
        for (source, _, size), _ in messages(schedule, buffers(job.workload))
        if fault.strikes(name, source)
    }
