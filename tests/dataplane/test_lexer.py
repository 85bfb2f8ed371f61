"""Tokens: numbers with widths, symbols, strings, and what is none."""

import pytest

from testbed.dataplane.diagnostics import Diagnostics, Source
from testbed.dataplane.lexer import Integer, Kind, Token, tokens_of_line


def lex(text: str) -> tuple[list[Token], Diagnostics]:
    diagnostics = Diagnostics()
    return list(tokens_of_line(text, Source("t.p4", (text,)), 1, diagnostics)), diagnostics


@pytest.mark.parametrize(
    ("text", "value", "width", "is_signed"),
    [
        ("0", 0, None, False),
        ("1_000", 1000, None, False),
        ("0xFF", 255, None, False),
        ("0Xff_00", 0xFF00, None, False),
        ("0b101", 5, None, False),
        ("0o17", 15, None, False),
        ("0d19", 19, None, False),
        ("017", 17, None, False),  # a leading zero alone does not mean octal
        ("8w10", 10, 8, False),
        ("8w0xFF", 255, 8, False),
        ("4s7", 7, 4, True),
        ("4s0b1111", -1, 4, True),
        ("128w0xFFFF_FFFF_FFFF_FFFF_FFFF_FFFF_FFFF_FFFF", (1 << 128) - 1, 128, False),
    ],
)
def test_number(text: str, value: int, width: int | None, is_signed: bool) -> None:
    (token,), diagnostics = lex(text)
    assert token.integer == Integer(value, width, is_signed)
    assert not diagnostics.errors


def test_a_number_that_does_not_fit_is_cut_with_a_warning() -> None:
    (token,), diagnostics = lex("4w0x1F")
    assert token.integer == Integer(15, 4, False)
    assert "does not fit" in diagnostics.warnings[0].message


@pytest.mark.parametrize("text", ["0x", "0b2", "8w", "8x3", "12abc", "0s1", "9999w1", "0xG"])
def test_no_number(text: str) -> None:
    assert len(lex(text)[1].errors) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|+|b|-|c", "a |+| b |-| c"),
        ("a++b<<1>>2", "a ++ b << 1 > > 2"),
        ("1&&&2", "1 &&& 2"),
        ("0..9", "0 .. 9"),
        ("{...}", "{ ... }"),
        ("a<=b>=c", "a <= b >= c"),
        ("x|+|=1;y<<=2;", "x |+|= 1 ; y <<= 2 ;"),
        ("@name(x)", "@ name ( x )"),
        ("{#}", "{ # }"),
        ("a[3:0]", "a [ 3 : 0 ]"),
    ],
)
def test_symbols(text: str, expected: str) -> None:
    assert [token.text for token in lex(text)[0]] == expected.split()


def test_string() -> None:
    (token,), _ = lex(r'"a \"b\" \\ c"')
    assert (token.kind, token.text) == (Kind.STRING, 'a "b" \\ c')


def test_a_token_has_its_columns() -> None:
    tokens, _ = lex("  ab +")
    assert [(token.span.column, token.span.end_column) for token in tokens] == [(3, 5), (6, 7)]
