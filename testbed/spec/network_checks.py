"""What must hold of a spec and its network: links, faults and capture name what is there and can be done."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from testbed.spec.document import Step
from testbed.spec.errors import listed
from testbed.spec.findings import Findings
from testbed.spec.keys import Keys, check_keys, given_keys
from testbed.spec.model import FaultSpec, LinkSpec, Spec, Worker
from testbed.spec.words import fields
from testbed.suggest import closest
from testbed.topology import build
from testbed.topology.graph import Graph, LinkParameters
from testbed.topology.links import apply_links, changes
from testbed.topology.parameters import TopologyError
from testbed.topology.select import SelectError, select, select_switches
from testbed.transport import ParameterError, find, reduces
from testbed.units import format_duration, shown
from testbed.wire.ethernet import ETHERNET_BYTES, FCS_BYTES

MTU_BYTES = range(256, 65_536)
_MOST_FACTOR = 1_000_000
MOST_RATIO = 1000  # of p99 to p50
NOT_BEFORE = "is before the release of the first measured iteration, which is not supported yet"
_RANK_OF_JOB = re.compile(r"(?P<job>[^/]+)/(?P<rank>all|0|[1-9][0-9]{0,9})")
_MEANT = re.compile(r"did you mean ([^?]+)\?")
_SELECTORS = ("all", "host", "core")
_Selected = TypeVar("_Selected", int, str)
_LINK_KEYS = ("rate", "delay", "jitter", "reorder", "queue", "ecn", "loss", "duplicate", "corrupt")


FAULTS = {
    "stall": Keys(
        "a rank waits before an iteration or a step",
        ("worker", "probability"),
        ("for", "factor"),
        ("of", "distribution", "tail_ratio"),
    ),
    "slow": Keys("a rank computes for longer than others", ("worker", "factor")),
    "kill": Keys("a rank is killed", ("worker", "at")),
    "link-down": Keys("cables are cut", ("select", "at"), (), ("for",)),
    "link-set": Keys("links are changed", ("select", "at"), _LINK_KEYS, ("for", "every")),
    "swap-program": Keys("switches get another program", ("select", "at", "program"), (), ("entries", "registers")),
    "tail-drop": Keys("messages lose their ends", ("worker", "share"), (), ("probability",)),
}


@dataclass(frozen=True, slots=True)
class Network:
    """A spec with the graph that its topology makes, links set as it says; None where the topology is wrong."""

    spec: Spec
    graph: Graph | None
    findings: Findings

    def select(self, path: Sequence[Step], selector: str | Sequence[str]) -> tuple[int, ...]:
        """The directed links that a selector means; what selects nothing is reported at `path`."""
        return self._select(path, selector, select, _SELECTORS)

    def select_switches(self, path: Sequence[Step], selector: str | Sequence[str]) -> tuple[str, ...]:
        """The switches that a selector means; what selects nothing is reported at `path`."""
        return self._select(path, selector, select_switches, ("all",))

    def _select(
        self,
        path: Sequence[Step],
        selector: str | Sequence[str],
        meant: Callable[[Graph, str], tuple[_Selected, ...]],
        words: Collection[str],
    ) -> tuple[_Selected, ...]:
        if self.graph is None:
            return ()
        found: dict[_Selected, None] = {}
        if not selector and not self.findings.incomplete(self.findings.place(path)[0]):
            self.findings.add(path, "selects nothing")
        for index, one in enumerate([selector] if isinstance(selector, str) else selector):
            try:
                found.update(dict.fromkeys(meant(self.graph, one)))
            except SelectError as error:
                message, suggestion = _told(error.message, error.hint)
                suggestion = suggestion or (closest(one, words) if one not in words else "")
                where = path if isinstance(selector, str) else (*path, index)
                self.findings.add(where, message, suggestion)
        return tuple(sorted(found))

    def host(self, path: Sequence[Step], name: str) -> bool:
        """Whether `name` is a host; if not, that is reported."""
        if self.graph is None or name in self.graph.hosts:
            return True
        what = "is a switch" if name in self.graph.nodes else "is no host of this network"
        self.findings.add(
            path, f"{name!r} {what}: hosts are {listed(self.graph.hosts)}", closest(name, self.graph.hosts)
        )
        return False


def network(spec: Spec, findings: Findings) -> Network:
    """The network of `spec`; what is wrong with its topology or its selectors is reported."""
    graph = None
    if not findings.set_aside("topology"):
        try:
            graph = build(spec.topology)
        except TopologyError as error:
            message, suggestion = _told(error.message, error.hint, error.key)
            path = ("topology", *(int(step) if step.isdecimal() else step for step in error.key.split(".")))
            findings.add(path, message, suggestion)
        except (Exception, SystemExit) as error:  # one's own builder may raise anything
            findings.add(("topology", "kind"), f"{spec.topology.kind} failed: {type(error).__name__}: {error}")
    plain = Network(spec, graph, findings)
    usable = [link for i, link in enumerate(spec.links) if plain.select(("links", i, "select"), link.select)]
    if graph is not None:
        graph = apply_links(graph, (link for link in usable if not _partly_unknown(graph, link)))
    return Network(spec, graph, findings)


def check_network(net: Network) -> None:
    """Report what is wrong with links, faults and capture."""
    names: dict[str, int] = {}
    for index, link in enumerate(net.spec.links):
        path = ("links", index)
        if link.name is not None and names.setdefault(link.name, index) != index:
            net.findings.add((*path, "name"), f"two entries are called {link.name!r}")
        whole = not net.findings.incomplete(net.findings.place(path)[0])
        if whole and not link.model_fields_set - {"name", "select"}:
            net.findings.add(
                path,
                f"sets nothing: give it one of {', '.join(k for k in fields(LinkSpec) if k not in ('name', 'select'))}",
            )
        if link.mtu_bytes is not None and link.mtu_bytes not in MTU_BYTES:
            net.findings.add((*path, "mtu"), f"is {link.mtu_bytes} and must be from {MTU_BYTES[0]} to {MTU_BYTES[-1]}")
        _check_link(net, path, link)
    _check_links_together(net)
    for index, fault in enumerate(net.spec.faults):
        _check_fault(net, ("faults", index), fault)
    if net.spec.capture is not None:
        net.select(("capture", "select"), net.spec.capture.select)
        if net.spec.capture.snap_bytes == 0:
            net.findings.add(("capture", "snap"), "is 0: how many bytes of each packet to keep, e.g. 128B")


def _check_link(net: Network, path: tuple[Step, ...], entry: LinkSpec | FaultSpec) -> None:
    """What is wrong with an entry's keys whatever else holds."""
    add = net.findings.add
    if entry.rate_bps == 0:
        add((*path, "rate"), "a rate of 0 carries nothing: a link that is down is a fault of kind link-down")
    if entry.ecn is not None and entry.ecn.min_bytes > entry.ecn.max_bytes:
        add((*path, "ecn", "min"), "is more than max: marking begins at min and reaches its probability at max")
    loss = entry.loss
    if loss is None:
        return
    burst = (*path, "loss", "burst")
    if loss.burst < 1:
        add(burst, f"is {loss.burst:g} and must be at least 1: it is the mean length of a burst, in packets")
    elif loss.kind == "bernoulli" and loss.burst != 1:
        add(burst, "bernoulli losses come alone: only gilbert-elliott has a burst", "kind: gilbert-elliott")
    elif loss.kind == "gilbert-elliott" and loss.mean >= 1:
        add((*path, "loss", "mean"), "gilbert-elliott cannot lose everything: its mean must be under 100%")
    elif loss.kind == "gilbert-elliott" and loss.burst < loss.mean / (1 - loss.mean):
        least = loss.mean / (1 - loss.mean)
        add(burst, f"is {loss.burst:g}: a mean loss of {loss.mean:g} needs bursts of at least {least:.3g} packets")


