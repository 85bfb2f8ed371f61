"""What a congestion control hears with acknowledgements, and what it gets by its window: over endpoints, by hand."""

from dataclasses import replace
from random import Random

import pytest

from testbed.spec.model import TransportSpec
from testbed.transport import Path, queue_pairs, settle
from testbed.transport.congestion import CONGESTIONS, Congestion
from testbed.transport.congestion.control import Indifferent
from testbed.transport.endpoint import ECN_CE, ECN_ECT0, Received, Sent
from testbed.transport.roce import RoceEndpoint
from testbed.wire.roce import ACKNOWLEDGE, decode

from .pump import Network, arrival, endpoints, impaired

PATH = Path(rate_bps=10**9, base_rtt_ns=100_000, mtu_bytes=1500, max_burst_packets=16)
PACKET_NS = (1024 + 12 + 46 + 24) * 8
RETH_NS = 16 * 8
FEEDBACK = [name for name in CONGESTIONS if name not in ("none", "dcqcn", "dcqcn-connectx")]


class Recorder(Indifferent):
    """Notes what it hears, and allows what it is told to."""

    ecn = ECN_ECT0
    run_packets = 4

    def __init__(self):
        self.heard = []

    def on_ack(self, now, packets, rtt_ns, marked):  # noqa: ARG002
        self.heard.append((packets, rtt_ns, marked))

    def on_gap(self, now):  # noqa: ARG002
        self.heard.append("gap")

    def on_timeout(self, now):  # noqa: ARG002
        self.heard.append("timeout")


def pair(**keys):
    """Two endpoints, and the recorder of the first."""
    recorders = []

    def make(path, values):  # noqa: ARG001
        recorders.append(Recorder())
        return recorders[-1]

    settings = settle(TransportSpec(**{"mtu": 1024, "window": 64, "timeout": 20, **keys}), PATH)
    settings = replace(settings, congestion=Congestion("recorder", "", (), make))
    ends = [RoceEndpoint(PATH, rank, queue_pairs(2), settings, 1) for rank in range(2)]
    ends[0]._queue_pair(1)
    return ends, recorders[0]


def sends(ends, size, now=0):
    ends[1].post_receive(1, 0, 1, memoryview(bytearray(size)), now)
    ends[0].post_send(1, 1, 1, bytes(size), now)


class TestRoundTrips:
    def test_each_run_gives_one_from_when_its_last_packet_began_to_leave(self):
        ends, recorder = pair()
        sends(ends, 8 * 1024)
        bursts = ends[0].transmit(0, 100)
        assert [burst.packets for burst in bursts] == [4, 4]
        for index, burst in enumerate(bursts):
            ends[1].receive(arrival(0, burst), 200_000)
            [answer] = ends[1].transmit(200_000, 10)
            ends[0].receive(arrival(1, answer), 300_000 + index)
        # The second run leaves after the first; of each the last packet counts.
        assert recorder.heard == [
            (4, 300_000 - 3 * PACKET_NS, False),
            (4, 300_001 - 7 * PACKET_NS - RETH_NS, False),
        ]

    def test_an_acknowledgement_amid_a_run_counts_from_its_packet(self):
        ends, recorder = pair(ack_every=2)
        sends(ends, 4 * 1024)
        [burst] = ends[0].transmit(0, 100)
        for first, at in ((0, 150_000), (2, 180_000)):
            ends[1].receive(arrival(0, burst, first, first + 2), at)
            [answer] = ends[1].transmit(at, 10)
            ends[0].receive(arrival(1, answer), at)
        assert recorder.heard == [(2, 150_000 - PACKET_NS, False), (2, 180_000 - 3 * PACKET_NS, False)]

    def test_a_run_that_waits_for_its_pace_counts_from_its_departure(self):
        ends, recorder = pair()
        recorder.rate_bps = lambda now: 10**8  # noqa: ARG005
        sends(ends, 8 * 1024)
        ends[0].transmit(0, 100)
        at = ends[0].deadline()
        assert at == 10 * (4 * PACKET_NS + RETH_NS)
        [second] = ends[0].transmit(at, 100)
        ends[1].receive(arrival(0, second), at)  # the first is lost: no answer but a NAK
        assert "gap" not in recorder.heard

    def test_what_was_sent_twice_gives_none(self):
        ends, recorder = pair()
        sends(ends, 12 * 1024)
        first, second, third = ends[0].transmit(0, 100)
        ends[1].receive(arrival(0, first, 0, 1), 50_000)
        ends[1].receive(arrival(0, second), 60_000)  # packets 1 to 3 are lost
        [nak] = ends[1].transmit(60_000, 10)
        ends[0].receive(arrival(1, nak), 100_000)
        assert recorder.heard == [(1, None, False), "gap"]
        again = ends[0].transmit(100_000, 100)
        for burst in again:
            ends[1].receive(arrival(0, burst), 200_000)
            for answer in ends[1].transmit(200_000, 10):
                ends[0].receive(arrival(1, answer), 300_000)
        assert recorder.heard[2:] == [(4, None, False), (4, None, False), (3, None, False)]
        assert ends[0].counters.retransmitted_packets == 11
        del third

    def test_after_a_recovery_new_packets_give_them_again(self):
        ends, recorder = pair(timeout=1)
        sends(ends, 4 * 1024)
        ends[0].transmit(0, 100)
        ends[0].on_deadline(10_000)
        assert recorder.heard == ["timeout"]
        sends_again = ends[0].transmit(10_000, 100)
        ends[1].receive(arrival(0, sends_again[0]), 50_000)
        [answer] = ends[1].transmit(50_000, 10)
        ends[0].receive(arrival(1, answer), 90_000)
        ends[0].post_send(2, 1, 2, bytes(1024), 100_000)
        ends[1].post_receive(2, 0, 2, memoryview(bytearray(1024)), 100_000)
        [fresh] = ends[0].transmit(100_000, 100)
        ends[1].receive(arrival(0, fresh), 150_000)
        [answer] = ends[1].transmit(150_000, 10)
        ends[0].receive(arrival(1, answer), 200_000)
        assert recorder.heard[1:] == [(4, None, False), (1, 100_000, False)]

    def test_without_loss_every_acknowledgement_has_that_of_the_network(self):
        ends, recorder = pair()
        sends(ends, 100 * 1024)
        network = Network(ends, lambda *_: [70_000])
        network.run(budget_packets=1)  # the pump's NIC sends runs of one packet, one after the other, in no time
        assert sum(packets for packets, _, _ in recorder.heard) == 100
        assert all(rtt_ns is not None for _, rtt_ns, _ in recorder.heard)


