"""How DBLP's bound follows the training: by the gradient's norm, by accuracy, or not at all."""

import numpy as np
import pytest

from testbed.transport.dblp.phases import Accuracy, Critical, Static, Turns
from testbed.transport.endpoint import Message
from tests.transport.pump import Network

from .pairs import MTU, endpoints, operation

TURNS = Turns(accuracy=0.5, slow_gain=0.03, fast_gain=0.07)


def bounds(policy, norms):
    """The bound of each operation, given the norms that come of them."""
    found = []
    for norm in norms:
        policy.begin()
        found.append(policy.bound)
        if policy.wants_norm:
            policy.normed(norm)
    return found


def test_a_norm_that_changes_by_half_is_critical_until_the_next_check():
    norms = [8, 0, 0, 8, 0, 0, 12, 0, 0, 11.9, 0, 0, 5, 0]  # checked every third operation
    found = bounds(Critical(0.4, 0.0, 0.5, 3), norms)
    #      first check: critical; 8 to 8: not; to 12, a half more: critical; to 11.9: not; to 5: critical
    assert found == [0, 0, 0, 0, 0.4, 0.4, 0.4, 0, 0, 0, 0.4, 0.4, 0.4, 0]


def test_a_norm_of_nothing():
    assert bounds(Critical(0.4, 0.0, 0.5, 1), [0, 0, 3, 3, 3]) == [0, 0, 0, 0, 0.4]


def test_phases_by_accuracy_never_go_back():
    policy, found = Accuracy((0.8, 0.4, 0.1), TURNS, every=1), []
    for accuracy in (0.3, 0.45, 0.55, 0.61, 0.70, 0.72, 0.40):
        policy.learned(accuracy)
        found.append(policy.bound)
    # gains: .30, .15, .10 (fast), .06 (middle), .09 (fast, but never back), .02 (end), then worse
    assert found == [0.8, 0.8, 0.8, 0.4, 0.4, 0.1, 0.1]


def test_accuracy_is_looked_at_now_and_then():
    policy = Accuracy((0.8, 0.4, 0.1), TURNS, every=3)
    for _ in range(5):
        policy.learned(0.9)  # at the third a gain of 0.9
    assert policy.bound == 0.8
    policy.learned(0.9)
    assert policy.bound == 0.1


def test_static():
    assert bounds(Static(0.001), [1, 9, 1]) == [0.001] * 3


class Reduction:
    """Worker 1 of two and its server 0: worker pushes `values`, server spreads what it likes."""

    def __init__(self, **keys):
        self.ends = endpoints("dblp", **({"phases": "critical", "bound": 0.4, "every": 1} | keys))
        self.number = 0

    def carry(self, mean):
        """An operation; how much of what the server spreads is missing at the worker."""
        size, base = mean.nbytes, 10 * self.number
        pull = Message(1, False, False, 0, base, 1, 0, size)
        self.ends[1].begin(operation(pull, number=self.number), 0)
        self.ends[0].begin(operation(pull._replace(id=2, send=True, peer=1), number=self.number), 0)
        self.ends[1].post_receive(1, 0, base, memoryview(bytearray(size)), 0)
        self.ends[0].post_send(2, 1, base, mean.view(np.uint8).data, 0)
        network = Network(self.ends, lambda *_: (10_000,))
        network.run()
        self.number += 1
        (received,) = network.events[1]
        return sum(last - first for first, last in received.missing) / size


def test_an_endpoint_takes_the_norm_from_what_is_copied():
    reduction = Reduction()
    ones = np.ones(100 * MTU // 4, np.float32)
    assert reduction.carry(ones) == 0  # nothing known
    assert reduction.carry(ones) == 0  # the first check counts as critical
    assert reduction.carry(ones) == pytest.approx(0.4)
    # 40 % of the ones are missing now, so that the norm falls by 1 - sqrt(0.6) = 22 %: not critical
    assert reduction.carry(2 * ones) == pytest.approx(0.4)
    # doubled and without 40 %: twice the norm of the last, or critical
    assert reduction.carry(2 * ones) == 0
    assert [end.counters.extra["lossless_operations"] for end in reduction.ends] == [3, 3]


def test_an_endpoint_hears_of_accuracy():
    reduction = Reduction(phases="accuracy", begin_bound=0.4, middle_bound=0.2, end_bound=0.1)
    ones = np.ones(100 * MTU // 4, np.float32)
    found = []
    for accuracy in (0.4, 0.58, 0.64, 0.65):
        found.append(reduction.carry(ones))
        for end in reduction.ends:
            end.learned({"accuracy": accuracy, "loss": 1.0})
    found.append(reduction.carry(ones))
    assert found == pytest.approx([0.4, 0.4, 0.4, 0.2, 0.1])


def test_data_leave_at_the_rate():
    end = endpoints("dblp", rate="1Gbps")[0]
    end.post_send(2, 1, 7, bytes(1000 * MTU), 0)
    now, packets = 0, 0
    while packets < 1000:
        for burst in end.transmit(now, 8):
            assert burst.not_before_ns <= now
            packets += burst.packets
        if packets < 1000:
            now = end.deadline()
    wire_bits = 8 * (MTU + 16 + 66)  # around a UDP payload: Ethernet with FCS, preamble and gap, IPv4, UDP
    assert now == pytest.approx((1000 - 8) * wire_bits, rel=0.01)
