"""NDP packet by packet: the first window, headers and what is pulled for them, the pace of pulls, paths, timeouts."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

from testbed.spec.model import TransportSpec
from testbed.transport import TRANSPORTS, Endpoint, ParameterError, queue_pairs, settle
from testbed.transport.endpoint import Burst, Failed, Received, Sent
from testbed.transport.roce.address import address
from testbed.wire.ethernet import UDP_WIRE_BYTES
from testbed.wire.ndp import ACK, DATA, NACK, PULL, Control, Data, checked_from, decode
from tests.transport.pump import PATH, Network, impaired
from tests.transport.selective.pair import MTU, arrive, flight, pair, sends

WINDOW = 10
PACKET_NS = 8 * (22 + MTU + UDP_WIRE_BYTES) * 10**9 // PATH.rate_bps
RTT = PATH.base_rtt_ns


def ndp(ranks: int = 2, **keys: object) -> list[Endpoint]:
    spec = TransportSpec.model_validate({"kind": "ndp", "mtu": MTU, "first_window": WINDOW, **keys})
    make = TRANSPORTS["ndp"].make
    assert make
    return [make(PATH, rank, queue_pairs(ranks), settle(spec, PATH), 1) for rank in range(ranks)]


def said(end: int, bursts: Sequence[Burst], ranks: int = 2) -> list[Data | Control]:
    """What rank `end` says to others."""
    found = []
    for burst in bursts:
        own = address(end, burst.peer, queue_pairs(ranks), 1)
        found += [decode(checked_from(own.remote_qp), header) for header in burst.headers]
    return found


def kinds(end: int, bursts: Sequence[Burst], ranks: int = 2) -> list[int]:
    return [told.kind if isinstance(told, Control) else DATA for told in said(end, bursts, ranks)]


def cut(bursts: Sequence[Burst]) -> list[Burst]:
    """As a switch leaves them."""
    return [burst._replace(payload=b"") for burst in bursts]


class Cutting(Network):
    """Cuts those packets of rank 0's that it is told to, by their order."""

    cuts: frozenset[int] = frozenset()
    sent = -1

    def _fly(self, at_ns, target, run):
        if target == 1 and len(run.payload):
            self.sent += 1
            if self.sent in self.cuts:
                run = run._replace(payload=b"")
        super()._fly(at_ns, target, run)


def test_the_published_constants():
    values = settle(TransportSpec(kind="ndp", scale="none"), PATH).values
    assert (values["first_window"], values["rto"], values["entropies"]) == (15, 20_000_000, 64)


def test_the_first_window_fills_a_round_trip():
    """73 packets of 344 bytes on the wire take as long as 20 us."""
    spec = TransportSpec.model_validate({"kind": "ndp", "mtu": MTU})
    assert settle(spec, PATH).values["first_window"] == 74


