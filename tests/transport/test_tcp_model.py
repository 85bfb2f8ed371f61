"""The TCP model: its windows and timer against the RFCs' arithmetic, and messages whole over any network."""

from random import Random

import pytest

from testbed.spec.model import TransportSpec
from testbed.transport import Path, queue_pairs, settle
from testbed.transport.endpoint import Failed, Received, Sent
from testbed.transport.tcp_model import TcpEndpoint
from testbed.transport.tcp_model.growth import Cubic, Reno
from testbed.transport.tcp_model.segment import HEADER_BYTES, Segment, decode, encode
from testbed.transport.tcp_model.timer import RetransmissionTimeout

from .pump import Network, arrival, impaired

MSS = 1448  # 1,500 - 20 of IP - 32 of TCP with timestamps
PATH = Path(rate_bps=10**9, base_rtt_ns=100_000, mtu_bytes=1500, max_burst_packets=64)
MS = 1_000_000


def ends(ranks: int = 2, control: str = "cubic") -> list[TcpEndpoint]:
    settings = settle(TransportSpec(kind="tcp", control=control), PATH)
    return [TcpEndpoint(PATH, rank, queue_pairs(ranks), settings, 1) for rank in range(ranks)]


def flights(network: Network, sender: int = 0) -> dict[int, int]:
    """Full and other segments with bytes that a rank sent, by instant."""
    found: dict[int, int] = {}
    for now, rank, burst in network.log:
        if rank == sender and len(burst.payload):
            found[now] = found.get(now, 0) + burst.packets
    return found


class TestTimer:
    def test_rfc_6298(self):
        timeout = RetransmissionTimeout()
        assert timeout.now_ns == 1_000 * MS
        timeout.sample(400 * MS)  # SRTT 400, RTTVAR 200
        assert timeout.now_ns == 1_200 * MS
        timeout.sample(800 * MS)  # RTTVAR 3/4 x 200 + 1/4 x 400 = 250; SRTT 7/8 x 400 + 1/8 x 800 = 450
        assert timeout.now_ns == 1_450 * MS

    def test_it_is_at_least_linux_s_above_the_round_trip(self):
        timeout = RetransmissionTimeout()
        timeout.sample(1 * MS)
        assert timeout.now_ns == 201 * MS

    def test_it_doubles_until_something_comes(self):
        timeout = RetransmissionTimeout()
        timeout.sample(1 * MS)
        waits = []
        for _ in range(11):
            timeout.back_off()
            waits.append(timeout.now_ns)
        assert waits[:3] == [402 * MS, 804 * MS, 1_608 * MS]
        assert waits[-1] == 120_000 * MS
        timeout.progress()
        assert timeout.now_ns == 201 * MS


class TestGrowth:
    def test_reno(self):
        reno = Reno()
        assert reno.cut(80) == 40
        assert reno.cut(3) == 2
        window = 10.0
        for _ in range(10):
            window = reno.grown(window, 1, 0, 0)
        assert window == pytest.approx(11, abs=0.1)

    def test_cubic_is_back_where_the_loss_was_after_k(self):
        # W_max = 1000, cut to 700: K = cbrt(300 / 0.4) = 9.086 s. Long round trips keep NewReno's estimate below.
        cubic, rtt_ns = Cubic(), 500 * MS
        assert cubic.cut(1000) == 700
        window, now = 700.0, 0
        windows = {}
        while now < 12_000 * MS:
            window = cubic.grown(window, window, now, rtt_ns)
            now += rtt_ns
            windows[now] = window
        assert windows[9_000 * MS] == pytest.approx(1000, abs=1)
        assert windows[4_500 * MS] == pytest.approx(1000 + 0.4 * (4.5 - 9.086) ** 3, rel=0.01)
        assert windows[12_000 * MS] == pytest.approx(1000 + 0.4 * (12 - 9.086) ** 3, rel=0.01)

    def test_fast_convergence_gives_way(self):
        cubic = Cubic()
        cubic.cut(1000)
        cubic.cut(800)  # W_max = 800 (1 + 0.7) / 2 = 680
        window = 560.0
        assert cubic.grown(window, 0, 0, 0) == window
        assert cubic._before == pytest.approx(680)

    def test_on_short_paths_it_is_newreno_s_equal(self):
        # 1 ms round trips: 3 (1 - 0.7) / (1 + 0.7) = 0.529 segments in each until the old window.
        cubic = Cubic()
        window = cubic.cut(100)
        for index in range(20):
            window = cubic.grown(window, window, index * MS, MS)
        assert window == pytest.approx(70 + 20 * 9 / 17, abs=0.6)