def _check_links_together(net: Network) -> None:
    """What is wrong with links once all entries are applied, told at the last entry that has a part in it."""
    graph = net.graph
    if graph is None or net.findings.incomplete("links"):
        return
    told = set()
    for link in graph.links:
        for keys, message, suggestion in _misfits(link.parameters):
            told.add((_setter(net, link.index, *keys), message, suggestion))
    for path, message, suggestion in sorted(told):
        net.findings.add(path, message, suggestion)


def _misfits(parameters: LinkParameters) -> Iterator[tuple[tuple[str, str], str, str]]:
    """What of a link does not go together: the keys concerned, a message and a suggestion."""
    frame = parameters.mtu_bytes + ETHERNET_BYTES + FCS_BYTES
    if parameters.queue_bytes < frame:
        message = f"{parameters.queue_bytes} bytes hold no frame of {frame} (an MTU of {parameters.mtu_bytes})"
        yield ("queue", "mtu"), message, f"{frame}B"
    if parameters.jitter_ns > parameters.delay_ns:
        message = f"a jitter of {format_duration(parameters.jitter_ns)} is more than the delay of "
        message += f"{format_duration(parameters.delay_ns)}: a packet cannot arrive before it left"
        yield ("jitter", "delay"), message, ""


def _setter(net: Network, link: int, *keys: str) -> tuple[Step, ...]:
    """Where the last of the entries that select a link sets the first of `keys` that one does."""
    assert net.graph is not None
    for key in keys:
        for index in reversed(range(len(net.spec.links))):
            entry = net.spec.links[index]
            given = {
                field.alias or name for name, field in LinkSpec.model_fields.items() if name in entry.model_fields_set
            }
            if key in given and link in select(net.graph, entry.select):
                return ("links", index, key)
    return ("links",)


