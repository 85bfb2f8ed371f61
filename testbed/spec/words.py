"""pydantic's complaints in plain words, one for each place."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from testbed.spec.document import Node, Step, without_job
from testbed.spec.model import Section, Spec
from testbed.spec.unbuilt import UNBUILT_VALUES
from testbed.suggest import closest
from testbed.units import shown

_BOUNDS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
}
_PLAIN = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that is wrong at `path` in the tree."""

    path: tuple[Step, ...]
    message: str
    suggestion: str
    missing: bool


def complaints(error: ValidationError, root: Node) -> list[Complaint]:
    """One complaint a place. Of a place and one inside it only the inner: the branch of a union that came near."""
    by_path: dict[tuple[Step, ...], list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        by_path.setdefault(_real_path(detail, root), []).append(detail)
    inner = [path for path in by_path if not any(len(p) > len(path) and p[: len(path)] == path for p in by_path)]
    return [_complaint(path, by_path[path], root) for path in inner]


def fields(section: type[Section]) -> dict[str, Any]:
    """The annotation of each key of a section, by its YAML name."""
    return {field.alias or name: field.annotation for name, field in section.model_fields.items()}


def branches(annotation: Any) -> Iterator[Any]:
    """The types that an annotation stands for, unions taken apart and `Annotated` and None left out."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from branches(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for part in get_args(annotation):
            yield from branches(part)
    elif annotation is not type(None):
        yield annotation


def section_of(annotation: Any) -> type[Section] | None:
    """The section that an annotation allows, if one."""
    for branch in branches(annotation):
        if isinstance(branch, type) and issubclass(branch, Section):
            return branch
    return None


def entries_of(annotation: Any) -> Any:
    """What the entries of the list that an annotation allows are, or None."""
    for branch in branches(annotation):
        if get_origin(branch) is tuple:
            return get_args(branch)[0]
    return None


def values_of(annotation: Any) -> Any:
    """What the values of the mapping that an annotation allows are, or None."""
    for branch in branches(annotation):
        if get_origin(branch) is dict:
            return get_args(branch)[1]
    return None


def choices(annotation: Any, key: str) -> list[str]:
    """The words that an annotation allows, without those not built yet."""
    words = [word for b in branches(annotation) if get_origin(b) is Literal for word in get_args(b)]
    return [word for word in words if word not in UNBUILT_VALUES.get(key, ())]


def _real_path(detail: ErrorDetails, root: Node) -> tuple[Step, ...]:
    """The error's place in the tree: pydantic also names the branches of unions on the way."""
    node, path = root, list[Step]()
    for step in detail["loc"]:
        child = node.child(step)
        if child is not None:
            node = child
            path.append(step)
    if detail["type"] == "missing" and node.child(detail["loc"][-1]) is None and isinstance(node.value, dict):
        path.append(detail["loc"][-1])
    return tuple(path)


def _complaint(path: tuple[Step, ...], details: list[ErrorDetails], root: Node) -> Complaint:
    annotation = _annotation(Spec, path)
    key = without_job(".".join(str(step) for step in path if not isinstance(step, int)))
    for detail in details:
        context = detail.get("ctx", {})
        if detail["type"] == "missing":
            return Complaint(path, f"is missing: {_expected(annotation, key)}", "", True)
        if detail["type"] == "value_error":
            return Complaint(path, str(context["error"]), getattr(context["error"], "suggestion", ""), False)
        if detail["type"] in _BOUNDS:
            value = shown(detail["input"])
            return Complaint(path, f"is {value} and {_BOUNDS[detail['type']].format(**context)}", "", False)
    value = root.find(path)[0][-1].plain()
    words = choices(annotation, key)
    suggestion = closest(value, words) if isinstance(value, str) else ""
    return Complaint(path, f"{shown(value)} is not {_expected(annotation, key)}", suggestion, False)


def _annotation(annotation: Any, path: Sequence[Step]) -> Any:
    for step in path:
        section = section_of(annotation)
        if isinstance(step, int):
            annotation = entries_of(annotation)
        elif values_of(annotation) is not None:
            annotation = values_of(annotation)
        elif section:
            annotation = fields(section).get(step, Any)
    return annotation


def _expected(annotation: Any, key: str) -> str:
    parts = []
    words = choices(annotation, key)
    if words:
        parts.append(f"one of {', '.join(words)}" if len(words) > 1 else words[0])
    for branch in branches(annotation):
        if get_origin(branch) is tuple:
            inner = get_args(branch)[0]
            parts.append("a list" if section_of(inner) else f"a list of {_plural(_expected(inner, key))}")
        elif get_origin(branch) is dict or (isinstance(branch, type) and issubclass(branch, Section)):
            parts.append("a mapping")
        elif branch in _PLAIN:
            parts.append(_PLAIN[branch])
    return " or ".join(dict.fromkeys(parts)) or "allowed here"


def _plural(word: str) -> str:
    return {"text": "words", "a whole number": "whole numbers"}.get(word, word)
