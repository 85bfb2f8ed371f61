"""All ranks' executors pumped over an in-memory transport that delivers and acknowledges in any order."""

import random
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.collective import generate
from testbed.collective.executor import Executor, PostReceive, PostSend
from testbed.collective.program import program
from testbed.collective.reference import expected
from testbed.collective.schedule import COPY, Schedule, in_order, transfers
from testbed.transport.endpoint import Failed, Fill, Received, Sent

from .served import SERVED, fitting

Buffers = Sequence[npt.NDArray[Any]]


class Pump:
    """A perfect transport without order, neither between peers nor between messages; it copies when it delivers."""

    def __init__(self, schedule: Schedule, buffers: Buffers, choice: random.Random) -> None:
        self.executors = [
            Executor(program(schedule, rank, len(buffer)), buffer, first_id=1000 * rank, first_tag=7)
            for rank, buffer in enumerate(buffers)
        ]
        self.receives: dict[tuple[int, int, int], PostReceive] = {}
        self.messages: list[tuple[int, PostSend]] = []
        self.acknowledgements: list[tuple[int, int]] = []
        self.choice = choice
        started = [executor.start() for executor in self.executors]
        for rank, posts in enumerate(started):
            self._post(rank, posts)

    def run(self) -> None:
        while self.messages or self.acknowledgements:
            if self.messages and (not self.acknowledgements or self.choice.random() < 0.5):
                self._deliver(*self.messages.pop(self.choice.randrange(len(self.messages))))
            else:
                rank, identity = self.acknowledgements.pop(self.choice.randrange(len(self.acknowledgements)))
                self._post(rank, self.executors[rank].on_event(Sent(identity)))
        assert not self.receives
        assert all(executor.done for executor in self.executors)

    def _deliver(self, source: int, send: PostSend) -> None:
        receive = self.receives.pop((source, send.peer, send.tag))  # an early peer always finds one
        receive.buffer[:] = send.buffer
        self.acknowledgements.append((source, send.id))
        self._post(send.peer, self.executors[send.peer].on_event(Received(receive.id)))

    def _post(self, rank: int, posts: Sequence[PostSend | PostReceive]) -> None:
        for post in posts:
            if isinstance(post, PostReceive):
                self.receives[post.peer, rank, post.tag] = post
            else:
                self.messages.append((rank, post))


def _inputs(ranks: int, size: int, dtype: str, seed: int) -> list[npt.NDArray[Any]]:
    generator = np.random.default_rng(seed)
    if dtype == "int32":  # the whole range: sums wrap
        return [generator.integers(-(2**31), 2**31, size).astype(dtype) for _ in range(ranks)]
    return [generator.standard_normal(size).astype(dtype) for _ in range(ranks)]


@pytest.mark.parametrize(("name", "collective"), SERVED)
@settings(max_examples=40, deadline=None)
@given(
    ranks=st.integers(1, 17),
    kind=st.tuples(st.sampled_from([1, 2, 7, 16, 17, 100]), st.sampled_from(["float32", "float16", "int32"])),
    choice=st.builds(random.Random, st.integers(0, 1 << 30)),
)
def test_every_rank_ends_with_what_the_collective_promises(
    name: str, collective: str, ranks: int, kind: tuple[int, str], choice: random.Random
) -> None:
    ranks = fitting(name, collective, ranks)
    root = choice.randrange(ranks)
    inputs = _inputs(ranks, *kind, seed=ranks)
    buffers = [values.copy() for values in inputs]
    Pump(generate(collective, name, ranks, root), buffers, choice).run()
    for rank, buffer in enumerate(buffers):
        assert expected(collective, inputs, rank, root).wrong(buffer) == 0
    if collective == "allreduce":
        assert len({buffer.tobytes() for buffer in buffers}) == 1  # the same bits everywhere


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", [name for name, collective in SERVED if collective == "allreduce"])
def test_sums_are_the_same_bits_in_whatever_order_things_come(name: str, dtype: str) -> None:
    schedule = generate("allreduce", name, 11)
    results = set()
    for seed in range(5):
        buffers = _inputs(11, 50, dtype, seed=1)
        Pump(schedule, buffers, random.Random(seed)).run()
        results.add(buffers[0].tobytes())
    assert len(results) == 1


