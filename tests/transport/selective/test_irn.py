"""IRN packet by packet: what answers, what is sent again and when, how much is in flight."""

from random import Random

import pytest

from testbed.spec.model import TransportSpec
from testbed.transport import Path, settle
from testbed.transport.endpoint import Failed, Received, Sent
from testbed.wire.roce import CREDITS_UNLIMITED, NAK_SEQUENCE, RNR_NAK, psn_difference
from tests.transport.pump import PATH, Network, impaired
from tests.transport.selective.pair import MTU, arrive, flight, headers, numbers, pair, sends

US = 1000


def deliver(end, sent, *indices, now):
    """Those packets of a flight arrive, one by one; the answers, as (kind, packet, packet that came)."""
    first = headers(sent)[0].psn
    found = []
    arrive(end, 0, [sent[index] for index in indices], now)
    for header in headers(flight(end, now)):
        came = psn_difference(header.aeth.msn, first) if header.aeth.syndrome == NAK_SEQUENCE else None
        found.append((header.aeth.syndrome, psn_difference(header.psn, first), came))
    return found


def test_the_published_constants_are_the_papers():
    values = settle(TransportSpec(kind="irn", scale="none"), PATH).values
    assert (values["window"], values["rto_low"], values["rto_high"], values["rto_low_packets"]) == (
        110, 100 * US, 320 * US, 3,
    )  # fmt: skip


def test_constants_scale_with_the_round_trip_and_the_bdp():
    path = Path(rate_bps=10**9, base_rtt_ns=240 * US, mtu_bytes=1500, max_burst_packets=16, queueing_ns=9_000 * US)
    values = settle(TransportSpec(kind="irn"), path).values
    # 30,000 bytes in flight, 1,106 of which a packet of 1,024 with headers, gap and ICRC takes without its RETH
    assert (values["ack_every"], values["window"]) == (3, 27 + 9)
    assert values["rto_low"] == 1_000 * US
    assert values["rto_high"] == 9_240 * US


def test_every_packet_says_where_it_belongs():
    a, b = pair("irn")
    sends([a, b], 3)
    found = headers(flight(a, 0))
    assert [(header.reth.address, header.reth.key, header.reth.length) for header in found] == [
        (offset, 9, 3 * MTU) for offset in (0, MTU, 2 * MTU)
    ]


def test_each_packet_ahead_of_a_gap_is_answered_with_what_is_expected_and_what_came():
    a, b = pair("irn", ack_every=100)
    sends([a, b], 8)
    sent = flight(a, 0)
    assert deliver(b, sent, 0, 1, now=1) == []
    assert deliver(b, sent, 3, 4, 6, now=2) == [(NAK_SEQUENCE, 2, 3), (NAK_SEQUENCE, 2, 4), (NAK_SEQUENCE, 2, 6)]
    assert deliver(b, sent, 2, now=3) == [(CREDITS_UNLIMITED, 4, None)]


def test_only_what_is_lost_is_sent_again_before_anything_new():
    a, b = pair("irn", window=16)
    buffer = sends([a, b], 20)
    sent = flight(a, 0)
    first = headers(sent)[0].psn
    assert len(sent) == 16
    arrive(b, 0, [packet for index, packet in enumerate(sent) if index not in (2, 7, 8)], 10 * US)
    arrive(a, 1, flight(b, 10 * US), 20 * US)
    assert numbers(flight(a, 20 * US), first) == [2, 7, 8, 16, 17]  # 2 are acknowledged: 16 in flight
    network = Network([a, b], impaired(Random(1)), now=20 * US)
    network.run()  # what was sent just now is lost, so that the timer has to tell
    assert buffer == bytes(range(256)) * 20


def test_what_is_lost_is_sent_again_once_in_a_recovery():
    a, b = pair("irn", window=32)
    sends([a, b], 32)
    sent = flight(a, 0)
    first = headers(sent)[0].psn
    again = []
    for index in range(1, 32):
        arrive(b, 0, [sent[index]], index)
        arrive(a, 1, flight(b, index), index)
        again += numbers(flight(a, index), first)
    assert again == [0]


