"""What of a spec its engine cannot do: simulation runs no user's program and no controller."""

from testbed.spec.document import Step
from testbed.spec.model import JobSpec
from testbed.spec.network_checks import Network
from testbed.topology.switches import MOST_PORTS

_PLANNED = "ecmp"  # the controller whose routes are the plan's, which simulated switches have without one


def check_engine(net: Network) -> None:
    """Report what does not go with the spec's `engine`."""
    if net.spec.engine == "emulation":
        if net.spec.host is not None:
            message = "is what a simulated rank's CPU takes: emulated ones take what they take"
            net.findings.add(("host",), message, at_key=True)
        return
    for name, job in net.spec.all_jobs.items():
        _check_job(net, ("jobs", name) if name else (), job)
    _check_switches(net)


def _check_job(net: Network, path: tuple[Step, ...], job: JobSpec) -> None:
    if job.workload is not None and job.workload.kind == "command":
        message = "is command, and a program of one's own needs a real host: it is not simulated"
        net.findings.add((*path, "workload", "kind"), message, "collective")


def _check_switches(net: Network) -> None:
    switches = net.spec.switches
    if switches.kind == "bmv2":
        message = "is bmv2, which knows real time alone: it is not simulated, but its program runs on a native switch"
        net.findings.add(("switches", "kind"), message, "native")
    if switches.controller not in (None, _PLANNED):
        message = f"{switches.controller} is not simulated: simulated switches follow the plan's routes"
        net.findings.add(("switches", "controller"), message, _PLANNED)
    if (
        net.spec.fidelity == "message"
        or net.graph is None
        or switches.kind != "ovs"
        or net.findings.incomplete("topology")
    ):
        return
    for name in net.graph.switches:
        if (ports := len(net.graph.links_from(name))) > MOST_PORTS:
            message = (
                f"gives {name} {ports} ports, and a simulated switch runs a program, which tells {MOST_PORTS} apart"
            )
            net.findings.add(("topology",), message)
            break