def test_integers_wrap_as_numpys_do() -> None:
    buffers = [np.array([2**31 - 1, -(2**31)], np.int32), np.array([1, -1], np.int32)]
    Pump(generate("allreduce", "ring", 2), buffers, random.Random(0)).run()
    assert buffers[0].tolist() == [-(2**31), 2**31 - 1]


def test_float16_is_added_up_in_float32_where_one_rank_adds_many() -> None:
    """2048 + 1 is 2048 in float16: added one by one there, the ones would all be lost."""
    buffers = [np.array([2048.0 if rank == 0 else 1.0], np.float16) for rank in range(17)]
    Pump(generate("allreduce", "parameter-server", 17), buffers, random.Random(0)).run()
    assert [float(buffer[0]) for buffer in buffers] == [2064.0] * 17


def test_a_send_waits_for_what_it_carries_and_for_nothing_else() -> None:
    schedule = generate("allreduce", "ring", 3)
    executor = Executor(program(schedule, 0, 3), np.arange(3, dtype=np.int32))
    posts = executor.start()
    sends = [post for post in posts if isinstance(post, PostSend)]
    receives = [post for post in posts if isinstance(post, PostReceive)]
    assert [(send.step, send.peer) for send in sends] == [(0, 1)]
    assert [receive.step for receive in receives] == [0, 1, 2, 3]
    assert executor.on_event(Received(receives[2].id)) == []  # a later step came first: it waits for its turn
    assert [send.step for send in executor.on_event(Received(receives[0].id))] == [1]


def test_an_exchange_sends_a_copy_so_that_it_can_add_before_the_acknowledgement() -> None:
    buffer = np.array([1.0], np.float32)
    executor = Executor(program(generate("allreduce", "recursive-doubling", 2), 0, 1), buffer)
    receive, send = executor.start()
    receive.buffer[:] = np.array([2.0], np.float32).tobytes()
    executor.on_event(Received(receive.id))
    assert buffer[0] == 3.0
    assert np.frombuffer(send.buffer, np.float32)[0] == 1.0
    assert not executor.done
    executor.on_event(Sent(send.id))
    assert executor.done


def test_an_exchange_does_not_add_to_what_is_still_to_be_sent() -> None:
    """Rank 0 sends on both chunks that it got, and gets one anew, which may come before the other of the first two."""
    rows = transfers([0, 0, 1, 1], [1, 2, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0], COPY, count=[1, 1, 2, 1])
    buffer = np.zeros(2, np.int32)
    executor = Executor(program(Schedule("broadcast", "test", 3, 2, rows, incast=True), 0, 2), buffer)
    receives = [post for post in executor.start() if isinstance(post, PostReceive)]
    first, second, anew = receives
    for receive, value in ((first, 1), (anew, 3)):
        receive.buffer[:] = np.array([value], np.int32).tobytes()
        assert executor.on_event(Received(receive.id)) == []
    second.buffer[:] = np.array([2], np.int32).tobytes()
    (send,) = executor.on_event(Received(second.id))
    assert np.frombuffer(send.buffer, np.int32).tolist() == [1, 2]
    assert buffer.tolist() == [3, 2]


def test_a_range_is_not_written_while_a_send_reads_it() -> None:
    buffers = [np.array([1.0], np.float32), np.array([2.0], np.float32)]
    executor = Executor(program(generate("allreduce", "parameter-server", 2), 1, 1), buffers[1])
    receive, push = executor.start()
    receive.buffer[:] = np.array([3.0], np.float32).tobytes()
    executor.on_event(Received(receive.id))
    assert buffers[1][0] == 2.0
    executor.on_event(Sent(push.id))
    assert buffers[1][0] == 3.0


def test_a_barrier_holds_later_steps_back_until_the_earlier_are_received() -> None:
    executor = Executor(program(generate("all-to-all", "pairwise", 4), 0, 4), np.arange(4, dtype=np.int32))
    posts = executor.start()
    receives = [post for post in posts if isinstance(post, PostReceive)]
    assert [post.step for post in posts if isinstance(post, PostSend)] == [0]
    assert executor.on_event(Received(receives[1].id)) == []
    assert [send.step for send in executor.on_event(Received(receives[0].id))] == [1, 2]


