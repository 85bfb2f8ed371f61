"""Messages over a network in memory: all that is not lost is in its place, and all that is lost is told."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.transport import Path
from testbed.transport.endpoint import Arrival, Burst, Completion, Event, Received, Sent
from testbed.wire.optinic import decode_data
from tests.transport.pump import Network, arrival, impaired, packets

from .ends import MTU, endpoints, operation, receive, send

unhurried = settings(deadline=None, max_examples=50)  # the machine may be busy with something else


def ranges(numbers: list[int], size: int) -> tuple[tuple[int, int], ...]:
    """The byte ranges of packets, adjacent ones joined."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        first, last = number * MTU, min((number + 1) * MTU, size)
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return tuple(found)


@dataclass(frozen=True)
class Traffic:
    messages: tuple[tuple[int, int, int], ...]  # (source, target, bytes)
    seed: int
    parity: int
    congestion: str
    burst: int
    budget: int


SIZES = st.one_of(st.sampled_from([0, 1, 3, MTU - 1, MTU, MTU + 1, 7 * MTU - 3]), st.integers(0, 20 * MTU))


@st.composite
def traffic(draw: st.DrawFn) -> Traffic:
    ranks = draw(st.integers(2, 4))
    pairs = [(source, target) for source in range(ranks) for target in range(ranks) if source != target]
    messages = draw(st.lists(st.tuples(st.sampled_from(pairs), SIZES), min_size=1, max_size=8))
    return Traffic(
        messages=tuple((*pair, size) for pair, size in messages),
        seed=draw(st.integers(0, 2**32)),
        parity=draw(st.sampled_from([0, 1, 3, 8])),
        congestion=draw(st.sampled_from(["none", "dcqcn", "swift"])),
        burst=draw(st.sampled_from([1, 2, 7, 64])),
        budget=draw(st.sampled_from([1, 5, 1000])),
    )


def carry(case: Traffic, **impairment: float) -> Network:
    """What is received is what was sent, or zero where it is told to be missing; all ends, whatever happens."""
    random = Random(case.seed)
    path = Path(rate_bps=10**10, base_rtt_ns=20_000, mtu_bytes=1500, max_burst_packets=case.burst)
    ends = endpoints(4, path, parity=case.parity, congestion=case.congestion)
    network = Network(ends, impaired(random, **impairment))
    data = [random.randbytes(size) for *_, size in case.messages]
    buffers = [bytearray(size) for *_, size in case.messages]
    for number, (source, target, _) in enumerate(case.messages):
        ends[target].post_receive(number, source, number, memoryview(buffers[number]), 0)
        ends[source].post_send(number, target, number, data[number], 0)
    network.run(case.budget)
    for rank, events in enumerate(network.events):
        received = {event.id: event.missing for event in events if isinstance(event, Received)}
        sent = [event.id for event in events if isinstance(event, Sent)]
        assert sorted(sent) == [number for number, (source, *_) in enumerate(case.messages) if source == rank]
        assert sorted(received) == [number for number, (_, target, _) in enumerate(case.messages) if target == rank]
        assert len(events) == len(sent) + len(received)
        for number, missing in received.items():
            expected = bytearray(data[number])
            for first, last in missing:
                assert first % MTU == 0
                expected[first:last] = bytes(last - first)
            assert buffers[number] == expected
    assert all(end.idle() for end in ends)
    total = network.totals()
    assert total["sent_packets"] - network.lost + network.doubled == total["received_packets"]
    assert total["malformed"] == total["retransmitted_packets"] == 0
    return network


@unhurried
@given(traffic())
def test_a_perfect_network(case: Traffic) -> None:
    network = carry(case)
    assert not any(event.missing for events in network.events for event in events if isinstance(event, Received))
    total = network.totals()
    assert total["timeouts"] == total["duplicates"] == total["late_packets"] == total["partial"] == 0
    assert total["received_bytes"] == sum(size for *_, size in case.messages)


@unhurried
@given(traffic(), st.sampled_from([0.01, 0.1, 0.5, 1.0]))
def test_loss(case: Traffic, loss: float) -> None:
    carry(case, loss=loss)


@unhurried
@given(traffic())
def test_everything_at_once(case: Traffic) -> None:
    carry(case, loss=0.03, duplicate=0.1, reorder=0.2)


def test_duplicates_count_once() -> None:
    """So that a message of which a packet is lost is not taken for whole because another came twice."""
    ends = endpoints()
    lost_then_twice = {2: [], 3: [10_000, 11_000]}
    network = Network(ends, lambda _sender, _burst, index: lost_then_twice.get(index, [10_000]))
    buffer = bytearray(8 * MTU)
    ends[1].post_receive(0, 0, 5, memoryview(buffer), 0)
    ends[0].post_send(0, 1, 5, b"x" * 8 * MTU, 0)
    network.run()
    assert network.events[1] == [Received(0, ((2 * MTU, 3 * MTU),))]
    assert ends[1].counters.duplicates == 1


