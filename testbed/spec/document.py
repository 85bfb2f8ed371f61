"""YAML text as a tree that remembers where each value was written, and the dotted paths that change it.

YAML 1.1 as PyYAML composes it, with less magic: no tags, no dates, no sexagesimal or octal numbers (they stay text),
`1e3` is a number. Aliases and merge keys work, with a bound on what they may expand to.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from testbed.spec.errors import Mark, SpecError, listed
from testbed.suggest import closest

Scalar = str | int | float | bool | None
Step = str | int

MOST_NODES = 100_000  # after the expansion of aliases
_MOST_DIGITS = 40
_TAG = "tag:yaml.org,2002:"
_SCIENTIFIC = re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(0|[1-9][0-9_]*|0x[0-9a-fA-F]+)")
# A scalar here stands for a mapping with this one key.
_SHORTHAND = {"loss": "mean", "congestion": "kind", "algorithm": "kind", "codec": "kind"}


def without_job(key: str) -> str:
    """A dotted key as a spec of one job has it: `transport.kind` for `jobs.NAME.transport.kind`."""
    return key.split(".", 2)[2] if key.startswith("jobs.") and key.count(".") > 1 else key


class Mistake(Exception):
    """One mistake that ends the present step; carries the error to report."""

    def __init__(self, error: SpecError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(slots=True)
class Node:
    """A value with its place. `name` is its step in dotted paths: its key, or in a list its `name` or index."""

    value: "Scalar | dict[str, Node] | list[Node]"
    mark: Mark
    key_mark: Mark
    name: str = ""

    def plain(self) -> Any:
        """The value as dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def copy(self) -> "Node":
        """A copy whose parts can be changed."""
        value = self.value
        if isinstance(value, dict):
            value = {key: child.copy() for key, child in value.items()}
        elif isinstance(value, list):
            value = [child.copy() for child in value]
        return Node(value, self.mark, self.key_mark, self.name)

    def called(self, name: str) -> "Node":
        """A copy with another name."""
        node = self.copy()
        node.name = name
        return node

    def swept(self, key_mark: Mark) -> "Node":
        """A copy that stands for a value of the sweep whose key is at `key_mark`."""
        node = self.copy()
        for part in node.parts():
            part.mark, part.key_mark = replace(part.mark, swept=True), replace(part.key_mark, swept=True)
        node.key_mark = replace(key_mark, swept=True)
        return node

    def parts(self) -> "Iterator[Node]":
        """Itself and all below."""
        yield self
        for child in self.children():
            yield from child.parts()

    def marks(self) -> "Iterator[Mark]":
        """All places of it and of its parts."""
        for part in self.parts():
            yield part.mark
            yield part.key_mark

    def label(self, key: str) -> str:
        """The dotted path `key` with entries of lists by their names; empty if there is no such part."""
        here, names = self, []
        for step in key.split("."):
            found = [node for node in here.children() if node.name == step]
            if isinstance(here.value, list) and step.isdecimal():
                found += here.value[int(step) : int(step) + 1]
            if not found:
                return ""
            here = found[0]
            names.append(here.name)
        return ".".join(names)

    def children(self) -> "list[Node]":
        if isinstance(self.value, dict):
            return list(self.value.values())
        return list(self.value) if isinstance(self.value, list) else []

    def child(self, step: Step) -> "Node | None":
        """The part at one step (a key, or an index), if there is one."""
        if isinstance(self.value, dict) and isinstance(step, str):
            return self.value.get(step)
        if isinstance(self.value, list) and isinstance(step, int) and 0 <= step < len(self.value):
            return self.value[step]
        return None

    def find(self, path: Sequence[Step]) -> "tuple[list[Node], Sequence[Step]]":
        """The nodes along `path`, itself first, and the steps beyond the last that exists."""
        nodes = [self]
        for position, step in enumerate(path):
            child = nodes[-1].child(step)
            if child is None:
                return nodes, path[position:]
            nodes.append(child)
        return nodes, ()

    def remove(self, path: Sequence[Step]) -> None:
        """Take the part at `path` out, if it is there."""
        nodes, beyond = self.find(path[:-1])
        step, holder = path[-1], nodes[-1].value
        if beyond or nodes[-1].child(step) is None:
            return
        if isinstance(holder, dict):
            del holder[str(step)]
        elif isinstance(holder, list):
            del holder[int(step)]

    def assign(self, key: str, value: "Node") -> None:
        """Set the part at the dotted path `key` (mappings on the way are made); a `value` of null takes it out.

        A step into a list is an index or an entry's `name`. Raises Mistake, at the place of `value`.
        """
        steps = key.split(".")
        here, walked = self, list[str]()
        for step in steps[:-1]:
            here = here._enter(step, walked, value)
            walked.append(step)
        last = steps[-1]
        if isinstance(here.value, list):
            index = here._index(last, walked, value)
            here.value[index] = value.called(here.value[index].name)
            return
        holder = here._mapping(walked, value)
        if value.value is None:
            holder.pop(last, None)
        else:
            holder[last] = value.called(last)

    def _enter(self, step: str, walked: list[str], value: "Node") -> "Node":
        if isinstance(self.value, list):
            return self.value[self._index(step, walked, value)]
        holder = self._mapping(walked, value)
        return holder.setdefault(step, Node({}, value.mark, value.key_mark, step))

    def _mapping(self, walked: list[str], value: "Node") -> "dict[str, Node]":
        short = _SHORTHAND.get(self.name)
        if short and isinstance(self.value, str | int | float):
            self.value = {short: Node(self.value, self.mark, self.mark, short)}
        if not isinstance(self.value, dict):
            raise _mistake(value.key_mark, ".".join(walked), f"has no keys to set: it is {self.value!r}")
        return self.value

    def _index(self, step: str, walked: list[str], value: "Node") -> int:
        assert isinstance(self.value, list)
        names = [child.name for child in self.value]
        if step in names:
            return names.index(step)
        if step.isdecimal() and int(step) < len(names):
            return int(step)
        key = ".".join([*walked, step])
        raise _mistake(value.key_mark, key, f"no such entry; there are {listed(names) or 'none'}", closest(step, names))


