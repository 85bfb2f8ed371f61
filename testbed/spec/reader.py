"""Reading a spec: YAML text and the command line's overrides into a typed `Spec`, or all that is wrong with it at once.

The way: bytes -> tree with places -> overrides -> file names -> (for each point of a sweep:) what is not built yet ->
unknown keys -> constants -> pydantic -> the checks that need the whole spec or its network. What a step finds wrong is
set aside, so that the next ones can look at the rest.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from testbed.errors import UsageError
from testbed.spec.checks import check, check_expectations
from testbed.spec.constants import fit_constants
from testbed.spec.document import Mistake, Node, Step, of_data, parse, place
from testbed.spec.errors import Mark, SpecError, SpecErrors, closest, listed
from testbed.spec.files import make_absolute
from testbed.spec.findings import Findings
from testbed.spec.model import Spec
from testbed.spec.sweep import Combination, Point, combinations, points
from testbed.spec.unbuilt import refuse_unbuilt
from testbed.spec.words import complaints, entries_of, fields, section_of
from testbed.units import shown

MOST_BYTES = 16 << 20  # a spec is written by hand, or by a small program
_STAND_INS = {"name": "unnamed", "topology": {"kind": "star", "hosts": 2}}  # where these are missing or wrong
_ROUNDS = 10  # of setting aside what is wrong; one is the rule


@dataclass(frozen=True, slots=True)
class Experiment:
    """A spec that was read, and the single runs it asks for in the order to run them (one without sweep or repeat)."""

    spec: Spec
    points: tuple[Point, ...]


def read_spec(path: Path | str, overrides: Sequence[str] = (), engine: str | None = None) -> Spec:
    """The spec at `path` with `key=value` overrides, later ones winning; raises SpecErrors with all that is wrong.

    With a sweep, the swept keys have the values of its first point.
    """
    return read_experiment(path, overrides, engine).spec


def read_experiment(path: Path | str, overrides: Sequence[str] = (), engine: str | None = None) -> Experiment:
    """As `read_spec`, together with its points."""
    path = Path(path)
    root, errors = _root(path)
    for override in overrides:
        errors += _override(root, override)
    if engine is not None:
        mark = Mark(1, 1, f"--engine {engine}")
        root.assign("engine", Node(engine, mark, mark))
    experiment, more = read_tree(root, path.absolute().parent)
    if errors or more or experiment is None:
        raise SpecErrors(str(path), [*errors, *more])
    return experiment


def read_tree(root: Node, folder: Path) -> tuple[Experiment | None, list[SpecError]]:
    """The experiment of a tree, whose relative file names are looked for in `folder`, and what is wrong with it."""
    whole = Findings(root)
    if not isinstance(root.value, dict):
        empty = "is empty" if root.value is None else "is not a mapping of keys to values"
        whole.add((), f"the spec {empty}: begin with `name: …` and `topology: {{kind: …}}`")
        return None, whole.errors
    make_absolute(whole, folder)
    sweep = root.value.get("sweep")
    swept = [Combination()] if sweep is None else combinations(whole, sweep) or [Combination()]
    root.remove(("sweep",))
    specs, errors = _read_points(root, swept)
    errors = whole.errors + errors
    if errors or not specs:
        return None, errors
    spec = specs[0].model_copy(update={"sweep": None if sweep is None else sweep.plain()})
    return Experiment(spec, points(spec, [c.plain() for c in swept], specs)), []


def _read_points(base: Node, swept: Sequence[Combination]) -> tuple[list[Spec], list[SpecError]]:
    """The spec of each point, and all that is wrong."""
    specs: list[Spec] = []
    found: list[tuple[Combination, list[SpecError]]] = []
    errors: list[SpecError] = []
    for combination in swept:
        try:
            spec, findings = _read_point(combination.tree(base))
        except Mistake as mistake:
            found.append((combination, [mistake.error]))
            continue
        found.append((combination, list(dict.fromkeys(findings.errors))))
        if spec is not None and not specs:
            expectations = Findings(findings.root)
            check_expectations(spec.expect, [one.plain() for one in swept if one.values], expectations)
            errors = expectations.errors
        specs += [] if spec is None else [spec]
    return specs, errors + _where_they_come_from(found)


def _where_they_come_from(found: Sequence[tuple[Combination, list[SpecError]]]) -> list[SpecError]:
    """The errors of all points, once each; what is wrong at some points only is told at the sweep's value."""
    count = Counter(error for _, errors in found for error in errors)
    told: dict[tuple[str, str], SpecError] = {}
    for combination, errors in found:
        places = {(mark.line, mark.column) for node in combination.values.values() for mark in _marks(node)}
        for error in errors:
            own = count[error] == len(found) or (error.line, error.column) in places
            told.setdefault((error.key, error.message), error if own else _at_point(error, combination))
    return list(told.values())


def _marks(node: Node) -> list[Mark]:
    return [mark for part in node.parts() for mark in (part.mark, part.key_mark)]


def _at_point(error: SpecError, combination: Combination) -> SpecError:
    """An error that comes out at some points only, told at the place of the first value of the first of them."""
    key, node = next(iter(combination.values.items()))
    values = ", ".join(f"{name}={shown(part.plain()).strip(chr(39))}" for name, part in combination.values.items())
    message = f"with {values}, {error.key} {error.message}" if error.key else f"with {values}, {error.message}"
    return replace(error, line=node.mark.line, column=node.mark.column, key=key, message=message)


def _read_point(root: Node) -> tuple[Spec | None, Findings]:
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
    section, entries = section_of(annotation), entries_of(annotation)
    if isinstance(node.value, list) and entries is not None:
        for index, child in enumerate(node.value):
            _refuse_unknown_keys(findings, child, entries, (*path, index))
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


def _root(path: Path) -> tuple[Node, list[SpecError]]:
    """The tree of the file at `path` and what is wrong with it; raises UsageError or SpecErrors if there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", hint=_beside(path)) from None
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path}: is larger than {MOST_BYTES >> 20} MiB, which no spec is")
    try:
        return parse(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line, column = place(data[: error.start].decode("utf-8-sig", "replace"), error.start)
        wrong = SpecError(line, column, "", f"byte 0x{data[error.start]:02x} is not UTF-8: save the file as UTF-8")
        raise SpecErrors(str(path), [wrong]) from None
    except Mistake as mistake:
        raise SpecErrors(str(path), [mistake.error]) from None


def _beside(path: Path) -> str:
    """A hint for a spec that is not there."""
    try:
        names = [other.name for other in path.parent.iterdir() if other.suffix in (".yaml", ".yml")]
    except OSError:
        return "give the path of a spec, e.g. experiments/quickstart.yaml"
    near = closest(path.name, names)
    return (
        f"did you mean {path.parent / near}?" if near else "give the path of a spec, e.g. experiments/quickstart.yaml"
    )


def _override(root: Node, override: str) -> list[SpecError]:
    """Set what `key=value` says; an empty value takes the key out."""
    option = f"-S {override}"
    key, equals, text = override.partition("=")
    key = key.strip()
    if not equals or not all(key.split(".")):
        return [SpecError(1, 1, "", "write key=value with a dotted key, e.g. transport.kind=tcp", option=option)]
    if not isinstance(root.value, dict):
        return []
    try:
        value, errors = parse(text, option)
        root.assign(key, value)
    except Mistake as mistake:
        return [replace(mistake.error, key=mistake.error.key or key)]
    return errors
