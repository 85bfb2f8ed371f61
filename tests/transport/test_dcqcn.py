"""DCQCN against values worked out by hand from the paper's equations, on a toy bottleneck, and over endpoints."""

from dataclasses import replace
from itertools import pairwise

import pytest

from testbed.spec.model import TransportSpec
from testbed.transport import Path, settle
from testbed.transport.congestion import CONGESTIONS, CongestionControl
from testbed.transport.endpoint import ECN_CE, ECN_ECT0, Burst
from testbed.wire import roce
from testbed.wire.roce import decode

from .pump import Network, arrival, endpoints

LINE = 40_000_000_000
PAPER_PATH = Path(rate_bps=LINE, base_rtt_ns=24_000, mtu_bytes=1500, max_burst_packets=64)
T_NS = 55_000


def control(path: Path = PAPER_PATH, kind: str = "dcqcn", **keys: object) -> CongestionControl:
    settings = settle(TransportSpec(kind="roce", congestion={"kind": kind, **keys}), path)
    return settings.congestion.make(path, settings.congestion_values)


def test_it_starts_at_the_line_rate():
    assert control().rate_bps(10**9) is None
    assert control().deadline() is None


def test_a_cnp_cuts_by_half_the_estimate():
    dcqcn = control()
    dcqcn.on_cnp(0)
    assert dcqcn.rate_bps(0) == LINE // 2  # the estimate begins at 1
    assert dcqcn.alpha(0) == 1.0  # (1 - g) 1 + g
    dcqcn.on_cnp(1_000)
    assert dcqcn.rate_bps(1_000) == LINE // 4


def test_the_estimate_decays_in_closed_form():
    dcqcn = control()
    dcqcn.on_cnp(0)
    for periods in (0, 1, 2, 100, 1000):
        assert dcqcn.alpha(periods * 55_000) == pytest.approx((1 - 1 / 256) ** periods, rel=1e-12)
    assert dcqcn.alpha(2 * 55_000 - 1) == pytest.approx(1 - 1 / 256)


def test_the_estimate_rises_with_each_cnp():
    dcqcn = control(g=0.25, initial_alpha=0.5)
    dcqcn.on_cnp(0)
    assert dcqcn.rate_bps(0) == 30_000_000_000  # x (1 - 0.5 / 2)
    assert dcqcn.alpha(0) == 0.625  # 0.75 x 0.5 + 0.25
    dcqcn.on_cnp(10)
    assert dcqcn.rate_bps(10) == 20_625_000_000  # x (1 - 0.625 / 2)
    assert dcqcn.alpha(10) == 0.71875
    dcqcn.on_cnp(10 + 55_000)  # one decay first: 0.71875 x 0.75 = 0.5390625
    assert dcqcn.alpha(10 + 55_000) == 0.75 * 0.5390625 + 0.25


def test_fast_recovery_then_additive_then_hyper_increase_by_hand():
    dcqcn = control(byte_counter="100GB", fast_recovery=2)
    dcqcn.on_cnp(0)  # target 40, rate 20
    rates = [dcqcn.rate_bps(step * T_NS) for step in (0, 1, 2)]
    assert rates == [20_000_000_000, 30_000_000_000, 35_000_000_000]
    # Additive from the third event on: the target is at the line rate already and is capped there.
    assert dcqcn.rate_bps(3 * T_NS) == 37_500_000_000
    dcqcn.on_cnp(3 * T_NS)
    dcqcn.on_cnp(3 * T_NS)  # target 18.75 x ..., both cuts by the estimate of that time
    alpha = 1 - 1 / 256  # three periods of 55 us since the first CNP bring it to (1 - g)^3
    first_alpha = alpha**3
    second_alpha = (1 - 1 / 256) * first_alpha + 1 / 256
    target = 37.5e9 * (1 - first_alpha / 2)
    rate = target * (1 - second_alpha / 2)
    assert dcqcn.rate_bps(3 * T_NS) == int(rate)
    for step in range(1, 3):
        rate = (target + rate) / 2
        assert dcqcn.rate_bps((3 + step) * T_NS) == int(rate)
    for step in range(3, 6):
        target += 40e6  # R_AI
        rate = (target + rate) / 2
        assert dcqcn.rate_bps((3 + step) * T_NS) == pytest.approx(rate, abs=1)