@pytest.mark.parametrize("parity", [0, 4])
def test_exactly_what_is_lost_is_missing_but_what_parity_repairs(parity: int) -> None:
    """Of 16 packets in groups of four, which take turns, 0, 1 and 5 are lost: 1 and 5 are of one group."""
    ends = endpoints(parity=parity)

    def fate(_sender: int, burst: Burst, index: int) -> list[int]:
        data = decode_data(burst.headers[index])
        return [10_000] if data.parity or data.offset // MTU not in (0, 1, 5) else []

    network = Network(ends, fate)
    size = 16 * MTU - 5
    data, buffer = Random(1).randbytes(size), bytearray(size)
    ends[1].post_receive(0, 0, 5, memoryview(buffer), 0)
    ends[0].post_send(0, 1, 5, data, 0)
    network.run()
    lost = [1, 5] if parity else [0, 1, 5]
    assert network.events[1] == [Received(0, ranges(lost, size))]
    assert ends[1].counters.extra.get("repaired_packets", 0) == (1 if parity else 0)
    assert ends[0].counters.extra.get("parity_packets", 0) == (4 if parity else 0)
    for first in range(16):
        there = slice(first * MTU, (first + 1) * MTU)
        assert buffer[there] == (data[there] if first not in lost else bytes(len(data[there])))


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "size"), [(0.01, 8), (0.05, 8), (0.05, 4)])
def test_parity_leaves_the_loss_that_the_closed_form_gives(loss: float, size: int) -> None:
    """p (1 - (1 - p)^k) of independent losses, within three standard deviations of as many trials."""
    count, random = 100_000, Random(7)
    ends = endpoints(parity=size)
    expected = loss * (1 - (1 - loss) ** size)
    buffer = bytearray(count * MTU)
    network = Network(ends, impaired(random, loss=loss))
    ends[1].post_receive(0, 0, 5, memoryview(buffer), 0)
    ends[0].post_send(0, 1, 5, bytes(count * MTU), 0)
    network.run(limit_steps=2_000_000)
    [event] = network.events[1]
    assert isinstance(event, Received)
    lost = sum(last - first for first, last in event.missing) / MTU
    # Losses of a group come together: at most `size` trials are one.
    assert abs(lost / count - expected) < 3 * (size * expected / count) ** 0.5
    assert ends[0].counters.extra["parity_packets"] == count // size


class Pair:
    """Rank 0 sends to rank 1, packet by packet as the test says."""

    def __init__(self, sizes: list[int], **keys: object) -> None:
        self.sender, self.receiver = endpoints(**keys)
        self.buffers = [bytearray(b"." * size) for size in sizes]
        self.sent: list[tuple[bytes, bytes]] = []
        for tag, size in enumerate(sizes):
            self.receiver.post_receive(tag, 0, tag, memoryview(self.buffers[tag]), 0)
            self.sender.post_send(tag, 1, tag, bytes([65 + tag]) * size, 0)
        now = 0
        while self.sender.deadline() is not None:
            now = max(now, self.sender.deadline() or 0)
            self.sender.on_deadline(now)
            self.sent += [packet for burst in self.sender.transmit(now, 100) for packet in packets(burst)]

    def deliver(self, *numbers: int, now: int = 1) -> Sequence[Event]:
        """Those packets; what the receiver tells of."""
        for number in numbers:
            header, payload = self.sent[number]
            self.receiver.receive(Arrival(0, 0, len(payload), (header,), payload), now)
        return self.receiver.events()


def test_a_later_message_ends_the_active_one_with_what_is_there() -> None:
    pair = Pair([2 * MTU, 2 * MTU])
    assert pair.deliver(0) == ()
    assert pair.deliver(2) == (Received(0, ((MTU, 2 * MTU),)),)
    assert pair.receiver.counters.extra["preempted"] == 1
    assert pair.deliver(3) == (Received(1),)


def test_what_comes_late_does_not_touch_memory_that_may_have_another_use() -> None:
    pair = Pair([2 * MTU, 2 * MTU])
    pair.deliver(0, 2)
    pair.buffers[0][:] = b"new" + bytes(2 * MTU - 3)
    before = bytes(pair.buffers[0])
    assert pair.deliver(1, 0) == ()
    assert pair.buffers[0] == before
    assert pair.receiver.counters.extra["late_packets"] == 2
    assert pair.receiver.counters.duplicates == 0