def test_a_first_window_leaves_unasked_and_then_a_packet_for_each_pull():
    ends = ndp()
    sends(ends, 30)
    first = flight(ends[0], 0)
    assert len(first) == WINDOW
    arrive(ends[1], 0, first[:1], RTT // 2)
    answers = flight(ends[1], RTT // 2)
    assert kinds(1, answers) == [ACK]
    assert said(1, answers)[0].pulls == 1
    arrive(ends[0], 1, answers, RTT)
    assert len(flight(ends[0], RTT)) == 1


def test_a_message_that_fits_the_first_window_is_never_pulled():
    ends = ndp()
    sends(ends, WINDOW)
    Network(ends, impaired(Random(1))).run()
    assert ends[1].counters.sent_packets == WINDOW
    assert ends[1].counters.extra.get("pulls", 0) == 0


@pytest.mark.parametrize("count", [WINDOW, WINDOW + 1, 3 * WINDOW, 500])
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_no_pull_is_in_vain(count, share):
    """A pull for each packet beyond the first window, and for each that was cut; of which is another one cut."""
    random = Random(3)
    ends = ndp()
    network = Cutting(ends, impaired(random))
    network.cuts = frozenset(number for number in range(count) if random.random() < share)
    buffer = sends(ends, count)
    network.run()
    assert network.events == [[Sent(1)], [Received(1)]]
    assert bytes(buffer) == bytes(range(256)) * count
    sender, receiver = (end.counters for end in ends)
    assert sender.retransmitted_packets == receiver.naks == receiver.extra.get("trimmed", 0) == len(network.cuts)
    assert (sender.timeouts, receiver.duplicates) == (0, 0)
    pulled = ends[1]._connections[0]._receiver._pulled
    assert pulled == count - WINDOW + len(network.cuts)


def test_a_header_is_answered_at_once_and_its_packet_leaves_when_it_is_pulled():
    ends = ndp()
    sends(ends, 30)
    first = flight(ends[0], 0)
    arrive(ends[1], 0, cut(first[:2]), RTT // 2)
    answers = flight(ends[1], RTT // 2)
    assert kinds(1, answers) == [NACK, NACK]
    assert [told.pulls for told in said(1, answers)] == [1, 1], "one pull a packet's time"
    arrive(ends[0], 1, answers, RTT)
    assert [told.offset for told in said(0, flight(ends[0], RTT))] == [0], "before what is new"
    pulls = flight(ends[1], RTT // 2 + PACKET_NS)
    assert [(told.kind, told.pulls) for told in said(1, pulls)] == [(PULL, 2)]
    arrive(ends[0], 1, pulls, 2 * RTT)
    assert [told.offset for told in said(0, flight(ends[0], 2 * RTT))] == [MTU]


def test_what_is_there_is_not_asked_for_again():
    """Of a packet that was sent twice the header comes after the packet."""
    ends = ndp()
    sends(ends, 3)
    first = flight(ends[0], 0)
    arrive(ends[1], 0, [first[0], *cut(first[:1])], RTT // 2)
    assert kinds(1, flight(ends[1], RTT // 2)) == [ACK, ACK]


def test_pulls_leave_at_the_line_s_rate_in_turn_for_all_senders():
    ends = ndp(4)
    for rank in (1, 2, 3):
        ends[0].post_receive(rank, rank, rank, memoryview(bytearray(100 * MTU)), 0)
        ends[rank].post_send(rank, 0, rank, bytes(100 * MTU), 0)
        arrive(ends[0], rank, cut(flight(ends[rank], 0)), 0)
    pulled, now = [], 0
    while len(pulled) < 3 * WINDOW:
        for burst in flight(ends[0], now):
            control = said(0, [burst], 4)[0]
            if control.kind == PULL:
                pulled.append((now, burst.peer))
        deadline = ends[0].deadline()
        if deadline is None:
            break
        now = max(now, deadline)
        ends[0].on_deadline(now)
    assert [peer for _, peer in pulled[:6]] == [2, 3, 1, 2, 3, 1], "the first was told with a NACK"
    assert {late - early for (early, _), (late, _) in pairwise(pulled)} == {PACKET_NS}
    assert len(pulled) == 3 * WINDOW - 1, "so many as came, and no more"


def test_a_lost_pull_is_made_up_for_by_the_next():
    ends = ndp()
    sends(ends, 40)
    arrive(ends[1], 0, flight(ends[0], 0), RTT // 2)
    flight(ends[1], RTT // 2)  # ten acknowledgements with the first pull, and all of it lost
    flight(ends[1], RTT // 2 + PACKET_NS)
    third = flight(ends[1], RTT // 2 + 2 * PACKET_NS)
    arrive(ends[0], 1, third, RTT)
    assert len(flight(ends[0], RTT)) == 3
    assert ends[0].counters.timeouts == 0


def test_the_last_pull_of_all_is_made_up_for_by_a_timeout():
    """Rank 2 has the first turn, and the pull of rank 1 is lost."""
    ends = ndp(3)
    for rank in (2, 1):
        ends[0].post_receive(rank, rank, rank, memoryview(bytearray(MTU)), 0)
        ends[rank].post_send(rank, 0, rank, bytes(MTU), 0)
        arrive(ends[0], rank, cut(flight(ends[rank], 0)), RTT // 2)
    answers = [burst for burst in flight(ends[0], RTT // 2) if burst.peer == 1]
    assert [(told.kind, told.pulls, told.waiting) for told in said(0, answers, 3)] == [(NACK, 0, 1)]
    arrive(ends[1], 0, answers, RTT)
    assert kinds(0, flight(ends[0], RTT // 2 + PACKET_NS), 3) == [PULL]
    assert flight(ends[1], RTT) == []
    now = ends[1].deadline()
    ends[1].on_deadline(now)
    again = flight(ends[1], now)
    assert (len(again), ends[1].counters.timeouts) == (1, 1)
    arrive(ends[0], 1, again, now)
    assert ends[0].events() == (Received(1),)


def test_what_left_no_header_is_sent_again_after_a_timeout_without_a_pull():
    ends = ndp()
    sends(ends, 5)
    first = flight(ends[0], 0)
    arrive(ends[1], 0, first[1:], RTT // 2)
    arrive(ends[0], 1, flight(ends[1], RTT // 2), RTT)
    rto = settle(TransportSpec.model_validate({"kind": "ndp"}), PATH).values["rto"]
    assert ends[0].deadline() == rto
    ends[0].on_deadline(rto)
    assert [told.offset for told in said(0, flight(ends[0], rto))] == [0]
    assert ends[0].deadline() == 3 * rto, "twice as long the next time"


def test_who_waits_for_its_turn_is_not_timed_out():
    """Of a hundred senders the last is pulled after as many packets' times, which is more than its timeout."""
    ends = ndp(101, rto="1us")
    for rank in range(1, 101):
        ends[0].post_receive(rank, rank, rank, memoryview(bytearray(WINDOW * MTU)), 0)
        ends[rank].post_send(rank, 0, rank, bytes(WINDOW * MTU), 0)
        arrive(ends[0], rank, cut(flight(ends[rank], 0)), 0)
    answers = [burst for burst in flight(ends[0], 0) if burst.peer == 100]
    assert kinds(0, answers, 101) == [NACK] * WINDOW
    arrive(ends[100], 0, answers, 500)
    assert ends[100].deadline() >= 100 * PACKET_NS


def test_a_peer_that_says_nothing_is_given_up():
    ends = ndp(retries=3)
    sends(ends, 5)
    network = Network(ends, lambda *_: ())
    network.run()
    (failed,) = network.events[0]
    assert isinstance(failed, Failed)
    assert "after 3 retries" in failed.reason
    assert ends[0].counters.timeouts == 4


def test_a_peer_that_posts_nothing_is_given_up_however_much_it_pulls():
    ends = ndp(rnr_retries=2)
    ends[0].post_send(1, 1, 9, bytes(10 * WINDOW * MTU), 0)
    network = Network(ends, impaired(Random(1)))
    network.run()
    (failed,) = network.events[0]
    assert isinstance(failed, Failed)
    assert "after 2 retries" in failed.reason
    assert ends[1].counters.extra["rnr_naks"] == 3


def test_every_packet_takes_the_next_path_in_an_order_drawn_anew():
    ends = ndp(entropies=8, first_window=32)
    sends(ends, 32)
    ports = [burst.source_port for burst in flight(ends[0], 0)]
    rounds = [ports[first : first + 8] for first in range(0, 32, 8)]
    assert all(sorted(each) == sorted(rounds[0]) for each in rounds)
    assert len(set(rounds[0])) == 8
    assert len({tuple(each) for each in rounds}) > 1


def test_a_rank_has_as_many_ports_whatever_its_peers():
    ends = ndp(5, entropies=4)
    ports: Counter[int] = Counter()
    for peer in range(1, 5):
        ends[0].post_send(peer, peer, 1, bytes(8 * MTU), 0)
    ports.update(burst.source_port for burst in flight(ends[0], 0))
    assert len(ports) == 4


def test_messages_posted_one_by_one_begin_with_a_first_window_each():
    """Each is posted when the one before is acknowledged, as in a ring."""
    ends = ndp()
    for now in (0, 10 * RTT, 20 * RTT):
        sends(ends, WINDOW, now)
        there = flight(ends[0], now)
        assert len(there) == WINDOW
        arrive(ends[1], 0, there, now + RTT // 2)
        arrive(ends[0], 1, flight(ends[1], now + RTT // 2), now + RTT)
        assert ends[0].events() == (Sent(1),)
    assert ends[0].counters.timeouts == 0


def test_it_is_one_of_the_transports_that_take_no_congestion_control():
    with pytest.raises(ParameterError, match="is clocked by its receivers' pulls"):
        pair("ndp", congestion="dcqcn")
