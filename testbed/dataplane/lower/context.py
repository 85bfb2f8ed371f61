"""What all parts of one program's lowering share: the checked tree, the layout, and the lists of the JSON."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import PurePath
from typing import Any

from testbed.dataplane import ast, types
from testbed.dataplane.checked import CallKind, Checked
from testbed.dataplane.diagnostics import Diagnostic, P4Errors, Span
from testbed.dataplane.lower import terms
from testbed.dataplane.lower.frames import ExternInstance
from testbed.dataplane.lower.layout import Layout
from testbed.dataplane.lower.terms import Term
from testbed.dataplane.lower.values import Struct, scalars_of

MAX_STATEMENTS = 50_000  # of a program in which all calls and loops are put in place: calls of calls double quickly
_EFFECTS = frozenset(
    {CallKind.FUNCTION, CallKind.ACTION, CallKind.EXTERN_FUNCTION, CallKind.EXTERN_METHOD, CallKind.TABLE}
)


def refused(span: Span, what: str, hint: str = "") -> P4Errors:
    """The error of a legal program that this target cannot run."""
    return P4Errors([Diagnostic(span, what, hint)])


def children(node: ast.Node) -> Iterator[ast.Node]:
    for one in fields(node):
        value = getattr(node, one.name)
        if isinstance(value, ast.Node):
            yield value
        elif isinstance(value, tuple):
            for item in value:
                if isinstance(item, ast.Node):
                    yield item
                elif isinstance(item, tuple):
                    yield from (part for part in item if isinstance(part, ast.Node))


@dataclass(slots=True)
class Numbered:
    """Lists of the JSON in which each entry has a name of its own and the next number."""

    items: list[dict[str, Any]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def unique(self, name: str) -> str:
        key, count = name, 0
        while key in self.names:
            key, count = f"{name}_{count}", count + 1
        self.names.add(key)
        return key

    def add(self, name: str, first_id: int = 0, **rest: Any) -> dict[str, Any]:
        described = {"name": name, "id": len(self.items) + first_id, **rest}
        self.items.append(described)
        return described


@dataclass(slots=True)
class Context:
    checked: Checked
    layout: Layout = field(default_factory=Layout)
    metadata: Struct | None = None  # the user's metadata of the pipeline
    standard: Struct | None = None
    actions: Numbered = field(default_factory=Numbered)
    calculations: Numbered = field(default_factory=Numbered)
    learn_lists: Numbered = field(default_factory=Numbered)
    registers: Numbered = field(default_factory=Numbered)
    counters: Numbered = field(default_factory=Numbered)
    meters: Numbered = field(default_factory=Numbered)
    value_sets: Numbered = field(default_factory=Numbered)
    tables: Numbered = field(default_factory=Numbered)  # of both pipelines, for unique names and numbers
    conditionals: Numbered = field(default_factory=Numbered)
    profiles: Numbered = field(default_factory=Numbered)
    externs: list[ExternInstance] = field(default_factory=list)
    spent: int = 0
    digests: list[tuple[str, types.Type]] = field(default_factory=list)  # names and types of what is sent
    _named: dict[tuple[str, str], ast.Declared] = field(default_factory=dict)  # by sort and control-plane name
    _made: set[tuple[str, str]] = field(default_factory=set)
    _field_lists: dict[int, dict[str, Any]] = field(default_factory=dict)
    _effects: dict[ast.Node, bool] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        """The program's name for what has no name of its own."""
        assert self.checked.main is not None
        return PurePath(self.checked.main.span.source.path).stem

    def spend(self, span: Span) -> None:
        """Count a statement or instance, each as often as it is put in place."""
        self.spent += 1
        if self.spent > MAX_STATEMENTS:
            raise refused(span, f"with calls and loops put in place there are more than {MAX_STATEMENTS} statements")

    def claim(self, name: str, node: ast.Declared) -> None:
        """Keep a control-plane name for a declaration: tables, actions and all others have each their own names."""
        sort = "table" if isinstance(node, ast.Table) else "action" if isinstance(node, ast.Action) else "instance"
        first = self._named.setdefault((sort, name), node)
        if first is not node:
            raise refused(node.span, f"the control plane knows another {sort} as {name}, declared at {first.span}")
        if sort != "action" and (sort, name) in self._made:
            raise refused(
                node.span, f"of each instance of its control, the control plane would know this {sort} as {name}"
            )
        self._made.add((sort, name))

    def has_effects(self, node: ast.Node) -> bool:
        """Whether evaluating `node` may change what another expression reads."""
        known = self._effects.get(node)
        if known is None:
            call = self.checked.calls.get(node)
            known = (call is not None and call.kind in _EFFECTS) or any(map(self.has_effects, children(node)))
            self._effects[node] = known
        return known

    def error_number(self, name: str) -> int:
        return self.checked.errors.index(name)

    # ---- field lists ----

    def field_list(self, elements: list[Term]) -> int:
        """The number of a list of fields that is kept."""
        number = max([0, *self._field_lists, *self._marked()]) + 1
        self._field_lists[number] = {"id": number, "name": f"fl{number}", "elements": elements}
        return number

    def marked_list(self, index: int) -> int:
        """The number of the list of metadata fields annotated with `@field_list(index)`."""
        number = index or max([0, *self._field_lists, *self._marked()]) + 1
        if number not in self._field_lists:
            elements = self._marked().get(index, [])
            self._field_lists[number] = {"id": number, "name": f"field_list{index}", "elements": elements}
        return number

    def _marked(self) -> dict[int, list[Term]]:
        found: dict[int, list[Term]] = {}
        if self.metadata is not None:
            self._mark(self.metadata, found)
        return found

    def _mark(self, struct: Struct, found: dict[int, list[Term]]) -> None:
        if not isinstance(struct.type, types.StructType):
            return
        for one in struct.type.declaration.fields:
            member = struct.members[one.name]
            annotation = ast.annotation(one, "field_list")
            for expression in annotation.expressions if annotation else ():
                index = self.checked.constant(expression)
                if isinstance(expression, ast.IntLiteral):
                    index = expression.value
                if isinstance(index, int):
                    found.setdefault(index, []).extend(scalar.term for scalar in scalars_of(member))
            if isinstance(member, Struct):
                self._mark(member, found)

    @property
    def field_lists(self) -> list[dict[str, Any]]:
        return [self._field_lists[number] for number in sorted(self._field_lists)]

    def calculation(self, algorithm: str, inputs: list[Term]) -> str:
        """The name of a new calculation over `inputs`, fields and sized constants."""
        name = self.calculations.unique("calc")
        self.calculations.add(name, algo=algorithm, input=inputs)
        return name

    def standard_field(self, name: str) -> Term:
        return terms.field("standard_metadata", name)
