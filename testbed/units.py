"""Quantities with units, parsed once at the edge into integers: nanoseconds, bytes, bits per second; `%` into fractions.

A bare number is refused for a time, a size or a rate (0 alone needs no unit), so that no quantity is ever guessed.
`parse_*` raise ValueError with a message that names the value and the units that would do.
"""

import re
from decimal import Decimal

_NUMBER = re.compile(r"\s*([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([A-Za-z%/µ]*)\s*")

DURATION_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
BYTE_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
RATE_UNITS = {"bps": 1, "Kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12}


def parse_duration(value: object) -> object:
    """`10us` -> 10000 (nanoseconds)."""
    return _parse(value, DURATION_UNITS, "a time", "10us")


def parse_bytes(value: object) -> object:
    """`256KiB` -> 262144 (bytes)."""
    return _parse(value, BYTE_UNITS, "a size", "256KiB")


def parse_rate(value: object) -> object:
    """`1Gbps` -> 1000000000 (bits per second)."""
    return _parse(value, RATE_UNITS, "a rate", "1Gbps")


def parse_fraction(value: object) -> object:
    """`0.5%` -> 0.005; a bare number from 0 to 1 is taken as it is."""
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value)
        if not match or match[2] not in ("%", ""):
            raise ValueError(f"{value!r} is not a probability (write e.g. 0.5% or 0.005)")
        value = float(Decimal(match[1]) / (100 if match[2] else 1))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a probability (write e.g. 0.5% or 0.005)")
    if not 0 <= value <= 1:
        raise ValueError(f"{value!r} is not within 0 and 1 (a probability may be written 0.5% or 0.005)")
    return float(value)


def _parse(value: object, units: dict[str, int], what: str, example: str) -> object:
    if isinstance(value, Quantity) or (value == 0 and not isinstance(value, bool | str)):
        return int(value)
    if isinstance(value, str) and (match := _NUMBER.fullmatch(value)) and match[2] in units:
        amount = Decimal(match[1]) * units[match[2]]
        if amount < 0:
            raise ValueError(f"{value!r}: {what} cannot be negative")
        if amount != amount.to_integral_value():
            raise ValueError(f"{value!r} is finer than the smallest unit of {what}")
        return int(amount)
    raise ValueError(f"{value!r} is not {what}: write a number and one of {', '.join(units)}, e.g. {example}")


class Quantity(int):
    """An integer that is already in base units and passes the parsers as it is (for values made by code)."""
