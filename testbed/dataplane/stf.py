"""Packet tests in STF: the statements of a file, parsed and checked by form.

The grammar is that of p4c's simple test framework, cut to what a control plane and packets need: one statement a line,
`#` begins a comment, names may be dotted, `*` is a don't-care digit. `# note spec-expect PORT DATA $` below an `expect`
holds what the language's definition asks for where the reference implementation differs.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.errors import UsageError
from testbed.netcore import CPU_PORT
from testbed.units import shown

MOST_BYTES = 65549  # of a packet: an Ethernet header and the largest IPv4 packet
_MOST_DIGITS = 4000  # of a decimal number


class StfError(UsageError):
    """A line of an STF file is not a statement."""


@dataclass(frozen=True, slots=True)
class Digits:
    """A number whose digits may be `*`: the value of the others, their mask, and the width that was written."""

    value: int
    mask: int
    bits: int  # 0: decimal, of any width

    def widened(self, bits: int) -> tuple[int, int]:
        """Value and mask for a field of that many bits: what was not written is 0 and cared for."""
        missing = ((1 << bits) - 1) & ~((1 << self.bits) - 1) if self.bits else 0
        mask = (1 << bits) - 1 if not self.bits else (self.mask | missing) & ((1 << bits) - 1)
        return self.value & mask, mask


@dataclass(frozen=True, slots=True)
class Call:
    action: str
    arguments: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Statement:
    line: int


@dataclass(frozen=True, slots=True)
class Add(Statement):
    table: str
    priority: int | None
    keys: tuple[tuple[str, Digits, int | None], ...]  # name, value, prefix length where `/` gives it
    call: Call
    label: str | None


@dataclass(frozen=True, slots=True)
class SetDefault(Statement):
    table: str
    call: Call


@dataclass(frozen=True, slots=True)
class Command(Statement):
    """mirroring_add, mc_mgrp_create and the like: a word and what follows it."""

    word: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Packet(Statement):
    port: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Pattern:
    """Nibbles that a packet must begin with; `*` any. `data` None: any packet at all."""

    port: int
    data: str | None
    exact: bool

    def matches(self, frame: bytes) -> bool:
        if self.data is None:
            return True
        digits = frame.hex()
        if len(digits) < len(self.data) or (self.exact and len(digits) != len(self.data)):
            return False
        return all(want in ("*", got) for want, got in zip(self.data, digits, strict=False))

    def __str__(self) -> str:
        return f"{self.data if self.data is not None else 'any packet'}{' $' if self.exact else ''}"


@dataclass(frozen=True, slots=True)
class Expect(Statement):
    pattern: Pattern
    specified: Pattern | None = None  # what the language's definition asks for instead


@dataclass(frozen=True, slots=True)
class CheckCounter(Statement):
    name: str
    index: int | str  # a label where it is a string
    unit: str
    comparison: str
    value: int


@dataclass(frozen=True, slots=True)
class NoPacket(Statement):
    """Nothing more may leave than what is expected; which is so anyway."""


COMMANDS: Mapping[str, tuple[int, int | None]] = {  # words and how many arguments they take
    "mirroring_add": (2, 2),
    "mirroring_add_mc": (2, 2),
    "mirroring_delete": (1, 1),
    "mc_mgrp_create": (1, 1),
    "mc_node_create": (2, None),
    "mc_node_associate": (2, 2),
    "register_write": (3, 3),
    "register_reset": (1, 1),
    "meter_set_rates": (4, 4),
    "counter_write": (4, 4),
    "wait": (0, None),
    "queue_depth": (1, 1),  # our own: what packets from here on find in their queue
}
OF_TESTS = ("queue_depth", "wait")  # commands that only packet tests need


def read_stf(path: Path) -> tuple[Statement, ...]:
    """The statements of a file in order. Raises `StfError` with the line's place."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise StfError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StfError(f"{path}: is no text: byte {error.start} is not UTF-8") from error
    return parse_stf(text, str(path))


def parse_stf(text: str, name: str) -> tuple[Statement, ...]:
    """The statements of a text; `name` is what messages call it."""
    statements: list[Statement] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if (note := re.match(r"\s*#\s*note\s+spec-expect\s+(.*)", line)) is not None:
                _specify(statements, _pattern(note[1].split()))
            elif code := line.partition("#")[0].strip():
                statements.append(_statement(code, number))
        except ValueError as error:
            raise StfError(f"{name}:{number}:1: {error}") from error
    return tuple(statements)


def _specify(statements: list[Statement], pattern: Pattern) -> None:
    last = statements[-1] if statements else None
    if not isinstance(last, Expect):
        raise ValueError("`spec-expect` belongs below an `expect`")
    statements[-1] = Expect(last.line, last.pattern, pattern)


def _statement(code: str, line: int) -> Statement:
    word, _, rest = code.partition(" ")
    word = word.lower()
    if word in _PARSERS:
        return _PARSERS[word](rest.strip(), line)
    if word in COMMANDS:
        arguments = tuple(rest.split())
        least, most = COMMANDS[word]
        if len(arguments) < least or (most is not None and len(arguments) > most):
            raise ValueError(f"`{word}` takes {least}{'' if most == least else ' or more'} arguments")
        return Command(line, word, arguments)
    raise ValueError(f"unknown statement {word!r}")


