"""Reading a spec: YAML text and the command line's overrides into a typed `Spec`, or all that is wrong with it at once.

The way: bytes -> tree with places -> overrides -> file names -> the points of its sweep -> each one by itself.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from testbed.errors import UsageError
from testbed.spec.checks import check_expectations
from testbed.spec.document import Mistake, Node, parse, place
from testbed.spec.errors import Mark, SpecError, SpecErrors
from testbed.spec.files import make_absolute
from testbed.spec.findings import Findings
from testbed.spec.model import Spec
from testbed.spec.point import read_point
from testbed.spec.sweep import MOST_RUNS, Combination, Point, combinations, points
from testbed.suggest import closest

MOST_BYTES = 16 << 20  # a spec is written by hand, or by a small program


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
        errors += _set(root, "engine", Node(engine, mark, mark))
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
    swept = combinations(whole, sweep) if sweep else []
    root.remove(("sweep",))
    specs, errors = _read_swept(root, swept) if swept else _read_alone(root)
    errors = whole.errors + [error for error in errors if not whole.set_aside(error.key)]
    if errors or not specs:
        return None, errors
    if len(specs) * specs[0].repeat > MOST_RUNS:
        whole.add(("repeat",), f"makes {len(specs) * specs[0].repeat} runs, more than {MOST_RUNS}")
        return None, whole.errors
    spec = specs[0].model_copy(update={"sweep": sweep.plain() if sweep else None})
    return Experiment(spec, points(spec, [one.plain() for one in swept] or [{}], specs)), []


def _read_alone(root: Node) -> tuple[list[Spec], list[SpecError]]:
    """The spec of a tree that has no sweep, and all that is wrong."""
    spec, findings = read_point(root)
    if spec is None:
        return [], findings.errors
    check_expectations(spec, [], findings)
    return [spec], findings.errors


def _read_swept(base: Node, swept: Sequence[Combination]) -> tuple[list[Spec], list[SpecError]]:
    """The spec of each point, and all that is wrong, at the best place for it.

    What is wrong without the sweep as well, or in a value that the sweep replaces, is told where the file has it; what
    a point brings about, at that point's values.
    """
    shared = {_place(error): error for error in read_point(base.copy())[1].errors}
    hidden = {base.label(key) for one in swept for key in one.values} - {""}
    told = {place: error for place, error in shared.items() if _within(error.key, hidden)}
    brought: dict[tuple[str, str], SpecError] = {}
    specs: list[Spec] = []
    for combination in swept:
        try:
            spec, findings = read_point(combination.tree(base))
        except Mistake as mistake:
            told[_place(mistake.error)] = mistake.error
            continue
        if spec is not None and not specs:
            check_expectations(spec, [one.plain() for one in swept], findings)
        specs += [spec] if spec is not None else []
        values = {(mark.line, mark.column) for node in combination.values.values() for mark in node.marks()}
        for error in findings.errors:
            if _place(error) in shared:
                told[_place(error)] = shared[_place(error)]
            elif (error.line, error.column) in values or error.key.startswith("expect"):
                told[_place(error)] = error
            else:
                brought.setdefault((error.key, error.message), _at_point(error, combination))
    return specs, [*told.values(), *brought.values()]


def _place(error: SpecError) -> tuple[int, int, str]:
    return error.line, error.column, error.key


def _within(key: str, labels: Collection[str]) -> bool:
    return any(key == label or key.startswith(label + ".") for label in labels)


def _at_point(error: SpecError, combination: Combination) -> SpecError:
    """An error that a point brings about, told at the place of the point's first value."""
    key, node = next(iter(combination.values.items()))
    values = ", ".join(f"{name}={str(part.plain())[:40]}" for name, part in combination.values.items())
    message = f"with {values}, {error.key} {error.message}"
    return replace(error, line=node.mark.line, column=node.mark.column, key=key, message=message)


def _root(path: Path) -> tuple[Node, list[SpecError]]:
    """The tree of the file at `path` and what is wrong with it; raises UsageError or SpecErrors if there is none."""
    if path.exists() and not path.is_file() and not path.is_dir():  # whose reading may never end
        raise UsageError(f"{path}: is not a regular file", hint="write the spec into one")
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
    try:
        value, errors = parse(text, option)
    except Mistake as mistake:
        return [replace(mistake.error, key=key)]
    return errors + _set(root, key, value)


def _set(root: Node, key: str, value: Node) -> list[SpecError]:
    try:
        root.assign(key, value)
    except Mistake as mistake:
        return [mistake.error] if isinstance(root.value, dict) else []  # else that is said of the whole file
    return []
