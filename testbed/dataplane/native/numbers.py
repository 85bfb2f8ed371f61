"""The C types that hold numbers: which one a range or a width needs, its literals, and conversions among them."""

from dataclasses import dataclass

from testbed.dataplane.bmv2model import JsonError

MAX_BITS = 2112  # of an intermediate result; of a field 64 less


@dataclass(frozen=True, slots=True)
class Number:
    """A C type of numbers; `wide` is the struct of the runtime's wide.h, signed and of the program's size."""

    c: str
    bits: int
    signed: bool

    @property
    def wide(self) -> bool:
        return self.c == "struct wide"

    @property
    def suffix(self) -> str:
        """What the runtime's functions for this type are called after."""
        return f"{'i' if self.signed else 'u'}{self.bits}"

    def holds(self, low: int, high: int) -> bool:
        if self.signed:
            return -(1 << (self.bits - 1)) <= low and high < 1 << (self.bits - 1)
        return low >= 0 and high < 1 << self.bits

    def literal(self, value: int) -> str:
        """A constant; of a value that the type does not hold, its low bits."""
        if self.wide:
            limbs = [value >> shift & 0xFFFFFFFFFFFFFFFF for shift in range(0, MAX_BITS, 64)]
            while len(limbs) > 1 and limbs[-1] == 0:
                limbs.pop()
            if value < 0:
                return f"wide_sub(wide_of_u128(0), {self.literal(-value)})"
            return f"(struct wide){{{{{', '.join(f'{limb:#x}ul' for limb in limbs)}}}}}"
        bits = value & ((1 << self.bits) - 1)
        if self.bits == 64:
            if not self.signed:
                return f"{bits:#x}ul" if bits > 9 else f"{bits}ul"
            return "INT64_MIN" if value == -(1 << 63) else f"{value}l"
        if bits < 1 << 64:
            return f"({self.c}){bits:#x}ul"
        return f"({self.c})((u128){bits >> 64:#x}ul << 64 | {bits & 0xFFFFFFFFFFFFFFFF:#x}ul)"


U64 = Number("uint64_t", 64, False)
I64 = Number("int64_t", 64, True)
U128 = Number("u128", 128, False)
I128 = Number("i128", 128, True)
WIDE = Number("struct wide", MAX_BITS, True)

_STORED = ((8, "uint8_t"), (16, "uint16_t"), (32, "uint32_t"), (64, "uint64_t"), (128, "u128"))


def stored(bits: int) -> str:
    """The C type in which a field of that many bits is kept."""
    for size, name in _STORED:
        if bits <= size:
            return name
    if bits > MAX_BITS - 64:
        raise JsonError(f"a field of {bits} bits: at most {MAX_BITS - 64} are supported")
    return "struct wide"


def stored_bytes(bits: int) -> int:
    """The size of that C type; of a wide one, what its limbs take at least."""
    return next((size // 8 for size, _ in _STORED if bits <= size), 0)


def modular(bits: int) -> Number:
    """The type in which numbers modulo 2^bits are computed."""
    return U64 if bits <= 64 else U128 if bits <= 128 else WIDE


def exact(low: int, high: int) -> Number:
    """The type that holds every number of a range."""
    for number in (U64, I64, U128, I128, WIDE):
        if number.holds(low, high):
            return number
    raise JsonError(f"an intermediate result of over {MAX_BITS} bits")


def convert(code: str, source: Number, target: Number) -> str:
    """The same number, or its low bits, in another type."""
    if source == target:
        return code
    if target.wide:
        return f"wide_of_i128({code})" if source.signed else f"wide_of_u128({code})"
    if source.wide:
        return f"wide_low({code})" if target == U128 else f"({target.c})wide_low({code})"
    return f"({target.c}){code}"