def _check_fault(net: Network, path: tuple[Step, ...], fault: FaultSpec) -> None:
    add = net.findings.add
    check_keys(net.findings, path, fault, FAULTS, {})
    if fault.kind == "stall" and given_keys(fault) >= {"for", "factor"}:
        add(
            (*path, "factor"),
            "a stall lasts either `for` a time or a `factor` of its uncongested time, not both",
            at_key=True,
        )
    if fault.factor is not None and fault.factor < 1:
        add((*path, "factor"), f"is {fault.factor:g} and must be at least 1: it makes slower")
    elif fault.factor is not None and fault.factor > _MOST_FACTOR:
        add((*path, "factor"), f"is {fault.factor:g} and must be at most {_MOST_FACTOR}")
    if fault.for_ns == 0:
        add((*path, "for"), "lasts no time")
    if fault.every_ns is not None:
        _check_every(net, path, fault)
    if fault.kind == "stall":
        _check_distribution(net, path, fault)
    if fault.kind == "tail-drop":
        _check_tail_drop(net, path, fault)
    if fault.share == 0:
        add((*path, "share"), "is 0, so nothing would be dropped")
    if fault.at_ns is not None and fault.at_ns < 0:
        add((*path, "at"), NOT_BEFORE)
    if fault.select is not None and fault.kind != "swap-program":
        _check_change(net, path, fault, net.select((*path, "select"), fault.select))
    _check_workers(net, (*path, "worker"), fault)
    _check_link(net, path, fault)


def _check_tail_drop(net: Network, path: tuple[Step, ...], fault: FaultSpec) -> None:
    """It is endpoints that drop packets: kernel sockets have none, and those whose sums switches form no messages."""
    for name, job in net.spec.all_jobs.items():
        if job.workers is None or not any(fault.strikes(name, rank) for rank in range(job.workers.count)):
            continue
        kind = job.transport.kind
        try:
            without = reduces(job.transport) or (net.spec.engine == "emulation" and find(kind).make is None)
        except ParameterError:
            continue  # which is told of the transport
        if without:
            message = f"tail-drop is of messages that endpoints send, and {kind} sends none" + (
                "" if reduces(job.transport) else " in emulation, where the kernel does"
            )
            net.findings.add((*path, "kind"), message)


def _check_every(net: Network, path: tuple[Step, ...], fault: FaultSpec) -> None:
    """What comes again and again ends each time before it comes again."""
    if fault.for_ns is None and not net.findings.incomplete(net.findings.place(path)[0]):
        net.findings.add((*path, "for"), "is missing: how long it lasts each time, e.g. for: 2ms")
    elif fault.for_ns is not None and fault.every_ns is not None and fault.every_ns <= fault.for_ns:
        every, lasting = format_duration(fault.every_ns), format_duration(fault.for_ns)
        message = f"is {every}, and it lasts {lasting} each time: without `every` it holds all the time"
        net.findings.add((*path, "every"), message)


