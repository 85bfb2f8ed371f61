"""What is wrong with a spec, all of it at once: each error with its place, its key and a suggestion."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testbed.errors import UsageError

MOST_TOLD = 100
_MOST_VALUE, _MOST_MESSAGE = 200, 500  # characters


@dataclass(frozen=True, slots=True)
class Mark:
    """Where something was written: line and column from 1. `option` is the command line's part that set it instead.

    swept: it is a value of the spec's `sweep` (the place is that value's).
    """

    line: int
    column: int
    option: str = ""
    swept: bool = False

    @property
    def replaced(self) -> bool:
        """Whether it took the place of what the file says."""
        return bool(self.option) or self.swept


@dataclass(frozen=True, slots=True)
class SpecError:
    """One mistake. `key` is its dotted path as `-S` takes it; `option` names the command line's part it came from."""

    line: int
    column: int
    key: str
    message: str
    suggestion: str = ""
    option: str = ""

    def text(self, file: str) -> str:
        """`file:line:column: key: what is wrong (did you mean …?)`."""
        place = _cut(self.option) or f"{file}:{self.line}:{self.column}"
        key = f"{_cut(self.key)}: " if self.key else ""
        mean = f" (did you mean {_cut(self.suggestion)}?)" if self.suggestion else ""
        return f"{place}: {key}{_cut(self.message, _MOST_MESSAGE)}{mean}"


class SpecErrors(UsageError):
    """All mistakes of one spec, in the order of their places; the message has the first `MOST_TOLD`."""

    def __init__(self, file: str, errors: Iterable[SpecError]) -> None:
        self.file = file
        self.errors: tuple[SpecError, ...] = tuple(
            sorted(dict.fromkeys(errors), key=lambda e: (e.option != "", e.line, e.column, e.key))
        )
        lines = [error.text(file) for error in self.errors[:MOST_TOLD]]
        if len(self.errors) > MOST_TOLD:
            lines.append(f"{file}: and {len(self.errors) - MOST_TOLD} more mistakes")
        super().__init__("\n".join(lines))


def _cut(text: str, most: int = _MOST_VALUE) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def listed(choices: Sequence[str], most: int = 12) -> str:
    """Choices for a message, cut when there are many."""
    more = f", … ({len(choices)} in all)" if len(choices) > most else ""
    return ", ".join(choices[:most]) + more
