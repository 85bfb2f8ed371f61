"""The keys of `topology`, `transport` and `switches` that their `kind` knows: free ones are checked with its table.

Where the command line or a sweep has put another kind in the place of the file's, the file's parameters that only the
other kinds know are left out: `-S transport.kind=tcp` leaves RoCE's MTU behind.
"""

from collections.abc import Collection, Mapping

from testbed.codec import CODECS, NONE, Codec
from testbed.collective import ALGORITHMS, IN_NETWORK
from testbed.plugins import PluginError, is_reference, load
from testbed.spec.document import Node, Step
from testbed.spec.errors import listed
from testbed.spec.findings import Findings
from testbed.suggest import closest
from testbed.topology import TOPOLOGIES
from testbed.topology.parameters import Topology
from testbed.topology.switches import WRITTEN
from testbed.transport import TRANSPORTS, Transport
from testbed.transport.congestion import CONGESTIONS
from testbed.transport.parameters import Parameter

_NATIVE_KEYS = (*WRITTEN.values(), "overrides")
_PROGRAM_KEYS = ("program", "entries")  # of all switches that run programs
_TRANSPORT_KEYS = ("kind", "congestion", "scale")
Names = tuple[Step, ...]


def fit_constants(findings: Findings) -> None:
    """Leave out what belongs to a replaced kind; report and set aside unknown kinds, unknown keys and wrong values."""
    topologies = {name: tuple(one.parameters) for name, one in TOPOLOGIES.items()}
    own = _own(findings, ("topology", "kind"))
    if isinstance(own, Topology):
        topologies[_kind(findings, ("topology",))] = tuple(own.parameters)
    if own is None or isinstance(own, Topology):  # a function's parameters are its own affair
        _fit(findings, ("topology",), "topology", topologies)
    for holder in (*_jobs(findings), ("environment", "baseline")):
        _fit_transport(findings, (*holder, "transport"))
        _fit_named(findings, (*holder, "transport", "congestion"), "congestion control", _CONGESTIONS)
    for job in _jobs(findings):
        _fit_algorithm(findings, (*job, "workload", "algorithm"))
        _fit_codec(findings, (*job, "workload", "codec"))
    _fit_switches(findings)


def _jobs(findings: Findings) -> list[Names]:
    """Where the spec has the parts of its jobs."""
    jobs = findings.root.child("jobs")
    return [(), *(("jobs", name) for name in jobs.value)] if jobs and isinstance(jobs.value, dict) else [()]


def _fit_transport(findings: Findings, path: Names) -> None:
    transports, own = dict(TRANSPORTS), _own(findings, (*path, "kind"))
    kind = _kind(findings, path) or "roce"
    if isinstance(own, Transport):
        transports[kind] = own
    elif own is not None:
        findings.add((*path, "kind"), f"{kind} is not a Transport: see experiments/own/transport.py for one")
        findings.drop((*path, "kind"))
    tables = {name: _by_name(one.parameters) for name, one in transports.items()}
    if not _fit(findings, path, "transport", tables, default="roce", fixed=_TRANSPORT_KEYS):
        return
    _check_values(findings, path, tables[kind])
    nodes, beyond = findings.root.find((*path, "congestion"))
    if beyond or not transports[kind].own_control:
        return
    congestion = nodes[-1]
    control = congestion.child("kind") or congestion
    if findings.root.find((*path, "kind"))[0][-1].mark.replaced and not congestion.key_mark.replaced:
        findings.root.remove((*path, "congestion"))
    elif control.value != "none":
        findings.add((*path, "congestion"), f"{kind} {transports[kind].own_control}: leave this out", at_key=True)
        findings.drop((*path, "congestion"))


def _fit_algorithm(findings: Findings, path: Names) -> None:
    """Of a mapping; a name alone is checked with its collective."""
    nodes, beyond = findings.root.find(path)
    if not beyond and isinstance(nodes[-1].value, dict) and not is_reference(_kind(findings, path)):
        _fit_named(findings, path, "algorithm", {**_ALGORITHMS, IN_NETWORK: {}})


def _fit_codec(findings: Findings, path: Names) -> None:
    codecs = {NONE: {}, **_CODECS}
    nodes, _ = findings.root.find(path)
    where = (*path, "kind") if isinstance(nodes[-1].value, dict) else path
    own = _own(findings, where)
    if isinstance(own, Codec):
        codecs[str(findings.root.find(where)[0][-1].value)] = _by_name(own.parameters)
    elif own is not None:
        findings.add(where, "is not a testbed.codec.Codec")
        findings.drop(path)
        return
    _fit_named(findings, path, "codec", codecs)


def _fit_named(findings: Findings, path: Names, what: str, tables: Mapping[str, Mapping[str, Parameter]]) -> None:
    """A name alone, or a mapping with `kind` and parameters."""
    nodes, beyond = findings.root.find(path)
    if not beyond and isinstance(nodes[-1].value, str):
        _check_name(findings, path, what, nodes[-1].value, tables)
    elif not beyond and isinstance(nodes[-1].value, dict) and "kind" not in nodes[-1].value:
        findings.add((*path, "kind"), f"is missing: one of {listed(list(tables))}")
        findings.drop(path)
    elif _fit(findings, path, what, tables):
        _check_values(findings, path, tables[_kind(findings, path)])
    elif findings.set_aside(".".join([*map(str, path), "kind"])):
        findings.drop(path)


