"""Numbers as P4Runtime writes them: byte strings, big-endian, of any length that the number fits, read back shortest.

P4Runtime specification, section "Bytestrings".
"""

from grpc import StatusCode

from testbed.dataplane.p4runtime.refusal import Refusal


def number(data: bytes, bits: int, what: str) -> int:
    """The unsigned number of a byte string; one of more bits, or an empty string, is OUT_OF_RANGE."""
    if not data:
        raise Refusal(StatusCode.OUT_OF_RANGE, f"{what}: an empty string is no number")
    value = int.from_bytes(data, "big")
    if value >> bits:
        raise Refusal(StatusCode.OUT_OF_RANGE, f"{what}: {value:#x} does not fit {bits} bits")
    return value


def signed_number(data: bytes, bits: int, what: str) -> int:
    """The bits of a signed number, as a switch keeps it: two's complement in so many bits."""
    if not data:
        raise Refusal(StatusCode.OUT_OF_RANGE, f"{what}: an empty string is no number")
    value = int.from_bytes(data, "big", signed=True)
    if not -1 << bits - 1 <= value < 1 << bits - 1:
        raise Refusal(StatusCode.OUT_OF_RANGE, f"{what}: {value} does not fit {bits} bits with a sign")
    return value & (1 << bits) - 1


def shortest(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def shortest_signed(value: int, bits: int) -> bytes:
    """Of what a switch keeps of a signed number."""
    own = value - (1 << bits) if value >> bits - 1 else value
    magnitude = own if own >= 0 else ~own
    return own.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
