"""The Falcon-like transport packet by packet: paths and their shares, answers, losses found early, paths left."""

from random import Random

from testbed.spec.model import TransportSpec
from testbed.transport import settle
from testbed.transport.endpoint import Received, Sent
from testbed.wire.falcon import ACK, DATA, EACK, Ack, Data, decode
from tests.transport.pump import PATH, Network, impaired
from tests.transport.selective.pair import MTU, arrive, flight, pair, sends

US = 1000


def falcon(**keys):
    return pair("falcon", **keys)


def told(bursts):
    return [decode(header)[1] for burst in bursts for header in burst.headers]


def test_the_published_constants_are_the_simulators():
    settings = settle(TransportSpec(kind="falcon", scale="none"), PATH)
    values = settings.values
    assert settings.congestion.name == "swift"
    assert (settings.congestion_values["base_target"], settings.congestion_values["initial_window"]) == (25 * US, 32)
    assert (values["ack_every"], values["ack_timeout"], values["ooo_distance"]) == (10, 8 * US, 3)
    assert (values["rto_initial"], values["rto_least"], values["rto_factor"]) == (1000 * US, 250 * US, 2.0)
    assert (values["plb_delay"], values["plb_share"], values["plb_rounds"]) == (1.01, 0.5, 5)


def test_four_paths_share_by_their_windows():
    ends = falcon(scale="none")
    sends(ends, 200)
    shares: dict[int, int] = {}
    for burst in flight(ends[0], 0):
        shares[burst.source_port] = shares.get(burst.source_port, 0) + burst.packets
    assert sorted(shares.values()) == [8, 8, 8, 8]  # 32 packets at the start


def test_a_path_with_half_the_window_gets_half_the_packets():
    ends = falcon()
    windows = [12, 6, 6, 6]
    for path, window in zip(ends[0]._connection(1)._paths, windows, strict=True):
        path.control._window = window
        path.control._clamp()
        path.control.run_packets = 1
    sends(ends, 30)
    shares: dict[int, int] = {}
    for burst in flight(ends[0], 0):
        for data in told([burst]):
            shares[data.label] = shares.get(data.label, 0) + 1
    assert [shares[label] for label in range(4)] == windows


def one_path(**keys):
    return falcon(paths=1, scale="none", congestion="none", **keys)


class TestAnswers:
    def test_every_tenth_packet_of_a_path(self):
        a, b = one_path(ack_request_every=1000)
        sends([a, b], 30)
        sent = flight(a, 0)
        arrive(b, 0, sent[:9], 5)
        assert flight(b, 5) == []
        arrive(b, 0, [sent[9]], 6)
        assert [type(each) for each in told(flight(b, 6))] == [Ack]

    def test_else_after_eight_microseconds(self):
        a, b = one_path(ack_request_every=1000)
        sends([a, b], 3)
        sent = flight(a, 0)
        arrive(b, 0, [sent[0]], 1_000)
        arrive(b, 0, [sent[1]], 3_000)
        assert b.deadline() == 9_000
        [ack] = told(flight(b, 9_000))
        assert ack.held_ns == 6_000, "from when the last of its packets came"

    def test_at_once_when_asked(self):
        a, b = one_path(ack_request_every=5)
        sends([a, b], 5)
        sent = flight(a, 0)
        assert [data.asks for data in told(sent)] == [False] * 4 + [True]
        arrive(b, 0, sent, 1_000)
        assert b.deadline() <= 1_000

    def test_a_gap_brings_a_bitmap(self):
        a, b = one_path(ack_request_every=1000)
        sends([a, b], 12)
        sent = flight(a, 0)
        arrive(b, 0, [sent[index] for index in (0, 1, 3, 4, 6, 7, 8, 9, 10, 11)], 1)
        [answer] = flight(b, 1)
        assert answer.headers[0][0] == EACK
        [ack] = told([answer])
        assert ack.bitmap == 0b111111011, "3 and 4, then 6 to 11 of what follows the expected packet 2"


