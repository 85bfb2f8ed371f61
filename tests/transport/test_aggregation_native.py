"""Members of a job against the shipped switch programs, compiled, with packets lost, doubled and late."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .aggregation import impaired
from .native_switches import NativeSwitch, NativeTree
from .test_aggregation import LOSSLESS, reduce

few = settings(deadline=None, max_examples=15)  # each has thousands of packets through generated C


@pytest.mark.parametrize("framing", ["udp", "roce"])
@pytest.mark.parametrize("values", [32, 256])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_one_switch(dtype, values, framing):
    switch = NativeSwitch(4, values=values, slots=8, in_roce=framing == "roce")
    reduce(4, dtype, LOSSLESS, sizes=(3000, 5, 0, 700), switch=switch, values=values, framing=framing)


@few
@given(
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from([np.int32, np.float32, np.float16]),
    count=st.integers(1, 6),
    loss=st.floats(0, 0.2),
    duplicate=st.floats(0, 0.2),
    reorder=st.floats(0, 0.3),
    slots=st.integers(1, 20),
    start_ns=st.integers(0, 300_000),
)
def test_one_switch_under_any_loss(seed, dtype, count, loss, duplicate, reorder, slots, start_ns):
    reduce(
        count,
        dtype,
        impaired(Random(seed), loss=loss, duplicate=duplicate, reorder=reorder),
        sizes=(700, 33, 200),
        start_ns=start_ns,
        seed=seed,
        switch=NativeSwitch(count, values=32, slots=slots),
        slots=slots,
        retries=1000,
    )


@few
@given(
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from([np.int32, np.float32]),
    leaves=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    loss=st.floats(0, 0.1),
    duplicate=st.floats(0, 0.2),
    reorder=st.floats(0, 0.3),
    slots=st.integers(1, 20),
)
def test_a_tree_under_any_loss(seed, dtype, leaves, loss, duplicate, reorder, slots):
    tree = NativeTree(leaves, values=32, slots=slots, loss=loss, seed=seed)
    reduce(
        sum(leaves),
        dtype,
        impaired(Random(seed), loss=loss, duplicate=duplicate, reorder=reorder),
        sizes=(300, 33, 100),
        seed=seed,
        switch=tree,
        workers=tree.workers,
        slots=slots,
        retries=1000,
    )


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_many_packets_at_1_percent_loss(dtype):
    """The short form of `python -m tests.bench.reduction`."""
    network, _ = reduce(
        8,
        dtype,
        impaired(Random(1), loss=0.01, duplicate=0.002, reorder=0.01),
        sizes=(64_000, 1000),
        switch=NativeSwitch(8, values=64, slots=64),
        values=64,
        slots=64,
    )
    assert network.sent > 16_000
    assert network.lost / network.sent == pytest.approx(0.01, rel=0.3)