def test_hyper_increase_needs_both_counters_and_grows():
    dcqcn = control(fast_recovery=1, byte_counter="1MB", least_rate="1Mbps")
    for _ in range(10):
        dcqcn.on_cnp(0)
    start = dcqcn.rate_bps(0)
    target = 2 * start  # before the last cut, by half since the estimate stays at 1
    rate = start
    for step in range(1, 5):
        # The timer first (its stage is step - 1), then 1 MB sent (stage step - 1 too).
        timer_stage, byte_stage = step - 1, step - 1
        for stages in ((timer_stage, byte_stage), (timer_stage + 1, byte_stage)):
            if min(stages) > 1:
                target += (min(stages) - 1) * 400e6
            elif max(stages) >= 1:
                target += 40e6
            rate = (target + rate) / 2
        dcqcn.on_sent(step * T_NS, 1_000_000)
        assert dcqcn.rate_bps(step * T_NS) == pytest.approx(rate, abs=2)


def test_the_rate_comes_back_to_the_line_and_stays():
    dcqcn = control()
    dcqcn.on_cnp(0)
    assert dcqcn.rate_bps(10**10) is None
    assert dcqcn.deadline() is None


def test_the_rate_is_never_cut_below_the_least():
    dcqcn = control(least_rate="1Gbps")
    for _ in range(100):
        dcqcn.on_cnp(0)
    assert dcqcn.rate_bps(0) == 1_000_000_000


def test_the_next_change_is_known():
    dcqcn = control()
    dcqcn.on_cnp(1_000)
    assert dcqcn.deadline() == 1_000 + T_NS
    dcqcn.rate_bps(1_000 + T_NS)
    assert dcqcn.deadline() == 1_000 + 2 * T_NS


