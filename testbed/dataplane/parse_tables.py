"""Tables of P4_16: keys, actions, entries and other properties, by recursive descent."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from testbed.dataplane import ast
from testbed.dataplane.cursor import SyntaxProblem
from testbed.dataplane.diagnostics import Span
from testbed.dataplane.lexer import Kind
from testbed.dataplane.parse_statements import StatementParser

_T = TypeVar("_T")


@dataclass(slots=True)
class _Found:
    """The properties of one table so far."""

    key: tuple[ast.KeyElement, ...] = ()
    actions: tuple[ast.ActionRef, ...] = ()
    default_action: ast.ActionRef | None = None
    is_default_const: bool = False
    entries: tuple[ast.Entry, ...] | None = None
    are_entries_const: bool = False
    others: list[ast.Property] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)


class TableParser(StatementParser):
    def table(self, start: Span, annotations: tuple[ast.Annotation, ...]) -> ast.Table:
        self.expect("table")
        name = self.name("a name of a table")
        opening = self.expect("{").span
        found = _Found()
        while not self.sees("}"):
            if self.token.kind is Kind.END:
                raise SyntaxProblem(opening, "this '{' is never closed")
            self.recovering(lambda: self._property(found))
        self.next()
        if "actions" not in found.seen:
            hint = "it needs actions = { NoAction; }"
            self.diagnostics.error(name.span, f"the table {name.text} has no property 'actions'", hint)
        return ast.Table(
            self.since(start),
            name.text,
            name.span,
            annotations,
            found.key,
            found.actions,
            found.default_action,
            found.is_default_const,
            found.entries,
            found.are_entries_const,
            tuple(found.others),
        )

    def _property(self, found: _Found) -> None:
        start = self.token.span
        annotations = self.annotations()
        is_const = self.take("const")
        name = self.name("a name of a property")
        if name.text in found.seen:
            self.diagnostics.error(name.span, f"the table has a second property {name.text!r}")
        found.seen.add(name.text)
        self.expect("=")
        match name.text:
            case "key":
                found.key = self._braced(self._key_element)
            case "actions":
                found.actions = self._braced(self._action)
            case "entries":
                found.are_entries_const = is_const
                found.entries = self._braced(self._entry)
            case "default_action":
                found.is_default_const = is_const
                found.default_action = self._action_ref(annotations)
                self.expect(";")
            case _:
                value = self.expression()
                self.expect(";")
                span = self.since(start)
                found.others.append(ast.Property(span, name.text, name.span, annotations, value, is_const))
        if is_const and name.text in ("key", "actions"):
            self.diagnostics.error(start, f"{name.text} is never const")

    def _braced(self, parse: Callable[[], _T]) -> tuple[_T, ...]:
        opening = self.expect("{").span
        items: list[_T] = []
        while not self.sees("}"):
            if self.token.kind is Kind.END:
                raise SyntaxProblem(opening, "this '{' is never closed")
            items.extend(self.recovering(parse))
        self.next()
        return tuple(items)

    def _key_element(self) -> ast.KeyElement:
        start = self.token.span
        expression = self.expression()
        self.expect(":", "and the kind of match")
        kind = self.word()
        annotations = self.annotations()
        self.expect(";")
        return ast.KeyElement(self.since(start), expression, ast.Name(kind.span, kind.text), annotations)

    def _action(self) -> ast.ActionRef:
        action = self._action_ref(self.annotations())
        self.expect(";")
        return action

    def _action_ref(self, annotations: tuple[ast.Annotation, ...]) -> ast.ActionRef:
        start = self.token.span
        is_global = self.take(".")
        name = self.name("a name of an action")
        action = ast.Name(self.since(start), name.text, is_global)
        arguments = self.arguments() if self.sees("(") else ()
        return ast.ActionRef(self.since(start), action, arguments, annotations)

    def _entry(self) -> ast.Entry:
        start = self.token.span
        is_const = self.take("const")
        priority = None
        if self.sees("priority") and self.peek().text == "=":
            self.next()
            self.next()
            priority = self.expression()
            self.expect(":")
        keys = self.labels()
        self.expect(":", "and an action")
        action = self._action_ref(())
        annotations = self.annotations()
        self.expect(";")
        return ast.Entry(self.since(start), keys, action, is_const, priority, annotations)