def parse(text: str, option: str = "") -> tuple[Node, list[SpecError]]:
    """The tree of a YAML text and what is wrong with it short of its syntax; raises Mistake for its syntax.

    `option`: the text is a value of this part of the command line.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise Mistake(_syntax(error, option)) from None
    except yaml.reader.ReaderError as error:
        line, column = place(text, error.position)
        raise _mistake(Mark(line, column, option), "", f"character U+{error.character:04X} is not allowed") from None
    except RecursionError:
        raise _mistake(Mark(1, 1, option), "", "is nested too deeply") from None
    if root is None:
        start = Mark(1, 1, option)
        return Node(None, start, start), []
    builder = _Builder(option)
    return builder.node(root, Mark(1, 1, option), "", ""), builder.errors


def place(text: str, position: int) -> tuple[int, int]:
    """Line and column, from 1, of a position in a text."""
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def of_data(data: Any, mark: Mark, name: str = "") -> Node:
    """The tree of plain data, all of it at `mark`."""
    value = data
    if isinstance(data, Mapping):
        value = {str(key): of_data(part, mark, str(key)) for key, part in data.items()}
    elif isinstance(data, list | tuple):
        value = [of_data(part, mark, _entry_name(index, part)) for index, part in enumerate(data)]
    return Node(value, mark, mark, name)


def _entry_name(index: int, part: Any) -> str:
    name = part.get("name") if isinstance(part, Mapping) else None
    return name if isinstance(name, str) else str(index)


def _mistake(mark: Mark, key: str, message: str, suggestion: str = "") -> Mistake:
    return Mistake(SpecError(mark.line, mark.column, key, message, suggestion, mark.option))


def _syntax(error: yaml.MarkedYAMLError, option: str) -> SpecError:
    at = error.problem_mark or error.context_mark
    line, column = (at.line + 1, at.column + 1) if at else (1, 1)
    problem = error.problem or "is not YAML"
    if r"'\t'" in problem or "'\t'" in problem:
        problem = "a tab: YAML is indented with spaces"
    elif "single document" in str(error.context):
        problem = "a second document: a file holds one spec"
    elif error.context and error.context_mark and error.context_mark.line + 1 != line:
        problem = f"{problem} ({error.context} that begins in line {error.context_mark.line + 1})"
    return SpecError(line, column, "", f"not YAML: {problem}", option=option)


class _Builder:
    """Turns composed YAML nodes into `Node`s and collects what is wrong on the way."""

    def __init__(self, option: str) -> None:
        self.errors: list[SpecError] = []
        self._option = option
        self._open: list[yaml.Node] = []
        self._count = 0

    def node(self, source: yaml.Node, key_mark: Mark, label: str, name: str) -> Node:
        mark = self._mark(source)
        self._count += 1
        if self._count > MOST_NODES:
            raise _mistake(mark, label, f"the aliases expand to more than {MOST_NODES} values")
        if any(source is outer for outer in self._open):
            raise _mistake(mark, label, "an alias contains itself")
        if isinstance(source, yaml.ScalarNode):
            return Node(self._scalar(source, mark, label), mark, key_mark, name)
        if source.tag not in (_TAG + "map", _TAG + "seq"):
            self._error(mark, label, f"the tag {_short(source.tag)} is not supported")
        self._open.append(source)
        value = self._mapping(source, label) if isinstance(source, yaml.MappingNode) else self._list(source, label)
        self._open.pop()
        return Node(value, mark, key_mark, name)

    def _list(self, source: yaml.Node, label: str) -> list[Node]:
        nodes = []
        for index, part in enumerate(source.value):
            node = self.node(part, self._mark(part), _join(label, str(index)), str(index))
            title = node.child("name")
            if title and isinstance(title.value, str):
                node.name = title.value
            nodes.append(node)
        return nodes

    def _mapping(self, source: yaml.MappingNode, label: str) -> dict[str, Node]:
        found: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key, part in source.value:
            mark = self._mark(key)
            if key.tag == _TAG + "merge":
                merged = {**self._merge(part, label), **merged}
            elif not isinstance(key, yaml.ScalarNode) or key.tag == _TAG + "null":
                self._error(mark, label, "a key must be a word")
            elif key.value in found:
                first = found[key.value].key_mark.line
                self._error(mark, _join(label, key.value), f"is given twice (first in line {first})")
            else:
                found[key.value] = self.node(part, mark, _join(label, key.value), key.value)
        return {**merged, **found}

    def _merge(self, source: yaml.Node, label: str) -> dict[str, Node]:
        parts = source.value if isinstance(source, yaml.SequenceNode) else [source]
        merged: dict[str, Node] = {}
        for part in parts:
            node = self.node(part, self._mark(part), label, "")
            if isinstance(node.value, dict):
                merged = {**node.value, **merged}
            else:
                self._error(node.mark, label, "<< merges mappings only")
        return merged

    def _scalar(self, source: yaml.ScalarNode, mark: Mark, label: str) -> Scalar:
        text: str = source.value
        match source.tag.removeprefix(_TAG):
            case "null":
                return None
            case "bool":
                return text.lower() in ("yes", "true", "on")
            case "int" if _DECIMAL.fullmatch(text) and len(text) < _MOST_DIGITS:
                return int(text, 0)
            case "float" if ":" not in text:
                return float(text.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
            case "str" if source.style is None and _SCIENTIFIC.fullmatch(text):
                return float(text)
            case "str" | "int" | "float" | "timestamp" | "value" | "merge":
                return text
        self._error(mark, label, f"the tag {_short(source.tag)} is not supported")
        return text

    def _mark(self, source: yaml.Node) -> Mark:
        return Mark(source.start_mark.line + 1, source.start_mark.column + 1, self._option)

    def _error(self, mark: Mark, label: str, message: str) -> None:
        self.errors.append(_mistake(mark, label, message).error)


def _join(label: str, step: str) -> str:
    return f"{label}.{step}" if label else step


def _short(tag: str) -> str:
    return tag.replace(_TAG, "!!")
