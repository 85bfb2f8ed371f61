"""What must hold of a spec's jobs: ranks fit their hosts, transports the links, and workloads make sense."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.codec import CodecError, settle
from testbed.collective import ALGORITHMS, IN_NETWORK, algorithms_for, generate
from testbed.collective.reference import ELEMENTWISE
from testbed.errors import TestbedError, UsageError
from testbed.plugins import is_reference
from testbed.spec.document import Step
from testbed.spec.errors import listed
from testbed.spec.findings import Findings
from testbed.spec.model import COLLECTIVE_KEYS, MOST_JOBS, JobSpec, WorkersSpec, WorkloadSpec
from testbed.spec.network_checks import MTU_BYTES, Network
from testbed.suggest import closest
from testbed.training import GRADIENTS, OF_ANY_SIZE, buffer_elements, is_stored
from testbed.transport import ParameterError, reduces
from testbed.transport.parameters import kind_of
from testbed.units import format_bytes, parse_mtu
from testbed.wire.roce import MTUS

ROCE_HEADER_BYTES = 80  # soft-RoCE leaves this in a link's MTU for IP, UDP, BTH and its extensions, and ICRC
_MOST_SIZE_BYTES = 2**40
_JOB_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_KEYS = ("workers", "transport", "workload")
_WITH_ROOT = {"binomial", "parameter-server"}  # in allreduce too
_ELEMENT_BYTES = {"float32": 4, "float16": 2, "int32": 4}


@dataclass(frozen=True, slots=True)
class _Job:
    """A job, and where the spec has it: under `jobs`, or where it has no name at the top."""

    name: str
    spec: JobSpec
    findings: Findings

    def add(self, path: tuple[Step, ...], message: str, suggestion: str = "", *, at_key: bool = False) -> None:
        """Report what is wrong with its part at `path`."""
        self.findings.add((*self._path, *path), message, suggestion, at_key=at_key)

    def incomplete(self, key: str) -> bool:
        """Whether anything of that part of it was set aside."""
        return self.findings.incomplete(".".join([*self._path, key]))

    def called(self, rank: int) -> str:
        return f"{self.name}/{rank}" if self.name else str(rank)

    @property
    def _path(self) -> tuple[str, ...]:
        return ("jobs", self.name) if self.name else ()


def check_jobs(net: Network) -> None:
    """Report what is wrong with each of them, and with all together."""
    jobs = [_Job(name, spec, net.findings) for name, spec in net.spec.all_jobs.items()]
    if net.spec.jobs is not None:
        _check_together(net, jobs)
    _check_hosts(net, jobs)
    for job in jobs:
        _check_workers(job)
        _check_transport(net, job)
        if job.spec.workload is not None:
            _check_workload(job, job.spec.workload)


def _check_together(net: Network, jobs: list[_Job]) -> None:
    add, names = net.findings.add, list(net.spec.jobs or ())
    for key in _KEYS:
        if net.findings.root.child(key) is not None:
            where = f": jobs.{names[0]}.{key}" if names else ""
            add((key,), f"does not go with `jobs`, each of which has its own{where}", at_key=True)
    if not names:
        add(("jobs",), "names no job, e.g. jobs: {one: {workers: {count: 4}, workload: {size: 1MiB}}}")
        return
    if len(names) > MOST_JOBS:
        add(("jobs",), f"are {len(names)}, and a network tells at most {MOST_JOBS} apart", at_key=True)
    for name in names:
        if not _JOB_NAME.fullmatch(name):
            safe = re.sub(r"^[^A-Za-z]+|[^A-Za-z0-9_-]+", "-", name).strip("-_")[:32]
            message = "is no name for a job: a letter, then letters, digits, dashes, underscores; at most 32"
            add(("jobs", name), message, safe if _JOB_NAME.fullmatch(safe) else "", at_key=True)
    for job in jobs:
        if job.spec.workload is None:
            job.add(("workload",), "is missing: what the job's ranks run, e.g. workload: {size: 1MiB}")
    if all(job.spec.start_ns for job in jobs) and not net.findings.incomplete("jobs"):
        first = min(jobs, key=lambda job: job.spec.start_ns)
        first.add(("start",), "no job starts at 0, which is the release of the first measured iteration", "0s")


def _check_hosts(net: Network, jobs: list[_Job]) -> None:
    """Whether there is a host for each rank, and the named ones are there, once each."""
    if net.graph is None or any(job.incomplete("workers") for job in jobs):
        return
    taken: dict[str, str] = {}
    for job, workers in _with_workers(jobs):
        if isinstance(workers.placement, str):
            continue
        for rank, host in enumerate(workers.placement):
            path = ("workers", "placement", rank)
            if net.host((*job._path, *path), host) and host in taken:
                job.add(path, f"{host!r} already has rank {taken[host]}: a host takes one")
            taken.setdefault(host, job.called(rank))
    left = len(net.graph.hosts) - len(taken)
    for job, workers in _with_workers(jobs):
        if isinstance(workers.placement, str):
            if workers.count > left:
                hosts = f"{left} hosts" if left == len(net.graph.hosts) else f"the {left} hosts that are left"
                job.add(("workers", "count"), f"{workers.count} workers on {hosts}: a host takes one", str(left or ""))
            left = max(0, left - workers.count)


def _with_workers(jobs: list[_Job]) -> Iterator[tuple[_Job, WorkersSpec]]:
    for job in jobs:
        if job.spec.workers is not None:
            yield job, job.spec.workers


def _check_workers(job: _Job) -> None:
    workers, workload = job.spec.workers, job.spec.workload
    if workers is None:
        if workload is not None:
            job.add(("workers",), "is missing: a workload needs ranks, e.g. workers: {count: 8}")
        return
    if workload is not None and workload.kind == "collective" and workers.count < 2:
        job.add(("workers", "count"), "is 1 and a collective needs at least 2 ranks")
    placement = workers.placement
    if not isinstance(placement, str) and len(placement) != workers.count and not job.incomplete("workers"):
        message = f"names {len(placement)} hosts for {workers.count} workers"
        job.add(("workers", "placement"), message, f"count: {len(placement)}")


def _check_transport(net: Network, job: _Job) -> None:
    """RoCE's MTU is a payload; with its headers it must fit every link."""
    transport = job.spec.transport
    if transport.kind != "roce" or job.incomplete("transport"):
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
        job.add(("transport", "mtu"), message, str(fitting[-1]) if fitting else "")


