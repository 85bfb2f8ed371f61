"""What must hold of jobs whose buffers the network sums up: an allreduce, on native switches whose programs add up, and
go on to where they are exchanged."""

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING

from testbed.collective import ALGORITHMS, IN_NETWORK
from testbed.errors import TestbedError, UsageError
from testbed.plugins import is_reference
from testbed.spec.document import Step
from testbed.spec.findings import Findings
from testbed.spec.model import FaultSpec, JobSpec
from testbed.spec.network_checks import MTU_BYTES, Network
from testbed.topology.select import select_switches
from testbed.topology.switches import ADDING, default_program, switch_keys
from testbed.transport import TRANSPORTS, loses, protocol_of
from testbed.transport.aggregation import packet_bytes
from testbed.wire.aggregation import BLOCK_VALUES, VALUE_BYTES
from testbed.wire.ethernet import IPV4_BYTES, UDP_BYTES
from testbed.wire.protocols import BEST_EFFORT, SLOTS

if TYPE_CHECKING:
    from testbed.plan.model import Aggregation

_PARTS = ("topology", "links", "switches", "workers", "transport", "jobs")


def check_sums(net: Network) -> None:
    """Report what is wrong with each such job, and with their trees."""
    summed = {name: job for name, job in net.spec.all_jobs.items() if _summed(job)}
    for name, job in net.spec.all_jobs.items():
        path = ("jobs", name) if name else ()
        if name in summed:
            _check_workload(net.findings, path, job)
            _check_mtu(net, path, job)
        elif job.workload is not None and job.workload.algorithm_name == IN_NETWORK:
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
    name = work.algorithm_name or ""
    if name in ALGORITHMS or is_reference(name):
        message = f"{name} exchanges messages, and with aggregation switches add up: leave this out"
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
        trees = trees_of(net.spec)
    except AggregationError as error:
        net.findings.add(error.key, error.what, error.suggestion)
    except (UsageError, OSError):
        pass  # which is told of where it comes from
    else:
        for index, fault in enumerate(net.spec.faults):
            if fault.kind == "swap-program" and not net.findings.incomplete("faults"):
                _check_swap(net, ("faults", index), fault, trees)


def _check_swap(net: Network, path: tuple[Step, ...], fault: FaultSpec, trees: Mapping[str, "Aggregation"]) -> None:
    """An exchange at switches that add up: the new program must do so too, and have what the old one has added."""
    assert net.graph is not None
    if fault.select is None or fault.program is None:
        return
    try:
        chosen = select_switches(net.graph, fault.select)
        keys = switch_keys(net.graph, net.spec.switches)
        misfits = [
            (switch, *misfit)
            for name, tree in trees.items()
            for switch in chosen
            if switch in tree.switches
            for misfit in _misfits(
                net.spec.all_jobs[name], tree, switch, keys[switch].program or default_program(net.spec), fault
            )
        ]
    except (TestbedError, OSError):
        return  # which is told of the selector, or of the program
    if misfits:
        _, key, message, suggestion = misfits[0]
        others = len({switch for switch, *_ in misfits}) - 1
        also = f"; at {others} other switch{'es' if others > 1 else ''} likewise" if others else ""
        net.findings.add((*path, key), message + also, suggestion)


def _misfits(
    job: JobSpec, tree: "Aggregation", switch: str, before: str, fault: FaultSpec
) -> Iterator[tuple[str, str, str]]:
    """What is wrong with an exchange of the program `before` at a switch that adds up for a job: the fault's key, a
    message, a suggestion.

    A switch with slots keeps the sums that its children may still ask for, and who has contributed: without these,
    members that have a result and members that lack it wait for each other, and a contribution that comes late and
    twice may count twice. Best-effort jobs go on without, since their server has what it takes, and units that average
    are asked for nothing again.
    """
    from testbed.dataplane.aggregation import LEAF_STATE, STATE
    from testbed.dataplane.programs import facts_of, path_of, program_in

    assert fault.program is not None
    unit, protocol = tree.switches[switch], protocol_of(job.transport) or SLOTS
    name, old = PurePath(fault.program).stem, PurePath(before).stem
    can = facts_of(path_of(fault.program)).sums
    does = f"and {switch} adds up for {_called(tree)}"
    slots = 0 if protocol == BEST_EFFORT else tree.first_slot + tree.slots
    if can is None:
        yield "program", f"{name} does not add up, {does}", ADDING[protocol]
    elif can.protocol != protocol:
        yield "program", f"{name} adds up by protocol {can.protocol}, {does} by {protocol}", ADDING[protocol]
    elif unit.parent is not None and not can.passes_on:
        yield "program", f"{name} passes no sums on, {does} below {unit.parent}", ADDING[protocol]
    elif slots > can.slots:
        yield "program", f"{name} has {can.slots} slots, {does} in slots up to {slots}", old
    elif protocol == SLOTS and fault.registers != "keep":
        what = "who has contributed to what, and sums that are asked for again, are in its registers"
        yield (
            "registers",
            f"without `registers: keep` {switch} may leave {_called(tree)} waiting for ever: {what}",
            "keep",
        )
    elif protocol == SLOTS:
        shapes = [
            {
                array.name.rpartition(".")[2]: (array.bits, array.size)
                for array in program_in(path_of(program)).registers
            }
            for program in (before, fault.program)
        ]
        state = STATE if unit.parent is None else LEAF_STATE
        if lost := [array for array in state if shapes[1].get(array) != shapes[0].get(array)]:
            yield "program", f"{name} cannot keep {' and '.join(lost)} as {old} has them, {does}", old


def _called(tree: "Aggregation") -> str:
    return f"job {tree.job}" if tree.job else "the job"
