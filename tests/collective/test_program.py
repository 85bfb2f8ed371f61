"""Programs do what their module says of them, element by element; and a thousand ranks' are worked out in seconds."""

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.collective import generate
from testbed.collective.executor import Executor, PostSend
from testbed.collective.program import Program, program, programs
from testbed.collective.schedule import COPY, REDUCE, Schedule, transfers
from testbed.transport.endpoint import Received, Sent

from .served import SERVED, fitting

ARRAYS = ("send", "step", "peer", "tag", "first", "last", "op", "copied", "waits", "freed", "frees")


def freed_by(part: Program) -> list[set[int]]:
    """For each operation those that wait for it."""
    edges = part.freed.tolist()
    return [set(part.frees[a:b].tolist()) for a, b in pairwise(edges)]


def by_definition(part: Program, barrier: bool) -> tuple[list[set[int]], list[bool]]:
    """What waits for each operation, and which sends are copied: the module's docstring, one element at a time."""
    waits: list[set[int]] = [set() for _ in range(len(part))]
    copied = [False] * len(part)
    for later in range(len(part)):
        step = int(part.step[later])
        for element in range(int(part.first[later]), int(part.last[later])):
            touching = [i for i in range(later) if part.first[i] <= element < part.last[i]]
            receives = [i for i in touching if not part.send[i]]
            waits[later].update(receives[-1:])
            for i in touching:
                still_read = part.send[i] and (not receives or i > receives[-1])
                if still_read and not part.send[later]:
                    if part.step[i] == step:
                        copied[i] = True
                        waits[later] |= waits[i]
                    else:
                        waits[later].add(i)
        earlier = {int(s) for s, sends in zip(part.step, part.send, strict=True) if not sends and s < step}
        if barrier and earlier:
            before = [i for i in range(len(part)) if not part.send[i] and part.step[i] == max(earlier)]
            last = {(int(part.first[i]), int(part.last[i])): i for i in before}  # waits for those of its range
            waits[later] |= set(last.values())
    return [{later for later in range(len(part)) if i in waits[later]} for i in range(len(part))], copied


@pytest.mark.parametrize(("name", "collective"), SERVED)
@settings(max_examples=15, deadline=None)
@given(ranks=st.integers(1, 11), elements=st.integers(0, 14), barrier=st.booleans())
def test_what_waits_for_what_is_as_defined(
    name: str, collective: str, ranks: int, elements: int, barrier: bool
) -> None:
    schedule = replace(generate(collective, name, fitting(name, collective, ranks)), barrier=barrier)
    for rank, part in enumerate(programs(schedule, elements)):
        free, copied = by_definition(part, barrier)
        assert freed_by(part) == free
        assert part.copied.tolist() == copied
        assert part.waits.tolist() == [sum(i in each for each in free) for i in range(len(part))]
        alone = program(schedule, rank, elements)
        assert (alone.rank, alone.elements, alone.tags) == (part.rank, part.elements, part.tags)
        for array in ARRAYS:
            np.testing.assert_array_equal(getattr(alone, array), getattr(part, array))


def test_each_end_of_a_transfer_is_an_operation_of_its_rank() -> None:
    """Rank 0's chunk 1 goes to rank 2's chunk 0, then back to its place in rank 0."""
    rows = transfers([0, 1], [0, 2], [2, 0], [1, 0], [REDUCE, COPY], at=[0, 1])
    parts = programs(Schedule("allreduce", "test", 3, 2, rows), 5)  # chunks of 3 and 2 elements
    assert [len(part) for part in parts] == [2, 0, 2]
    sends = [(int(p.peer[0]), int(p.tag[0]), int(p.first[0]), int(p.last[0])) for p in (parts[0], parts[2])]
    assert sends == [(2, 0, 3, 5), (0, 0, 0, 3)]
    assert [part.send.tolist() for part in parts] == [[True, False], [], [False, True]]
    assert parts[2].op.tolist() == [REDUCE, COPY]
    assert parts[0].peers == {2}
    assert parts[1].peers == set()


def test_a_ring_of_a_thousand_ranks_takes_seconds_and_has_the_closed_forms_counts() -> None:
    ranks = 1024
    schedule = generate("allreduce", "ring", ranks)
    begin = time.process_time()
    parts = programs(schedule, 262_144)
    assert time.process_time() - begin < 20  # 2 s on an idle machine
    for part in (parts[0], parts[511], parts[-1]):
        assert len(part) == 2 * 2 * (ranks - 1)
        assert part.peers == {(part.rank + 1) % ranks, (part.rank - 1) % ranks}
        assert part.sent_elements == part.received_elements == 2 * (ranks - 1) * 256
        # Each message that arrives is sent on in the next step, but the last: nothing else is waited for by a send.
        sends = part.send
        assert part.waits[sends].tolist() == [0, *[1] * (2 * (ranks - 1) - 1)]
        assert not part.copied.any()


def test_ranges_of_many_chunks_cost_no_more_than_short_ones() -> None:
    """Halving-doubling over 16,384 ranks: 14 + 14 exchanges a rank, of up to 8,192 chunks."""
    parts = programs(generate("allreduce", "halving-doubling", 1 << 14), 1 << 14)
    assert {len(part) for part in parts} == {2 * 28}
    assert {part.sent_elements for part in parts} == {2 * ((1 << 14) - 1)}


def test_with_a_sink_the_same_bytes_move_and_no_number_is_touched() -> None:
    schedule = generate("allreduce", "halving-doubling", 4)
    buffer, sink = np.arange(8, dtype=np.float16), np.zeros(4, np.float16)
    executors = [Executor(part, buffer, sink=sink) for part in programs(schedule, 8)]
    receives, sends = {}, []
    for rank, executor in enumerate(executors):
        for post in executor.start():
            if isinstance(post, PostSend):
                sends.append((rank, post))
            else:
                receives[post.peer, rank, post.tag] = post
    moved = []
    for source, send in sends:  # grows
        receive = receives.pop((source, send.peer, send.tag))
        assert len(receive.buffer) == len(send.buffer)
        receive.buffer[:] = send.buffer
        moved.append(len(send.buffer))
        sends += [(source, post) for post in executors[source].on_event(Sent(send.id))]
        sends += [(send.peer, post) for post in executors[send.peer].on_event(Received(receive.id))]
    assert all(executor.done for executor in executors)
    # Each rank sends 4, 2, 2 and 4 of the 8 elements of 2 bytes.
    assert sorted(moved) == sorted([8, 4, 4, 8] * 4)
    assert [executor.received_bytes for executor in executors] == [24] * 4
    assert buffer.tolist() == list(range(8))
