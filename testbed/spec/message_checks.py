"""What of a spec a run without packets (`fidelity: message`) cannot carry: it is refused, never ignored.

Queues, marks and congestion control are how links come to be shared, which is max-min fair here: `queue`, `ecn`,
`congestion` and the transport's constants may stand, so that a sweep can go over `fidelity`; the result has a note.
"""

from typing import Any

from testbed.spec.document import Step
from testbed.spec.model import FaultSpec, JobSpec, LinkSpec
from testbed.spec.network_checks import Network
from testbed.topology.switches import KEYS, WRITTEN
from testbed.training import OF_ANY_SIZE, is_stored
from testbed.transport import ParameterError, loses, reduces

_PROGRAM = "l3_ecmp"  # whose hash it knows
_LINK_KEYS = {"loss": "loses", "corrupt": "corrupts", "duplicate": "duplicates", "jitter": "delays unevenly"}
_FAULTS = ("kill", "swap-program", "tail-drop")


def check_messages(net: Network) -> None:
    """Report what does not go with the spec's `fidelity`."""
    spec, add = net.spec, net.findings.add
    if spec.fidelity == "packet":
        return
    if spec.engine == "emulation":
        add(("fidelity",), "is message, and what is emulated are packets: it goes with engine: simulation", "packet")
        return
    for index, link in enumerate(spec.links):
        _check_link(net, ("links", index), link)
    for index, fault in enumerate(spec.faults):
        if fault.kind in _FAULTS:
            add(("faults", index, "kind"), f"{fault.kind} is of packets: {_NEEDS}")
        _check_link(net, ("faults", index), fault)
    if spec.routing.kind == "spray":
        add(("routing", "kind"), f"spray is drawn packet by packet: {_NEEDS}", "ecmp")
    if spec.traffic:
        add(("traffic",), f"is packets: {_NEEDS}", at_key=True)
    for key, given in (("capture", spec.capture), ("host", spec.host)):
        if given is not None:
            add((key,), f"is of packets: {_NEEDS}", at_key=True)
    for key in (*KEYS, "overrides"):
        value = getattr(spec.switches, key)
        if value and not (key == "program" and value == _PROGRAM):
            add(("switches", WRITTEN.get(key, key)), f"says what a switch does with packets: {_NEEDS}", at_key=True)
    for name, job in spec.all_jobs.items():
        _check_job(net, ("jobs", name) if name else (), job)


_NEEDS = "it needs fidelity: packet"


def _check_link(net: Network, path: tuple[Step, ...], entry: LinkSpec | FaultSpec) -> None:
    given: dict[str, Any] = {
        "loss": entry.loss and entry.loss.mean,
        "corrupt": entry.corrupt,
        "duplicate": entry.duplicate,
        "jitter": entry.jitter_ns,
    }
    for key, value in given.items():
        if value:
            net.findings.add((*path, key), f"{_LINK_KEYS[key]} packets: {_NEEDS}", at_key=True)


def _check_job(net: Network, path: tuple[Step, ...], job: JobSpec) -> None:
    workload = job.workload
    try:
        if reduces(job.transport):
            message = f"{job.transport.kind} is added up by switches, packet by packet: {_NEEDS}"
            net.findings.add((*path, "transport", "kind"), message, "roce")
        elif loses(job.transport):
            message = f"{job.transport.kind} leaves missing what comes too late, packet by packet: {_NEEDS}"
            net.findings.add((*path, "transport", "kind"), message, "roce")
    except ParameterError:
        pass  # which is told of the transport
    if workload is not None and not is_stored(workload.gradients) and workload.gradients not in OF_ANY_SIZE:
        message = f"{workload.gradients} learns from the result, and messages carry no values: {_NEEDS}"
        net.findings.add((*path, "workload", "gradients"), message, "none")