@pytest.mark.parametrize(("packets", "wait_us"), [(1, 100), (3, 100), (4, 320), (10, 320)])
def test_the_timer_is_short_while_few_packets_are_in_flight(packets, wait_us):
    a, b = pair("irn", scale="none")
    sends([a, b], packets)
    sent = flight(a, 0)
    assert a.deadline() == wait_us * US
    a.on_deadline(wait_us * US)
    assert numbers(flight(a, wait_us * US), headers(sent)[0].psn) == list(range(packets))
    assert (a.counters.timeouts, a.counters.retransmitted_packets) == (1, packets)


def test_after_the_timeout_what_is_there_is_left_out():
    a, b = pair("irn", scale="none", rto_low_packets=0)
    sends([a, b], 6)
    sent = flight(a, 0)
    first = headers(sent)[0].psn
    arrive(b, 0, [sent[3]], 1)
    arrive(a, 1, flight(b, 1), 2)
    assert numbers(flight(a, 2), first) == [0, 1, 2]
    at = a.deadline()
    a.on_deadline(at)
    assert numbers(flight(a, at), first) == [0, 1, 2, 4, 5]


def test_a_bdp_is_in_flight_and_no_more():
    a, b = pair("irn")
    sends([a, b], 500)
    sent = flight(a, 0)
    packet_bits = 8 * (MTU + 12 + 4 + 42 + 24)  # BTH, ICRC; Ethernet, IP, UDP; FCS, preamble, gap
    bdp = round(PATH.rate_bps * PATH.base_rtt_ns / (10**9 * packet_bits))
    assert len(sent) == bdp + 3 * (bdp // 8)


def test_a_receive_that_comes_late_is_waited_for_as_long_as_it_takes():
    a, b = pair("irn", rnr_timer=12)
    a.post_send(1, 1, 9, bytes(3 * MTU), 0)
    buffer = bytearray(b"\1" * 3 * MTU)
    network = Network([a, b], impaired(Random(1)))
    network.at(5_000 * US, lambda now: b.post_receive(1, 0, 9, memoryview(buffer), now))
    network.run()
    assert network.events == [[Sent(1)], [Received(1)]]
    assert buffer == bytes(3 * MTU)
    assert network.totals()["timeouts"] == 0
    asked = [now for now, sender, burst in network.log if sender == 1 and headers([burst])[0].aeth.syndrome >> 5 == 1]
    assert len(asked) == 8, "one in 640 us and the way"
    assert RNR_NAK >> 5 == 1


def test_it_gives_up_after_so_many_long_timeouts_without_news():
    a, b = pair("irn", retries=2, scale="none")
    sends([a, b], 10)
    network = Network([a, b], lambda *_: ())
    network.run()
    [failed] = network.events[0]
    assert isinstance(failed, Failed)
    assert "for 960000 ns" in failed.reason
    assert network.totals()["retransmitted_packets"] == 20


def test_short_timeouts_alone_are_no_reason_to_give_up():
    a, b = pair("irn", retries=2, scale="none")
    sends([a, b], 1)
    network = Network([a, b], lambda *_: ())
    network.run()
    assert network.now == 1_000 * US, "the first of 100 us that is beyond three of 320"
    assert network.totals()["timeouts"] == 10


def test_messages_of_one_tag_wait_for_each_other_and_come_in_the_order_of_posting():
    a, b = pair("irn")
    buffers = [bytearray(3000), bytearray(10)]
    for number, buffer in enumerate(buffers):
        b.post_receive(number, 0, 9, memoryview(buffer), 0)
        a.post_send(number, 1, 9, bytes([number + 1]) * len(buffer), 0)
    network = Network([a, b], impaired(Random(1), loss=0.1))
    network.run()
    assert buffers == [b"\1" * 3000, b"\2" * 10]
