"""Quantities with units, parsed once at the edge into integers: nanoseconds, bytes, bits per second; `%` into shares.

A bare number is refused for a time, a size or a rate (0 alone needs no unit), so that no quantity is ever guessed; an
MTU alone may be bare, since everyone writes it in bytes. `parse_*` raise `QuantityError`; `format_*` are their exact
inverses.
"""

import re
from decimal import Context, Decimal, DecimalException, localcontext

_NUMBER = re.compile(r"\s*([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([A-Za-z%/µ]*)\s*", re.ASCII)
_MOST = 2**63 - 1
_MOST_BPS = 100 * 10**12  # a full frame takes a tenth of a nanosecond, the unit of time
_MOST_CHARACTERS = 40  # of a number

_PS = 1000  # picoseconds in a nanosecond
DURATION_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
BYTE_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
RATE_UNITS = {"bps": 1, "Kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12}

_ALSO_WRITTEN = {  # what people write instead: told, never taken
    "sec": "s", "secs": "s", "seconds": "s", "usec": "us", "msec": "ms", "nsec": "ns", "m": "min", "mins": "min",
    "k": "KiB", "kb": "KiB", "mb": "MiB", "gb": "GiB", "kib": "KiB", "mib": "MiB", "gib": "GiB", "b": "B", "bytes": "B",
    "bit/s": "bps", "kbit/s": "Kbps", "mbit/s": "Mbps", "gbit/s": "Gbps", "tbit/s": "Tbps",
    "kbit": "Kbps", "mbit": "Mbps", "gbit": "Gbps", "kb/s": "Kbps", "mb/s": "Mbps", "gb/s": "Gbps", "tb/s": "Tbps",
    "g": "Gbps",
}  # fmt: skip


class QuantityError(ValueError):
    """A value is not the quantity it should be; `suggestion` is a likely spelling of it, or empty."""

    def __init__(self, message: str, suggestion: str = "") -> None:
        super().__init__(message)
        self.suggestion = suggestion


class Quantity(int):
    """An integer that is already in base units and passes the parsers as it is (for values made by code)."""


def parse_duration(value: object) -> int:
    """`10us` -> 10000 (nanoseconds)."""
    return _parse(value, DURATION_UNITS, "a time", "10us")


def parse_fine_duration(value: object) -> int:
    """`0.1ns` -> 100 (picoseconds), for what a single byte takes."""
    return _parse(value, {name: unit * _PS for name, unit in DURATION_UNITS.items()}, "a time", "0.1ns")


def parse_instant(value: object) -> int:
    """As `parse_duration`, before zero too: `-5ms` -> -5000000 (nanoseconds)."""
    if isinstance(value, str) and value.startswith("-"):
        return -parse_duration(value[1:])
    return parse_duration(value)


def parse_bytes(value: object) -> int:
    """`256KiB` -> 262144 (bytes)."""
    return _parse(value, BYTE_UNITS, "a size", "256KiB")


def parse_mtu(value: object) -> int:
    """As `parse_bytes`, and a bare number is in bytes."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return int(value)
    return parse_bytes(value)


def parse_rate(value: object) -> int:
    """`1Gbps` -> 1000000000 (bits per second)."""
    rate_bps = _parse(value, RATE_UNITS, "a rate", "1Gbps")
    if rate_bps > _MOST_BPS:
        raise QuantityError(f"{shown(value)}: too great for a rate: at most {format_rate(_MOST_BPS)}")
    return rate_bps


def parse_fraction(value: object) -> float:
    """`0.5%` -> 0.005; a bare number from 0 to 1 is taken as it is."""
    number = value
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value)) and match[2] in ("%", ""):
        number = float(_decimal(match[1], "a probability") / (100 if match[2] else 1))
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise QuantityError(f"{shown(value)} is not a probability: write e.g. 0.5% or 0.005")
    if not 0 <= number <= 1:
        suggestion = f"{value}%" if not isinstance(value, str) and 1 < number <= 100 else ""
        raise QuantityError(f"{shown(value)} is not a probability: it must be within 0 and 1 (0% and 100%)", suggestion)
    return float(number)


def format_duration(value_ns: int) -> str:
    """10000 -> `10us`; before zero `-10us`."""
    return _format(value_ns, ("min", "s", "ms", "us", "ns"), DURATION_UNITS)


def format_fine_duration(value_ps: int) -> str:
    """100 -> `0.1ns`."""
    if value_ps % _PS == 0:
        return format_duration(value_ps // _PS)
    return f"{Decimal(value_ps) / _PS}ns"


def format_bytes(value_bytes: int) -> str:
    """262144 -> `256KiB`."""
    return _format(value_bytes, ("GiB", "MiB", "KiB", "B"), BYTE_UNITS)


def format_rate(value_bps: int) -> str:
    """1000000000 -> `1Gbps`."""
    return _format(value_bps, ("Tbps", "Gbps", "Mbps", "Kbps", "bps"), RATE_UNITS)


def shown(value: object) -> str:
    """A value of a spec as a message shows it."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case str() if len(value) > 60:
            return repr(value[:57] + "...")
        case str():
            return repr(value)
        case _:
            return str(value)


def _parse(value: object, units: dict[str, int], what: str, example: str) -> int:
    if isinstance(value, Quantity) or (value == 0 and isinstance(value, int | float) and not isinstance(value, bool)):
        return int(value)
    suggestion = ""
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value)):
        if match[2] in units:
            return _scale(value, _decimal(match[1], what), units[match[2]], what)
        suggestion = _respelled(match[1], match[2], units)
    raise QuantityError(
        f"{shown(value)} is not {what}: write a number and one of {', '.join(units)}, e.g. {example}", suggestion
    )


def _decimal(text: str, what: str) -> Decimal:
    """The number, of a magnitude and length with which to calculate exactly."""
    if len(text) > _MOST_CHARACTERS:
        raise QuantityError(f"{shown(text)} has too many digits for {what}")
    try:
        number = Decimal(text)
    except DecimalException:
        raise QuantityError(f"{text!r}: too great an exponent for {what}") from None
    if number and abs(number.adjusted()) > _MOST_CHARACTERS:
        raise QuantityError(f"{text!r}: too {'great' if number.adjusted() > 0 else 'small'} for {what}")
    return number


def _scale(value: str, number: Decimal, unit: int, what: str) -> int:
    with localcontext(Context(prec=4 * _MOST_CHARACTERS)):  # nothing is rounded
        amount = number * unit
    if amount < 0:
        raise QuantityError(f"{value!r}: {what} cannot be negative")
    if amount > _MOST:
        raise QuantityError(f"{value!r}: too great for {what}")
    if amount != amount.to_integral_value():
        raise QuantityError(f"{value!r} is finer than the smallest unit of {what}")
    return int(amount)


def _respelled(number: str, unit: str, units: dict[str, int]) -> str:
    if not unit:
        return ""
    same = [known for known in units if known.lower() == unit.lower()]
    also = _ALSO_WRITTEN.get(unit.lower(), "")
    return number + (same[0] if same else also) if same or also in units else ""


def _format(value: int, names: tuple[str, ...], units: dict[str, int]) -> str:
    name = next((name for name in names if value and value % units[name] == 0), names[-1])
    return f"{value // units[name]}{name}"
