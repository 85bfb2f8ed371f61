"""Members of a job against a switch after SwitchML's pseudo-code: sums are right whatever happens to packets."""

import math
import struct
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.codec.block_exponent import Quantiser, exponents
from testbed.spec.model import TransportSpec
from testbed.transport import TRANSPORTS, Path, settle
from testbed.transport.aggregation import AGGREGATOR, Member, Reduced, ReduceEndpoint, packet_bytes, rounds
from testbed.transport.endpoint import ECN_CE, Arrival, Failed
from testbed.wire import aggregation, roce
from testbed.wire.aggregation import Header, Kind

from .aggregation import JOB, PATH, Network, Switch, impaired, members, packets
from .test_parameters import SLOW

unhurried = settings(deadline=None)  # the machine may be busy with something else
few = settings(unhurried, max_examples=40)


def values(path=SLOW, **keys):
    return settle(TransportSpec(kind="aggregation", **keys), path).values


LOSSLESS = impaired(Random(0))
SIZES = (1000, 0, 1, 32, 33, 700)  # elements of the reductions posted at once, with 32 a chunk


def inputs(count, dtype, sizes, seed=0):
    """Of each member, a buffer a reduction. Floats are of very different magnitudes from chunk to chunk."""
    random = np.random.default_rng(seed)

    def buffer(size):
        if dtype == np.int32:
            return random.integers(-(2**31), 2**31, size).astype(np.int32)
        scale = np.repeat(10.0 ** random.integers(-3, 4, -(-size // 32)), 32)[:size]
        return (random.standard_normal(size) * scale).astype(dtype)

    return [[buffer(size) for size in sizes] for _ in range(count)]


def check(results, given, values):
    """`results` (what a member ended with) against the exact sums of what was given."""
    for index, result in enumerate(results):
        parts = [buffers[index] for buffers in given]
        if result.dtype == np.int32:
            assert (result == np.sum(parts, axis=0, dtype=np.int32)).all()
            continue
        exact = np.array([math.fsum(float(part[i]) for part in parts) for i in range(len(result))])
        error, most = np.abs(result.astype(np.float64) - exact), bound(parts, values)
        assert (error <= most + np.spacing((np.abs(exact) + most).astype(result.dtype)) / 2).all()


def bound(parts, values):
    """The stated bound by element, with so many values a chunk."""
    chunks = -(-len(parts[0]) // values)
    rows = [np.pad(part, (0, chunks * values - len(part))).reshape(chunks, values) for part in parts]
    if not chunks:
        return np.zeros(0)
    common = np.max([exponents(row) for row in rows], axis=0)
    return np.repeat(Quantiser(len(parts)).error_bound(common), values)[: len(parts[0])]


def reduce(
    count, dtype, fate, *, sizes=SIZES, start_ns=0, seed=0, switch=None, values=32, slots=8, logged=True, **keys
):
    """Sum buffers of all members over a network; the network, and what each has in the end."""
    ends = members(count, values=values, slots=slots, **keys)
    given = inputs(count, dtype, sizes, seed)
    buffers = [[buffer.copy() for buffer in mine] for mine in given]
    network = Network(ends, fate, switch or Switch(count))
    for member, end in enumerate(ends):
        network.run(until_ns=member * start_ns)
        network.now = member * start_ns
        for index, buffer in enumerate(buffers[member]):
            end.post_reduce(index, buffer, network.now)
    network.run(logged=logged)
    for member, end in enumerate(ends):
        assert end.idle()
        assert end.deadline() is None
        assert sorted(event.id for event in network.events[member]) == list(range(len(sizes)))
        assert {type(event) for event in network.events[member]} == {Reduced}
        assert not end.counters.malformed
        for mine, first in zip(buffers[member], buffers[0], strict=True):
            assert mine.tobytes() == first.tobytes(), "members differ"
    check(buffers[0], given, values)
    return network, buffers


@pytest.mark.parametrize("framing", ["udp", "roce"])
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float16])
@pytest.mark.parametrize("count", [1, 2, 5, 32])
def test_sums(count, dtype, framing):
    network, _ = reduce(count, dtype, LOSSLESS, framing=framing)
    chunks = sum(-(-size // 32) for size in SIZES)
    alone = 0 if dtype == np.int32 else sum(min(-(-size // 32), 8) for size in SIZES)
    for end in network.ends:
        assert end.counters.sent_packets == end.counters.received_packets == chunks + alone
        assert end.counters.sent_bytes == end.counters.received_bytes == chunks * 128
        assert not end.counters.retransmitted_packets


@few
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 5),
    dtype=st.sampled_from([np.int32, np.float32, np.float16]),
    loss=st.floats(0, 0.3),
    duplicate=st.floats(0, 0.3),
    reorder=st.floats(0, 0.5),
    slots=st.integers(1, 20),
    start_ns=st.integers(0, 300_000),
    sizes=st.lists(st.integers(0, 400), min_size=1, max_size=5),
)
def test_sums_are_the_same_under_any_loss(seed, count, dtype, loss, duplicate, reorder, slots, start_ns, sizes):
    fate = impaired(Random(seed), loss=loss, duplicate=duplicate, reorder=reorder)
    lossy = reduce(count, dtype, fate, sizes=sizes, start_ns=start_ns, seed=seed, slots=slots, retries=1000)
    calm = reduce(count, dtype, LOSSLESS, sizes=sizes, seed=seed, slots=slots)
    for after, before in zip(lossy[1][0], calm[1][0], strict=True):
        assert after.tobytes() == before.tobytes(), "loss changes a result"


def test_int32_wraps_around():
    [end] = members(1, values=32, slots=1)
    assert reduce(3, np.int32, LOSSLESS)
    ends, buffers = members(2, values=32), [np.full(5, 2**31 - 1, np.int32), np.array([1, 2, 3, 4, 5], np.int32)]
    for other, buffer in zip(ends, buffers, strict=True):
        other.post_reduce(0, buffer, 0)
    Network(ends, LOSSLESS, Switch(2)).run()
    assert buffers[0].tolist() == buffers[1].tolist() == [i - 2**31 for i in range(5)]
    assert end.idle()


def test_versions_turn_and_chunk_numbers_grow_in_each_slot_from_reduction_to_reduction():
    network, _ = reduce(2, np.float32, LOSSLESS, sizes=(1000, 40, 300, 5))
    for slot in range(8):
        sent = [header for _, member, header in network.log if member == 0 and header.slot == slot]
        assert [header.version for header in sent] == [turn % 2 for turn in range(len(sent))]
        numbers = [header.chunk for header in sent]
        assert numbers == sorted(set(numbers))
        assert {number % 8 for number in numbers} == {slot}
    # 32 chunks: the first turn of the slots has exponents alone, then each next number is 8 more.
    first = [header for _, member, header in network.log if member == 0 and header.chunk < 40]
    assert sorted(header.chunk for header in first) == list(range(40))
    assert {(header.chunk < 8, header.values) for header in first} == {(True, 0), (False, 32)}


def test_chunk_numbers_wrap_around():
    ends, buffers = members(2, values=32, slots=8), [np.ones(3200, np.float32), np.full(3200, 2, np.float32)]
    for end, buffer in zip(ends, buffers, strict=True):
        end._number = 2**32 - 50  # as after a terabyte
        end.post_reduce(0, buffer, 0)
    network = Network(ends, impaired(Random(2), loss=0.1, duplicate=0.1), Switch(2))
    network.run()
    assert {header.chunk for _, _, header in network.log} == {*range(2**32 - 50, 2**32), *range(58)}
    assert (np.abs(buffers[0] - 3) < 1e-6).all()
    assert (buffers[0] == buffers[1]).all()


def test_a_slot_goes_on_when_its_result_comes_and_not_before():
    [end] = members(1, values=32, slots=4)
    end.post_reduce(0, np.arange(32 * 10, dtype=np.int32), 0)
    [burst] = end.transmit(0, 100)
    assert (burst.peer, burst.source_port, burst.segment_bytes, burst.packets) == (AGGREGATOR, 48864, 128, 4)
    assert not end.transmit(1000, 100)
    switch = Switch(1)
    sent = packets(burst)
    for turn in (2, 0):
        [(_, (header, data))] = switch.receive(0, aggregation.decode(sent[turn][0]), sent[turn][1])
        end.receive(Arrival(AGGREGATOR, 0, 128, (header,), data), 2000)
    [burst] = end.transmit(2000, 100)
    assert [(h.slot, h.version, h.chunk) for h in map(aggregation.decode, burst.headers)] == [(2, 1, 6), (0, 1, 4)]


def test_results_wait_for_a_quarter_of_the_slots_but_not_long():
    [end] = members(1, values=32, slots=16, hold="10us")
    end.post_reduce(0, np.zeros(32 * 20, np.int32), 0)
    [results] = Waiting.answer(end.transmit(0, 100))

    def come(count, now):
        for _ in range(count):
            header, data = results.pop(0)
            end.receive(Arrival(AGGREGATOR, 0, 128, (header,), data), now)

    come(3, 1000)
    assert not end.transmit(1000, 100)
    assert end.deadline() == 11_000
    come(1, 2000)
    assert end.deadline() == 2000
    [burst] = end.transmit(2000, 100)
    assert burst.packets == 4
    come(1, 3000)
    assert not end.transmit(12_999, 100)
    end.on_deadline(13_000)
    results += Waiting.answer([burst])[0]
    come(14, 14_000)
    assert not end.events()
    come(1, 14_001)
    assert end.events() == (Reduced(0),), "nothing more is to come: nothing is waited for"


def test_a_budget_is_kept():
    [end] = members(1, values=32, slots=100)
    end.post_reduce(0, np.zeros(3200, np.int32), 0)
    counts = [sum(burst.packets for burst in end.transmit(0, budget)) for budget in (1, 7, 0, 80, 80, 80)]
    assert counts == [1, 7, 0, 80, 12, 0]


def test_the_timer_backs_off_and_gives_up_by_name():
    [end] = members(1, values=32, slots=4, timeout="100us", backoff=2, retries=4)
    end.post_reduce(9, np.zeros(100, np.int32), 0)
    end.post_reduce(10, np.zeros(100, np.int32), 0)
    now, sent = 0, []
    while (at := end.deadline()) is not None:
        now = max(now, at)
        end.on_deadline(now)
        sent += [(now, burst.packets) for burst in end.transmit(now, 100)]
    waits = [100_000, 200_000, 400_000, 400_000]
    assert sent == [(sum(waits[:turn]), 4) for turn in range(5)]
    assert now == sum(waits) + 400_000
    failures = end.events()
    assert [(type(failure), failure.id, failure.peer) for failure in failures] == [
        (Failed, 9, AGGREGATOR),
        (Failed, 10, AGGREGATOR),
    ]
    assert failures[0].reason == (
        "slot 0, version 0, chunk number 0: the sum of chunk 0 (elements 0 to 31) of reduction 9 has not come after 4 "
        "retransmissions; at a switch the packet of at least one of 1 workers is missing (4 of 4 slots wait)"
    )
    assert (end.counters.timeouts, end.counters.retransmitted_packets) == (20, 16)
    assert end.idle()
    end.post_reduce(11, np.zeros(1, np.int32), now)
    assert [event.id for event in end.events()] == [11]
    assert not end.transmit(now, 100)


def test_who_is_missing_is_told_before_the_first_chunk_too():
    [end] = members(1, values=32, slots=4, timeout="100us", retries=1)
    end.post_reduce(3, np.zeros(1000, np.float32), 0)
    for _ in range(3):
        at = end.deadline()
        end.on_deadline(at)
        end.transmit(at, 100)
    [failure] = end.events()
    assert "the exponent of chunk 0 of reduction 3 has not come after 1 retransmissions" in failure.reason


def test_the_wait_follows_the_measured_round_trips():
    """A round trip of 2 ms is 20 times the timer's least: only the first packets are sent again (at 0.1, 0.3, 0.7 and
    1.5 ms); the second ones, which wait 1.6 ms and more, once more at the most.
    """
    slow = impaired(Random(0), delay_ns=1_000_000)
    network, _ = reduce(2, np.int32, slow, sizes=(8000,), timeout="100us", backoff=6)
    times = [at for at, member, header in network.log if member == 0 and header.slot == 0]
    assert times[:6] == [0, 100_000, 300_000, 700_000, 1_500_000, 2_000_000]
    later = [at for at, member, _ in network.log if member == 0 and at >= 4_000_000]
    assert len(later) == 250 - 2 * 8
    assert max(later) == 31 * 2_000_000  # 250 chunks are 32 turns of 8 slots


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", [0, 700, 999])
def test_what_is_not_finite_fails_by_name(value, place):
    ends = members(2, values=32, slots=8)
    data = [np.ones(1000, np.float32), np.ones(1000, np.float32)]
    data[1][place] = value
    for end, buffer in zip(ends, data, strict=True):
        end.post_reduce(5, buffer, 0)
    network = Network(ends, LOSSLESS, Switch(2))
    network.run(until_ns=10**6)
    [failure] = network.events[1]
    assert (failure.id, failure.peer) == (5, AGGREGATOR)
    assert failure.reason == f"element {place} of reduction 5 is {value}: only finite ones can be scaled"


def test_a_buffer_of_another_kind_is_refused():
    [end] = members(1)
    for buffer in (np.zeros(4, np.float64), np.zeros((2, 2), np.float32), np.zeros(8, np.float32)[::2]):
        with pytest.raises(ValueError, match="1-D contiguous"):
            end.post_reduce(0, buffer, 0)


class Waiting:
    """A member that waits for four chunks of a float reduction (each of 32), whose exponents it has."""

    def __init__(self, framing="udp"):
        [self.end] = members(1, values=32, slots=4, framing=framing)
        self.buffer = np.ones(128, np.float32)
        self.end.post_reduce(1, self.buffer, 0)
        self.answers = self.answer(self.end.transmit(0, 100))
        self.receive(*self.answers[0])
        self.answers = self.answer(self.end.transmit(0, 100))[0]

    @staticmethod
    def answer(bursts):
        """What the switch of a job of one sends back."""
        switch = Switch(1)
        return [
            [
                (header[:-16] + result, data)
                for header, values in packets(burst)
                for _, (result, data) in switch.receive(0, aggregation.decode(header[-16:]), values)
            ]
            for burst in bursts
        ]

    def receive(self, *found):
        for header, data in found:
            self.end.receive(Arrival(AGGREGATOR, 0, len(data), (header,), data), 1)


def changed(result, **fields):
    header, data = result
    before = aggregation.decode(header)
    named = {name: getattr(before, name) for name in Header.__slots__}
    return aggregation.encode(Header(**(named | fields))), data


def test_exponent_rounds_are_answered_in_turn():
    waiting = Waiting()
    assert [aggregation.decode(header).chunk for header, _ in waiting.answers] == [4, 5, 6, 7]


HOSTILE = {
    "an add": (lambda result: changed(result, kind=Kind.ADD), "bad_result"),
    "another job": (lambda result: changed(result, job=JOB + 1), "bad_result"),
    "a worker": (lambda result: changed(result, worker=1), "bad_result"),
    "the other version": (lambda result: changed(result, version=0), "bad_result"),
    "another slot": (lambda result: changed(result, slot=1, chunk=6), "bad_result"),
    "no such slot": (lambda result: changed(result, slot=4), "bad_header"),
    "a chunk to come": (lambda result: changed(result, chunk=8), "bad_result"),
    "a chunk half the numbers away": (lambda result: changed(result, chunk=2**31 + 3), "bad_result"),
    "more values than there are": (lambda result: changed(result, values=64), "bad_result"),
    "fewer bytes": (lambda result: (result[0], result[1][:-1]), "bad_length"),
    "no values": (lambda result: (result[0], b""), "bad_result"),
    "no values said": (lambda result: (changed(result, values=0)[0], b""), "bad_result"),
    "more bytes": (lambda result: (result[0], result[1] * 3), "bad_length"),
    "half a header": (lambda result: (result[0][:8], result[1]), "bad_header"),
    "no header": (lambda result: (b"", result[1]), "bad_header"),
    "a kind that is none": (lambda result: (b"\xff" + result[0][1:], result[1]), "bad_result"),
}


@pytest.mark.parametrize("change", HOSTILE)
def test_what_can_be_no_result_is_counted_and_changes_nothing(change):
    waiting = Waiting()
    make, problem = HOSTILE[change]
    waiting.receive(make(waiting.answers[0]))
    assert not waiting.end.events()
    assert (waiting.end.counters.malformed, waiting.end.counters.extra) == (1, {problem: 1})
    assert (waiting.buffer == 1).all()
    waiting.receive(*waiting.answers)
    assert waiting.end.events() == (Reduced(1),)


def test_an_exponent_below_ones_own_is_no_result():
    [end] = members(1, values=32, slots=1)
    end.post_reduce(1, np.ones(64, np.float32), 0)
    [[alone]] = Waiting.answer(end.transmit(0, 100))
    end.receive(Arrival(AGGREGATOR, 0, 0, (changed(alone, exponent=-1)[0],), b""), 1)
    assert not end.transmit(1, 100)
    assert end.counters.extra == {"bad_result": 1}


def test_results_before_they_are_asked_for_are_none():
    """Retransmission of what is queued, or not yet sent, is another matter."""
    [end] = members(1, values=32, slots=2)
    end.post_reduce(1, np.ones(64, np.int32), 0)
    header = aggregation.encode(Header(Kind.RESULT, JOB, 0, 0, 0, 32, 0))
    end.receive(Arrival(AGGREGATOR, 0, 128, (header,), bytes(128)), 0)
    assert not end.events()
    assert end.counters.extra == {"bad_result": 1}


def test_a_result_that_comes_while_its_retransmission_waits_is_taken():
    [end] = members(1, values=32, slots=1, timeout="100us")
    end.post_reduce(1, np.ones(64, np.int32), 0)
    [[result]] = Waiting.answer(end.transmit(0, 100))
    end.on_deadline(end.deadline())
    end.receive(Arrival(AGGREGATOR, 0, 128, (result[0],), result[1]), 150_000)
    [burst] = end.transmit(150_000, 100)
    assert aggregation.decode(burst.headers[0]).chunk == 1
    assert end.counters.retransmitted_packets == 0


def test_results_that_come_twice_are_duplicates():
    waiting = Waiting()
    waiting.receive(*waiting.answers[:2], waiting.answers[0], *waiting.answers)
    assert waiting.end.events() == (Reduced(1),)
    waiting.receive(waiting.answers[3])
    waiting.end.events()
    assert (waiting.end.counters.duplicates, waiting.end.counters.malformed) == (4, 0)


def test_a_run_may_end_with_a_packet_without_values():
    [end] = members(1, values=32, slots=2)
    end.post_reduce(1, np.ones(32, np.int32), 0)
    end.post_reduce(2, np.ones(32, np.float32), 0)
    [[result], [alone]] = Waiting.answer(end.transmit(0, 100))
    end.receive(Arrival(AGGREGATOR, ECN_CE, 128, (result[0], alone[0]), result[1]), 1)
    assert end.events() == (Reduced(1),)
    assert end.transmit(1, 100)[0].packets == 1
    assert (end.counters.ecn_marked, end.counters.malformed) == (2, 0)


def test_nobody_else_is_listened_to():
    waiting = Waiting()
    header, data = waiting.answers[0]
    waiting.end.receive(Arrival(0, 0, 128, (header,), data), 1)
    assert waiting.end.counters.extra == {"bad_peer": 1}


def test_roce_framing_has_a_bth_of_its_own():
    [end] = members(1, values=32, slots=4, framing="roce")
    end.post_reduce(1, np.zeros(32 * 6, np.int32), 0)
    [burst] = end.transmit(0, 100)
    assert burst.source_port == 0xC000
    for slot, header in enumerate(burst.headers):
        assert struct.unpack(">BBHII", header[:12]) == (0x24, 0, 0xFFFF, slot, slot)
        assert bytes(aggregation.without_bth(header)) == header[12:]
    results = Waiting.answer([burst])[0]
    end.receive(Arrival(AGGREGATOR, 0, 128, (bytes([roce.ACKNOWLEDGE]) + results[0][0][1:],), results[0][1]), 1)
    assert not end.transmit(1, 100)
    assert end.counters.malformed == 1
    end.receive(Arrival(AGGREGATOR, 0, 128, (results[0][0],), results[0][1]), 1)
    assert end.transmit(1, 100)[0].packets == 1


@unhurried
@given(
    st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=300)), max_size=20),
    st.sampled_from(["udp", "roce"]),
    st.integers(-2, 2),
)
def test_any_bytes_are_survived(found, framing, peer):
    waiting = Waiting(framing)
    for header, data in found:
        for headers in ((header,), (header, header)):
            waiting.end.receive(Arrival(peer, 3, 128, headers, data), 1)
    waiting.end.transmit(1, 100)
    waiting.receive(*waiting.answers)
    assert waiting.end.events() == (Reduced(1),)
    assert waiting.end.counters.malformed == 3 * len(found)


@unhurried
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 127), st.integers(1, 255)), max_size=20))
def test_any_changed_bytes_are_survived(changes):
    """A result whose header is changed; values may be anything."""
    waiting = Waiting()
    for which, place, bits in changes:
        header, data = waiting.answers[which]
        first = place % 12  # what follows is the exponent of no chunk, and flags
        broken = bytes([*header[:first], header[first] ^ bits, *header[first + 1 :]])
        waiting.receive((broken, data))
    assert not waiting.end.events()
    assert waiting.end.counters.malformed + waiting.end.counters.duplicates == len(changes)
    waiting.receive(*waiting.answers)
    assert waiting.end.events() == (Reduced(1),)


