"""What the P4 front end says about a program: places in sources, errors and warnings, and how they are shown."""

from collections.abc import Iterable
from dataclasses import dataclass

from testbed.errors import UsageError
from testbed.suggest import closest

SHOWN_ERRORS = 20  # a list of errors longer than a screen helps nobody
_TAB_COLUMNS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One file as it was read."""

    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source; lines and columns count from 1, the end is just behind the last character."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, last: "Span") -> "Span":
        """The stretch from here to the end of `last` (only here if that lies in another file or before)."""
        if last.source is not self.source or (last.end_line, last.end_column) < (self.line, self.column):
            return self
        return Span(self.source, self.line, self.column, last.end_line, last.end_column)

    @property
    def text(self) -> str:
        """The source text, lines joined by newlines."""
        lines = list(self.source.lines[self.line - 1 : self.end_line])
        if not lines:
            return ""
        if self.end_line == self.line + len(lines) - 1:
            lines[-1] = lines[-1][: self.end_column - 1]
        lines[0] = lines[0][self.column - 1 :]
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.source.path}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing said about a place; `hint` names the way out, or is empty."""

    span: Span
    message: str
    hint: str = ""
    is_error: bool = True

    def __str__(self) -> str:
        kind = "error" if self.is_error else "warning"
        said = f"{self.span}: {kind}: {self.message}"
        if self.hint:
            said += f" ({self.hint})"
        if 0 < self.span.line <= len(self.span.source.lines):
            said += "\n" + _excerpt(self.span)
        return said


def _excerpt(span: Span) -> str:
    """The source line and below it a caret with tildes under the rest of the span."""
    line = span.source.lines[span.line - 1]
    before = line[: span.column - 1].expandtabs(_TAB_COLUMNS)
    last = span.end_column - 1 if span.end_line == span.line else len(line)
    width = max(1, len(line[:last].expandtabs(_TAB_COLUMNS)) - len(before))
    return f"    {line.expandtabs(_TAB_COLUMNS)}\n    {' ' * len(before)}^{'~' * (width - 1)}"


class P4Errors(UsageError):
    """The program has errors; `errors` holds them in the order of the source."""

    def __init__(self, errors: Iterable[Diagnostic]) -> None:
        self.errors = tuple(errors)
        shown = [str(error) for error in self.errors[:SHOWN_ERRORS]]
        if len(self.errors) > SHOWN_ERRORS:
            shown.append(f"... and {len(self.errors) - SHOWN_ERRORS} more errors")
        super().__init__("\n".join(shown))


class Diagnostics:
    """Collects what is said in one pass; the same place is blamed once only."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, int, int, bool], Diagnostic] = {}

    def error(self, span: Span, message: str, hint: str = "") -> None:
        self._add(Diagnostic(span, message, hint))

    def warning(self, span: Span, message: str, hint: str = "") -> None:
        self._add(Diagnostic(span, message, hint, is_error=False))

    def _add(self, diagnostic: Diagnostic) -> None:
        span = diagnostic.span
        self._said.setdefault((span.source.path, span.line, span.column, diagnostic.is_error), diagnostic)

    @property
    def errors(self) -> list[Diagnostic]:
        return [said for said in self._said.values() if said.is_error]

    @property
    def warnings(self) -> list[Diagnostic]:
        return [said for said in self._said.values() if not said.is_error]

    def raise_errors(self) -> None:
        """Raise `P4Errors` if there are any."""
        if self.errors:
            raise P4Errors(self.errors)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that names the closest of `known`, or nothing."""
    near = closest(name, sorted(set(known)))
    return f"did you mean {near!r}?" if near else ""