def _packet(rest: str, line: int) -> Packet:
    port, *data = rest.split() or [""]
    digits = "".join(data)
    if not re.fullmatch(r"(?:[0-9a-fA-F]{2})*", digits):
        raise ValueError(f"not whole bytes in hexadecimal digits: {shown(digits)}")
    if len(digits) > 2 * MOST_BYTES:
        raise ValueError(f"a packet has at most {MOST_BYTES} bytes, and this one {len(digits) // 2}")
    return Packet(line, _port(port), bytes.fromhex(digits))


def _pattern(words: list[str]) -> Pattern:
    if not words:
        raise ValueError("an `expect` needs a port")
    port, *data = words
    digits = "".join(data).lower()
    exact = digits.endswith("$")
    digits = digits.removesuffix("$")
    if not re.fullmatch(r"[0-9a-f*]*", digits):
        raise ValueError(f"not hexadecimal digits: {shown(digits)}")
    return Pattern(_port(port), digits or None, exact)


def _call(text: str) -> Call:
    match = re.fullmatch(r"([A-Za-z_][\w.]*)\s*\((.*)\)", text.strip())
    if match is None:
        raise ValueError(f"not a call of an action: {text!r}")
    arguments = {}
    for part in filter(None, (p.strip() for p in match[2].split(","))):
        name, colon, value = part.partition(":")
        if not colon:
            raise ValueError(f"an argument is written NAME:VALUE, not {part!r}")
        arguments[name.strip()] = _exact(value.strip())
    return Call(match[1], arguments)


def _add(rest: str, line: int) -> Add:
    match = re.fullmatch(r"(\S+)\s+(.*?)([A-Za-z_][\w.]*\s*\([^)]*\))\s*(?:=\s*(\w+))?", rest)
    if match is None:
        raise ValueError("`add` is written: add TABLE [PRIORITY] KEY:VALUE … ACTION(NAME:VALUE, …) [= LABEL]")
    words = match[2].split()
    priority = _decimal(words.pop(0)) if words and words[0].isdigit() else None
    keys = []
    for word in words:
        name, colon, value = word.rpartition(":")
        if not colon:
            raise ValueError(f"a key is written NAME:VALUE, not {word!r}")
        number, slash, prefix = value.partition("/")
        name = re.sub(r"\$(\d+)", r"[\1]", name)  # an element of a stack
        keys.append((name, _digits(number), _decimal(prefix) if slash else None))
    return Add(line, match[1], priority, tuple(keys), _call(match[3]), match[4])


def _set_default(rest: str, line: int) -> SetDefault:
    table, _, call = rest.partition(" ")
    return SetDefault(line, table, _call(call))


def _check(rest: str, line: int) -> CheckCounter:
    match = re.fullmatch(r"([\w.]+)\s*\(\s*(\d+|\$\w+)\s*\)\s*(packets|bytes)\s*(==|!=|<=|>=|<|>)\s*(\d+)", rest)
    if match is None:
        raise ValueError("`check_counter` is written: check_counter NAME(INDEX or $LABEL) packets|bytes == NUMBER")
    index: int | str = match[2][1:] if match[2].startswith("$") else _decimal(match[2])
    return CheckCounter(line, match[1], index, match[3], match[4], _decimal(match[5]))


_PARSERS: Mapping[str, Callable[[str, int], Statement]] = {
    "packet": _packet,
    "expect": lambda rest, line: Expect(line, _pattern(rest.split())),
    "no_packet": lambda _, line: NoPacket(line),
    "add": _add,
    "setdefault": _set_default,
    "check_counter": _check,
}


def _decimal(text: str) -> int:
    if not re.fullmatch(rf"[0-9]{{1,{_MOST_DIGITS}}}", text):
        raise ValueError(f"not a decimal number: {shown(text)}")
    return int(text)


def _port(text: str) -> int:
    port = _decimal(text)
    if port > CPU_PORT:
        raise ValueError(f"there is no port {port}: they are 0 to {CPU_PORT - 1}, and {CPU_PORT} of the control plane")
    return port


def _exact(text: str) -> int:
    digits = _digits(text)
    if digits.bits and digits.mask != (1 << digits.bits) - 1:
        raise ValueError(f"a `*` where every digit counts: {text!r}")
    return digits.value


def _digits(text: str) -> Digits:
    for prefix, base, size in (("0x", 16, 4), ("0b", 2, 1)):
        if text.lower().startswith(prefix):
            body = text[2:].lower()
            if not re.fullmatch(r"[0-9a-f*]+" if base == 16 else "[01*]+", body):
                raise ValueError(f"not a number: {shown(text)}")
            value = int(body.replace("*", "0"), base)
            mask = int("".join("0" if c == "*" else format(base - 1, "x") for c in body), base)
            return Digits(value, mask, size * len(body))
    return Digits(_decimal(text), -1, 0)
