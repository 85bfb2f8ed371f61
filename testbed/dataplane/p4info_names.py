"""Numbers and short names of the objects of P4Info, as the reference compiler gives them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from testbed.dataplane import ast
from testbed.dataplane.p4info_format import Message

# The first byte of an id says what it is of (P4Runtime specification, section "P4 object IDs").
PREFIXES = {
    "actions": 0x01,
    "tables": 0x02,
    "value_sets": 0x03,
    "controller_packet_metadata": 0x04,
    "action_profiles": 0x11,
    "counters": 0x12,
    "direct_counters": 0x13,
    "meters": 0x14,
    "direct_meters": 0x15,
    "registers": 0x16,
    "digests": 0x17,
}
_HASH_BITS = 24


@dataclass(slots=True)
class Ids:
    """Numbers for names: Jenkins' one-at-a-time hash, cut to 24 bits, below the prefix of the kind."""

    taken: set[int] = field(default_factory=set)
    known: dict[tuple[str, str], int] = field(default_factory=dict)

    def of(self, kind: str, name: str, annotations: Iterable[ast.Annotation] = ()) -> int:
        key = (kind, name)
        if key not in self.known:
            number = given(annotations, "id")
            if number is None:
                number = _hash(name)
            number = number & ((1 << _HASH_BITS) - 1) | PREFIXES[kind] << _HASH_BITS
            while number in self.taken:
                number += 1
            self.taken.add(number)
            self.known[key] = number
        return self.known[key]


def given(annotations: Iterable[ast.Annotation], name: str) -> int | None:
    """The number that an annotation of that name holds."""
    for one in annotations:
        if one.name == name and one.expressions and isinstance(first := one.expressions[0], ast.IntLiteral):
            return first.value
    return None


def _hash(name: str) -> int:
    value = 0
    for byte in name.encode():
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    return (value + (value << 15)) & 0xFFFFFFFF


def numbered(annotations: Iterable[ast.Annotation], otherwise: int) -> int:
    """The id that is given, or else another."""
    number = given(annotations, "id")
    return otherwise if number is None else number


def set_aliases(message: Message) -> None:
    """Give each object the shortest end of its name that no other one has."""
    preambles = [one["preamble"] for kind in PREFIXES for one in message.get(kind, [])]
    endings: dict[str, int] = {}
    for one in preambles:
        for ending in _endings(one["name"]):
            endings[ending] = endings.get(ending, 0) + 1
    for one in preambles:
        one["alias"] = next((ending for ending in _endings(one["name"]) if endings[ending] == 1), one["name"])


def _endings(name: str) -> Iterator[str]:
    """The ends of a dotted name, the shortest first."""
    parts = name.split(".")
    for at in range(len(parts) - 1, -1, -1):
        yield ".".join(parts[at:])
