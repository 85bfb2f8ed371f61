"""The parser's view of the tokens: looking ahead, taking, going back, and the error that unwinds to a safe place."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from testbed.dataplane.diagnostics import Diagnostics, Span
from testbed.dataplane.lexer import RESERVED, Kind, Token

MAX_NESTING = 400  # of statements, expressions and types in each other
MAX_CHAIN = 1000  # of operators at one level: they make the tree as deep
_RECURSION_LIMIT = 30_000  # Python calls: a tree of that depth, with room for what walks it


class SyntaxProblem(Exception):
    """The source cannot be read on from here; whoever catches it reports it and goes on at a safe place."""

    def __init__(self, span: Span, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.span, self.message, self.hint = span, message, hint


@contextmanager
def deep_trees() -> Iterator[None]:
    """Lets Python walk trees that are as deep as the parser admits (its frames are on the heap since 3.11)."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class Cursor:
    def __init__(self, tokens: Sequence[Token], diagnostics: Diagnostics) -> None:
        self.at = 0
        self.diagnostics = diagnostics
        self._tokens = tokens
        self._last = len(tokens) - 1
        self._depth = 0

    @property
    def token(self) -> Token:
        return self._tokens[self.at]

    def peek(self, ahead: int = 1) -> Token:
        return self._tokens[min(self.at + ahead, self._last)]

    def next(self) -> Token:
        token = self._tokens[self.at]
        if self.at < self._last:
            self.at += 1
        return token

    def sees(self, *texts: str) -> bool:
        """Whether the next token is one of these words or symbols."""
        token = self._tokens[self.at]
        return token.text in texts and token.kind is not Kind.STRING

    def take(self, text: str) -> bool:
        if self.sees(text):
            self.next()
            return True
        return False

    def expect(self, text: str, where: str = "") -> Token:
        if self.sees(text):
            return self.next()
        raise self.unexpected(f"{text!r}{' ' + where if where else ''}")

    def unexpected(self, wanted: str) -> SyntaxProblem:
        token = self.token
        if token.kind is Kind.END:
            return SyntaxProblem(token.span, f"the program ends where {wanted} is expected")
        if token.kind is Kind.UNKNOWN:
            return SyntaxProblem(token.span, f"{token.text!r} has no meaning in P4")
        found = f'"{token.text}"' if token.kind is Kind.STRING else repr(token.text)
        hint = f"{token.text} is a reserved word" if wanted.startswith("a name") and token.text in RESERVED else ""
        before = self._tokens[self.at - 1].span if self.at else token.span
        if wanted.startswith("';'") and before.source is token.span.source and before.end_line < token.span.line:
            hint = f"it is missing at the end of line {before.end_line}"
        return SyntaxProblem(token.span, f"{found} where {wanted} is expected", hint)

    def sees_name(self, ahead: int = 0) -> bool:
        token = self.peek(ahead) if ahead else self.token
        return token.kind is Kind.NAME and token.text not in RESERVED

    def name(self, what: str = "a name") -> Token:
        if not self.sees_name():
            raise self.unexpected(what)
        return self.next()

    def word(self) -> Token:
        """Any word, reserved or not: the name of a member or annotation."""
        if self.token.kind is not Kind.NAME:
            raise self.unexpected("a name")
        return self.next()

    def adjacent(self, first: Token, second: Token) -> bool:
        """Whether nothing stands between two tokens: `>` `>` is a shift only then."""
        return first.span.end_line == second.span.line and (
            first.span.end_column == second.span.column or first.span == second.span  # equal: out of one macro
        )

    @contextmanager
    def nested(self) -> Iterator[None]:
        self._depth += 1
        try:
            if self._depth > MAX_NESTING:
                raise SyntaxProblem(self.token.span, f"this is nested more than {MAX_NESTING} deep")
            yield
        finally:
            self._depth -= 1

    def since(self, start: Span) -> Span:
        """The stretch from `start` to the end of the token that was taken last."""
        return start.to(self._tokens[max(0, self.at - 1)].span)

    def skip_to_next(self, closes_block: bool) -> None:
        """Go on behind the next `;` or block at this level, or before the `}` that ends it (`closes_block`)."""
        depth = 0
        while self.token.kind is not Kind.END:
            if depth == 0 and closes_block and self.sees("}"):
                return
            if self.sees("{", "(", "["):
                depth += 1
            elif self.sees("}", ")", "]") and depth:
                depth -= 1
                if depth == 0 and self.sees("}"):
                    self.next()
                    return
            elif self.sees(";") and depth == 0:
                self.next()
                return
            self.next()
