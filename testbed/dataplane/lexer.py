"""From lines of P4_16 source to tokens, each with its place."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from testbed.dataplane.diagnostics import Diagnostics, Source, Span


class Kind(Enum):
    NAME = "name"  # keywords too
    INTEGER = "number"
    STRING = "string"
    SYMBOL = "symbol"
    UNKNOWN = "what has no meaning"  # fine inside of free annotations
    END = "end of the program"


@dataclass(frozen=True, slots=True)
class Integer:
    """The value of a literal; `width` is None for one of any size."""

    value: int
    width: int | None
    is_signed: bool


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is what stands in the source (of a string what it means); `integer` is there for numbers only."""

    kind: Kind
    text: str
    span: Span
    integer: Integer | None = None


# A reserved word is never a name; apply, key, actions, state, entries, type and priority may be one.
_RESERVED_WORDS = """
abstract action bit bool break const continue control default else enum error exit extern false for header
header_union if in inout int match_kind out package parser return select string struct switch table this
transition true tuple typedef value_set varbit void _
"""
RESERVED = frozenset(_RESERVED_WORDS.split())
MAX_WIDTH_BITS = 2048  # of one number; p4c has the same limit

# `>>` and `>>=` are put together by the parser, because `>` also closes type arguments.
_SYMBOLS = """
|+|= |-|= <<= &&& |+| |-| ... +: .. ++ && || == != <= >= << += -= *= /= %= &= |= ^=
( ) { } [ ] < > , ; : . ? ! ~ + - * / % & | ^ = @ #
"""
_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<integer>[0-9][0-9A-Za-z_]*)"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<symbol>" + "|".join(re.escape(symbol) for symbol in _SYMBOLS.split()) + ")"
)
_INTEGER = re.compile(
    r"(?:(?P<width>[0-9_]+)(?P<sign>[ws]))?"
    r"(?:0[xX](?P<hexadecimal>[0-9a-fA-F_]+)|0[oO](?P<octal>[0-7_]+)|0[bB](?P<binary>[01_]+)"
    r"|0[dD](?P<decimal>[0-9_]+)|(?P<plain>[0-9][0-9_]*))"
)
_BASES = {"hexadecimal": 16, "octal": 8, "binary": 2, "decimal": 10, "plain": 10}
_ESCAPE = re.compile(r"\\(.)")
_MAX_DIGITS = 4000  # Python itself refuses to read longer decimal numbers


def tokens_of_line(
    text: str, source: Source, line: int, diagnostics: Diagnostics, start_column: int = 1
) -> Iterator[Token]:
    """The tokens of one line without comments; numbers and strings that are wrong are reported."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        start = start_column + at
        if found is None:
            span = Span(source, line, start, line, start + 1)
            if text[at] == '"':
                diagnostics.error(Span(source, line, start, line, start_column + len(text)), "the string does not end")
                return
            yield Token(Kind.UNKNOWN, text[at], span)
            at += 1
            continue
        at = found.end()
        if found.lastgroup == "space":
            continue
        span = Span(source, line, start, line, start_column + at)
        match found.lastgroup:
            case "name":
                yield Token(Kind.NAME, found[0], span)
            case "integer":
                yield Token(Kind.INTEGER, found[0], span, _integer(found[0], span, diagnostics))
            case "string":
                yield Token(Kind.STRING, _ESCAPE.sub(r"\1", found[0][1:-1]), span)
            case "symbol":
                yield Token(Kind.SYMBOL, found[0], span)


def _integer(text: str, span: Span, diagnostics: Diagnostics) -> Integer:
    found = _INTEGER.fullmatch(text)
    digits = next((found[base].replace("_", "") for base in _BASES if found[base] is not None), "") if found else ""
    if found is None or not digits:
        diagnostics.error(span, f"{text!r} is no number", "P4 writes 10, 0x1F, 0b101, 0o17, 8w10, 4s0x7")
        return Integer(0, None, False)
    if len(digits) > _MAX_DIGITS:
        diagnostics.error(span, f"the number has more than {_MAX_DIGITS} digits")
        return Integer(0, None, False)
    value = int(digits, next(_BASES[base] for base in _BASES if found[base] is not None))
    if found["sign"] is None:
        return Integer(value, None, False)
    is_signed = found["sign"] == "s"
    width_text = found["width"].replace("_", "")[:_MAX_DIGITS]
    width = int(width_text) if width_text else 0
    if not is_signed and width == 0 and value == 0 and width_text:
        return Integer(0, 0, False)
    if not 1 <= width <= MAX_WIDTH_BITS:
        diagnostics.error(span, f"a number has 1 to {MAX_WIDTH_BITS} bits, not {width}")
        return Integer(0, None, False)
    cut = value & ((1 << width) - 1)
    kept = cut - (1 << width) if is_signed and cut >> (width - 1) else cut
    if kept != value:
        diagnostics.warning(span, f"{text} does not fit into {width} bits and becomes {kept}")
    return Integer(kept, width, is_signed)
