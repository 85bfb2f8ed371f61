"""Members of a job, the shipped best-effort program and the job's server: right sums, whatever happens to packets."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.transport.aggregation.window import Window
from testbed.transport.endpoint import ECN_CE
from testbed.wire.aggregation import Header

from .aggregation import Packet, impaired
from .native_switches import NativeBestEffort
from .test_aggregation import LOSSLESS, reduce

few = settings(deadline=None, max_examples=25)  # each has thousands of packets through generated C
SIZES = (3000, 5, 0, 700)


def chunks(values):
    return sum(-(-size // values) for size in SIZES)


def best_effort(count, dtype, fate, **keys):
    return reduce(count, dtype, fate, protocol="besteffort", **keys)


@pytest.mark.parametrize("framing", ["udp", "roce"])
@pytest.mark.parametrize("values", [32, 256])
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_with_room_for_all_the_switch_adds_up_every_chunk(dtype, values, framing):
    switch = NativeBestEffort(4, values=values, slots=8, in_roce=framing == "roce")
    network, _ = best_effort(4, dtype, LOSSLESS, sizes=SIZES, switch=switch, values=values, framing=framing)
    alone = 0 if dtype == np.int32 else sum(min(-(-size // values), 8) for size in SIZES)
    assert switch.count("completed") == switch.server.counters.extra["whole"] == chunks(values) + alone
    assert switch.count("collided") == switch.server.counters.extra["added"] == 0
    assert not any(end.counters.retransmitted_packets for end in network.ends)


def test_what_finds_no_room_is_added_up_by_the_server():
    switch = NativeBestEffort(4, values=32, slots=8, pool=1)
    network, _ = best_effort(4, np.int32, LOSSLESS, sizes=SIZES, switch=switch, timeout="1s")
    whole = switch.count("completed")
    assert 0 < whole < chunks(32)
    assert switch.server.counters.extra["whole"] == whole
    assert switch.server.counters.extra["added"] >= switch.count("collided") > chunks(32)
    assert sum(end.counters.timeouts for end in network.ends) < 20, "results of later chunks tell of those that wait"


@few
@given(
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from([np.int32, np.float32, np.float16]),
    count=st.integers(1, 6),
    loss=st.floats(0, 0.2),
    duplicate=st.floats(0, 0.2),
    reorder=st.floats(0, 0.3),
    slots=st.integers(1, 20),
    pool=st.integers(1, 40),
    start_ns=st.integers(0, 300_000),
)
def test_under_any_loss(seed, dtype, count, loss, duplicate, reorder, slots, pool, start_ns):
    reduce(
        count,
        dtype,
        impaired(Random(seed), loss=loss, duplicate=duplicate, reorder=reorder),
        protocol="besteffort",
        sizes=(700, 33, 200),
        start_ns=start_ns,
        seed=seed,
        switch=NativeBestEffort(count, values=32, slots=slots, pool=pool, loss=loss, seed=seed),
        slots=slots,
        retries=1000,
    )


def test_congestion_comes_back_to_all_workers():
    switch = NativeBestEffort(2, values=32, slots=8, ecn=ECN_CE)
    network, _ = best_effort(2, np.int32, LOSSLESS, sizes=(3000,), switch=switch)
    assert switch.count("congested") == 94
    times = [at for at, member, _ in network.log if member == 0]
    assert len(set(times[-40:])) == 40, "one chunk at a time in the end"


def test_a_window_halves_once_for_what_was_sent_before_and_grows_by_one_a_turn():
    window = Window(64)
    window.cut(sent_ns=5, now=100)
    window.cut(sent_ns=99, now=120)
    assert window.chunks == 32
    for _ in range(33):
        window.grow(1)
    assert window.chunks == 33
    window.cut(sent_ns=101, now=200)
    assert window.chunks == 16
    window.grow(10_000)
    assert window.chunks == 64


class Restarted(NativeBestEffort):
    """Its switch begins anew after each so many packets, as one whose program is exchanged without its registers."""

    def __init__(self, workers: int, every: int, **keys: int) -> None:
        super().__init__(workers, **keys)
        self._every, self._left = every, every

    def receive(self, member: int, header: Header, data: bytes) -> list[tuple[int, Packet]]:
        self._left -= 1
        if not self._left:
            self._left = self._every
            for register in ("arrivals", "chunks"):
                for index, _ in list(self.switch.control.nonzero(register)):
                    self.switch.control.write_register(register, index, 0)
        return super().receive(member, header, data)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_sums_survive_a_switch_that_begins_anew(dtype):
    """The server has what it takes, and who lacks a result sends again (`testbed.spec.sum_checks` relies on it)."""
    switch = Restarted(4, 37, values=32, slots=8)
    fate = impaired(Random(3), loss=0.02, duplicate=0.05, reorder=0.05)
    reduce(4, dtype, fate, sizes=(3000, 700), switch=switch, protocol="besteffort")