def _check_workload(job: _Job, workload: WorkloadSpec) -> None:
    given = {WorkloadSpec.model_fields[name].alias or name for name in workload.model_fields_set}
    if workload.kind == "command":
        if not workload.command:
            message = "is missing: the program each rank runs" if workload.command is None else "is empty"
            job.add(("workload", "command"), f"{message}, e.g. command: [python3, train.py]")
        elif "\0" in "".join(workload.command):
            job.add(("workload", "command"), "holds a NUL character, which no program can be given")
        for key in COLLECTIVE_KEYS:
            if key in given:
                job.add(("workload", key), "does not go with kind: command", at_key=True)
        return
    if "command" in given:
        job.add(("workload", "command"), "goes with kind: command", "kind: command", at_key=True)
    workers = job.spec.workers
    _check_algorithm(job, workload, workers.count if workers is not None else 2)
    _check_size(job, workload)
    _check_codec(job, workload)
    if workers is not None and not 0 <= workload.root < workers.count:
        last = workers.count - 1
        job.add(("workload", "root"), f"there is no rank {workload.root}: ranks are 0 to {last}")
        return
    algorithm = workload.algorithm_name or algorithms_for(workload.collective)[0]
    if workload.root and workload.collective != "broadcast" and algorithm in ALGORITHMS.keys() - _WITH_ROOT:
        message = f"{workload.collective} by {algorithm} has no root: leave this out"
        job.add(("workload", "root"), message, at_key=True)


