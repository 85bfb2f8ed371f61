"""What must hold of a spec as a whole: ranks fit their hosts, the workload makes sense, expectations can be judged."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from testbed.collective import ALGORITHMS, algorithms_for, generate
from testbed.errors import TestbedError, UsageError
from testbed.plugins import is_reference
from testbed.results.model import Result
from testbed.spec.errors import listed
from testbed.spec.findings import Findings
from testbed.spec.model import COLLECTIVE_KEYS, MOST_DILATION, ExpectSpec, Spec, WorkloadSpec
from testbed.spec.network_checks import MTU_BYTES, Network, check_network, network
from testbed.spec.switch_checks import check_switches
from testbed.spec.words import branches
from testbed.suggest import closest
from testbed.training import GRADIENTS, buffer_elements, is_stored
from testbed.units import format_bytes, format_duration, parse_mtu, shown
from testbed.wire.roce import MTUS

ROCE_HEADER_BYTES = 80  # soft-RoCE leaves this in a link's MTU for IP, UDP, BTH and its extensions, and ICRC
_LEAST_WALL_NS = 10**9  # setting a network up takes longer
_LEAST_STALL_NS = 10**6
_MOST_SIZE_BYTES = 2**40
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_WITH_ROOT = {"binomial", "parameter-server"}  # in allreduce too
_ELEMENT_BYTES = {"float32": 4, "float16": 2, "int32": 4}


def check(spec: Spec, findings: Findings) -> None:
    """Report all that is wrong with `spec`, which was read from the tree of `findings`."""
    net = network(spec, findings)
    _check_names(spec, findings)
    _check_limits(spec, findings)
    _check_workers(net)
    _check_transport(net)
    if spec.workload is not None:
        _check_workload(spec, spec.workload, findings)
    check_network(net)
    check_switches(net)


def check_expectations(expect: Sequence[ExpectSpec], sweep: Sequence[Mapping[str, Any]], findings: Findings) -> None:
    """Report what is wrong with `expect`; `sweep` are the points' values (none: there is no sweep)."""
    metrics = dict(_leaves(Result))
    for index, one in enumerate(expect):
        path = ("expect", index)
        if one.metric not in metrics:
            message = f"result.json has no {one.metric!r}, but e.g. cct_ns.p50, busbw_bps.ring, wrong"
            findings.add((*path, "metric"), message, closest(one.metric, metrics))
        elif not {int, float} & set(branches(metrics[one.metric])):
            for key, given in (("at_most", one.at_most), ("at_least", one.at_least), ("to", one.to)):
                if given is not None:
                    message = f"needs a metric that is a number, and {one.metric} is none: only `equals` goes with it"
                    findings.add((*path, key), message, at_key=True)
        bounds = {"at_most": one.at_most, "at_least": one.at_least, "equals": one.equals}
        if all(bound is None for bound in bounds.values()):
            findings.add(path, "expects nothing: give at_most, at_least or equals")
        if one.at_most is not None and one.at_least is not None and one.at_least > one.at_most:
            findings.add((*path, "at_least"), "is more than at_most")
        for key, point in (("of", one.of), ("to", one.to)):
            if point is not None:
                _check_point((*path, key), point, sweep, findings)


def _check_point(
    path: tuple[str | int, ...], point: Mapping[str, Any], sweep: Sequence[Mapping[str, Any]], findings: Findings
) -> None:
    swept = list(dict.fromkeys(key for values in sweep for key in values))
    known = True
    for key, value in point.items():
        values = [row[key] for row in sweep if key in row]
        if key not in swept:
            what = f"the sweep has {listed(swept)}" if swept else "there is no sweep"
            findings.add((*path, key), f"is not swept: {what}", closest(key, swept), at_key=True)
            known = False
        elif value not in values:
            texts = list(dict.fromkeys(str(v) for v in values))
            message = f"{shown(value)} is not among its values in the sweep: {listed(texts)}"
            findings.add((*path, key), message, closest(value, texts) if isinstance(value, str) else "")
            known = False
    if known and point and not any(all(values.get(k) == v for k, v in point.items()) for values in sweep):
        findings.add(path, "no point of the sweep has all of these values")


