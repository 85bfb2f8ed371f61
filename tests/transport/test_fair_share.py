"""Two and four flows that begin one after the other come to share a bottleneck, packet by packet, on a small dumbbell.

Bounds are the issue's (Jain's index 0.95), and of the queue those of each control's own theory.
"""

from math import exp

import pytest

from testbed.transport import Path

from .bottleneck import Dumbbell, Queue, jain

RATE, RTT = 10 * 10**9, 24_000
BDP = RATE * RTT // (8 * 10**9)
GOODPUT = RATE * 1024 / 1106
LONG = Queue(limit=400_000, least=100_000, most=400_000, probability=0.2)  # DCQCN's marks at 25 Gb/s, drop-tail behind
SHORT = Queue(limit=400_000, least=BDP // 2, most=2 * BDP)  # around a round trip of queue, UEC's target


def dumbbell(kind: str, flows: int, queue: Queue, over_ns: int, **constants: object) -> Dumbbell:
    path = Path(RATE, RTT, 1500, 16, queueing_ns=queue.limit * 8 * 10**9 // RATE)
    starts = [flow * over_ns // flows for flow in range(flows)]
    return Dumbbell(flows, path, queue, starts, congestion={"kind": kind, **constants})


@pytest.mark.slow
@pytest.mark.parametrize("flows", [2, 4])
@pytest.mark.parametrize(
    ("kind", "queue", "settled_ms"),
    [("dcqcn", LONG, 15), ("swift", LONG, 4), ("dctcp", LONG, 5), ("nscc", SHORT, 4)],
)
def test_flows_share_fairly_and_fill_the_link(kind, queue, settled_ms, flows):
    net = dumbbell(kind, flows, queue, 1_000_000)
    settled_ns = settled_ms * 10**6
    rates = net.rates(settled_ns, settled_ns + 5_000_000)
    assert jain(rates) >= 0.95
    assert sum(rates) >= 0.95 * GOODPUT
    assert net.dropped == 0


@pytest.mark.slow
def test_without_control_the_first_comer_keeps_what_it_has():
    """What the others are measured against: two windows of three BDP stand in the queue."""
    net = dumbbell("none", 2, LONG, 1_000_000)
    net.rates(4_000_000, 6_000_000)
    assert sorted(net.waits)[len(net.waits) // 2] > 4 * RTT


@pytest.mark.slow
@pytest.mark.parametrize("flows", [2, 4])
def test_patched_timely_is_fair_and_waits_as_its_theorem_says(flows):
    """T_low (1 + N delta / (beta C)) with T_low of 2.5 base RTTs and delta of C / 1000, less the base RTT.

    All begin at C / N, as in Zhu et al.: from twice the link's rate it takes some thousand round trips more.
    """
    net = dumbbell("timely", flows, LONG, 1_000_000, initial_rate=f"{RATE // flows}bps")
    rates = net.rates(25_000_000, 30_000_000)
    assert jain(rates) >= 0.95
    assert sum(rates) >= 0.95 * GOODPUT
    assert net.dropped == 0
    expected_ns = 60_000 * (1 + flows / (0.008 * 1000)) - RTT
    assert sorted(net.waits)[len(net.waits) // 2] == pytest.approx(expected_ns, rel=0.1)


@pytest.mark.slow
def test_swift_keeps_the_queue_at_its_target():
    """Without flow scaling both flows aim at 1.5 base RTTs, and swing around it by less than a quarter."""
    net = dumbbell("swift", 2, LONG, 1_000_000, fs_range="0ns")
    net.rates(4_000_000, 9_000_000)
    assert sorted(net.waits)[len(net.waits) // 2] == pytest.approx(RTT / 2, rel=0.25)


@pytest.mark.slow
def test_dctcp_keeps_the_queue_at_a_step_of_marks():
    """Alizadeh et al., section 3.4: with all marked above K, the queue stands around K and swings little."""
    threshold = 2 * BDP
    net = dumbbell("dctcp", 2, Queue(limit=400_000, least=threshold, most=threshold), 1_000_000)
    net.rates(5_000_000, 10_000_000)
    expected_ns = threshold * 8 * 10**9 // RATE
    assert sorted(net.waits)[len(net.waits) // 2] == pytest.approx(expected_ns, rel=0.2)


@pytest.mark.slow
def test_patched_timely_comes_to_it_as_fast_as_its_theorem_says():
    """From 7 and 3 Gb/s, as in the paper, the difference shrinks by exp(-delta (N - 1) t / (2 Seg))."""
    path = Path(RATE, RTT, 1500, 16, queueing_ns=LONG.limit * 8 * 10**9 // RATE)
    net = Dumbbell(2, path, LONG, [0, 0], congestion="timely")
    net.run(RTT)
    for flow, rate_bps in enumerate((7e9, 3e9)):
        net.control(flow)._rate_bps = rate_bps
    differences = []
    for first_ms in (10, 20, 30):
        fast, slow = net.rates(first_ms * 10**6, (first_ms + 10) * 10**6)
        differences.append(fast - slow)
    shrinks = exp(-10e6 / (2 * 16 * 1106 * 8) * 0.010)  # in 10 ms, with delta of 10 Mb/s and runs of 16 packets
    assert differences[1] / differences[0] == pytest.approx(shrinks, rel=0.1)
    assert differences[2] / differences[1] == pytest.approx(shrinks, rel=0.1)