def test_a_message_of_which_nothing_came_is_not_ended_by_later_ones() -> None:
    """Its place in the order is the sender's alone; only its timer ends it."""
    pair = Pair([MTU, MTU, MTU])
    assert pair.deliver(1) == (Received(1),)
    assert pair.deliver(2) == (Received(2),)
    assert pair.deliver(0) == ()
    assert pair.receiver.counters.extra["late_packets"] == 1
    at = pair.receiver.deadline()
    assert at is not None
    pair.receiver.on_deadline(at)
    assert pair.receiver.events() == (Received(0, ((0, MTU),)),)
    assert pair.receiver.counters.timeouts == 1


def test_packets_that_are_there_twice_after_the_end_are_duplicates() -> None:
    pair = Pair([2 * MTU])
    assert pair.deliver(0, 1) == (Received(0),)
    assert pair.deliver(0, 1) == ()
    assert pair.receiver.counters.duplicates == 2


def test_a_receive_may_be_content_with_a_share_or_end_at_an_instant() -> None:
    [sender, receiver] = endpoints()
    buffer = bytearray(10 * MTU)
    receiver.post_receive(1, 0, 1, memoryview(buffer), 0, Completion(fraction=0.8))
    receiver.post_receive(2, 0, 2, memoryview(bytearray(MTU)), 0, Completion(deadline_ns=777))
    sender.post_send(1, 1, 1, bytes(10 * MTU), 0)
    [burst] = sender.transmit(0, 100)
    receiver.receive(arrival(0, burst, 0, 8), 5)
    assert receiver.events() == (Received(1, ((8 * MTU, 10 * MTU),)),)
    assert receiver.deadline() == 777
    receiver.on_deadline(777)
    assert receiver.events() == (Received(2, ((0, MTU),)),)


def test_a_send_whose_time_is_over_is_not_sent_any_further() -> None:
    """Four ranks' links take 4 * 4 * 256 B at 10 Gb/s, four times that and an RTT are the first timers: 93,108 ns."""
    [sender, *_] = endpoints(4)
    sender.begin(operation(0, [send(1, 0, 0, 4 * MTU)]), 0)
    sender.start(50)
    sender.post_send(9, 1, 0, bytes(4 * MTU), 100_000)
    assert list(sender.transmit(100_000, 100)) == []
    assert sender.deadline() == 100_001
    sender.on_deadline(100_001)
    assert sender.events() == (Sent(9),)
    assert sender.idle()
    assert sender.counters.extra["expired"] == 1


def test_a_send_is_done_when_its_last_packet_is_on_the_wire() -> None:
    """Two frames of 256 B and 32 + 4 + 66 around them, 716 B at 10 Gb/s."""
    [sender, _] = endpoints()
    sender.post_send(9, 1, 0, bytes(2 * MTU), 1000)
    [burst] = sender.transmit(1000, 100)
    assert burst.packets == 2
    assert (sender.events(), sender.idle(), sender.deadline()) == ((), False, 1000 + 573)
    sender.on_deadline(1573)
    assert (sender.events(), sender.idle(), sender.deadline()) == ((Sent(9),), True, None)


def test_timers_run_from_the_start_and_all_ranks_learn_what_it_took() -> None:
    """Rank 1 gets 1 of 2 packets of a step of 512 B. Its first timer is 4 (20 us + 819 ns) after the start."""
    ends = endpoints()
    network = Network(ends, lambda sender, _burst, index: [10_000] if (sender, index) != (0, 1) else [])
    buffer = bytearray(2 * MTU)
    ends[0].begin(operation(0, [send(1, 0, 0, 2 * MTU)]), 0)
    ends[1].begin(operation(0, [receive(0, 0, 0, 2 * MTU)]), 0)
    ends[1].post_receive(3, 0, 0, memoryview(buffer), 0)
    assert ends[1].deadline() is None
    for end in ends:
        end.start(5000)
    assert ends[1].deadline() == 5000 + 83_277
    network.now = 5000
    ends[0].post_send(4, 1, 0, b"x" * 2 * MTU, 5000)
    network.run()
    assert network.events[1] == [Received(3, ((MTU, 2 * MTU),))]
    assert ends[1].counters.timeouts == 1
    assert all(end.idle() for end in ends)
    for end, message in zip(ends, (send(1, 1, 0, 2 * MTU), receive(0, 1, 0, 2 * MTU)), strict=True):
        end.begin(operation(1, [message]), network.now)
    ends[1].post_receive(5, 0, 1, memoryview(buffer), network.now)
    ends[1].start(10**6)
    assert ends[1].deadline() == 10**6 + 12_500  # the packet took 10 us
