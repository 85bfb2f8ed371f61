"""The free keys of `topology` and `transport`: the parameters of what their `kind` names, checked with its table.

Where the command line or a sweep has put another kind in the place of the file's, the file's parameters that only the
other kinds know are left out: `-S transport.kind=tcp` leaves RoCE's MTU behind.
"""

from collections.abc import Collection, Mapping

from testbed import transport
from testbed.plugins import PluginError, is_reference, load
from testbed.spec.document import Node, Step
from testbed.spec.errors import closest, listed
from testbed.spec.findings import Findings
from testbed.topology import TOPOLOGIES
from testbed.transport.congestion import CONGESTIONS
from testbed.transport.parameters import Parameter

TRANSPORTS = getattr(transport, "TRANSPORTS", {})
_TRANSPORT_KEYS = ("kind", "congestion", "scale")
Tables = Mapping[str, Collection[str]]


def fit_constants(findings: Findings) -> None:
    """Leave out what belongs to a replaced kind; report and set aside unknown kinds, unknown keys and wrong values."""
    _fit(findings, ("topology",), "topology", {name: one.parameters for name, one in TOPOLOGIES.items()})
    transports = {name: {p.name: p for p in one.parameters} for name, one in TRANSPORTS.items()}
    congestions = {name: {p.name: p for p in one.parameters} for name, one in CONGESTIONS.items()}
    kind = _fit(findings, ("transport",), "transport", transports, default="roce", fixed=_TRANSPORT_KEYS)
    _values(findings, ("transport",), transports.get(kind, {}))
    congestion = findings.root.find(("transport", "congestion"))
    if congestion[1]:
        return
    path = ("transport", "congestion")
    if isinstance(congestion[0][-1].value, dict):
        name = _fit(findings, path, "congestion control", congestions)
        _values(findings, path, congestions.get(name, {}))
    else:
        _known(findings, path, "congestion control", congestion[0][-1].value, congestions)


def _fit(
    findings: Findings,
    path: tuple[Step, ...],
    what: str,
    tables: Tables,
    *,
    default: str = "",
    fixed: Collection[str] = ("kind",),
) -> str:
    """Check the kind and the keys of the section at `path`; the kind, or an empty string where it is of no use."""
    nodes, beyond = findings.root.find(path)
    section = nodes[-1].value
    if beyond or not isinstance(section, dict):
        return ""
    kind = section.get("kind", Node(default, nodes[-1].mark, nodes[-1].mark))
    name = kind.value
    if not isinstance(name, str) or not name:
        return ""
    table = _own(findings, (*path, "kind"), name) if is_reference(name) else tables.get(name)
    if table is None:
        if not is_reference(name):
            _known(findings, (*path, "kind"), what, name, tables)
        return ""
    elsewhere = {key: other for other, keys in tables.items() for key in keys}
    for key, node in list(section.items()):
        if key in fixed or key in table or is_reference(name):
            continue
        if key in elsewhere and kind.mark.replaced and not node.key_mark.replaced:
            findings.root.remove((*path, key))
            continue
        takes = f"is not a parameter of {name}, which takes {listed(list(table)) or 'none'}"
        owner = f" (it is one of {elsewhere[key]})" if key in elsewhere else ""
        suggestion = "" if owner else closest(key, [*table, *fixed])
        findings.add((*path, key), takes + owner, suggestion, at_key=True)
        findings.drop((*path, key))
    return name


def _own(findings: Findings, path: tuple[Step, ...], reference: str) -> Collection[str] | None:
    """An own kind's table is its own affair: only that it loads is checked here."""
    try:
        load(reference)
    except PluginError as error:
        findings.add(path, error.message)
        findings.drop(path[:-1])
        return None
    return ()


def _known(findings: Findings, path: tuple[Step, ...], what: str, name: object, names: Collection[str]) -> None:
    if isinstance(name, str) and name not in names and not is_reference(name):
        findings.add(path, f"no {what} is called {name!r}: there are {listed(list(names))}", closest(name, names))
        findings.drop(path[:-1] if path[-1] == "kind" else path)


def _values(findings: Findings, path: tuple[Step, ...], table: Mapping[str, Parameter]) -> None:
    for key, parameter in table.items():
        nodes, beyond = findings.root.find((*path, key))
        if beyond:
            continue
        try:
            parameter.parse(nodes[-1].plain())
        except ValueError as error:
            findings.add((*path, key), str(error), getattr(error, "suggestion", ""))
            findings.drop((*path, key))
