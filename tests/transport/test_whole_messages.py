"""A message that comes as one run is taken in at once, and to the same effect as packet by packet."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.transport.endpoint import ECN_CE, ECN_ECT0, Arrival, Burst, Received
from testbed.wire.roce import decode, encode, whole_message

from .pump import arrival, endpoints, packets

MTU = 1024


def sent(sizes: Sequence[int], **keys: object) -> list[Burst]:
    """What rank 0 sends for messages of these sizes, tagged 0, 1, …, each in one burst."""
    sender = endpoints(**keys)[0]
    bursts = []
    for tag, size in enumerate(sizes):
        sender.post_send(tag, 1, tag, bytes(i * 7 + tag & 0xFF for i in range(size)), 0)
        bursts += sender.transmit(0, 64)
    return bursts


def received(arrivals: Sequence[Arrival], room: Sequence[int], **keys: object) -> tuple[object, ...]:
    """All that can be seen of rank 1 after them: events, what it has to say, its buffers and its counters."""
    receiver = endpoints(**keys)[1]
    buffers = [bytearray(size) for size in room]
    for tag, buffer in enumerate(buffers):
        receiver.post_receive(tag, 0, tag, memoryview(buffer), 0)
    for each in arrivals:
        receiver.receive(each, 5)
    events, due = receiver.events(), receiver.deadline()
    said = [burst.headers for burst in receiver.transmit(5, 64)]
    return events, due, said, buffers, receiver.counters


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, 12 * MTU), min_size=1, max_size=4),
    more=st.sampled_from([0, 0, 1, MTU]),
    ecn=st.sampled_from([ECN_ECT0, ECN_CE]),
    congestion=st.sampled_from(["none", "dcqcn", "dctcp"]),
    ack_every=st.sampled_from([1, 3, 16]),
)
def test_a_run_does_what_its_packets_do(sizes: list[int], more: int, ecn: int, congestion: str, ack_every: int) -> None:
    keys = {"congestion": congestion, "ack_every": ack_every, "mtu": MTU}
    bursts, room = sent(sizes, **keys), [size + more for size in sizes]
    whole = received([arrival(0, burst, ecn=ecn) for burst in bursts], room, **keys)
    single = received(
        [arrival(0, burst, i, i + 1, ecn) for burst in bursts for i in range(burst.packets)], room, **keys
    )
    assert whole == single


@settings(deadline=None)
@given(size=st.integers(2 * MTU + 1, 6 * MTU), data=st.data())
def test_a_run_that_is_odd_does_what_its_packets_do(size: int, data: st.DataObject) -> None:
    """One header is another's, or has a bit flipped, or the message goes where it may not."""
    (burst,) = sent([size], mtu=MTU)
    headers = list(burst.headers)
    at = data.draw(st.integers(0, len(headers) - 1))
    other = data.draw(st.integers(0, len(headers) - 1))
    bit = data.draw(st.integers(0, 8 * len(headers[at]) - 1))
    flipped = (int.from_bytes(headers[at], "big") ^ 1 << bit).to_bytes(len(headers[at]), "big")
    headers[at] = data.draw(st.sampled_from([headers[other], flipped]))
    odd = burst._replace(headers=tuple(headers))
    whole = received([arrival(0, odd)], [size], mtu=MTU)
    single = received([arrival(0, odd, i, i + 1) for i in range(odd.packets)], [size], mtu=MTU)
    assert whole[0] == single[0]
    assert whole[3] == single[3]


def test_a_whole_message_is_one_step() -> None:
    (burst,) = sent([5 * MTU], mtu=MTU)
    first, last = whole_message(burst.headers) or pytest.fail("not seen as whole")
    assert (first, last) == (decode(burst.headers[0]), decode(burst.headers[-1]))
    events, *_, buffers, counters = received([arrival(0, burst)], [5 * MTU], mtu=MTU)
    assert events == (Received(0),)
    assert bytes(buffers[0]) == b"".join(data for _, data in packets(burst))
    assert counters.received_bytes == 5 * MTU


@pytest.mark.parametrize("at", range(5))
def test_an_odd_header_makes_it_no_whole_message(at: int) -> None:
    (burst,) = sent([5 * MTU], mtu=MTU)
    for change in ({"psn": 1}, {"destination_qp": 7}, {"ack_request": at != 4}, {"pkey": 1}):
        headers = list(burst.headers)
        before = decode(headers[at])
        headers[at] = encode(before._replace(**change))
        if headers[at] != burst.headers[at]:
            assert whole_message(headers) is None or (at == 4 and "ack_request" in change)
