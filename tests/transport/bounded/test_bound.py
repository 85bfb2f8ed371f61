"""How much of a message may be missing: never more than the bound, never more is sent than it takes."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.transport.endpoint import Completion, Failed
from tests.transport.pump import Network, arrival, impaired

from .pairs import KINDS, MTU, Carried, carry, endpoints, is_data

unhurried = settings(deadline=None, max_examples=40)
kinds = pytest.mark.parametrize("kind", KINDS)


def lacks(carried: Carried, kind: str) -> float:
    """The share that is missing: of the bytes, or of the chunks."""
    if kind == "dlcp":
        return carried.missing_bytes / max(1, len(carried.data))
    chunks = sum(-(-(last - first) // MTU) for first, last in carried.received.missing)
    return chunks / max(1, -(-len(carried.data) // MTU))


@kinds
@given(
    st.sampled_from([0, 1, MTU - 1, MTU, MTU + 1, 10 * MTU, 41 * MTU + 3, 300 * MTU]),
    st.sampled_from([0.0, 0.01, 0.1, 0.4, 1.0]),
    st.sampled_from([0.0, 0.02, 0.3]),
    st.integers(0, 2**32),
)
@unhurried
def test_no_more_is_missing_than_the_bound_allows(kind, size, bound, loss, seed):
    fate = impaired(Random(seed), loss=loss, duplicate=0.02, reorder=0.1)
    carried = carry(kind, size, fate, seed, bound=bound)
    assert carried.is_right()
    assert lacks(carried, kind) <= bound
    assert carried.missing_bytes < max(1, size)
    if not bound:
        assert not carried.received.missing


@kinds
def test_a_message_is_complete_as_soon_as_its_bound_is_met(kind):
    """Of ten chunks that come one by one, the ninth; what comes later is not written."""
    sender, receiver = endpoints(kind, bound=0.1)
    buffer = bytearray(10 * MTU)
    receiver.post_receive(1, 0, 7, memoryview(buffer), 0)
    sender.post_send(2, 1, 7, b"\x11" * len(buffer), 0)
    (data,) = [burst for burst in sender.transmit(0, 1000) if is_data(burst.headers[0])]
    for chunk in range(9):
        assert not receiver.events()
        receiver.receive(arrival(0, data, chunk, chunk + 1), chunk)
    (event,) = receiver.events()
    assert event.missing == ((9 * MTU, 10 * MTU),)
    receiver.receive(arrival(0, data, 9, 10), 9)
    assert receiver.events() == ()
    assert buffer == b"\x11" * 9 * MTU + bytes(MTU)
    assert receiver.counters.duplicates == 1


@kinds
def test_stop_saves_what_was_not_sent(kind):
    """The line lets one chunk go every 10 us, STOP takes 10 us: of 1000 chunks with a bound of 40 % some 600 leave."""
    ends = endpoints(kind, bound=0.4)
    buffer = bytearray(1000 * MTU)
    ends[1].post_receive(1, 0, 7, memoryview(buffer), 0)
    ends[0].post_send(2, 1, 7, bytes(len(buffer)), 0)
    now = sent = 0
    while not ends[0].idle():
        for burst in ends[0].transmit(now, 1):
            sent += is_data(burst.headers[0])
            ends[1].receive(arrival(0, burst), now + 5_000)
        for burst in ends[1].transmit(now + 5_000, 100):
            ends[0].receive(arrival(1, burst), now + 10_000)
        now += 10_000
    assert sent == 600


@kinds
def test_a_receive_may_name_a_bound_of_its_own(kind):
    ends = endpoints(kind, bound=0.4)
    buffer = bytearray(100 * MTU)
    ends[1].post_receive(1, 0, 7, memoryview(buffer), 0, Completion(fraction=0.99))
    ends[0].post_send(2, 1, 7, bytes(len(buffer)), 0)
    network = Network(ends, impaired(Random(1), loss=0.3))
    network.run()
    (received,) = network.events[1]
    assert sum(last - first for first, last in received.missing) == MTU
    with pytest.raises(ValueError, match="not at an instant"):
        ends[1].post_receive(3, 0, 8, memoryview(buffer), 0, Completion(deadline_ns=1))


@kinds
def test_a_peer_that_never_answers_ends_the_run(kind):
    ends = endpoints(kind, probes=5)
    ends[0].post_send(2, 1, 7, bytes(1000), 0)
    network = Network(ends, lambda *_: ())
    network.run()
    message, whole = network.events[0]
    assert isinstance(message, Failed)
    assert isinstance(whole, Failed)
    assert (message.id, whole.id) == (2, -1)
    assert "message 7, after 5 repeated PROBEs of up to 80000 ns" in whole.reason
    assert network.totals()["probes_sent"] == 6
    assert ends[0].idle()


@kinds
def test_answers_that_are_lost_are_asked_for_again(kind):
    random = Random(4)
    lost = [0]

    def fate(_sender, burst, index):
        if not is_data(burst.headers[index]) and random.random() < 0.7:
            lost[0] += 1
            return ()
        return (10_000,)

    carried = carry(kind, 50 * MTU, fate, bound=0)
    assert carried.is_right()
    assert lost[0]


def test_dblp_probes_again_where_a_bitmap_tells_nothing_new():
    """All data of the first pass are lost: ten more probes, then the second pass."""
    first = [True]

    def fate(_sender, burst, index):
        data = is_data(burst.headers[index])
        if not data:
            first[0] = False
        return () if data and first[0] else (10_000,)

    carried = carry("dblp", 5 * MTU, fate, bound=0)
    assert carried.rounds == 2
    assert carried.network.totals()["probes_sent"] == 12  # one a pass, and ten in between
    assert carry("dblp", 5 * MTU, impaired(Random(1)), bound=0).network.totals()["probes_sent"] == 1


def test_dlcp_sends_holes_at_once():
    first = [True]

    def fate(_sender, burst, index):
        data = is_data(burst.headers[index])
        if not data:
            first[0] = False
        return () if data and first[0] else (10_000,)

    carried = carry("dlcp", 5 * MTU, fate, bound=0)
    assert carried.rounds == 2
    assert carried.network.totals()["probes_sent"] == 2