def test_missing_bytes_count_as_zeros_and_are_counted() -> None:
    buffer = np.array([1.0, 2.0], np.float32)
    executor = Executor(program(generate("allreduce", "recursive-doubling", 2), 0, 2), buffer)
    receive, _ = executor.start()
    receive.buffer[:] = np.array([10.0, 20.0], np.float32).tobytes()
    executor.on_event(Received(receive.id, missing=((4, 8),)))
    assert buffer.tolist() == [11.0, 2.0]
    assert (executor.received_bytes, executor.missing_bytes) == (4, 4)


@pytest.mark.parametrize(("fill", "left"), [("zero", 0.0), ("keep", 2.0)])
def test_what_is_missing_of_a_copy_becomes_zero_or_stays(fill: Fill, left: float) -> None:
    """An element of which a byte is missing is missing as a whole."""
    buffer = np.array([1.0, 2.0, 3.0], np.float32)
    executor = Executor(program(generate("broadcast", "binomial", 2), 1, 3), buffer, fill=fill)
    (receive,) = executor.start()
    receive.buffer[:] = np.array([10.0, 20.0, 30.0], np.float32).tobytes()
    executor.on_event(Received(receive.id, missing=((5, 7),)))
    assert buffer.tolist() == [10.0, left, 30.0]
    assert (executor.received_bytes, executor.missing_bytes) == (10, 2)


def test_of_what_is_given_up_nothing_came() -> None:
    buffer = np.array([1.0, 2.0], np.float32)
    executor = Executor(program(generate("allreduce", "recursive-doubling", 2), 0, 2), buffer)
    receive, send = executor.start()
    assert executor.abandoned(send.id) == Sent(send.id)
    assert executor.abandoned(receive.id) == Received(receive.id, ((0, 8),))


def test_what_is_pooled_is_added_in_the_order_of_ranks_when_the_last_is_there() -> None:
    """(1e8 + 1) - 1e8 is 0 in float32, and 1e8 - 1e8 + 1 is 1: all ranks must have the one that goes by ranks."""
    values = np.array([1e8, 1, -1e8], np.float32)
    schedule = generate("allreduce", "tar-2d", 3, parameters={"groups": 3})
    results = []
    for rank in range(3):
        buffer = values[rank : rank + 1].copy()
        executor = Executor(program(schedule, rank, 1), buffer)
        receives = [post for post in executor.start() if isinstance(post, PostReceive)]
        for receive in receives:
            assert buffer[0] == values[rank]  # it may still be sent
            receive.buffer[:] = values[receive.peer : receive.peer + 1].tobytes()
            executor.on_event(Received(receive.id))
        results.append(float(buffer[0]))
    assert results == [float((values[0] + values[1]) + values[2])] * 3 == [0.0] * 3


def test_a_failure_is_kept_and_nothing_more_is_posted() -> None:
    executor = Executor(program(generate("allreduce", "ring", 2), 0, 2), np.zeros(2, np.float32))
    executor.start()
    assert executor.on_event(Failed(0, 1, "retries exhausted")) == []
    assert executor.failure == Failed(0, 1, "retries exhausted")


def test_empty_chunks_are_not_sent() -> None:
    schedule = generate("allreduce", "ring", 8)
    sent = sum(program(schedule, rank, 1).sent_elements for rank in range(8))
    assert sent == 2 * 7  # one element goes round twice, less its last hop


def test_one_rank_is_done_at_once() -> None:
    executor = Executor(program(generate("allreduce", "ring", 1), 0, 5), np.ones(5, np.float32))
    assert executor.start() == []
    assert executor.done


def test_a_buffer_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ValueError, match="5 elements"):
        Executor(program(generate("allreduce", "ring", 2), 0, 5), np.ones(6, np.float32))


def test_an_operation_costs_microseconds() -> None:
    part = program(generate("allreduce", "ring", 64), 0, 64)
    best = min(_time_run(part) for _ in range(5))
    assert best / len(part) < 50e-6  # some 3 µs on an idle machine


def _time_run(part: Any) -> float:
    begin = time.perf_counter()
    executor = Executor(part, np.ones(part.elements, np.float32))
    executor.start()
    for index, sends in enumerate(part.send.tolist()):
        executor.on_event(Sent(index) if sends else Received(index))
    assert executor.done
    return time.perf_counter() - begin


def test_rows_can_be_put_in_order() -> None:
    rows = generate("allreduce", "halving-doubling", 7).transfers
    shuffled = rows[np.random.default_rng(1).permutation(len(rows))]
    assert np.array_equal(in_order(shuffled), rows)
