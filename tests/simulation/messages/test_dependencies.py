"""What waits for what is what `testbed.collective.program` finds, rank by rank."""

from dataclasses import replace

import numpy as np
import pytest

from testbed import collective
from testbed.collective.program import program
from testbed.collective.schedule import COPY, REDUCE, Schedule, in_order, transfers
from testbed.simulation.messages.dependencies import Messages, messages, together

CASES = [
    (kind, algorithm, ranks)
    for algorithm, each in collective.ALGORITHMS.items()
    for kind in each.collectives
    for ranks in (2, 3, 4, 7, 8, 16)
    if (kind, algorithm) != ("all-to-all", "bruck") or ranks in (2, 4, 8, 16)
]


def waits_of(found: Messages) -> dict[tuple[bool, int, int], set[tuple[bool, int]]]:
    """(is send, rank, message) -> the operations (is send, message) that it waits for."""
    count, result = len(found), {}
    for number in range(2 * count):
        send, message = number < count, number % count
        end = found.source if send else found.destination
        result[send, int(end[message]), message] = set()
    for number in range(2 * count):
        for later in found.freed[found.first[number] : found.first[number + 1]].tolist():
            end = found.source if later < count else found.destination
            waiting = result[later < count, int(end[later % count]), later % count]
            assert (number < count, number % count) not in waiting, "twice"
            waiting.add((number < count, number % count))
    for number, (key, waiting) in enumerate(result.items()):
        assert len(waiting) == found.waits[number], key
    return result


def expected(schedule: Schedule, elements: int) -> dict[tuple[bool, int, int], set[tuple[bool, int]]]:
    programs = [program(schedule, rank, elements) for rank in range(schedule.ranks)]
    number = {tag: i for i, tag in enumerate(sorted({tag for each in programs for tag in each.tag.tolist()}))}
    result: dict[tuple[bool, int, int], set[tuple[bool, int]]] = {}
    for rank, each in enumerate(programs):
        names = [(bool(send), number[tag]) for send, tag in zip(each.send, each.tag.tolist(), strict=True)]
        result |= {(send, rank, message): set() for send, message in names}
        for index, name in enumerate(names):
            for later in each.frees[each.freed[index] : each.freed[index + 1]]:
                send, message = names[later]
                result[send, rank, message].add(name)
    return result


@pytest.mark.parametrize(("kind", "algorithm", "ranks"), CASES)
@pytest.mark.parametrize("barrier", [False, True])
def test_every_algorithm(kind: str, algorithm: str, ranks: int, barrier: bool) -> None:
    schedule = replace(collective.generate(kind, algorithm, ranks), barrier=barrier)
    for elements in (3, 1000):
        assert waits_of(messages(schedule, elements, 4)) == expected(schedule, elements)


def test_ranks_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testbed.simulation.messages.dependencies._AT_ONCE", 64)
    schedule = collective.generate("allreduce", "halving-doubling", 8)
    assert waits_of(messages(schedule, 640, 4)) == expected(schedule, 640)


def test_random_schedules() -> None:
    """Whatever overlaps: several readers and writers of a place in one step, ranges that cut one another."""
    draws = np.random.default_rng(5)
    for _ in range(40):
        ranks, chunks, count = 4, 9, 40
        source = draws.integers(0, ranks, count)
        first = draws.integers(0, chunks, (2, count))
        length = np.minimum(draws.integers(1, 5, count), chunks - first.max(axis=0))
        rows = transfers(
            draws.integers(0, 6, count),
            source,
            (source + draws.integers(1, ranks, count)) % ranks,
            first[0],
            draws.choice([REDUCE, COPY], count),
            count=length,
            at=first[1],
        )
        for barrier in (False, True):
            schedule = Schedule("allreduce", "random", ranks, chunks, in_order(rows), barrier=barrier, incast=True)
            assert waits_of(messages(schedule, 90, 1)) == expected(schedule, 90)


def test_sizes_are_the_transfers() -> None:
    schedule = collective.generate("allreduce", "ring", 4)
    found = messages(schedule, 10, 4)  # chunks of 3, 3, 2 and 2 elements
    assert sorted(set(found.size_bytes.tolist())) == [8, 12]
    assert found.size_bytes.sum() == 2 * 3 * 40


def test_buffers_side_by_side() -> None:
    """Renumbered, each waits within itself as it does alone."""
    schedule = collective.generate("allreduce", "ring", 3)
    parts = [messages(schedule, elements, 4) for elements in (9, 2, 30)]
    whole = together(parts)
    offset = 0
    found = waits_of(whole)
    for part in parts:
        alone = {
            (send, rank, message + offset): {(s, m + offset) for s, m in waiting}
            for (send, rank, message), waiting in waits_of(part).items()
        }
        assert alone.items() <= found.items()
        offset += len(part)
    assert len(found) == 2 * offset
