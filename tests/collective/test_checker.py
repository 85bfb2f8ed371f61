"""The checker refuses what is wrong and names the step, the rank and the chunk."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.collective import ALGORITHMS, generate
from testbed.collective.checker import ScheduleError, check
from testbed.collective.schedule import COPY, POOL, REDUCE, Schedule, in_sequence, transfers

from .served import fitting


def _refused(schedule: Schedule) -> str:
    with pytest.raises(ScheduleError) as refused:
        check(schedule)
    return refused.value.message


def _schedule(collective: str, ranks: int, *rows: tuple[int, int, int, int, int], chunks: int = 1) -> Schedule:
    """Rows are (step, source, destination, chunk, op)."""
    return Schedule(collective, "test", ranks, chunks, np.concatenate([transfers(*row) for row in rows]))


def test_data_that_is_not_there_yet() -> None:
    assert _refused(_schedule("broadcast", 3, (0, 0, 1, 0, COPY), (0, 1, 2, 0, COPY))) == (
        "step 0: rank 1 sends chunk 0, which it does not have yet"
    )


def test_a_contribution_added_twice() -> None:
    schedule = _schedule("allreduce", 2, (0, 0, 1, 0, REDUCE), (1, 0, 1, 0, REDUCE))
    assert _refused(schedule).startswith("step 1: rank 1 adds the contribution of rank 0 to chunk 0 twice")


def test_a_contribution_that_is_lost() -> None:
    schedule = _schedule("allreduce", 2, (0, 0, 1, 0, COPY), (1, 1, 0, 0, COPY))
    assert _refused(schedule) == "after step 1: rank 0 ends with chunk 0 lacking the contribution of rank 1"


def test_a_port_that_serves_two() -> None:
    both = ((0, 1, 0, 0, REDUCE), (0, 2, 0, 0, REDUCE), (1, 0, 1, 0, COPY), (2, 0, 2, 0, COPY))
    schedule = _schedule("allreduce", 3, *both)
    assert _refused(schedule).startswith("step 0: rank 0 receives from both rank 1 and rank 2 on lane 0")
    check(replace(schedule, incast=True))
    rows = schedule.transfers.copy()
    rows["lane"][1] = 1
    check(replace(schedule, transfers=rows))


def test_several_ranges_to_one_peer_are_one_use_of_a_port() -> None:
    check(_schedule("broadcast", 2, (0, 0, 1, 0, COPY), (0, 0, 1, 2, COPY), (0, 0, 1, 1, COPY), chunks=3))


def _pooled(*others: tuple[int, int, int, int, int]) -> Schedule:
    """Three ranks tell each other chunk 0 in two steps, and whatever else is said."""
    rows = [(step, rank, (rank + step + 1) % 3, 0, POOL) for step in range(2) for rank in range(3)]
    return replace(_schedule("allreduce", 3, *sorted([*rows, *others])), incast=True)


def test_what_is_pooled_is_not_sent_on_before_the_last_is_there() -> None:
    check(_pooled())
    early = _schedule("allreduce", 3, *[(0, rank, (rank + 1) % 3, 0, POOL) for rank in range(3)])
    assert "ends with chunk 0 lacking the contribution of rank 1" in _refused(early)


def test_a_contribution_that_is_pooled_twice() -> None:
    again = (2, 1, 0, 0, POOL)  # by then rank 1 has all three; and rank 0 goes on pooling
    assert _refused(_pooled(again)).startswith("step 2: rank 0 adds the contribution of rank 0 to chunk 0 twice")


def test_nothing_else_comes_where_others_are_pooled() -> None:
    assert _refused(_pooled((1, 1, 2, 0, COPY))).endswith("comes where others are still pooled")
    wide = np.concatenate([transfers(0, 0, 1, 0, POOL, count=2), transfers(1, 2, 1, 0, POOL)])
    assert _refused(Schedule("allreduce", "test", 3, 2, wide)).endswith("is pooled with others of another range")


def test_data_of_another_chunk() -> None:
    swapped = Schedule("allreduce", "test", 2, 2, transfers(0, [0, 1], [1, 0], 0, REDUCE, at=1))
    assert "adds data of chunk 0 from rank 1 to chunk 1" in _refused(swapped)
    moved = Schedule("broadcast", "test", 2, 2, transfers(0, 0, 1, [0, 1], COPY, at=[1, 0]))
    assert _refused(moved).endswith("rank 1 ends with chunk 0 holding data of chunk 1 in place of 0")


def test_adding_where_there_is_nothing() -> None:
    assert "where it has no data" in _refused(_schedule("broadcast", 2, (0, 0, 1, 0, REDUCE)))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ((0, 0, 2, 0, COPY), "names a rank outside 0 … 1"),
        ((0, 0, 0, 0, COPY), "sends to itself"),
        ((0, 0, 1, 1, COPY), "names a chunk outside 0 … 0"),
        ((0, 0, 1, 0, 7), "has an unknown operation"),
    ],
)
def test_malformed_transfers(row: tuple[int, int, int, int, int], says: str) -> None:
    assert says in _refused(_schedule("broadcast", 2, row))


def test_steps_out_of_order_and_chunks_that_cannot_be_shared() -> None:
    assert "is out of order" in _refused(_schedule("broadcast", 3, (1, 0, 1, 0, COPY), (0, 0, 2, 0, COPY)))
    assert "cannot be cut into 3 chunks" in _refused(_schedule("all-gather", 2, (0, 0, 1, 0, COPY), chunks=3))


@given(st.sampled_from(sorted(ALGORITHMS)), st.integers(2, 9), st.data())
def test_no_single_transfer_can_be_left_out(name: str, ranks: int, data: st.DataObject) -> None:
    collective = data.draw(st.sampled_from(ALGORITHMS[name].collectives))
    schedule = generate(collective, name, fitting(name, collective, ranks))
    without = np.delete(schedule.transfers, data.draw(st.integers(0, len(schedule.transfers) - 1)))
    _refused(replace(schedule, transfers=without))


@given(st.integers(2, 9))
def test_doing_it_twice_is_refused(ranks: int) -> None:
    schedule = generate("allreduce", "ring", ranks)
    _refused(replace(schedule, transfers=in_sequence(schedule.transfers, schedule.transfers)))