def test_values_fill_the_mtu_and_slots_the_path():
    scaled = values()
    packet_ns = (1024 + 16 + 42 + 24) * 80  # 100 Mb/s: 80 ns a byte; 58 + 24 bytes of headers
    assert (scaled["values"], scaled["slots"]) == (256, 2 * -(-1_000_000 // packet_ns))
    assert scaled["timeout"] == 2 * 1_000_000 + scaled["slots"] * packet_ns
    assert scaled["hold"] == 250_000
    assert packet_bytes(scaled) == 1040
    for link, fit in ((172, 32), (299, 32), (300, 64), (1067, 224), (1068, 256), (9000, 256)):
        assert values(Path(10**9, 100_000, link, 64))["values"] == fit
    for link, fit in ((1083, 224), (1084, 256)):  # a BTH and an ICRC more
        assert values(Path(10**9, 100_000, link, 64), framing="roce")["values"] == fit


def test_published_constants():
    assert values(scale="none") == {
        "protocol": "slots", "server": "auto", "pool": 2048, "root": "auto", "framing": "udp", "values": 256,
        "slots": 512, "timeout": 10_000_000, "backoff": 2, "retries": 1000, "hold": 0, "dscp": 26,
        "bits": 16, "fraction": 2, "block": 64, "deadline": 10_000_000, "patience": 1_000_000_000,
    }  # fmt: skip


def test_slots_are_two_runs_at_least_and_512_at_most():
    for path, slots in ((PATH, 128), (Path(10**9, 1000, 1500, 1), 16), (Path(10**11, 10**8, 1500, 1), 512)):
        assert values(path)["slots"] == slots


def test_the_registry_makes_members():
    transport = TRANSPORTS["aggregation"]
    assert transport.make is None
    end = transport.reduce(SLOW, Member(1, 0, 4), settle(TransportSpec(kind="aggregation"), SLOW))
    assert isinstance(end, ReduceEndpoint)


def test_packets_of_a_buffer():
    assert rounds(1000, 32, 8, floats=True) == (32, 8)
    assert rounds(33, 32, 8, floats=True) == (2, 2)
    assert rounds(1000, 32, 8, floats=False) == (32, 0)
