"""What an endpoint keeps: nothing that grows with what it has carried; and one seed gives one run."""

from collections import deque
from collections.abc import Mapping
from random import Random

import pytest

from testbed.transport.endpoint import Counters, Path
from testbed.transport.settings import Settings
from tests.transport.conformance.carriage import Carriage, Parcel
from tests.transport.conformance.subjects import every
from tests.transport.pump import impaired

_APART = (Counters, Path, Settings, str, bytes, memoryview, type)  # of a fixed size, or the caller's
_SLACK = 64  # what is under way at the end of one round and not at that of another
_OURS = ("testbed", "testbed_plugin_transport")


def footprint(thing: object) -> int:
    """How many entries the containers in it have, all together, and the words of its large numbers."""
    seen: set[int] = set()
    total, left = 0, [thing]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, _APART):
            continue
        seen.add(id(each))
        if isinstance(each, int):
            total += each.bit_length() // 64
        elif isinstance(each, bytearray):
            total += len(each)
        elif isinstance(each, Mapping):
            total += len(each)
            left += [*each, *each.values()]
        elif isinstance(each, list | tuple | set | frozenset | deque):
            total += len(each)
            left += each
        elif type(each).__module__.split(".")[0] in _OURS:
            names = [name for kind in type(each).__mro__ for name in getattr(kind, "__slots__", ())]
            left += [getattr(each, name) for name in names if hasattr(each, name)]
            left += list(getattr(each, "__dict__", {}).values())
    return total


def rounds(subject, ends, first: int, last: int) -> None:
    """Messages both ways, each round with tags of its own, over a network that does all it can."""
    for number in range(first, last):
        random = Random(number)
        messages = [Parcel(i % 2, 1 - i % 2, 10 * number + i, random.randrange(5_000)) for i in range(10)]
        fate = impaired(random, loss=0.01, duplicate=0.02, reorder=0.05)
        begin_ns = number * 10**11
        carriage = Carriage(subject, messages, fate, ends=ends, begin_ns=begin_ns, number=number)
        carriage.run()
        assert all(end.idle() and end.deadline() is None for end in ends)
        assert not any(each.failures for each in carriage.carried)


@every
@pytest.mark.slow
def test_nothing_is_kept_of_what_is_done(subject):
    ends = subject.ends()
    rounds(subject, ends, 0, 5)
    before = [footprint(end) for end in ends]
    rounds(subject, ends, 5, 25)
    assert all(now <= then + _SLACK for now, then in zip(map(footprint, ends), before, strict=True))


@every
def test_a_seed_gives_the_same_packets_at_the_same_instants(subject):
    def log(seed: int) -> list[tuple[object, ...]]:
        messages = [Parcel(i % 3, (i + 1) % 3, i, 400 * i) for i in range(12)]
        carriage = Carriage(subject, messages, impaired(Random(9), loss=0.02, reorder=0.1), seed=seed).run()
        return [(at, sender, *burst[:7], bytes(burst.payload)) for at, sender, burst in carriage.network.log]

    assert log(1) == log(1)
