"""A rank whose buffers the network sums up: what it hands over and when, and how its result is judged."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from testbed.transport.aggregation import AGGREGATOR, Reduced
from testbed.transport.endpoint import Failed
from testbed.worker.sums import SumIteration
from testbed.worker.verify import verify_sums

Numbers = npt.NDArray[Any]


class Network:
    """Keeps what is handed over."""

    def __init__(self) -> None:
        self.posts: list[tuple[int, int, int]] = []  # id, elements, instant

    def post_reduce(self, id: int, buffer: Numbers, now: int) -> None:
        self.posts.append((id, len(buffer), now))


def iteration(delays: dict[int, int]) -> tuple[Network, SumIteration]:
    network = Network()
    buffers = [np.zeros(size, np.float32) for size in (10, 7)]
    return network, SumIteration(buffers, network, first_id=4, step_delays=delays)


def test_all_layers_are_handed_over_at_the_start() -> None:
    network, work = iteration({})
    work.prepare(5)
    assert network.posts == []
    work.start(10)
    assert network.posts == [(4, 10, 10), (5, 7, 10)]
    assert work.waiting_for(1_000_010) == "the sum of layer 0, nothing whole for 1.000 ms (model time)"
    work.on_events([Reduced(5)], 20)
    assert (work.done, work.received_bytes) == (False, 28)
    work.on_events([Reduced(4)], 30)
    assert (work.done, work.received_bytes, work.missing_bytes, work.received_ns) == (True, 68, 0, 30)
    assert work.waiting_for(40) == ""


def test_a_stall_holds_them_back() -> None:
    network, work = iteration({0: 1_000_000})
    work.start(10)
    assert (network.posts, work.wake_ns()) == ([], 1_000_010)
    assert work.waiting_for(500_010) == "a stall of 0.500 ms more (model time)"
    work.go_on(500_000)
    assert network.posts == []
    work.go_on(1_000_010)
    assert [instant for *_, instant in network.posts] == [1_000_010, 1_000_010]
    assert work.wake_ns() is None


def test_a_failure_is_kept() -> None:
    _, work = iteration({})
    work.start(0)
    work.on_events([Failed(4, AGGREGATOR, "slot 3 waits")], 10)
    assert work.failure == "slot 3 waits"


def test_integers_are_exact() -> None:
    inputs = [np.arange(100, dtype=np.int32) * rank for rank in range(4)]
    result = np.sum(inputs, axis=0, dtype=np.int32)
    assert verify_sums(inputs, {0: result}, [60, 40], 32)[0] == (0, 0.0)
    result[70] += 1
    assert verify_sums(inputs, {0: result}, [60, 40], 32)[0][0] == 1


@pytest.mark.parametrize(("dtype", "units"), [(np.float32, 2**-24), (np.float16, 2**-11)])
def test_floats_may_be_off_by_what_scaling_costs_in_their_chunk(dtype: Any, units: float) -> None:
    """Two ranks. Where the largest value of a chunk is 1024 (exponent 10), values are counted in steps of
    2^11 / (2^30 - 1); a sum may be off by one and, rounded to its dtype, by half a unit; in a chunk of zeros by none.
    """
    inputs = [np.zeros(96, dtype) for _ in range(2)]
    inputs[0][:32], inputs[1][:32] = 0.5, 0.25
    inputs[0][64] = 1024.0
    exact = inputs[0].astype(np.float64) + inputs[1]
    step = 2.0**11 / (2**30 - 1)
    for place, largest in ((0, 2.0**0 / (2**30 - 1) + 0.75 * units), (65, step), (64, step + 1024 * units)):
        result = exact.copy()
        result[place] += 0.9 * largest
        assert verify_sums(inputs, {0: result}, [96], 32)[0][0] == 0, place
        result[place] = exact[place] + 1.3 * largest
        assert verify_sums(inputs, {0: result}, [96], 32)[0][0] == 1, place
    result = exact.copy()
    result[40] = 1e-6
    assert verify_sums(inputs, {0: result}, [96], 32)[0][0] == 1, "a sum of zeros"
    assert verify_sums(inputs, {0: result}, [40, 56], 32)[0][0] == 0, "the chunks begin anew with a layer"
