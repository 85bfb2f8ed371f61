"""SRNIC: what has to do with a gap takes the slow path at both ends, and nothing else does."""

from random import Random

from testbed.spec.model import TransportSpec
from testbed.transport import settle
from tests.transport.pump import PATH, Network, impaired
from tests.transport.selective.pair import arrive, flight, headers, numbers, pair, sends

SLOW_NS = 7_000


def test_a_gap_costs_the_slow_path_at_both_ends():
    a, b = pair("srnic", slow_path="7us", ack_every=100)
    sends([a, b], 8)
    sent = flight(a, 0)
    arrive(b, 0, [sent[1]], 10_000)
    assert flight(b, 10_000) == []
    assert b.deadline() == 10_000 + SLOW_NS
    b.on_deadline(17_000)
    arrive(a, 1, flight(b, 17_000), 27_000)
    assert flight(a, 27_000) == []
    assert a.deadline() == 27_000 + SLOW_NS
    a.on_deadline(34_000)
    assert numbers(flight(a, 34_000), headers(sent)[0].psn) == [0]


def test_without_a_loss_it_is_irn():
    instants = []
    for kind in ("irn", "srnic"):
        ends = pair(kind)
        sends(ends, 400)
        network = Network(ends, impaired(Random(1)))
        network.run()
        instants.append([(now, sender, burst.packets) for now, sender, burst in network.log])
    assert instants[0] == instants[1]


def test_the_slow_path_scales_with_the_round_trip():
    assert settle(TransportSpec(kind="srnic"), PATH).values["slow_path"] == 20_000 * PATH.base_rtt_ns // 24_000
