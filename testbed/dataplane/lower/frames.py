"""What names mean while bodies are inlined: a frame for each instance and call, inside the one it was written in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from testbed.dataplane import ast, types
from testbed.dataplane.checked import Value as Constant
from testbed.dataplane.lower.values import Value


@dataclass(eq=False, slots=True)
class ExternInstance:
    """An instance of an extern; `name` is that of the control plane."""

    name: str
    type: types.ExternType
    arguments: tuple[Constant | None, ...]
    declaration: ast.Instance | None
    tables: list[str] = field(default_factory=list)  # that a direct counter or meter, or a profile, belongs to
    result: Value | None = None  # where a direct meter leaves its colour


@dataclass(eq=False, slots=True)
class TableInstance:
    name: str
    declaration: ast.Table
    is_applied: bool = False


@dataclass(eq=False, slots=True)
class BlockInstance:
    """An instance of a parser or control, with what it holds itself; `known` has its constructor parameters."""

    name: str
    declaration: ast.Parser | ast.Control
    known: Mapping[ast.Node, Constant]
    type_arguments: types.Bindings
    outer: "Frame"
    parts: "dict[ast.Node, Binding]" = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ActionBinding:
    declaration: ast.Action


Binding: TypeAlias = Value | ExternInstance | TableInstance | BlockInstance | ActionBinding


@dataclass(eq=False, slots=True)
class Frame:
    outer: "Frame | None" = None
    prefix: str = ""  # of the control-plane names of what is declared here
    bindings: dict[ast.Node, Binding] = field(default_factory=dict)
    known: dict[ast.Node, Constant] = field(default_factory=dict)
    type_arguments: dict[types.TypeVariable, types.Type] = field(default_factory=dict)

    def inner(self) -> "Frame":
        return Frame(self, self.prefix, {}, dict(self.known), dict(self.type_arguments))

    def find(self, declaration: ast.Node) -> Binding | None:
        frame = self.holder(declaration)
        return None if frame is None else frame.bindings[declaration]

    def holder(self, declaration: ast.Node) -> "Frame | None":
        """The frame that `declaration` is bound in."""
        frame: Frame | None = self
        while frame is not None and declaration not in frame.bindings:
            frame = frame.outer
        return frame