class TestMarks:
    def answers(self, marked):
        """(packets acknowledged, marked) as the sender hears when eight packets come marked or not."""
        ends, recorder = pair()
        recorder.run_packets = 8
        ends[0]._queue_pairs[1].requester._obey()
        sends(ends, 8 * 1024)
        [burst] = ends[0].transmit(0, 100)
        for index, mark in enumerate(marked):
            ends[1].receive(arrival(0, burst, index, index + 1, ECN_CE if mark else None), 1000 + index)
        for answer in ends[1].transmit(2000, 100):
            assert decode(answer.headers[0]).opcode == ACKNOWLEDGE
            ends[0].receive(arrival(1, answer), 3000)
        assert isinstance(ends[0].events()[-1], Sent)
        return [(packets, mark) for packets, _, mark in recorder.heard]

    def test_one_answer_says_all(self):
        assert self.answers([False] * 8) == [(8, False)]
        assert self.answers([True] * 8) == [(8, True)]

    def test_no_answer_covers_both(self):
        assert self.answers([0, 0, 1, 1, 1, 0, 0, 0]) == [(2, False), (3, True), (3, False)]
        assert self.answers([1, 0] * 4) == [(1, True), (1, False)] * 4

    def test_they_go_by_the_becn_bit_and_no_cnp_is_sent(self):
        ends, _ = pair()
        sends(ends, 1024)
        [burst] = ends[0].transmit(0, 100)
        ends[1].receive(arrival(0, burst, ecn=ECN_CE), 1000)
        [answer] = ends[1].transmit(1000, 100)
        assert decode(answer.headers[0]).becn
        assert (ends[1].counters.ecn_marked, ends[1].counters.cnps) == (1, 0)

    def test_dcqcn_acknowledges_as_ever(self):
        ends = endpoints(2, PATH, congestion="dcqcn")
        sends(ends, 1024)
        [burst] = ends[0].transmit(0, 100)
        ends[1].receive(arrival(0, burst, ecn=ECN_CE), 1000)
        found = {decode(out.headers[0]).opcode: decode(out.headers[0]).becn for out in ends[1].transmit(1000, 100)}
        assert found == {ACKNOWLEDGE: False, 0x81: True}


class TestWindows:
    def test_no_more_than_the_window_is_under_way(self):
        ends, recorder = pair()
        recorder.window_packets = 6
        ends[0]._queue_pairs[1].requester._obey()
        sends(ends, 100 * 1024)
        assert [burst.packets for burst in ends[0].transmit(0, 1000)] == [4, 2]

    def test_a_window_that_shrinks_below_what_is_under_way_never_stops_all(self):
        ends, recorder = pair()
        sends(ends, 200 * 1024)
        heard = recorder.on_ack

        def shrink(*arguments):
            heard(*arguments)
            recorder.window_packets = 1 + len(recorder.heard) % 7

        recorder.on_ack = shrink
        network = Network(ends, lambda *_: [10_000])
        network.run()
        assert network.totals()["timeouts"] == 0
        assert Received(1) in network.events[1]

    def test_swift_below_one_packet_sends_one_in_so_many_round_trips(self):
        ends = endpoints(2, PATH, congestion={"kind": "swift", "base_target": "110us", "fs_range": "0ns"})
        sends(ends, 100 * 1024)
        departures = []

        def fate(sender, burst, index):  # noqa: ARG001
            if sender == 0:
                departures.append(network.now)
            return [500_000]

        network = Network(ends, fate)
        network.run()
        # Round trips of 1 ms against a target of 110 us halve the window each time, down to the least of 0.01.
        gaps = [later - earlier for earlier, later in zip(departures[-5:], departures[-4:], strict=False)]
        assert all(abs(gap - 100_000_000) < 1_000_000 for gap in gaps)
        assert network.totals()["retransmitted_packets"] == 0


@pytest.mark.parametrize("kind", FEEDBACK)
@pytest.mark.parametrize("seed", range(4))
def test_messages_arrive_whole_whatever_the_network_does(kind, seed):
    random = Random(seed)
    ends = endpoints(2, PATH, congestion=kind, retries=7, timeout=9)
    sent = random.randbytes(60_000)
    into = bytearray(len(sent))
    ends[1].post_receive(1, 0, 1, memoryview(into), 0)
    ends[0].post_send(1, 1, 1, sent, 0)
    network = Network(
        ends,
        impaired(random, loss=0.03, duplicate=0.03, reorder=0.03, delay_ns=50_000),
        marks=lambda *_: random.random() < 0.3,
    )
    network.run(budget_packets=16)
    assert (bytes(into), network.events[1]) == (sent, [Received(1)])
