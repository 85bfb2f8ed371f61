"""Ranges of integers, as (smallest, largest): what an operation makes of them."""

from testbed.dataplane.bmv2model import JsonError

MAX_SHIFT = 1024  # further ones shift as far


def bounds(bits: int, signed: bool) -> tuple[int, int]:
    """The range of a number of that many bits."""
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def hull(*ranges: tuple[int, int]) -> tuple[int, int]:
    """The least range that holds all of them."""
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _bitwise(operator: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    bits = max(abs(value).bit_length() for value in (*a, *b))
    if operator == "&":
        tops = [high for low, high in (a, b) if low >= 0]
        return (0, min(tops)) if tops else (-(1 << bits), (1 << bits) - 1)
    return (0, (1 << bits) - 1) if a[0] >= 0 and b[0] >= 0 else (-(1 << bits), (1 << bits) - 1)


def combined(operator: str, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The range of a binary operation on two ranges."""
    match operator:
        case "+":
            return a[0] + b[0], a[1] + b[1]
        case "-":
            return a[0] - b[1], a[1] - b[0]
        case "*":
            products = [x * y for x in a for y in b]
            return min(products), max(products)
        case "&" | "|" | "^":
            return _bitwise(operator, a, b)
        case "<<":
            counts = [min(max(count, 0), MAX_SHIFT) for count in b]
            shifted = [x << count for x in a for count in counts]
            return min(shifted), max(shifted)
        case ">>":
            counts = [min(max(count, 0), MAX_SHIFT) for count in b]
            shifted = [x >> count for x in a for count in counts]
            return min(shifted), max(shifted)
        case "/":
            return 0, a[1]
        case "%":
            return 0, min(a[1], max(b[1] - 1, 0))
    raise JsonError(f"unknown operation {operator!r} in an expression")