class TestSegments:
    def test_a_header_is_read_back(self):
        segment = Segment((1 << 48) - 1, 7)
        header = encode(segment, 1446)
        assert (len(header), decode(header), header[1] >> 4) == (HEADER_BYTES, segment, 2)

    def test_frames_are_as_long_as_tcp_s(self):
        assert 8 + HEADER_BYTES + 4 == 32


class TestWindows:
    def run(self, size, fate=lambda *_: [MS], **keys):
        pair = ends(**keys)
        sent = Random(1).randbytes(size)
        into = bytearray(size)
        pair[1].post_receive(1, 0, 1, memoryview(into), 0)
        pair[0].post_send(1, 1, 1, sent, 0)
        network = Network(pair, fate)
        network.run()
        assert into == sent
        assert (network.events[0], network.events[1]) == ([Sent(1)], [Received(1)])
        return network

    def test_slow_start_from_ten_doubles_each_round_trip(self):
        network = self.run(70 * MSS - 12)
        assert list(flights(network).items()) == [(0, 10), (2 * MS, 20), (4 * MS, 40)]
        assert network.totals()["retransmitted_packets"] == 0

    def test_one_loss_is_repaired_in_a_round_trip_and_halves(self):
        lost = []

        def fate(sender, burst, index):
            if sender == 0 and len(burst.payload) and decode(burst.headers[index]).sequence == 12 * MSS and not lost:
                lost.append(1)
                return []
            return [MS]

        network = self.run(100 * MSS - 12, fate, control="reno")
        total = network.totals()
        assert (total["retransmitted_packets"], total["timeouts"], total["out_of_order"]) == (1, 0, 17)
        # 20 under way when it is found: half of them after it is repaired.
        assert network.now < 20 * MS

    def test_a_lost_last_segment_waits_for_the_timer(self):
        lost = []

        def fate(sender, burst, index):
            if sender == 0 and decode(burst.headers[index]).sequence == 9 * MSS and not lost:
                lost.append(1)
                return []
            return [MS]

        network = self.run(10 * MSS - 12, fate)
        assert network.totals()["timeouts"] == 1
        assert network.now == pytest.approx(2 * MS + 202 * MS + 2 * MS)  # RTT of 2 ms + 200 ms after the last news

    def test_losses_of_one_window_are_repaired_one_in_a_round_trip(self):
        lost = set()

        def fate(sender, burst, index):
            number = decode(burst.headers[index]).sequence // MSS
            if sender == 0 and len(burst.payload) and number in (12, 15, 18) and number not in lost:
                lost.add(number)
                return []
            return [MS]

        network = self.run(200 * MSS - 12, fate, control="reno")
        total = network.totals()
        assert (total["retransmitted_packets"], total["timeouts"]) == (3, 0)

    def test_the_stream_carries_many_messages_in_order_of_posting(self):
        pair = ends()
        sent = [bytes([tag]) * (500 * tag) for tag in range(20)]
        into = [bytearray(len(message)) for message in sent]
        for tag, message in enumerate(sent):
            pair[0].post_send(tag, 1, tag, message, 0)
        network = Network(pair, lambda *_: [MS])
        network.run()  # none is posted yet: the kernel would keep them
        for tag in reversed(range(20)):
            pair[1].post_receive(tag, 0, tag, memoryview(into[tag]), network.now)
        assert list(map(bytes, into)) == sent
        assert network.events[0] == [Sent(tag) for tag in range(20)]

    def test_after_a_pause_it_begins_with_ten_again(self):
        pair = ends()
        network = Network(pair, lambda *_: [MS])
        into = memoryview(bytearray(100 * MSS - 12))
        for tag, at in ((1, 0), (2, 10_000 * MS)):

            def post(now, tag=tag):
                pair[1].post_receive(tag, 0, tag, into, now)
                pair[0].post_send(tag, 1, tag, bytes(into), now)

            network.at(at, post)
        network.run()
        assert flights(network)[10_000 * MS] == 10

    def test_a_dead_peer_is_given_up_in_the_end(self):
        pair = ends()
        pair[0].post_send(1, 1, 1, b"x" * 5000, 0)
        network = Network(pair, lambda *_: [])
        network.run()
        [failed] = network.events[0]
        assert isinstance(failed, Failed)
        assert "15 retransmissions" in failed.reason
        assert pair[0].idle()

    def test_a_message_of_another_length_ends_the_connection(self):
        pair = ends()
        pair[1].post_receive(1, 0, 1, memoryview(bytearray(10)), 0)
        pair[0].post_send(1, 1, 1, b"x" * 11, 0)
        [burst] = pair[0].transmit(0, 10)
        pair[1].receive(arrival(0, burst), 0)
        assert "message of 11 bytes where 10" in pair[1].events()[0].reason

    def test_what_comes_after_it_is_no_message(self):
        pair = ends()
        pair[1].post_receive(1, 0, 1, memoryview(bytearray(10)), 0)
        pair[0].post_send(1, 1, 1, b"\xff" * 1000, 0)  # read as the head of one, longer than any memory
        for burst in pair[0].transmit(0, 10):
            pair[1].receive(arrival(0, burst), 0)
        assert [type(event) for event in pair[1].events()] == [Failed]


