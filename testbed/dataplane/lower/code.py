"""Linear code with labels, which statements are lowered to, and its basic blocks.

The body of an action becomes one list of primitives with jumps; that of a control becomes tables and conditionals, that
of a parser becomes states: see `actions`, `controls` and `parsers`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lower.terms import Term


@dataclass(eq=False, slots=True)
class Label:
    """A point in the code; `name` is for the reader of the JSON."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class Primitive:
    operator: str
    parameters: tuple[Term, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Mark:
    label: Label


@dataclass(frozen=True, slots=True)
class Jump:
    target: Label


@dataclass(frozen=True, slots=True)
class Branch:
    """Goes on behind it if `condition` holds, to `otherwise` if not."""

    condition: Term
    otherwise: Label
    span: Span


@dataclass(frozen=True, slots=True)
class Apply:
    """Applies a table and goes to the label of the action that ran, of `__HIT__` or of `__MISS__`, else on."""

    table: "dict[str, Any]"
    targets: tuple[tuple[str, Label], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """Values of the keys, joined, with the bits that count; or a value set. Nothing at all: any."""

    target: Label
    value: int = 0
    mask: int | None = None
    set_name: str | None = None


@dataclass(frozen=True, slots=True)
class Select:
    keys: tuple[Term, ...]
    bits: int  # of the keys, each filled up to whole bytes
    cases: tuple[Case, ...]
    otherwise: Label


Instruction: TypeAlias = Primitive | Mark | Jump | Branch | Apply | Select


@dataclass(eq=False, slots=True)
class Block:
    """Primitives, then one instruction that says where it goes; `follow` is where code goes on behind that."""

    label: Label
    primitives: list[Primitive] = field(default_factory=list)
    end: Jump | Branch | Apply | Select | None = None
    follow: Label | None = None

    def targets(self) -> Iterator[Label]:
        match self.end:
            case Jump(target):
                yield target
            case Branch(otherwise=otherwise):
                assert self.follow is not None
                yield self.follow
                yield otherwise
            case Apply(targets=targets):
                yield from (label for _, label in targets)
                assert self.follow is not None
                yield self.follow
            case Select(cases=cases, otherwise=otherwise):
                yield from (case.target for case in cases)
                yield otherwise


class Graph:
    """The basic blocks of code that can be reached; an empty block is skipped."""

    def __init__(self, code: list[Instruction], finals: tuple[Label, ...]) -> None:
        self._finals = finals
        self._blocks: dict[Label, Block] = {}
        self._aliases: dict[Label, Label] = {}
        self._cut(code)
        self.start = self.resolved(self._first)
        self.blocks = self._reached()

    def block(self, label: Label) -> Block | None:
        """The block that `label` leads to; None at the end."""
        return self._blocks.get(self.resolved(label))

    def resolved(self, label: Label) -> Label:
        seen: set[Label] = set()
        while label not in self._finals and label not in seen:
            seen.add(label)
            if label in self._aliases:
                label = self._aliases[label]
                continue
            block = self._blocks[label]
            if block.primitives or not isinstance(block.end, Jump):
                break
            label = block.end.target
        return label

    def _cut(self, code: list[Instruction]) -> None:
        block = Block(Label())
        self._first = block.label
        self._blocks[block.label] = block
        for one in code:
            match one:
                case Primitive():
                    block.primitives.append(one)
                case Mark(label) if not block.primitives:
                    self._aliases[label] = block.label
                    block.label.name = block.label.name or label.name
                case Mark(label):
                    block.end = Jump(label)
                    block = Block(label)
                    self._blocks[label] = block
                case _:
                    block.end = one
                    block.follow = Label()
                    block = Block(block.follow)
                    self._blocks[block.label] = block
        block.end = Jump(self._finals[0])

    def _reached(self) -> list[Block]:
        order: list[Block] = []
        seen: set[Label] = set()
        waiting = [self.start]
        while waiting:
            label = waiting.pop()
            if label in seen or label in self._finals:
                continue
            seen.add(label)
            block = self._blocks[label]
            order.append(block)
            waiting.extend(reversed([self.resolved(target) for target in block.targets()]))
        return order


def source_info(span: Span) -> dict[str, Any]:
    """Where in the program something stands, as BMv2 logs it (columns count from 0)."""
    text = span.text.split("\n")
    fragment = text[0] if len(text) == 1 else f"{text[0]} ..."
    return {"filename": span.source.path, "line": span.line, "column": span.column - 1, "source_fragment": fragment}