def test_at_most_one_cnp_in_its_interval():
    dcqcn = control()
    assert [dcqcn.on_marked(now) for now in (5, 6, 50_004, 50_005, 50_006, 200_000)] == [
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_constants_scale_with_rate_and_round_trip():
    path = Path(rate_bps=100_000_000, base_rtt_ns=2_400_000, mtu_bytes=1500, max_burst_packets=8)
    scaled = settle(TransportSpec(congestion="dcqcn"), path).congestion_values
    assert scaled["g"] == 1 / 256
    assert (scaled["cnp_interval"], scaled["alpha_interval"], scaled["increase_interval"]) == (
        5_000_000,
        5_500_000,
        5_500_000,
    )
    assert scaled["additive_increase"] == 100_000  # 40 Mb/s x 100 Mb/s / 40 Gb/s
    assert scaled["byte_counter"] == 2_500_000  # 10 MB x 100 (time) / 400 (rate)
    assert scaled["least_rate"] == 8 * 1106 * 10**9 // (10 * 2_400_000)
    long = settle(TransportSpec(congestion="dcqcn", mtu=4096), replace(path, mtu_bytes=9000)).congestion_values
    assert long["least_rate"] == 8 * (4096 + 82) * 10**9 // (10 * 2_400_000)  # packets of that transport
    published = settle(TransportSpec(congestion="dcqcn", scale="none"), path).congestion_values
    assert (published["cnp_interval"], published["additive_increase"]) == (50_000, 40_000_000)
    fast = settle(TransportSpec(congestion="dcqcn"), Path(LINE, 2_000, 1500, 64)).congestion_values
    assert fast["cnp_interval"] == 50_000


@pytest.mark.parametrize("kind", ["dcqcn", "dcqcn-connectx"])
def test_two_flows_share_a_bottleneck(kind):
    """A fluid queue that marks between Kmin and Kmax (25 Gb/s: 100 and 400 KB, 20 %), CNPs one RTT later."""
    line, step_ns, rtt_ns = 25_000_000_000, 5_000, 24_000
    path = Path(line, rtt_ns, 1500, 64)
    flows = [control(path, kind), control(path, kind)]
    flows[1].on_cnp(0)  # one begins at half the rate
    flows[1].on_cnp(0)
    queue_bytes, sent, marks, pending = 0.0, [0.0, 0.0], [0.0, 0.0], []
    for step in range(40_000):  # 200 ms
        now = step * step_ns
        rates = [flow.rate_bps(now) or line for flow in flows]
        arriving = [rate * step_ns / 8e9 for rate in rates]
        queue_bytes = max(0.0, queue_bytes + sum(arriving) - line * step_ns / 8e9)
        probability = 1.0 if queue_bytes > 400e3 else max(0.0, 0.2 * (queue_bytes - 100e3) / 300e3)
        for index, flow in enumerate(flows):
            marks[index] += probability * arriving[index] / 1024
            if marks[index] >= 1:
                marks[index] = 0.0
                if flow.on_marked(now):
                    pending.append((now + rtt_ns, index))
            flow.on_sent(now, round(arriving[index]))
            sent[index] += arriving[index] if step >= 20_000 else 0.0
        while pending and pending[0][0] <= now:
            flows[pending.pop(0)[1]].on_cnp(now)
    share = sent[0] / sum(sent)
    assert 0.45 < share < 0.55
    assert sum(sent) * 8 / 0.1 > 0.85 * line
    assert queue_bytes < 2e6


class TestOverEndpoints:
    """CE marks become CNPs, CNPs become paced sending."""

    PATH = Path(rate_bps=10**9, base_rtt_ns=24_000, mtu_bytes=1500, max_burst_packets=4)

    def pair(self, congestion="dcqcn"):
        return endpoints(2, self.PATH, kind="roce", mtu=1024, congestion=congestion, window=1000, timeout=20)

    def test_data_is_ecn_capable_only_with_a_control_that_reacts(self):
        for congestion, expected in (("dcqcn", ECN_ECT0), ("none", 0)):
            a, _ = self.pair(congestion)
            a.post_send(1, 1, 1, b"x", 0)
            assert a.transmit(0, 1)[0].ecn == expected

    def test_marks_become_cnps(self):
        a, b = self.pair()
        b.post_receive(1, 0, 1, memoryview(bytearray(40 * 1024)), 0)
        a.post_send(1, 1, 1, bytes(40 * 1024), 0)
        flight = a.transmit(0, 1000)
        found = []
        for index, burst in enumerate(flight):
            b.receive(arrival(0, burst, ecn=ECN_CE), index * 20_000)
            found += [
                (index, out) for out in b.transmit(index * 20_000, 10) if decode(out.headers[0]).opcode == roce.CNP
            ]
        assert [index for index, _ in found] == [0, 3, 6, 9]  # at most one in 50 us
        burst = found[0][1]
        assert (burst.dscp, burst.headers, len(burst.payload)) == (
            48,
            (roce.cnp(decode(burst.headers[0]).destination_qp),),
            0,
        )
        assert (b.counters.ecn_marked, b.counters.cnps) == (40, 4)
        a.receive(arrival(1, burst), 10**6)
        assert a.counters.extra["cnps_received"] == 1
        assert a._queue_pairs[1].congestion.rate_bps(10**6) == 500_000_000

    def test_without_control_marks_are_only_counted(self):
        a, b = self.pair("none")
        b.post_receive(1, 0, 1, memoryview(bytearray(1)), 0)
        a.post_send(1, 1, 1, b"x", 0)
        b.receive(arrival(0, a.transmit(0, 1)[0], ecn=ECN_CE), 0)
        [only] = b.transmit(0, 10)
        assert decode(only.headers[0]).opcode == roce.ACKNOWLEDGE
        assert (b.counters.ecn_marked, b.counters.cnps) == (1, 0)

    def test_departures_keep_the_rate(self):
        a, _ = self.pair({"kind": "dcqcn", "increase_interval": "1s", "byte_counter": "1GB"})
        a.post_send(1, 1, 1, bytes(100 * 1024), 0)
        a.transmit(0, 1)
        a.receive(arrival(1, self.cnp_burst(a._queue_pairs[1].address.local_qp)), 0)
        departures, now = [], 0
        while (at := a.deadline()) is not None and len(departures) < 10:
            now = max(now, at)
            departures += [(burst.not_before_ns, burst.packets) for burst in a.transmit(now, 1000)]
        burst_ns = 4 * (1024 + 12 + 46 + 24) * 8 * 2  # four packets at 500 Mb/s: 2 ns a bit
        gaps = [later[0] - earlier[0] for earlier, later in pairwise(departures)]
        assert gaps == [burst_ns] * 9

    def test_a_late_driver_catches_up_by_one_run_and_no_more(self):
        a, _ = self.pair({"kind": "dcqcn", "increase_interval": "1s", "byte_counter": "1GB"})
        a.post_send(1, 1, 1, bytes(100 * 1024), 0)
        a.transmit(0, 4)
        a.receive(arrival(1, self.cnp_burst(a._queue_pairs[1].address.local_qp)), 0)
        late = a.transmit(10_000_000, 1000)
        burst_ns = 4 * (1024 + 12 + 46 + 24) * 8 * 2
        reth_ns = 16 * 8 * 2  # which the first run had on top
        assert [burst.not_before_ns for burst in late] == [10_000_000 - burst_ns - reth_ns, 10_000_000 - reth_ns]

    def test_what_is_posted_after_a_pause_is_asked_for_then_and_not_before(self):
        a, _ = self.pair({"kind": "dcqcn", "increase_interval": "1s", "byte_counter": "1GB"})
        a.post_send(1, 1, 1, bytes(1024), 0)
        a.transmit(0, 4)
        a.receive(arrival(1, self.cnp_burst(a._queue_pairs[1].address.local_qp)), 0)
        a.post_send(2, 1, 1, bytes(1024), 10_000_000)
        [burst] = a.transmit(10_000_700, 1000)
        assert burst.not_before_ns == 10_000_000

    def test_the_bottleneck_is_not_overrun_for_long(self):
        ends = self.pair()
        for number in range(20):
            ends[1].post_receive(number, 0, number, memoryview(bytearray(100_000)), 0)
            ends[0].post_send(number, 1, number, bytes(100_000), 0)
        seen = [0]

        def marks(sender, *_):
            seen[0] += sender == 0
            return sender == 0 and seen[0] % 50 == 0

        network = Network(ends, lambda *_: [12_000], marks)
        network.run(budget_packets=4)
        total = network.totals()
        assert total["cnps"] == total["cnps_received"] > 3
        assert total["retransmitted_packets"] == 0

    @staticmethod
    def cnp_burst(destination_qp):
        return Burst(0, 0xC000, 48, 0, 0, 0, (roce.cnp(destination_qp),), b"")


def test_all_controls_speak_the_protocol():
    for congestion in CONGESTIONS.values():
        settings = settle(TransportSpec(congestion=congestion.name), PAPER_PATH)
        control = congestion.make(PAPER_PATH, settings.congestion_values)
        control.on_sent(0, 1000)
        control.on_ack(1, 1, 10_000 if control.run_packets else None, marked=False)
        control.on_gap(1)
        control.on_timeout(2)
        control.on_cnp(3)
        control.on_marked(4)
        assert control.ecn in (0, ECN_ECT0)
        assert control.rate_bps(5) is None or control.rate_bps(5) <= LINE