def _check_algorithm(job: _Job, workload: WorkloadSpec, ranks: int) -> None:
    name, path = workload.algorithm_name, ("workload", "algorithm")
    if name in (None, IN_NETWORK):  # the latter: see sum_checks
        return
    root = workload.root if 0 <= workload.root < ranks else 0
    if is_reference(name):
        try:
            generate(workload.collective, name, ranks, root, workload.algorithm_parameters)
        except TestbedError as error:
            job.add(path, error.message)
        except (Exception, SystemExit) as error:  # one's own generator may raise anything
            job.add(path, f"{name} failed: {type(error).__name__}: {error}")
        return
    serving = algorithms_for(workload.collective)
    if name.endswith(".xml"):
        job.add(path, "MSCCL XML is not supported yet")
    elif name not in ALGORITHMS:
        message = f"no algorithm is called {name!r}: {workload.collective} has {listed(serving)}"
        job.add(path, message, closest(name, (*ALGORITHMS, IN_NETWORK)))
    elif name not in serving:
        message = f"{name} does not do {workload.collective}, which has {listed(serving)}"
        job.add(path, message, serving[0])
    elif (workload.algorithm_parameters or not ALGORITHMS[name].any_ranks) and not job.incomplete("workload.algorithm"):
        try:
            generate(workload.collective, name, ranks, root, workload.algorithm_parameters)
        except UsageError as error:
            job.add(path, f"{error.message}{f': {error.hint}' if error.hint else ''}")


def _check_codec(job: _Job, workload: WorkloadSpec) -> None:
    codec, path = workload.coded_by, ("workload", "codec")
    if codec is None or job.incomplete("workload.codec"):
        return
    name = kind_of(codec)[0]
    try:
        settle(codec)
    except CodecError as error:
        job.add((*path, error.key) if error.key and isinstance(codec, dict) else path, error.what)
    if workload.dtype == "int32":
        job.add(("workload", "dtype"), f"is int32, and codec {name} is of floats", "float32")
    if workload.collective not in ELEMENTWISE:
        message = f"{name} goes with {listed(ELEMENTWISE)}, whose result can be decoded: this is {workload.collective}"
        job.add(path, message, at_key=True)
    try:
        if reduces(job.spec.transport):
            job.add(path, f"does not go with transport: {job.spec.transport.kind}, which scales by itself", at_key=True)
    except ParameterError:
        pass  # which is told of the transport


def _check_size(job: _Job, workload: WorkloadSpec) -> None:
    size, path = workload.size_bytes, ("workload", "size")
    file = is_stored(workload.gradients)
    if workload.gradients not in GRADIENTS and not file:
        message = f"{workload.gradients!r} is neither {', '.join(GRADIENTS)} nor a .npy or .npz file"
        job.add(("workload", "gradients"), message, closest(workload.gradients, GRADIENTS))
        return
    if file:
        try:
            buffer_elements(workload.gradients)
        except UsageError as error:
            job.add(("workload", "gradients"), error.message.removeprefix("gradients: "))
    if size is not None and size > _MOST_SIZE_BYTES:
        job.add(path, f"must be at most {format_bytes(_MOST_SIZE_BYTES)}")
    sized = workload.gradients in OF_ANY_SIZE
    if sized and size is None:
        job.add(path, "is missing: how many bytes the collective moves, e.g. size: 1MiB")
    elif not sized and not file and size is not None:
        message = f"{workload.gradients} has a size of its own: leave this out"
        job.add(path, message, at_key=True)
    elif not sized and workload.dtype == "int32":
        job.add(
            ("workload", "dtype"), "gradients are not whole numbers: only `random` and `none` have int32", "float32"
        )
    if workload.gradients == "digits-mlp" and workload.collective != "allreduce":
        message = f"is {workload.collective}, which does not give every rank the sum that digits-mlp learns from"
        job.add(("workload", "collective"), message, "allreduce")
    element = _ELEMENT_BYTES[workload.dtype]
    if size == 0:
        job.add(path, "is 0: nothing to move")
    elif size is not None and size % element:
        message = f"{size} bytes are not a whole number of {workload.dtype} elements of {element}"
        job.add(path, message, f"{-(-size // element) * element}B")
