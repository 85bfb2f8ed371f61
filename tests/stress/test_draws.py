"""Faults and traffic: the same draws whatever order they are asked for in, as often as the spec says."""

import math
import random
from fractions import Fraction
from itertools import islice
from math import sqrt
from typing import Any

import pytest

from testbed.plan.model import Plan
from testbed.plan.planner import plan as make_plan
from testbed.spec.model import FaultSpec, Spec, TrafficSpec
from testbed.stress.draws import TimedFault, flows, slow_factor, stall_ns, timeline


def _faults(*faults: dict[str, Any]) -> tuple[FaultSpec, ...]:
    return tuple(FaultSpec.model_validate(fault) for fault in faults)


STALL = _faults({"kind": "stall", "worker": "all", "probability": "5%", "for": "10us", "of": "step"})


def _stall(key: tuple[int, int, int], seed: int = 1) -> int:
    rank, iteration, step = key
    return stall_ns(STALL, seed, rank=rank, iteration=iteration, step=step, uncongested_ns=0)


def test_a_draw_does_not_depend_on_what_was_drawn_before() -> None:
    keys = [(rank, iteration, step) for rank in range(4) for iteration in range(10) for step in range(14)]
    in_order = {key: _stall(key) for key in keys}
    random.Random(1).shuffle(keys)
    assert {key: _stall(key) for key in keys} == in_order
    assert {key: _stall(key, seed=2) for key in keys} != in_order