def _leaves(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The paths of a result that lead to one value."""
    for name, field in model.model_fields.items():
        path = prefix + (field.alias or name)
        parts = [b for b in branches(field.annotation) if isinstance(b, type) and issubclass(b, BaseModel)]
        if parts:
            yield from _leaves(parts[0], path + ".")
        else:
            yield path, field.annotation


def _check_names(spec: Spec, findings: Findings) -> None:
    if not _SAFE_NAME.fullmatch(spec.name) and not findings.set_aside("name"):
        safe = re.sub(r"[^A-Za-z0-9._-]+", "-", spec.name).strip("-._")[:100]
        message = f"{shown(spec.name)} names a folder: letters, digits, dots, dashes, underscores; at most 100"
        findings.add(("name",), message, safe)


def _check_limits(spec: Spec, findings: Findings) -> None:
    for key, limit_ns, least_ns, why in (
        ("wall", spec.limits.wall_ns, _LEAST_WALL_NS, "the run would end before it begins"),
        ("stall", spec.limits.stall_ns, _LEAST_STALL_NS, "every wait would be a stall"),
    ):
        if limit_ns < least_ns:
            least, given = format_duration(least_ns), format_duration(limit_ns) if limit_ns else "0"
            findings.add(("limits", key), f"is {given} and must be at least {least}: {why}", least)
    if spec.time_dilation != "auto" and spec.time_dilation < 1:
        message = f"is {spec.time_dilation} and must be at least 1: it makes the network slower, never faster"
        findings.add(("time_dilation",), message, "auto")
    elif spec.time_dilation != "auto" and spec.time_dilation > MOST_DILATION:
        findings.add(("time_dilation",), f"must be at most {MOST_DILATION}: a second would take 12 days", "auto")
    if not 0 <= spec.seed < 2**63:
        findings.add(("seed",), f"is {spec.seed} and must be from 0 to 2^63 - 1")


def _check_workers(net: Network) -> None:
    spec, findings, workers = net.spec, net.findings, net.spec.workers
    if workers is None:
        if spec.workload is not None:
            findings.add(("workers",), "is missing: a workload needs ranks, e.g. workers: {count: 8}")
        return
    if spec.workload is not None and spec.workload.kind == "collective" and workers.count < 2:
        findings.add(("workers", "count"), "is 1 and a collective needs at least 2 ranks")
    placement = workers.placement
    if isinstance(placement, str):
        if net.graph is not None and workers.count > len(net.graph.hosts):
            hosts = len(net.graph.hosts)
            message = f"{workers.count} workers on {hosts} hosts: a host takes one"
            findings.add(("workers", "count"), message, str(hosts))
        return
    if len(placement) != workers.count and not findings.incomplete("workers"):
        message = f"names {len(placement)} hosts for {workers.count} workers"
        findings.add(("workers", "placement"), message, f"count: {len(placement)}")
    for rank, host in enumerate(placement):
        if net.host(("workers", "placement", rank), host) and host in placement[:rank]:
            message = f"{host!r} already has rank {placement.index(host)}: a host takes one"
            findings.add(("workers", "placement", rank), message)


def _check_transport(net: Network) -> None:
    """RoCE's MTU is a payload; with its headers it must fit every link."""
    transport = net.spec.transport
    if transport.kind != "roce" or net.findings.incomplete("transport"):
        return
    if net.graph is None or net.findings.incomplete("links"):
        return
    tightest = min(net.graph.links, key=lambda link: link.parameters.mtu_bytes)
    room = tightest.parameters.mtu_bytes
    if room < MTU_BYTES[0]:
        return  # which is told of the link
    fitting = [mtu for mtu in MTUS if mtu + ROCE_HEADER_BYTES <= room]
    if "mtu" in transport.parameters:
        mtu = parse_mtu(transport.parameters["mtu"])
    else:  # scaled to the links, or as published
        mtu = (fitting or MTUS)[0] if transport.scale == "auto" else 1024
    if mtu + ROCE_HEADER_BYTES > room:
        needed = -(-(mtu + ROCE_HEADER_BYTES) // 100) * 100
        message = f"{mtu} does not fit the link {tightest.name} of mtu {room}: set the links' mtu to {needed}"
        net.findings.add(("transport", "mtu"), message, str(fitting[-1]) if fitting else "")


def _check_workload(spec: Spec, workload: WorkloadSpec, findings: Findings) -> None:
    given = {WorkloadSpec.model_fields[name].alias or name for name in workload.model_fields_set}
    if workload.kind == "command":
        if not workload.command:
            message = "is missing: the program each rank runs" if workload.command is None else "is empty"
            findings.add(("workload", "command"), f"{message}, e.g. command: [python3, train.py]")
        elif "\0" in "".join(workload.command):
            findings.add(("workload", "command"), "holds a NUL character, which no program can be given")
        for key in COLLECTIVE_KEYS:
            if key in given:
                findings.add(("workload", key), "does not go with kind: command", at_key=True)
        return
    if "command" in given:
        findings.add(("workload", "command"), "goes with kind: command", "kind: command", at_key=True)
    ranks = spec.workers.count if spec.workers is not None else 2
    _check_algorithm(workload, ranks, findings)
    _check_size(workload, findings)
    if spec.workers is not None and not 0 <= workload.root < spec.workers.count:
        last = spec.workers.count - 1
        findings.add(("workload", "root"), f"there is no rank {workload.root}: ranks are 0 to {last}")
        return
    algorithm = workload.algorithm or algorithms_for(workload.collective)[0]
    if workload.root and workload.collective != "broadcast" and algorithm in ALGORITHMS.keys() - _WITH_ROOT:
        message = f"{workload.collective} by {algorithm} has no root: leave this out"
        findings.add(("workload", "root"), message, at_key=True)


def _check_algorithm(workload: WorkloadSpec, ranks: int, findings: Findings) -> None:
    name, path = workload.algorithm, ("workload", "algorithm")
    if name is None:
        return
    if is_reference(name):
        try:
            generate(workload.collective, name, ranks, workload.root if 0 <= workload.root < ranks else 0)
        except TestbedError as error:
            findings.add(path, error.message)
        except (Exception, SystemExit) as error:  # one's own generator may raise anything
            findings.add(path, f"{name} failed: {type(error).__name__}: {error}")
        return
    serving = algorithms_for(workload.collective)
    if name.endswith(".xml"):
        findings.add(path, "MSCCL XML is not supported yet")
    elif name not in ALGORITHMS:
        message = f"no algorithm is called {name!r}: {workload.collective} has {listed(serving)}"
        findings.add(path, message, closest(name, ALGORITHMS))
    elif name not in serving:
        message = f"{name} does not do {workload.collective}, which has {listed(serving)}"
        findings.add(path, message, serving[0])


def _check_size(workload: WorkloadSpec, findings: Findings) -> None:
    size, path = workload.size_bytes, ("workload", "size")
    file = is_stored(workload.gradients)
    if workload.gradients not in GRADIENTS and not file:
        message = f"{workload.gradients!r} is neither {', '.join(GRADIENTS)} nor a .npy or .npz file"
        findings.add(("workload", "gradients"), message, closest(workload.gradients, GRADIENTS))
        return
    if file:
        try:
            buffer_elements(workload.gradients)
        except UsageError as error:
            findings.add(("workload", "gradients"), error.message.removeprefix("gradients: "))
    if size is not None and size > _MOST_SIZE_BYTES:
        findings.add(path, f"must be at most {format_bytes(_MOST_SIZE_BYTES)}")
    if workload.gradients == "random" and size is None:
        findings.add(path, "is missing: how many bytes the collective moves, e.g. size: 1MiB")
    elif workload.gradients != "random" and not file and size is not None:
        message = f"{workload.gradients} has a size of its own: leave this out"
        findings.add(path, message, at_key=True)
    elif workload.gradients != "random" and workload.dtype == "int32":
        findings.add(("workload", "dtype"), "gradients are not whole numbers: only `random` has int32", "float32")
    if workload.gradients == "digits-mlp" and workload.collective != "allreduce":
        message = f"is {workload.collective}, which does not give every rank the sum that digits-mlp learns from"
        findings.add(("workload", "collective"), message, "allreduce")
    element = _ELEMENT_BYTES[workload.dtype]
    if size == 0:
        findings.add(path, "is 0: nothing to move")
    elif size is not None and size % element:
        message = f"{size} bytes are not a whole number of {workload.dtype} elements of {element}"
        findings.add(path, message, f"{-(-size // element) * element}B")
