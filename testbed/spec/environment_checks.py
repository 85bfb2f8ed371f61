"""What must hold of a spec's `environment`: there is one baseline to measure, and a tail that it can have."""

from testbed.collective import ALGORITHMS, algorithms_for
from testbed.plugins import is_reference
from testbed.spec.document import Step
from testbed.spec.errors import listed
from testbed.spec.model import EnvironmentSpec, Spec
from testbed.spec.network_checks import MOST_RATIO, Network
from testbed.suggest import closest
from testbed.transport import ParameterError, reduces

_KEY = "environment"
MECHANISMS = {
    "congestion": "TCP flows into ranks' hosts, found: how much each carries",
    "stalls": "ranks that stall before a step, found: how long",
    "slow-host": "windows in which one rank's links are slow, found: how slow",
}
_MOST_EVENTS = 100
_MOST_SEVERITY = 10**6  # a search ends long before that


def check_environment(net: Network) -> None:
    """Report what is wrong with it."""
    spec, environment = net.spec, net.spec.environment
    if environment is None:
        return
    _check_job(net, spec)
    add = net.findings.add
    if not 1 <= environment.tail_ratio <= MOST_RATIO:
        message = (
            f"is {environment.tail_ratio:g} and must be from 1 (nothing is added) to {MOST_RATIO}: it is p99 / p50"
        )
        add((_KEY, "tail_ratio"), message)
    most = 1 if environment.by == "slow-host" else _MOST_EVENTS
    if not 0 < environment.events <= most or (environment.by == "slow-host" and environment.events == 1):
        what = "the share of iterations that are slow, under 1" if most == 1 else f"at most {most} an iteration"
        add((_KEY, "events"), f"is {environment.events:g} and must be more than 0 and {what}")
    if environment.tolerance == 0:
        add((_KEY, "tolerance"), "is 0, and no ratio is met that well: e.g. 5%")
    if environment.limit_ns == 0:
        add((_KEY, "limit"), "is 0: how long to look for the severity, e.g. 10min")
    if environment.severity is not None and not 0 <= environment.severity <= _MOST_SEVERITY:
        message = f"is {environment.severity:g} and must be from 0 to {_MOST_SEVERITY:,}: how hard an event strikes"
        add((_KEY, "severity"), message)
    if environment.reached is not None and environment.severity is None:
        add((_KEY, "reached"), "is what `severity` reached, and there is none: leave this out", at_key=True)
    _check_baseline(net, spec, environment)


def _check_job(net: Network, spec: Spec) -> None:
    add = net.findings.add
    if spec.jobs is not None:
        add((_KEY,), "is tuned to one job, and there are several: leave this out", at_key=True)
    elif spec.fidelity == "message":
        add((_KEY,), "is of packets: it needs fidelity: packet", at_key=True)
    elif spec.workload is None or spec.workers is None:
        add((_KEY,), "needs a workload, on which its baseline is measured", at_key=True)
    elif spec.workload.kind == "command":
        add((_KEY,), "has no baseline for a command: it needs a collective", at_key=True)


def _check_baseline(net: Network, spec: Spec, environment: EnvironmentSpec) -> None:
    path: tuple[Step, ...] = (_KEY, "baseline")
    algorithm = environment.baseline.algorithm
    if algorithm is not None and spec.workload is not None and not is_reference(algorithm):
        serving = algorithms_for(spec.workload.collective)
        if algorithm not in serving:
            known = "does not do" if algorithm in ALGORITHMS else "is no algorithm for"
            message = f"{algorithm} {known} {spec.workload.collective}, which has {listed(serving)}"
            net.findings.add((*path, "algorithm"), message, closest(algorithm, serving))
    try:
        if reduces(environment.baseline.transport):
            message = "is added up by switches: a baseline exchanges messages"
            net.findings.add((*path, "transport", "kind"), message, "tcp")
    except ParameterError:
        pass  # which is told of the transport