class TestLosses:
    def lose(self, ends, packets, *lost, now=10 * US):
        """A run of which some are lost, and its answer; what leaves then, counted from the first packet."""
        a, b = ends
        sends(ends, packets)
        sent = flight(a, 0)
        first = told(sent)[0].psn
        arrive(b, 0, [packet for index, packet in enumerate(sent) if index not in lost], now)
        arrive(a, 1, flight(b, now), 2 * now)
        return first, [data.psn - first for data in told(flight(a, 2 * now))]

    def test_a_packet_is_lost_once_one_three_places_later_is_there(self):
        assert self.lose(one_path(), 20, 3)[1] == [3]
        assert self.lose(one_path(), 20, 16)[1] == [16]

    def test_one_of_the_last_two_is_lost_a_round_trip_and_a_quarter_after_it_left(self):
        ends = one_path()
        a, _ = ends
        first, again = self.lose(ends, 20, 17)
        assert again == []
        at = a.deadline()
        a.on_deadline(at)
        assert [data.psn - first for data in told(flight(a, at))] == [17]
        packet_ns = 8 * (MTU + 36 + 46 + 24) / 10
        # What is answered is the stamp of the last packet, 20 us before; and a quarter more, from when the 17th left.
        assert abs(at - (17 * packet_ns + 1.25 * (20_000 - 19 * packet_ns))) < 100

    def test_the_very_last_is_probed_for(self):
        ends = one_path(ack_request_every=20)
        a, _ = ends
        first, again = self.lose(ends, 21, 20)
        assert again == []
        at = a.deadline()
        assert 20 * US < at <= 20 * US + 50 * US + 8 * US
        a.on_deadline(at)
        assert [data.psn - first for data in told(flight(a, at))] == [20]
        assert a.counters.extra["probes"] == 1
        assert a.counters.timeouts == 0

    def test_paths_of_different_lengths_bring_no_false_alarm(self):
        ends = falcon()
        sends(ends, 300)

        def fate(sender, burst, index):  # noqa: ARG001
            return (10_000 + 3_000 * (burst.source_port % 4),)

        network = Network(ends, fate)
        network.run()
        assert network.events == [[Sent(1)], [Received(1)]]
        assert network.totals()["retransmitted_packets"] == 0

    def test_a_loss_found_early_is_no_sign_of_congestion(self):
        ends = falcon(paths=1)
        [path] = ends[0]._connection(1)._paths
        before = path.control.window_packets
        assert self.lose(ends, 20, 3)[1][:1] == [3]
        assert path.control.window_packets >= before


class TestPathsLeft:
    def test_one_whose_delay_stays_above_the_target(self):
        ends = falcon(paths=2)
        network = Network(ends, lambda *_: (300 * US,))
        sends(ends, 400)
        network.run(limit_steps=2_000_000)
        ports = {burst.source_port for _, sender, burst in network.log if sender == 0}
        assert len(ports) > 2

    def test_one_that_timed_out(self):
        ends = falcon(paths=1)
        sends(ends, 1)
        [burst] = flight(ends[0], 0)
        at = ends[0].deadline()
        ends[0].on_deadline(at)
        [again] = flight(ends[0], at)
        assert again.source_port != burst.source_port
        assert ends[0].counters.extra["paths_changed"] == 1

    def test_none_without_congestion(self):
        ends = falcon()
        sends(ends, 1000)
        network = Network(ends, impaired(Random(1)))
        network.run()
        assert len({burst.source_port for _, sender, burst in network.log if sender == 0}) == 4


def test_a_header_is_told_apart_by_its_first_byte():
    ends = falcon()
    sends(ends, 1)
    [burst] = flight(ends[0], 0)
    assert burst.headers[0][0] == DATA
    assert isinstance(told([burst])[0], Data)
    assert ACK != EACK