def _check_distribution(net: Network, path: tuple[Step, ...], fault: FaultSpec) -> None:
    """A distribution needs the ratio that its spread comes from."""
    whole = not net.findings.incomplete(net.findings.place(path)[0])
    if fault.distribution is None and fault.tail_ratio is not None and whole:
        net.findings.add(
            (*path, "distribution"), "is missing: tail_ratio is that of a lognormal or a pareto", "lognormal"
        )
    elif fault.distribution is not None and fault.tail_ratio is None and whole:
        message = f"is missing: p99 / p50 of a {fault.distribution}, e.g. tail_ratio: 3"
        net.findings.add((*path, "tail_ratio"), message)
    elif fault.tail_ratio is not None and not 1 < fault.tail_ratio <= MOST_RATIO:
        message = f"is {fault.tail_ratio:g} and must be more than 1 and at most {MOST_RATIO}: it is p99 / p50"
        net.findings.add((*path, "tail_ratio"), message)


def _check_change(net: Network, path: tuple[Step, ...], fault: FaultSpec, links: Sequence[int]) -> None:
    """What does not go together on a link once the fault has changed it, and did before."""
    if net.graph is None or net.findings.incomplete("links"):
        return
    given, told = given_keys(fault), set()
    for before in (net.graph.links[index].parameters for index in links):
        already = {keys for keys, _, _ in _misfits(before)}
        for keys, message, suggestion in _misfits(replace(before, **changes(fault))):
            if keys not in already:
                told.add(((*path, next(key for key in keys if key in given)), message, suggestion))
    for where, message, suggestion in sorted(told):
        net.findings.add(where, message, suggestion)


def _check_workers(net: Network, path: tuple[Step, ...], fault: FaultSpec) -> None:
    if fault.worker == ():
        net.findings.add(path, "names no worker")
    for index, worker in enumerate(fault.workers):
        _check_worker(net, (*path, index) if isinstance(fault.worker, tuple) else path, worker)


def _check_worker(net: Network, path: tuple[Step, ...], worker: Worker) -> None:
    jobs, add = net.spec.all_jobs, net.findings.add
    some = next(iter(jobs))
    called, rank = _rank_of_job(worker) if some and isinstance(worker, str) else ("", worker)
    if worker == "all":
        called = some
    if called not in jobs:
        if isinstance(worker, int):
            add(path, f"is {worker}, and jobs have ranks of their own: write JOB/RANK or JOB/all", f"{some}/{worker}")
        elif not called:
            add(
                path,
                f"{worker!r} is no rank of a job: write JOB/RANK or JOB/all, e.g. {some}/0",
                closest(worker, ["all"]),
            )
        elif not net.findings.incomplete(f"jobs.{called}"):
            near = closest(called, jobs)
            add(path, f"no job is called {called!r}: there are {listed(list(jobs))}", f"{near}/{rank}" if near else "")
        return
    workers = jobs[called].workers
    if net.findings.incomplete(f"jobs.{called}.workers" if called else "workers"):
        return
    last = workers.count - 1 if workers else 0
    if workers is None:
        add(path, "there are no workers")
    elif isinstance(rank, int) and not 0 <= rank <= last:
        nearest = f"{called}/{last}" if called else str(last)
        of = f" of job {called}" if called else ""
        add(path, f"there is no worker {rank}{of}: ranks are 0 to {last}", nearest if rank == last + 1 else "")
    elif isinstance(rank, str) and rank != "all":
        add(path, f"{shown(rank)} is not all or a whole number", closest(rank, ["all"]))


def _rank_of_job(worker: str) -> tuple[str, Worker]:
    """The job that `JOB/RANK` or `JOB/all` names, empty where it is neither, and the rank in it."""
    match = _RANK_OF_JOB.fullmatch(worker)
    if match is None:
        return "", worker
    return match["job"], "all" if match["rank"] == "all" else int(match["rank"])


def _partly_unknown(graph: Graph, link: LinkSpec) -> bool:
    try:
        select(graph, link.select)
    except SelectError:
        return True
    return False


def _told(message: str, hint: str, key: str = "") -> tuple[str, str]:
    """An error's message and hint as message and suggestion."""
    if meant := _MEANT.fullmatch(hint):
        return message, meant[1]
    if key and hint.startswith(f"{key}: "):
        return message, hint
    return (f"{message}: {hint}" if hint else message), ""
