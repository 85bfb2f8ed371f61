"""The reliable connection packet by packet: acknowledgements, gaps, timers, receivers that are not ready."""

import pytest

from testbed.transport import Path
from testbed.transport.endpoint import Arrival, Failed, Received, Sent
from testbed.wire import roce
from testbed.wire.roce import ACKNOWLEDGE, decode

from .pump import PATH, Network, arrival, endpoints, packets

MTU = 1024
TIMEOUT = 8
TIMEOUT_NS = 4_096 * 2**TIMEOUT  # IBTA: 4.096 us x 2^t


def pair(**keys: object):
    return endpoints(2, PATH, **({"kind": "roce", "mtu": MTU, "timeout": TIMEOUT} | keys))


def headers(bursts):
    return [decode(header) for burst in bursts for header in burst.headers]


def offsets(bursts, first_psn):
    return [roce.psn_difference(header.psn, first_psn) for header in headers(bursts)]


def start(size, **keys):
    """A sends `size` bytes to B; (A, B, the first flight, its first PSN, B's buffer)."""
    a, b = pair(**keys)
    buffer = bytearray(size)
    b.post_receive(1, 0, 9, memoryview(buffer), 0)
    a.post_send(1, 1, 9, bytes(range(256)) * (size // 256) + bytes(size % 256), 0)
    flight = a.transmit(0, 10_000)
    return a, b, flight, headers(flight)[0].psn, buffer


def test_a_message_is_first_middle_last_with_its_tag_in_key_and_immediate():
    _, _, [burst], psn, _ = start(3 * MTU + 5)
    first, *middle, last = [decode(header) for header in burst.headers]
    assert (first.opcode, first.reth) == (roce.WRITE_FIRST, roce.Reth(0, 9, 3 * MTU + 5))
    assert [header.opcode for header in middle] == [roce.WRITE_MIDDLE] * 2
    assert (last.opcode, last.immediate, last.pad, last.ack_request) == (roce.WRITE_LAST_IMMEDIATE, 9, 3, True)
    assert [header.psn for header in (first, *middle, last)] == [(psn + step) % 2**24 for step in range(4)]
    assert not any(header.ack_request for header in (first, *middle))
    assert [len(payload) for _, payload in packets(burst)] == [MTU, MTU, MTU, 5]
    assert burst.source_port >= 0xC000


@pytest.mark.parametrize(
    ("verb", "size", "opcodes"),
    [
        ("write", 0, [0x0B]),
        ("write", MTU, [0x0B]),
        ("write", MTU + 1, [0x06, 0x09]),
        ("send", 0, [0x05]),
        ("send", MTU, [0x05]),
        ("send", 3 * MTU, [0x00, 0x01, 0x03]),
    ],
)
def test_opcodes(verb, size, opcodes):
    _, _, flight, _, _ = start(size, verb=verb)
    assert [header.opcode for header in headers(flight)] == opcodes


def test_runs_are_no_longer_than_the_path_and_the_budget_allow():
    a, _, flight, _, _ = start(100 * MTU, window=128)
    assert [burst.packets for burst in flight] == [64, 36]
    a, _b = pair(window=128)
    a.post_send(1, 1, 9, bytes(100 * MTU), 0)
    assert [[burst.packets for burst in a.transmit(0, 30)] for _ in range(4)] == [[30], [30], [30], [10]]


def test_the_window_closes_and_its_last_packet_asks():
    a, b, flight, psn, _ = start(10 * MTU, window=4, ack_every=64)
    assert offsets(flight, psn) == [0, 1, 2, 3]
    assert [header.ack_request for header in headers(flight)] == [False, False, False, True]
    assert a.transmit(0, 100) == []
    b.receive(arrival(0, flight[0]), 5)
    [acknowledgement] = b.transmit(5, 100)
    found = decode(acknowledgement.headers[0])
    assert (found.opcode, found.psn, found.aeth) == (ACKNOWLEDGE, (psn + 3) % 2**24, roce.Aeth(0x1F, 0))
    a.receive(arrival(1, acknowledgement), 10)
    assert offsets(a.transmit(10, 100), psn) == [4, 5, 6, 7]


@pytest.mark.parametrize(("ack_every", "expected"), [(1, 12), (4, 3), (5, 3), (64, 1)])
def test_acknowledgements_are_coalesced(ack_every, expected):
    a, b = endpoints(2, Path(10**10, 20_000, 1500, 1), kind="roce", mtu=MTU, window=128, ack_every=ack_every)
    b.post_receive(1, 0, 9, memoryview(bytearray(12 * MTU)), 0)
    a.post_send(1, 1, 9, bytes(12 * MTU), 0)
    bursts = a.transmit(0, 100)
    assert [burst.packets for burst in bursts] == [1] * 12
    acknowledgements = []
    for burst in bursts:
        b.receive(arrival(0, burst), 0)
        acknowledgements += b.transmit(0, 100)
    assert len(acknowledgements) == expected
    assert decode(acknowledgements[-1].headers[0]).aeth == roce.Aeth(0x1F, 1)  # MSN: one message is complete


def test_acknowledgements_come_unasked_after_so_many_packets():
    a, _ = pair(window=128, ack_every=64)
    _, b = pair(ack_every=4)
    b.post_receive(1, 0, 9, memoryview(bytearray(20 * MTU)), 0)
    a.post_send(1, 1, 9, bytes(20 * MTU), 0)
    [burst] = a.transmit(0, 100)
    answered = []
    for index in range(19):
        b.receive(arrival(0, burst, index, index + 1), 0)
        answered += [index] * len(b.transmit(0, 100))
    assert answered == [3, 7, 11, 15]


@pytest.mark.parametrize("lost", [0, 1, 7, 18])
def test_one_nak_a_gap_and_all_from_the_gap_again(lost):
    a, b, [burst], psn, buffer = start(20 * MTU)
    b.receive(arrival(0, burst, 0, lost), 1)
    b.receive(arrival(0, burst, lost + 1, lost + 2), 2)
    [nak] = b.transmit(2, 100)
    found = decode(nak.headers[0])
    assert (found.psn, found.aeth.syndrome) == ((psn + lost) % 2**24, 0x60)
    b.receive(arrival(0, burst, lost + 2, 20), 3)
    assert b.transmit(3, 100) == []  # silent until what it asked for comes
    a.receive(arrival(1, nak), 4)
    again = a.transmit(4, 100)
    assert offsets(again, psn) == list(range(lost, 20))
    a.receive(arrival(1, nak), 5)  # a duplicate of the NAK
    assert a.transmit(5, 100) == []
    for run in again:
        b.receive(arrival(0, run), 6)
    for run in b.transmit(6, 100):
        a.receive(arrival(1, run), 7)
    assert (a.events(), b.events()) == ((Sent(1),), (Received(1),))
    assert buffer == bytes(range(256)) * (20 * MTU // 256)
    assert (a.counters.retransmitted_packets, b.counters.naks, a.counters.timeouts) == (20 - lost, 1, 0)
    assert b.counters.out_of_order == 20 - lost - 1


def test_two_gaps_are_two_naks():
    a, b = pair()
    network = Network([a, b], lambda *_: [] if next(losses, False) else [1_000])
    b.post_receive(1, 0, 9, memoryview(bytearray(20 * MTU)), 0)
    a.post_send(1, 1, 9, bytes(20 * MTU), 0)
    losses = iter([step in (3, 26) for step in range(60)])  # packet 3; 20 is the NAK; 21 is packet 3 again, 26 is 8
    network.run()
    assert (b.counters.naks, a.counters.timeouts) == (2, 0)
    assert a.counters.retransmitted_packets == (20 - 3) + (20 - 8)


def test_duplicates_are_acknowledged_again_and_not_executed():
    _a, b, [burst], psn, buffer = start(4 * MTU)
    b.receive(arrival(0, burst), 1)
    assert b.events() == (Received(1),)
    b.transmit(1, 10)
    buffer[:] = bytes(len(buffer))  # the message is complete: the buffer is the owner's again
    b.receive(arrival(0, burst, 1, 3), 2)
    [again] = b.transmit(2, 10)
    assert decode(again.headers[0]).psn == (psn + 3) % 2**24
    assert (b.events(), b.counters.duplicates, buffer) == ((), 2, bytes(4 * MTU))


def test_a_run_that_straddles_what_is_there():
    _a, b, [burst], _psn, buffer = start(8 * MTU)
    b.receive(arrival(0, burst, 0, 4), 1)
    b.receive(arrival(0, burst, 2, 8), 2)
    assert b.events() == (Received(1),)
    assert buffer == bytes(range(256)) * 32
    assert b.counters.duplicates == 2


def test_the_timer_is_exact_and_goes_back_to_what_is_unacknowledged():
    a, _b, [_burst], psn, _ = start(8 * MTU)
    assert a.deadline() == TIMEOUT_NS
    a.on_deadline(TIMEOUT_NS - 1)
    assert (a.transmit(TIMEOUT_NS - 1, 100), a.counters.timeouts) == ([], 0)
    a.on_deadline(TIMEOUT_NS)
    assert offsets(a.transmit(TIMEOUT_NS + 3, 100), psn) == list(range(8))
    assert a.deadline() == 2 * TIMEOUT_NS + 3
    assert (a.counters.timeouts, a.counters.retransmitted_packets) == (1, 8)


def test_progress_restarts_the_timer():
    a, b, flight, psn, _ = start(128 * MTU, window=128, ack_every=64)
    b.receive(arrival(0, flight[0]), 100)
    [half] = b.transmit(100, 10)
    a.receive(arrival(1, half), 500)
    assert a.deadline() == 500 + TIMEOUT_NS
    a.on_deadline(500 + TIMEOUT_NS)
    assert offsets(a.transmit(500 + TIMEOUT_NS, 1000), psn) == list(range(64, 128))


@pytest.mark.parametrize("retries", [0, 3, 7])
def test_retries_run_out(retries):
    a, _, _, psn, _ = start(2 * MTU, retries=retries)
    a.post_receive(5, 1, 1, memoryview(bytearray(4)), 0)
    flights, now = 1, 0
    while (at := a.deadline()) is not None:
        now = at
        a.on_deadline(now)
        flights += len(a.transmit(now, 100))
    assert flights == retries + 1
    assert now == (retries + 1) * TIMEOUT_NS
    send, receive = a.events()
    assert (send.id, send.peer, receive.id) == (1, 1, 5)
    assert f"{psn:#08x}" in send.reason
    assert f"after {retries} retries" in send.reason
    assert "peer 1" in send.reason
    a.post_send(6, 1, 9, b"", now)
    a.post_receive(7, 1, 9, memoryview(bytearray(4)), now)
    assert a.events() == (Failed(6, 1, send.reason), Failed(7, 1, send.reason))
    assert a.idle()


def test_timeout_zero_never_expires():
    a, *_ = start(MTU, timeout=0)
    assert a.deadline() is None


def test_an_acknowledgement_in_time_stops_the_timer():
    a, b, [burst], _, _ = start(MTU)
    b.receive(arrival(0, burst), 1)
    a.receive(arrival(1, b.transmit(1, 1)[0]), 2)
    assert (a.deadline(), a.idle(), a.events()) == (None, True, (Sent(1),))


@pytest.mark.parametrize(("code", "wait_ns"), [(1, 10_000), (12, 640_000), (0, 655_360_000)])
def test_a_receiver_that_is_not_ready(code, wait_ns):
    a, b = pair(rnr_timer=code)
    a.post_send(1, 1, 9, bytes(3 * MTU), 0)
    [burst] = a.transmit(0, 100)
    psn = decode(burst.headers[0]).psn
    b.receive(arrival(0, burst), 10)
    [nak] = b.transmit(10, 100)
    found = decode(nak.headers[0])
    assert (found.psn, found.aeth.syndrome) == (psn, 0x20 | code)
    a.receive(arrival(1, nak), 20)
    assert (a.transmit(20, 100), a.deadline()) == ([], 20 + wait_ns)
    buffer = bytearray(3 * MTU)
    b.post_receive(1, 0, 9, memoryview(buffer), 30)
    a.on_deadline(20 + wait_ns)
    again = a.transmit(20 + wait_ns, 100)
    assert offsets(again, psn) == [0, 1, 2]
    b.receive(arrival(0, again[0]), 20 + wait_ns)
    assert b.events() == (Received(1),)
    assert (b.counters.extra["rnr_naks"], a.counters.timeouts) == (1, 0)


def test_a_gap_before_a_receiver_that_is_not_ready():
    a, b = pair(rnr_timer=1)
    a.post_send(1, 1, 9, b"1", 0)
    a.post_send(2, 1, 9, b"2", 0)
    _, second = a.transmit(0, 100)
    b.receive(arrival(0, second), 1)
    a.receive(arrival(1, b.transmit(1, 1)[0]), 2)  # NAK for the first
    for burst in a.transmit(2, 100):
        b.receive(arrival(0, burst), 3)
    a.receive(arrival(1, b.transmit(3, 1)[0]), 4)  # RNR NAK for the first
    assert (a.deadline(), a.counters.extra["naks_received"]) == (4 + 10_000, 2)


def test_rnr_retries_run_out_unless_they_are_seven():
    for retries, expected in ((2, 3), (7, 50)):
        a, b = pair(rnr_retries=retries, rnr_timer=1)
        a.post_send(1, 1, 9, b"x", 0)
        flights, now = 0, 0
        for _ in range(50):
            for burst in a.transmit(now, 10):
                flights += 1
                b.receive(arrival(0, burst), now)
            for burst in b.transmit(now, 10):
                a.receive(arrival(1, burst), now)
            now = a.deadline() or now
            a.on_deadline(now)
        assert flights == expected
        failures = a.events()
        assert [event.id for event in failures] == ([1] if retries == 2 else [])
        assert not failures or "no receive posted" in failures[0].reason


def test_send_takes_receives_in_order_and_write_by_tag():
    a, b = pair()
    second, first = bytearray(1), bytearray(1)
    b.post_receive(2, 0, 2, memoryview(second), 0)
    b.post_receive(1, 0, 1, memoryview(first), 0)
    a.post_send(1, 1, 1, b"1", 0)
    a.post_send(2, 1, 2, b"2", 0)
    network = Network([a, b], lambda *_: [1_000])
    network.run()
    assert (first, second, network.events[1]) == (b"1", b"2", [Received(1), Received(2)])

    a, b = pair(verb="send")
    b.post_receive(2, 0, 2, memoryview(second), 0)
    a.post_send(1, 1, 1, b"1", 0)
    network = Network([a, b], lambda *_: [1_000])
    network.run()
    [failed] = network.events[0]
    assert "invalid request" in failed.reason


def test_a_message_longer_than_its_receive_is_refused_and_named():
    a, b = pair()
    buffer = bytearray(100)
    b.post_receive(1, 0, 9, memoryview(buffer), 0)
    a.post_send(1, 1, 9, bytes([1]) * 101, 0)
    network = Network([a, b], lambda *_: [1_000])
    network.run()
    [failed] = network.events[0]
    assert "remote access error" in failed.reason
    assert (buffer, network.events[1]) == (bytes(100), [])


def test_a_message_shorter_than_its_receive_leaves_the_rest_missing():
    a, b = pair()
    b.post_receive(1, 0, 9, memoryview(bytearray(100)), 0)
    a.post_send(1, 1, 9, bytes(60), 0)
    network = Network([a, b], lambda *_: [1_000])
    network.run()
    assert network.events[1] == [Received(1, ((60, 100),))]


def test_peers_take_turns():
    ends = endpoints(3, kind="roce", mtu=MTU, window=128)
    for peer in (1, 2):
        ends[0].post_send(peer, peer, 9, bytes(128 * MTU), 0)
    assert [burst.peer for burst in ends[0].transmit(0, 1000)] == [1, 2, 1, 2]
    assert [burst.peer for burst in ends[0].transmit(0, 1000)] == []


def test_peers_take_turns_from_call_to_call():
    ends = endpoints(4, kind="roce", mtu=MTU, window=128)
    for peer in (1, 2, 3):
        ends[0].post_send(peer, peer, 9, bytes(8 * MTU), 0)
    assert [ends[0].transmit(0, 4)[0].peer for _ in range(6)] == [1, 2, 3, 1, 2, 3]


def test_source_ports_depend_on_queue_pair_and_seed():
    def ports(seed):
        ends = endpoints(16, PATH, seed, kind="roce")
        for end_rank, end in enumerate(ends):
            end.post_send(0, (end_rank + 1) % 16, 1, b"", 0)
        return [end.transmit(0, 10)[0].source_port for end in ends]

    assert ports(1) == ports(1)
    assert len(set(ports(1))) >= 15
    assert ports(1) != ports(2)
    assert all(0xC000 <= port <= 0xFFFF for port in ports(1))


def test_completion_other_than_all_is_refused():
    from testbed.transport.endpoint import Completion

    a, _ = pair()
    with pytest.raises(ValueError, match="whole"):
        a.post_receive(1, 1, 9, memoryview(bytearray(1)), 0, Completion(fraction=0.9))


def test_a_tag_of_more_than_32_bits_is_refused():
    a, _ = pair()
    with pytest.raises(ValueError, match="32 bits"):
        a.post_send(1, 1, 2**32, b"", 0)


def test_a_send_without_immediate_data_completes_the_next_receive():
    """As rdma-core's examples send: which receive a SEND is for only their order says (IBTA 9.4.1, recalled)."""
    a, b = pair(verb="send")
    landed = bytearray(MTU + 4)
    b.post_receive(7, 0, 99, memoryview(landed), 0)
    a.post_send(1, 1, 5, bytes(1), 0)
    [burst] = a.transmit(0, 100)
    begun = decode(burst.headers[0])
    first, last = (
        roce.encode(roce.Header(opcode, begun.destination_qp, (begun.psn + step) % 2**24, ack_request=bool(step)))
        for step, opcode in enumerate((roce.SEND_FIRST, roce.SEND_LAST))
    )
    b.receive(Arrival(0, 0, MTU, (first, last), b"\x5a" * MTU + b"abcd"), 0)
    assert (list(b.events()), landed) == ([Received(7)], b"\x5a" * MTU + b"abcd")
    [answer] = headers(b.transmit(0, 100))
    assert (answer.psn, answer.aeth) == ((begun.psn + 1) % 2**24, roce.Aeth(roce.CREDITS_UNLIMITED, 1))
