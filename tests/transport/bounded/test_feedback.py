"""A congestion control hears of marks and round trips although nothing is acknowledged packet by packet."""

from random import Random

from testbed.transport.bounded.feedback import Listener, Teller
from testbed.transport.congestion.control import Windowed
from testbed.transport.endpoint import ECN_CE, ECN_ECT0
from testbed.transport.roce.flights import Flights, Line
from testbed.transport.tcp_model.timer import RetransmissionTimeout
from testbed.wire.bounded import SEQUENCES, Feedback
from tests.transport.pump import Network, impaired

from .pairs import MTU, endpoints, is_data


class Heard(Windowed):
    """Writes down what it hears; a window of 8."""

    def __init__(self):
        self.acks, self.timeouts = [], 0
        self._allow(8)

    def on_ack(self, now, packets, rtt_ns, marked):
        self.acks.append((now, packets, rtt_ns, marked))

    def on_timeout(self, now):  # noqa: ARG002
        self.timeouts += 1


def listener():
    control = Heard()
    return control, Listener(control, Flights(Line(10**9), 8 * 1000), RetransmissionTimeout(50_000, 20_000))


def test_packets_that_were_passed_over_count_as_come():
    control, ear = listener()
    ear.left(2, 0, 0, 2000)
    ear.left(2, 0, 0, 2000)
    assert ear.room == 4
    assert ear.hear(Feedback(3, True), 40_000)
    # The fourth packet of 1000 bytes began to leave at 24 us.
    assert control.acks == [(40_000, 4, 40_000 - 24_000, True)]
    assert ear.room == 8
    assert ear.hear(Feedback(1, False), 41_000)  # older: nothing new
    assert len(control.acks) == 1
    assert not ear.hear(Feedback(9, False), 42_000)  # never sent


def test_silence_is_a_timeout_only_if_somebody_waits():
    control, ear = listener()
    ear.left(8, 0, 0, 8000)
    assert ear.room == 0
    assert not ear.on_deadline(49_999, waited_for=True)
    assert ear.on_deadline(50_000, waited_for=True)
    assert (control.timeouts, ear.room) == (1, 8)
    ear.left(8, 60_000, 60_000, 8000)
    assert not ear.on_deadline(159_999, waited_for=True)  # twice as long, the second time
    assert not ear.on_deadline(160_000, waited_for=False)
    assert (control.timeouts, ear.room) == (1, 8)


def test_silence_is_measured_by_round_trips():
    control, ear = listener()
    for number in range(20):
        ear.left(1, number * 10**6, number * 10**6, 1000)
        assert ear.hear(Feedback(number, False), number * 10**6 + 30_000)
    ear.left(8, 10**8, 10**8, 8000)
    assert ear.expires_ns == 10**8 + 30_000 + 20_000  # RFC 6298, above the round trip at least what was said
    assert control.timeouts == 0


def test_a_receiver_says_at_once_that_marks_begin_or_end():
    """RFC 8257, section 3.2: each report is about packets that were all marked or all not."""
    teller = Teller()
    for sequence, (ecn, asks) in enumerate([(0, False), (0, False), (3, False), (3, True), (0, False), (0, True)]):
        teller.take(sequence, ecn, asks=asks)
    assert list(teller.due) == [Feedback(1, False), Feedback(3, True), Feedback(5, False)]


def test_numbers_come_round():
    teller = Teller()
    teller.take(SEQUENCES - 1, 0, asks=False)
    teller.take(0, 0, asks=True)
    teller.take(SEQUENCES - 2, 0, asks=True)  # overtaken
    assert [each.sequence for each in teller.due] == [0, 0]


def marked_run(marks):
    ends = endpoints("dlcp", congestion="dctcp", bound=0)
    size = 400 * MTU
    ends[1].post_receive(1, 0, 7, memoryview(bytearray(size)), 0)
    ends[0].post_send(2, 1, 7, bytes(size), 0)
    network = Network(ends, impaired(Random(1)), marks=marks)
    network.run()
    return network


def test_dctcp_slows_down_for_marks():
    def marks(_sender, burst, index):
        return is_data(burst.headers[index]) and burst.ecn == ECN_ECT0

    free, slowed = marked_run(lambda *_: False), marked_run(marks)
    assert slowed.now > 3 * free.now
    assert slowed.totals()["retransmitted_packets"] == free.totals()["retransmitted_packets"] == 0
    data = sum(is_data(header) for _, _, burst in slowed.log for header in burst.headers)
    assert slowed.totals()["ecn_marked"] == data == 400


def test_slow_start_doubles_what_leaves_in_a_round_trip():
    at_once: dict[int, int] = {}
    for at, _, burst in marked_run(lambda *_: False).log:
        if is_data(burst.headers[0]):
            at_once[at] = at_once.get(at, 0) + burst.packets
    assert list(at_once.values()) == [10, 20, 40, 80, 160, 90]  # of 400, from RFC 6928's first window on


def test_dcqcn_gets_its_notifications():
    ends = endpoints("dlcp", congestion="dcqcn", bound=0, ports="round-robin", entropies=4)
    ends[1].post_receive(1, 0, 7, memoryview(bytearray(100 * MTU)), 0)
    ends[0].post_send(2, 1, 7, bytes(100 * MTU), 0)
    network = Network(ends, impaired(Random(1)), marks=lambda _, burst, index: is_data(burst.headers[index]))
    network.run()
    total = network.totals()
    assert total["cnps"] == total["cnps_received"] > 0
    assert {burst.ecn for _, _, burst in network.log if is_data(burst.headers[0])} == {ECN_ECT0}
    ports = [burst.source_port for _, sender, burst in network.log if sender == 0 and is_data(burst.headers[0])]
    assert len(set(ports)) == 4
    assert all(count in (24, 25, 26) for count in map(ports.count, set(ports)))
    assert ECN_CE == 3
