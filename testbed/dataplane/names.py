"""Scopes: which declaration a name means where it stands; a name is known from its declaration on."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from testbed.dataplane import ast
from testbed.dataplane.checked import Checked, Declaration
from testbed.dataplane.diagnostics import Diagnostics, did_you_mean


class Place(Enum):
    """What kind of code is looked at: not everything may stand everywhere."""

    TOP = "at the top of the program"
    PARSER = "in a parser"
    STATE = "in a parser state"
    CONTROL = "in a control"
    APPLY = "in an apply block"
    ACTION = "in an action"
    FUNCTION = "in a function"
    TABLE = "in a table"


_OVERLOADED = (ast.Function, ast.Method)


class Names:
    """The scopes that are open, innermost last."""

    def __init__(self, checked: Checked) -> None:
        self.checked = checked
        self.diagnostics: Diagnostics = checked.diagnostics
        self.place = Place.TOP
        self._scopes: list[dict[str, list[Declaration]]] = [{}]

    @contextmanager
    def scope(self, place: Place | None = None) -> Iterator[None]:
        before = self.place
        self.place = place or before
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()
            self.place = before

    def declare(self, declaration: Declaration) -> None:
        """Make the name known from here to the end of the scope; two of one name are an error, unless they are
        functions that differ in their parameters."""
        known = self._scopes[-1].setdefault(declaration.name, [])
        if not known:
            if not isinstance(declaration, ast.TypeParameter):
                self._warn_of_shadow(declaration)
            known.append(declaration)
            return
        if isinstance(declaration, _OVERLOADED) and all(
            isinstance(other, _OVERLOADED) and _signature(other) != _signature(declaration) for other in known
        ):
            known.append(declaration)
            return
        message = f"{declaration.name!r} is declared a second time"
        self.diagnostics.error(declaration.name_span, message, f"the first time is at {known[0].name_span}")

    def _warn_of_shadow(self, declaration: Declaration) -> None:
        if not isinstance(declaration, ast.Variable | ast.Constant | ast.Instance):
            return
        for scope in self._scopes[1:-1]:
            for other in scope.get(declaration.name, []):
                if isinstance(other, ast.Parameter | ast.Variable):
                    message = f"{declaration.name!r} hides the one declared at {other.name_span}"
                    self.diagnostics.warning(declaration.name_span, message)

    def all_of(self, name: str, is_global: bool = False) -> list[Declaration]:
        """What `name` means here: several only if it is overloaded."""
        for scope in self._scopes[:1] if is_global else reversed(self._scopes):
            if name in scope:
                return scope[name]
        return []

    def look_up(self, use: ast.Name | ast.NamedType, what: str = "") -> Declaration | None:
        """The declaration, noted in the typed tree; None with an error if there is none."""
        found = self.all_of(use.name, use.is_global)
        if not found:
            known = {name for scope in self._scopes for name in scope}
            message = f"there is no {what or 'declaration of'} {use.name!r} here"
            self.diagnostics.error(use.span, message, did_you_mean(use.name, known))
            return None
        self.checked.declarations[use] = found[0]
        return found[0]


def _signature(function: ast.Function | ast.Method) -> tuple[int, frozenset[str]]:
    return len(function.parameters), frozenset(parameter.name for parameter in function.parameters)
