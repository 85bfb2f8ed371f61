"""The expressions of `#if` and `#elif`: integers, the operators of C, and names that are no macros as 0."""

from collections.abc import Callable, Sequence

from testbed.dataplane.diagnostics import Diagnostics, Span
from testbed.dataplane.lexer import Kind, Token

_LEVELS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a) or bool(b))},
    {"&&": lambda a, b: int(bool(a) and bool(b))},
    {"|": lambda a, b: a | b},
    {"^": lambda a, b: a ^ b},
    {"&": lambda a, b: a & b},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {
        "<": lambda a, b: int(a < b),
        ">": lambda a, b: int(a > b),
        "<=": lambda a, b: int(a <= b),
        ">=": lambda a, b: int(a >= b),
    },
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": lambda a, b: a // b, "%": lambda a, b: a % b},
)
_MAX_NESTING = 100


class _Wrong(Exception):
    """The expression makes no sense; the text says why."""


def condition_holds(tokens: Sequence[Token], span: Span, diagnostics: Diagnostics) -> bool:
    """Whether the expression is not 0; an expression that makes no sense is reported and does not hold."""
    reader = _Reader(tokens)
    try:
        value = reader.level(0)
        if reader.at < len(tokens):
            raise _Wrong(f"{tokens[reader.at].text!r} is not expected there")
    except _Wrong as wrong:
        diagnostics.error(span, f"the condition makes no sense: {wrong}")
        return False
    except ZeroDivisionError:
        diagnostics.error(span, "the condition divides by 0")
        return False
    return value != 0


class _Reader:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self.at = 0
        self._tokens = tokens
        self._depth = 0

    def level(self, number: int) -> int:
        if number == len(_LEVELS):
            return self._operand()
        value = self.level(number + 1)
        while self.at < len(self._tokens) and self._tokens[self.at].text in _LEVELS[number]:
            operator = _LEVELS[number][self._tokens[self.at].text]
            self.at += 1
            value = operator(value, self.level(number + 1))
        return value

    def _operand(self) -> int:
        self._depth += 1
        if self.at >= len(self._tokens):
            raise _Wrong("something is missing at its end")
        if self._depth > _MAX_NESTING:
            raise _Wrong("it is nested too deep")
        token = self._tokens[self.at]
        self.at += 1
        value: int
        if token.integer is not None:
            value = token.integer.value
        elif token.kind is Kind.NAME:
            value = int(token.text == "true")
        elif token.text == "!":
            value = int(not self._operand())
        elif token.text == "-":
            value = -self._operand()
        elif token.text == "~":
            value = ~self._operand()
        elif token.text == "(":
            value = self.level(0)
            if self.at >= len(self._tokens) or self._tokens[self.at].text != ")":
                raise _Wrong("a parenthesis does not close")
            self.at += 1
        else:
            raise _Wrong(f"{token.text!r} is not expected there")
        self._depth -= 1
        return value