@pytest.mark.parametrize("control", ["cubic", "reno"])
@pytest.mark.parametrize("seed", range(8))
def test_messages_arrive_whole_whatever_the_network_does(control, seed):
    random = Random(seed)
    three = ends(3, control)
    network = Network(three, impaired(random, loss=0.05, duplicate=0.05, reorder=0.1, delay_ns=100_000))
    expected = {}
    for rank in range(3):
        for peer in range(3):
            if peer == rank:
                continue
            for tag in range(6):
                sent, into = random.randbytes(random.choice((0, 1, 1447, 30_000))), None
                into = bytearray(len(sent))
                expected[rank, peer, tag] = (sent, into)
                number = 100 * rank + 10 * peer + tag
                three[rank].post_send(number, peer, tag, sent, 0)
                three[peer].post_receive(1000 + number, rank, tag, memoryview(into), 0)
    network.run()
    assert all(sent == bytes(into) for sent, into in expected.values())
    assert all(
        len(events) == 24 and not any(isinstance(event, Failed) for event in events) for events in network.events
    )
    assert all(end.idle() and end.deadline() is None for end in three)


def test_hostile_bytes_do_no_harm():
    pair = ends()
    pair[1].post_receive(1, 0, 1, memoryview(bytearray(5000)), 0)
    pair[0].post_send(1, 1, 1, b"x" * 5000, 0)
    bursts = pair[0].transmit(0, 10)
    for header in (b"", b"x" * HEADER_BYTES, encode(Segment(0, 1 << 40), 0)):
        pair[1].receive(arrival(0, bursts[0]).__class__(0, 0, 0, (header,), b""), 0)
    assert pair[1].counters.malformed == 3
    network = Network(pair, lambda *_: [MS])
    for burst in bursts:
        pair[1].receive(arrival(0, burst), 0)
    network.run()
    assert Received(1) in network.events[1]


@pytest.mark.slow
@pytest.mark.parametrize(("control", "most"), [("reno", 1.2), ("cubic", 1.5)])
def test_under_random_loss_it_is_as_fast_as_the_square_root_formula_says(control, most):
    """Mathis et al. (1997): sqrt(3 / (2 p)) segments a round trip; CUBIC on a short one as much, and beyond the window
    of the last loss more (RFC 9438, 4.3)."""
    loss, rtt_ns, segments = 0.002, 2 * MS, 20_000
    random = Random(3)
    pair = ends(control=control)
    size = segments * MSS - 12
    pair[1].post_receive(1, 0, 1, memoryview(bytearray(size)), 0)
    pair[0].post_send(1, 1, 1, bytes(size), 0)

    def fate(sender, burst, index):  # noqa: ARG001
        return [] if sender == 0 and random.random() < loss else [rtt_ns // 2]

    network = Network(pair, fate)
    network.run()
    waits_ns = network.totals()["timeouts"] * 200 * MS
    window = segments * rtt_ns / (network.now - waits_ns)
    assert 0.8 < window / (1.5 / loss) ** 0.5 < most
