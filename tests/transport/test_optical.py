"""Members of a job against units that average: results are right within the bound, whole or told to be partial."""

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.codec.block_exponent import exponents
from testbed.codec.words import WordQuantiser
from testbed.dataplane.native.exchange import Exchange
from testbed.spec.model import TransportSpec
from testbed.transport import TRANSPORTS, Path, settle
from testbed.transport.aggregation import AGGREGATOR, Member, ReduceEndpoint
from testbed.transport.endpoint import Arrival, Failed
from testbed.wire import aggregation
from testbed.wire.aggregation import Header, Kind
from tests.dataplane import aggregation as frames
from tests.dataplane.aggregation import WORKER, Job

from .aggregation import JOB, PATH, Network, Packet, impaired, packets
from .native_switches import framed, parted

few = settings(deadline=None, max_examples=15)
LOSSLESS = impaired(Random(0))
SIZES = (1000, 0, 1, 32, 33, 700)  # elements of the buffers posted at once, with 32 a chunk


class Unit:
    """OptINC's ideal function, y = round((1/N) sum of words), slot by slot."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._slots: dict[int, tuple[int, dict[int, tuple[np.ndarray, int]]]] = {}
        self.sent: list[tuple[int, int]] = []  # (member, chunk) of what came

    def receive(self, member: int, header: Header, data: bytes) -> list[tuple[int, Packet]]:
        assert (header.kind, header.job, header.worker) == (Kind.ADD, JOB, member)
        self.sent.append((member, header.chunk))
        chunk, there = self._slots.get(header.slot, (-1, {}))
        if header.chunk < chunk:
            return []
        if header.chunk > chunk:
            there = {}
        self._slots[header.slot] = header.chunk, there
        if member in there:
            return []
        there[member] = np.frombuffer(data, ">i4"), header.exponent
        if len(there) < self._workers:
            return []
        mean = np.rint(np.mean([words for words, _ in there.values()], axis=0)).astype(">i4")
        largest = max(exponent for _, exponent in there.values())
        result = Header(Kind.RESULT, JOB, 0, header.slot, 0, header.values, header.chunk, largest)
        return [(each, (aggregation.encode(result), mean.tobytes())) for each in range(self._workers)]


class NativeUnit:
    """`aggregate_optical` at a switch that all members hang at, member i at port i."""

    def __init__(self, workers: int, *, values: int, slots: int) -> None:
        children = [(port, WORKER + port + 1) for port in range(workers)]
        self._switch = Exchange(frames.program("aggregate_optical"))
        frames.configure(self._switch, Job(children, JOB, 0, slots, values, shift=workers.bit_length() - 1))

    def receive(self, member: int, header: Header, data: bytes) -> list[tuple[int, Packet]]:
        frame = framed(header, data, WORKER + member + 1, False)
        return [(port, parted(sent)) for port, sent in self._switch.inject(member, frame)]


def members(count: int, path: Path = PATH, **keys: object) -> list[ReduceEndpoint]:
    found = settle(TransportSpec(kind="aggregation", protocol="optical", **keys), path)
    reduce = TRANSPORTS["aggregation"].reduce
    return [reduce(path, Member(JOB, worker, count), found) for worker in range(count)]


def inputs(count: int, dtype: type, sizes, seed: int = 0) -> list[list[np.ndarray]]:
    """Of each member, a buffer a reduction, of magnitudes that differ from chunk to chunk."""
    random = np.random.default_rng(seed)
    return [
        [
            (random.standard_normal(size) * np.repeat(10.0 ** random.integers(-3, 4, -(-size // 32)), 32)[:size])
            .astype(dtype)
            for size in sizes
        ]
        for _ in range(count)
    ]  # fmt: skip


def reduce(count, dtype, fate, *, sizes=SIZES, seed=0, switch=None, bits=16, block=4, slots=8, start_ns=0, **keys):
    """Buffers of all members over a network, to the end; the network, what was given, and what each has then."""
    ends = members(count, values=32, slots=slots, bits=bits, block=block, **keys)
    given = inputs(count, dtype, sizes, seed)
    buffers = [[buffer.copy() for buffer in mine] for mine in given]
    network = Network(ends, fate, switch or Unit(count))
    for member, end in enumerate(ends):
        network.run(until_ns=member * start_ns)
        network.now = member * start_ns
        for index, buffer in enumerate(buffers[member]):
            end.post_reduce(index, buffer, network.now)
    network.run()
    for member, end in enumerate(ends):
        assert end.idle()
        assert end.deadline() is None
        assert not end.counters.malformed
        assert not end.counters.retransmitted_packets
        assert sorted(event.id for event in network.events[member]) == list(range(len(sizes)))
        for event in network.events[member]:
            check(event, member, given, buffers[member], bits, 32 * block)
    return network, buffers


def check(event, member, given, buffers, bits, block) -> None:
    """Where nothing is missing the exact sum within the bound; elsewhere the member's own values."""
    result, parts = buffers[event.id], [mine[event.id] for mine in given]
    missing = np.zeros(len(result), np.bool_)
    for first, last in event.missing:
        missing[first // result.itemsize : last // result.itemsize] = True
    assert (result[missing] == parts[member][missing]).all()
    if not len(result):
        return
    blocks = -(-len(result) // block)
    rows = [np.pad(part, (0, blocks * block - len(part))).reshape(blocks, block) for part in parts]
    common = np.max([exponents(row) for row in rows], axis=0)
    most = np.repeat(WordQuantiser(len(given), bits).error_bound(common), block)[: len(result)]
    exact = np.array([math.fsum(float(part[i]) for part in parts) for i in range(len(result))])
    error = np.abs(result.astype(np.float64) - exact)
    assert (error <= most + np.spacing((np.abs(exact) + most).astype(result.dtype)) / 2)[~missing].all()


@pytest.mark.slow
@pytest.mark.parametrize("framing", ["udp", "roce"])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_means_come_within_the_bound(count, dtype, bits, framing):
    network, buffers = reduce(count, dtype, LOSSLESS, bits=bits, framing=framing)
    chunks = sum(-(-size // 32) for size in SIZES)
    alone = sum(8 + -(-size // 128) - 1 for size in SIZES if size)  # 8 a buffer, and one for each further block of 4
    for member, end in enumerate(network.ends):
        assert end.counters.sent_packets == end.counters.received_packets == chunks + alone
        assert all(not event.missing for event in network.events[member])
        for mine, first in zip(buffers[member], buffers[0], strict=True):
            assert mine.tobytes() == first.tobytes()


@pytest.mark.slow
@few
@given(
    seed=st.integers(0, 2**32),
    count=st.sampled_from([1, 2, 4]),
    dtype=st.sampled_from([np.float32, np.float16]),
    bits=st.sampled_from([8, 16]),
    loss=st.floats(0, 1),
    duplicate=st.floats(0, 0.3),
    reorder=st.floats(0, 0.5),
    slots=st.integers(1, 20),
    block=st.integers(1, 9),
    start_ns=st.integers(0, 300_000),
    sizes=st.lists(st.integers(0, 400), min_size=1, max_size=3),
)
def test_all_end_under_any_loss(seed, count, dtype, bits, loss, duplicate, reorder, slots, block, start_ns, sizes):
    fate = impaired(Random(seed), loss=loss, duplicate=duplicate, reorder=reorder)
    switch = Unit(count)
    how = {"bits": bits, "slots": slots, "block": block, "start_ns": start_ns}
    reduce(count, dtype, fate, sizes=sizes, seed=seed, switch=switch, **how)
    if not duplicate:
        assert len(switch.sent) == len(set(switch.sent)), "something was sent twice"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4, 8])
def test_the_shipped_program_does_the_same(workers):
    sizes = (1500, 5, 0, 300)
    fate = impaired(Random(1), loss=0.01)
    unit, ideal = NativeUnit(workers, values=32, slots=8), Unit(workers)
    _, buffers = reduce(workers, np.float32, fate, sizes=sizes, switch=unit)
    _, expected = reduce(workers, np.float32, impaired(Random(1), loss=0.01), sizes=sizes, switch=ideal)
    for mine, wanted in zip(buffers, expected, strict=True):
        for one, other in zip(mine, wanted, strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.slow
def test_little_is_missing_at_little_loss():
    """At 0.1 % a chunk is lost where one of 4 packets up or the one down is, in 0.5 % of cases; few more for scales."""
    network, _ = reduce(4, np.float32, impaired(Random(7), loss=0.001), sizes=(32 * 2000,), slots=64, block=64)
    shares = [
        sum(last - first for event in events for first, last in event.missing) / (128 * 2000)
        for events in network.events
    ]
    assert all(0.001 < share < 0.012 for share in shares)
    assert all(not end.counters.extra["unscaled"] for end in network.ends)


@pytest.mark.slow
def test_a_lost_mean_costs_no_deadline_while_others_come():
    """Later means tell of it, so that who lacks one does not fall behind; only the last ones need the time."""
    network, _ = reduce(4, np.float32, impaired(Random(3), loss=0.005), sizes=(32 * 1000,), slots=64, block=64)
    without, _ = reduce(4, np.float32, LOSSLESS, sizes=(32 * 1000,), slots=64, block=64)
    spec = TransportSpec(kind="aggregation", protocol="optical", values=32, slots=64)
    assert all(end.counters.extra["gaps"] > 5 for end in network.ends)
    assert network.now <= without.now + 3 * settle(spec, PATH).values["deadline"]


def test_who_begins_late_is_waited_for():
    network, _ = reduce(4, np.float32, LOSSLESS, start_ns=200_000_000)
    assert all(not event.missing for events in network.events for event in events)


def test_a_member_that_never_comes_is_not_waited_for_without_end():
    ends = members(2, values=32, slots=8, patience="5ms")
    buffer = np.ones(5000, np.float32)
    network = Network(ends, LOSSLESS, Unit(2))
    ends[0].post_reduce(0, buffer, 0)
    network.run()
    (event,) = network.events[0]
    assert event.missing == ((0, 20_000),)
    assert (buffer == 1).all()
    assert network.now < 8_000_000


def test_what_is_not_finite_is_named():
    (end,) = members(1, values=32, slots=8)
    buffer = np.ones(100, np.float32)
    buffer[70] = np.inf
    network = Network([end], LOSSLESS, Unit(1))
    end.post_reduce(3, buffer, 0)
    network.run()
    (event,) = network.events[0]
    assert isinstance(event, Failed)
    assert (event.id, event.reason) == (3, "element 70 of reduction 3 is inf: only finite ones can be scaled")


def test_integers_are_refused():
    (end,) = members(1)
    with pytest.raises(ValueError, match="float32 or float16 is wanted, as means are rounded, not int32"):
        end.post_reduce(0, np.zeros(32, np.int32), 0)


def test_what_can_be_no_mean_is_counted_and_left():
    (end,) = members(1, values=32, slots=8)
    buffer = np.ones(64, np.float32)
    end.post_reduce(0, buffer, 0)
    (burst,) = end.transmit(0, 1)
    header = aggregation.decode(packets(burst)[0][0])
    assert (header.chunk, header.values, header.exponent) == (0, 0, 0)
    for bad in (
        Header(Kind.RESULT, JOB + 1, 0, 0, 0, 0, 0),
        Header(Kind.RESULT, JOB, 0, 9, 0, 0, 0),
        Header(Kind.RESULT, JOB, 0, 1, 0, 0, 0),  # another slot than the packet's
        Header(Kind.RESULT, JOB, 0, 0, 0, 0, 5),  # not sent yet
        Header(Kind.RESULT, JOB, 0, 0, 0, 0, 0, -5),  # below what this member offered
        Header(Kind.ADD, JOB, 0, 0, 0, 0, 0),
    ):
        end.receive(Arrival(AGGREGATOR, 0, 0, (aggregation.encode(bad),), b""), 1)
    assert not end.events()
    assert end.counters.malformed == 6
    assert (buffer == 1).all()