def _fit_switches(findings: Findings) -> None:
    """Programs and buffers are native switches', a datapath is Open vSwitch's; `auto` may turn out to be either."""
    path = ("switches",)
    nodes, beyond = findings.root.find(path)
    section = nodes[-1].value
    if beyond or not isinstance(section, dict):
        return
    kind = section.get("kind", Node("ovs", nodes[-1].mark, nodes[-1].mark))
    others = {
        "ovs": _NATIVE_KEYS,
        "native": ("datapath",),
        "auto": ("datapath",),
        "bmv2": ("datapath", *(key for key in WRITTEN.values() if key not in _PROGRAM_KEYS)),
    }
    for key in others.get(str(kind.value), ()):
        node = section.get(key)
        if node is None or (key == "datapath" and node.value == "auto"):
            continue
        if kind.mark.replaced and not node.key_mark.replaced:
            findings.root.remove((*path, key))
            continue
        wanted = "ovs" if key == "datapath" else "native (or auto)"
        suggestion = f"kind: {wanted.partition(' ')[0]}"
        findings.add((*path, key), f"goes with kind: {wanted}, and this is {kind.value}", suggestion, at_key=True)
        findings.drop((*path, key))


def _fit(
    findings: Findings,
    path: Names,
    what: str,
    tables: Mapping[str, Collection[str]],
    *,
    default: str = "",
    fixed: Collection[str] = ("kind",),
) -> bool:
    """Check the kind and the keys of the section at `path`; whether the kind is one of `tables`."""
    nodes, beyond = findings.root.find(path)
    section = nodes[-1].value
    if beyond or not isinstance(section, dict) or findings.set_aside(".".join([*map(str, path), "kind"])):
        return False
    kind = section.get("kind", Node(default, nodes[-1].mark, nodes[-1].mark))
    if not isinstance(kind.value, str) or not kind.value:
        return False
    if not _check_name(findings, (*path, "kind"), what, kind.value, tables):
        return False
    table = tables[kind.value]
    elsewhere = {key: name for name, keys in tables.items() for key in keys}
    for key, node in list(section.items()):
        if key in fixed or key in table:
            continue
        if key in elsewhere and kind.mark.replaced and not node.key_mark.replaced:
            findings.root.remove((*path, key))
            continue
        message = f"is not a parameter of {kind.value}, which takes {listed(list(table)) or 'none'}"
        owner = f" (it is one of {elsewhere[key]})" if key in elsewhere else ""
        suggestion = "" if owner else closest(key, [*table, *fixed])
        findings.add((*path, key), message + owner, suggestion, at_key=True)
        findings.drop((*path, key))
    return True


def _check_name(findings: Findings, path: Names, what: str, name: str, names: Collection[str]) -> bool:
    if name in names:
        return True
    findings.add(path, f"no {what} is called {name!r}: there are {listed(list(names))}", closest(name, names))
    findings.drop(path)
    return False


def _check_values(findings: Findings, path: Names, table: Mapping[str, Parameter]) -> None:
    for key, parameter in table.items():
        nodes, beyond = findings.root.find((*path, key))
        if beyond:
            continue
        try:
            parameter.parse(nodes[-1].plain())
        except ValueError as error:
            suggestion = getattr(error, "suggestion", "") or _nearest(nodes[-1].value, parameter.choices)
            findings.add((*path, key), str(error), suggestion)
            findings.drop((*path, key))


def _nearest(value: object, choices: Collection[object]) -> str:
    numbers = [choice for choice in choices if isinstance(choice, int)]
    if isinstance(value, int | float) and numbers:
        return str(min(numbers, key=lambda number: abs(number - value)))
    return closest(value, [str(choice) for choice in choices]) if isinstance(value, str) else ""


def _own(findings: Findings, path: Names) -> object | None:
    """What the `FILE.py:NAME` at `path` names; None if it is no such reference, or cannot be loaded (reported)."""
    nodes, beyond = findings.root.find(path)
    reference = nodes[-1].value
    if beyond or not isinstance(reference, str) or not is_reference(reference):
        return None
    try:
        return load(reference)
    except PluginError as error:
        findings.add(path, error.message)
        findings.drop(path)
        return None


def _kind(findings: Findings, path: Names) -> str:
    nodes, beyond = findings.root.find((*path, "kind"))
    kind = nodes[-1].value
    return kind if not beyond and isinstance(kind, str) else ""


def _by_name(parameters: Collection[Parameter]) -> dict[str, Parameter]:
    return {parameter.name: parameter for parameter in parameters}


_CONGESTIONS = {name: _by_name(one.parameters) for name, one in CONGESTIONS.items()}
_ALGORITHMS = {name: _by_name(one.parameters) for name, one in ALGORITHMS.items()}
_CODECS = {name: _by_name(one.parameters) for name, one in CODECS.items()}
