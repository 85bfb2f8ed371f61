"""A tree without a sweep into a typed `Spec`: what is wrong is reported and set aside, and the rest still checked.

The way: what is not built yet -> empty values -> unknown keys -> constants -> pydantic -> the checks that need the
whole spec or its network.
"""

from typing import Any

from pydantic import ValidationError

from testbed.spec.checks import check
from testbed.spec.constants import fit_constants
from testbed.spec.document import Node, Step, of_data
from testbed.spec.errors import listed
from testbed.spec.findings import Findings
from testbed.spec.model import Spec
from testbed.spec.unbuilt import refuse_unbuilt
from testbed.spec.words import complaints, entries_of, fields, section_of, values_of
from testbed.suggest import closest

_STAND_INS = {"name": "unnamed", "topology": {"kind": "star", "hosts": 2}}  # where these are missing or wrong
_ROUNDS = 10  # of setting aside what is wrong; one is the rule


def read_point(root: Node) -> tuple[Spec | None, Findings]:
    """The spec of a tree without a sweep, and what is wrong with it."""
    findings = Findings(root)
    refuse_unbuilt(findings)
    _refuse_nulls(findings, root, ())
    _refuse_unknown_keys(findings, root, Spec, ())
    fit_constants(findings)
    spec = _typed(findings)
    if spec is not None:
        check(spec, findings)
    return spec, findings


def _typed(findings: Findings) -> Spec | None:
    """The tree as a Spec without what is wrong with it, which is reported; None if that cannot be told apart."""
    for attempt in range(_ROUNDS):
        for key, data in _STAND_INS.items():
            if findings.root.child(key) is None and attempt:
                findings.root.assign(key, of_data(data, findings.root.mark, key))
        try:
            return Spec.model_validate(findings.root.plain())
        except ValidationError as error:
            found = complaints(error, findings.root)
        if not attempt:
            for complaint in found:
                findings.add(complaint.path, complaint.message, complaint.suggestion)
        for complaint in sorted(found, key=lambda one: one.path, reverse=True):  # indices must stay right
            nested = complaint.missing and len(complaint.path) > 1
            findings.drop(complaint.path[:-1] if nested else complaint.path)
    return None


def _refuse_unknown_keys(findings: Findings, node: Node, annotation: Any, path: tuple[Step, ...]) -> None:
    section, entries, values = section_of(annotation), entries_of(annotation), values_of(annotation)
    if isinstance(node.value, list) and entries is not None:
        for index, child in enumerate(node.value):
            _refuse_unknown_keys(findings, child, entries, (*path, index))
    if isinstance(node.value, dict) and values is not None:
        for key, child in node.value.items():
            _refuse_unknown_keys(findings, child, values, (*path, key))
    if not isinstance(node.value, dict) or section is None:
        return
    known = fields(section)
    for key, child in list(node.value.items()):
        if key in known:
            _refuse_unknown_keys(findings, child, known[key], (*path, key))
        elif section.model_config.get("extra") != "allow":
            suggestion = closest(key, known)
            message = "unknown key" if suggestion else f"unknown key; known here are {listed(list(known), 30)}"
            findings.add((*path, key), message, suggestion, at_key=True)
            findings.drop((*path, key))


def _refuse_nulls(findings: Findings, node: Node, path: tuple[Step, ...]) -> None:
    if node.value is None:
        findings.add(path, "has no value: give it one, or leave the key out")
        findings.drop(path)
    steps: list[Step] = list(node.value) if isinstance(node.value, dict) else list(range(len(node.children())))
    for step in reversed(steps):
        child = node.child(step)
        assert child is not None
        _refuse_nulls(findings, child, (*path, step))