def test_stalls_are_as_frequent_as_asked() -> None:
    count, chance = 20_000, 0.05
    stalls = [_stall((rank, iteration, 3)) for rank in range(8) for iteration in range(count // 8)]
    assert set(stalls) == {0, 10_000}
    hits = sum(stall > 0 for stall in stalls)
    assert abs(hits - count * chance) < 5 * sqrt(count * chance * (1 - chance))  # five standard deviations


def test_a_stall_strikes_its_workers_and_its_unit_alone() -> None:
    faults = _faults({"kind": "stall", "worker": [1, 3], "probability": 1, "factor": 20})
    by_iteration = [stall_ns(faults, 1, rank=rank, iteration=0, step=None, uncongested_ns=1_000) for rank in range(4)]
    assert by_iteration == [0, 20_000, 0, 20_000]
    assert stall_ns(faults, 1, rank=1, iteration=0, step=0, uncongested_ns=1_000) == 0


def test_two_stalls_are_drawn_apart_and_add_up() -> None:
    one = {"kind": "stall", "worker": "all", "probability": "50%", "for": "1us"}
    totals = [
        stall_ns(_faults(one, one), 1, rank=0, iteration=iteration, step=None, uncongested_ns=0)
        for iteration in range(200)
    ]
    assert set(totals) == {0, 1_000, 2_000}


def test_other_faults_do_not_change_the_draws() -> None:
    with_slow = (*_faults({"kind": "slow", "worker": 0, "factor": 2}), *STALL)
    for iteration in range(100):
        key: dict[str, Any] = {"rank": 1, "iteration": iteration, "step": 2, "uncongested_ns": 0}
        assert stall_ns(with_slow, 1, **key) == stall_ns(STALL, 1, **key)


def test_slow_workers_multiply() -> None:
    faults = _faults({"kind": "slow", "worker": "all", "factor": 1.5}, {"kind": "slow", "worker": 2, "factor": 4})
    assert [slow_factor(faults, rank) for rank in range(3)] == [1.5, 1.5, 6.0]


def _plan(*faults: dict[str, Any]) -> Plan:
    """A star: the cable of h<i> is cable i, its links 2i (up, h<i>>s0) and 2i + 1 (down), or the other way round."""
    keys = {
        "name": "test",
        "topology": {"kind": "star", "hosts": 4},
        "links": [{"rate": "1Gbps", "delay": "10us"}],
        "workers": {"count": 4},
        "workload": {"size": "64KiB"},
        "faults": list(faults),
    }
    return make_plan(Spec.model_validate(keys))


def test_a_kill_names_its_ranks() -> None:
    faults = timeline(
        _plan({"kind": "kill", "worker": [0, 2], "at": "5ms"}, {"kind": "kill", "worker": 1, "at": "1ms"})
    )
    assert tuple(faults) == (TimedFault(1_000_000, "kill", workers=(1,)), TimedFault(5_000_000, "kill", workers=(0, 2)))


def test_a_cable_that_two_faults_take_down_comes_up_with_the_last() -> None:
    plan = _plan(
        {"kind": "link-down", "select": "h0", "at": "1ms", "for": "4ms"},
        {"kind": "link-down", "select": ["h0", "h1"], "at": "2ms", "for": "5ms"},
        {"kind": "link-down", "select": "h2", "at": "3ms"},
    )
    cable = {host: plan.graph.links_from(host)[0].cable for host in plan.graph.hosts}
    assert tuple(timeline(plan)) == (
        TimedFault(1_000_000, "link-down", cables=(cable["h0"],)),
        TimedFault(2_000_000, "link-down", cables=(cable["h1"],)),
        TimedFault(3_000_000, "link-down", cables=(cable["h2"],)),
        TimedFault(7_000_000, "link-up", cables=tuple(sorted((cable["h0"], cable["h1"])))),
    )


def test_a_cable_that_comes_up_and_goes_down_at_once_stays_down() -> None:
    plan = _plan(
        {"kind": "link-down", "select": "h0", "at": "1ms", "for": "1ms"},
        {"kind": "link-down", "select": "h0", "at": "2ms", "for": "1ms"},
    )
    assert [(fault.at_ns, fault.kind) for fault in timeline(plan)] == [(1_000_000, "link-down"), (3_000_000, "link-up")]


def test_links_that_are_set_get_back_what_still_holds() -> None:
    plan = _plan(
        {"kind": "link-set", "select": "h0>*", "at": "1ms", "for": "4ms", "rate": "100Mbps"},
        {"kind": "link-set", "select": "h0>*", "at": "2ms", "for": "1ms", "rate": "10Mbps", "loss": "1%"},
    )
    (link,) = plan.graph.links_from("h0")
    sets = [(fault.at_ns, fault.parameters[link.index]) for fault in timeline(plan)]
    assert [(at_ns, p.rate_bps, p.loss.mean if p.loss else 0) for at_ns, p in sets] == [
        (1_000_000, 10**8, 0),
        (2_000_000, 10**7, 0.01),
        (3_000_000, 10**8, 0),
        (5_000_000, 10**9, 0),
    ]
    assert sets[-1][1] == link.parameters
    assert all(list(fault.parameters) == [link.index] for fault in timeline(plan))


def _traffic(**keys: Any) -> TrafficSpec:
    return TrafficSpec.model_validate({"to": "h9", **keys})


def test_constant_traffic_takes_its_rate_on_the_wire() -> None:
    (flow,) = flows([_traffic(**{"kind": "constant", "from": "h0", "rate": "100Mbps", "packet": "934B"})], seed=1)
    assert flow.period_ns == Fraction(8 * 1000, 100) * 1000  # 934 B and 66 B around them at 100 Mb/s: 80 us
    assert flow.burst_bytes == flow.packet_bytes == 934
    first = flow.burst_ns(0)
    assert first is not None
    assert 0 <= first < 80_000
    assert flow.burst_ns(1_000_000) == first + 80_000_000_000  # no drift


def test_a_rate_that_does_not_divide_a_second_does_not_drift() -> None:
    (flow,) = flows([_traffic(**{"kind": "constant", "from": "h0", "rate": "7Mbps", "packet": "1024B"})], seed=1)
    first, last = flow.burst_ns(0), flow.burst_ns(7_000_000)
    assert first is not None
    assert last is not None
    assert abs(last - first - 8 * 1090 * 10**9) <= 1


def test_equal_flows_do_not_keep_step_but_incast_does() -> None:
    sources = ["h0", "h1", "h2"]
    constant = flows([_traffic(**{"kind": "constant", "from": sources, "rate": "1Mbps"})], seed=1)
    assert len({flow.start_ns for flow in constant}) == 3
    incast = flows(
        [
            _traffic(
                **{"kind": "incast", "from": sources, "size": "64KiB", "every": "10ms", "start": "1ms", "stop": "25ms"}
            )
        ],
        seed=1,
    )
    assert [flow.source for flow in incast] == sources
    for flow in incast:
        assert [flow.burst_ns(number) for number in range(4)] == [1_000_000, 11_000_000, 21_000_000, None]
        assert (flow.burst_bytes, flow.packet_bytes) == (65_536, 1024)


@pytest.mark.parametrize("seed", [1, 2])
def test_flows_are_the_same_for_one_seed(seed: int) -> None:
    traffic = [_traffic(**{"kind": "constant", "from": "h0", "rate": "1Mbps"})]
    assert flows(traffic, seed) == flows(traffic, seed)
    assert flows(traffic, 1) != flows(traffic, 2)


@pytest.mark.parametrize(
    ("distribution", "ratio"), [("lognormal", 1.5), ("lognormal", 3), ("pareto", 1.5), ("pareto", 3)]
)
def test_a_stall_s_distribution_has_its_median_and_its_ratio(distribution: str, ratio: float) -> None:
    """Of 20,000 stalls; the quantiles' standard errors are under 1 % (median) and 4 % (p99)."""
    keys = {"probability": "100%", "for": "1ms", "distribution": distribution, "tail_ratio": ratio}
    faults = _faults({"kind": "stall", "worker": "all", **keys})
    stalls = sorted(
        stall_ns(faults, 1, rank=rank, iteration=iteration, step=None, uncongested_ns=0)
        for rank in range(4)
        for iteration in range(5000)
    )
    assert stalls[10_000] == pytest.approx(1_000_000, rel=0.03)
    assert stalls[19_800] / stalls[10_000] == pytest.approx(ratio, rel=0.12)
    if distribution == "pareto":  # a least stall: 2^(-1/a) medians
        exponent = math.log(50) / math.log(ratio)
        assert stalls[0] == pytest.approx(1e6 * 2 ** (-1 / exponent), rel=0.01)


def test_how_long_a_stall_is_does_not_change_which_there_are() -> None:
    stall = {"kind": "stall", "worker": "all", "probability": "5%", "for": "10us", "of": "step"}
    spread = _faults({**stall, "distribution": "pareto", "tail_ratio": 3})
    keys: list[dict[str, Any]] = [
        {"rank": 0, "iteration": iteration, "step": 1, "uncongested_ns": 0} for iteration in range(500)
    ]
    assert [stall_ns(spread, 1, **key) > 0 for key in keys] == [stall_ns(STALL, 1, **key) > 0 for key in keys]


def test_a_window_comes_again_and_again() -> None:
    plan = _plan(
        {"kind": "link-set", "select": "h0>*", "at": "1ms", "for": "2ms", "every": "10ms", "loss": "40%"},
        {"kind": "link-set", "select": "h0>*", "at": "12ms", "rate": "10Mbps"},
    )
    (link,) = plan.graph.links_from("h0")
    sets = [(fault.at_ns, fault.parameters[link.index]) for fault in islice(timeline(plan), 7)]
    assert [(at_ns, p.rate_bps, p.loss.mean if p.loss else 0) for at_ns, p in sets] == [
        (1_000_000, 10**9, 0.4),
        (3_000_000, 10**9, 0),
        (11_000_000, 10**9, 0.4),
        (12_000_000, 10**7, 0.4),
        (13_000_000, 10**7, 0),
        (21_000_000, 10**7, 0.4),
        (23_000_000, 10**7, 0),
    ]
