"""The points that a sweep and its repeats ask for, and the seed of each.

`sweep` is a mapping from dotted keys to lists of values, whose product is taken; a `zip` in it is a mapping whose
lists go in step; a list of such mappings is their union. Repeat r has one seed at every point: that of the spec for
r = 0, so that a point's resolved spec is itself a spec that repeats it; beyond that the first 63 bits of
SHA-256("testbed repeat <seed> <r>"). Within a repeat the points come in an order drawn from the repeat's seed, so that
slow drifts of a machine do not fall on one end of a sweep.
"""

import hashlib
import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from testbed.spec.document import Node, Step
from testbed.spec.findings import Findings
from testbed.spec.model import Spec

MOST_POINTS = 10_000
MOST_RUNS = 100_000
_NOT_SWEPT = ("name", "repeat", "sweep", "expect")


@dataclass(frozen=True, slots=True)
class Point:
    """One run: the `index`-th of the sweep's points as written (0 without a sweep), its swept values, its repeat.

    `spec` is the single run: its `seed` is the repeat's, and it has no sweep, no repeats and no expectations.
    """

    index: int
    values: Mapping[str, Any]
    repeat: int
    spec: Spec


@dataclass(frozen=True, slots=True)
class Combination:
    """What one point sets, as nodes of the sweep: dotted key -> value."""

    values: Mapping[str, Node] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        return {key: node.plain() for key, node in self.values.items()}

    def tree(self, base: Node) -> Node:
        """`base` with this point's values; raises Mistake where a key cannot be set."""
        root = base.copy()
        for key, node in self.values.items():
            root.assign(key, node)
        return root


def repeat_seed(seed: int, repeat: int) -> int:
    """The seed of the `repeat`-th repeat, from (seed, repeat) alone."""
    if repeat == 0:
        return seed
    digest = hashlib.sha256(f"testbed repeat {seed} {repeat}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def points(spec: Spec, values: Sequence[Mapping[str, Any]], specs: Sequence[Spec]) -> tuple[Point, ...]:
    """All runs in the order to run them; `values` are the swept ones and `specs` the spec of each point as written."""
    runs: list[Point] = []
    for repeat in range(spec.repeat):
        order = list(range(len(specs)))
        random.Random(repeat_seed(spec.seed, repeat)).shuffle(order)
        for index in order:
            single = {"seed": repeat_seed(specs[index].seed, repeat), "repeat": 1, "sweep": None, "expect": ()}
            runs.append(Point(index, values[index], repeat, specs[index].model_copy(update=single)))
    return tuple(runs)


def combinations(findings: Findings, sweep: Node) -> list[Combination]:
    """Take `sweep` apart; what is wrong with its form is reported, and its parts that are right are still used."""
    found: list[Combination] = []
    unions: list[tuple[tuple[Step, ...], Node]] = [(("sweep",), sweep)]
    if isinstance(sweep.value, list):
        unions = [(("sweep", index), part) for index, part in enumerate(sweep.value)]
    for path, part in unions:
        if not isinstance(part.value, dict) or not part.value:
            findings.add(path, "must be a mapping of keys to lists of values, e.g. {transport.kind: [roce, tcp]}")
            continue
        axes = _axes(findings, path, part.value)
        count = math.prod(len(axis) for axis in axes)
        if len(found) + count > MOST_POINTS:
            findings.add(path, f"makes {len(found) + count} points, more than {MOST_POINTS}", at_key=True)
            continue
        found += [Combination(_merged(choice)) for choice in itertools.product(*axes)]
    return found


def _axes(findings: Findings, path: tuple[Step, ...], mapping: Mapping[str, Node]) -> list[list[dict[str, Node]]]:
    """One list of alternatives for each key, and one for the whole `zip`."""
    axes = []
    for key, node in mapping.items():
        if key != "zip":
            values = _values(findings, (*path, key), key, node)
            first = {repr(value.plain()): index for index, value in reversed(list(enumerate(values)))}
            for index, value in enumerate(values):
                if first[repr(value.plain())] != index:
                    findings.add((*path, key, index), "is there twice: `repeat` makes several runs of a point")
            axes.append([{key: value} for value in values])
        elif not isinstance(node.value, dict) or not node.value:
            findings.add((*path, key), "must be a mapping of keys to lists of the same length")
        else:
            lists = {name: _values(findings, (*path, key, name), name, part) for name, part in node.value.items()}
            for name in lists:
                if name in mapping:
                    findings.add((*path, key, name), "is swept twice: beside the zip as well", at_key=True)
            lengths = {name: len(values) for name, values in lists.items()}
            if len(set(lengths.values())) > 1:
                told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
                findings.add((*path, key), f"its lists go in step and must be of the same length: {told}", at_key=True)
            rows = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=False)]
            if len({repr([value.plain() for value in row.values()]) for row in rows}) < len(rows):
                findings.add(
                    (*path, key), "has the same values twice: `repeat` makes several runs of a point", at_key=True
                )
            axes.append(rows)
    return [axis for axis in axes if axis]


def _values(findings: Findings, path: tuple[Step, ...], key: str, node: Node) -> list[Node]:
    if key.partition(".")[0] in _NOT_SWEPT:
        findings.add(path, "cannot be swept", at_key=True)
    elif not isinstance(node.value, list) or not node.value:
        findings.add(
            path, f"must be a list of values, e.g. [{node.plain()}]" if node.value else "must be a list of values"
        )
    else:
        return [value.swept(node.key_mark) for value in node.value]
    return []


def _merged(parts: Iterable[Mapping[str, Node]]) -> dict[str, Node]:
    return {key: node for part in parts for key, node in part.items()}
