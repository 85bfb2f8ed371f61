"""What an environment adds to a plan, in units of the baseline's bound: by its severity alone, for every transport."""

from typing import Any

import pytest

from testbed.plan import plan
from testbed.plan.model import Plan
from testbed.spec.model import Spec

RATE = 10**8


def planned(environment: dict[str, Any] | None, hosts: int = 4, **keys: Any) -> Plan:
    spec = {
        "name": "test",
        "engine": "simulation",
        "topology": {"kind": "star", "hosts": hosts},
        "links": [{"rate": "100Mbps", "delay": "50us"}],
        "workers": {"count": 4},
        "workload": {"size": "64KiB"},
        **({"environment": {"tail_ratio": 3, "severity": 2, **environment}} if environment is not None else {}),
        **keys,
    }
    return plan(Spec.model_validate(spec))


def bound_ns() -> int:
    """Of the baseline: a ring of 4 over TCP."""
    return planned(None, transport={"kind": "tcp"}).jobs[0].prediction.bound_ns


def test_stalls_are_as_many_as_events_and_last_their_severity() -> None:
    (stall,) = planned({"by": "stalls", "events": 0.3}).spec.faults
    assert (stall.kind, stall.worker, stall.of) == ("stall", "all", "step")
    assert stall.probability == pytest.approx(0.3 / (4 * 6))  # 4 ranks, 6 steps
    assert stall.for_ns == 2 * bound_ns()


def test_a_slow_host_is_slow_both_ways_in_windows() -> None:
    """Of 3 times 4 iterations; as many fast ones lie between as make a fifth of all iterations slow: 16."""
    up, down = planned({"by": "slow-host", "events": 0.2}).spec.faults
    assert isinstance(up.select, str)
    assert isinstance(down.select, str)
    assert up.select.split(">") == down.select.split(">")[::-1]
    for fault in (up, down):
        assert fault.rate_bps == round(RATE / 3)
        assert fault.for_ns == pytest.approx(12 * bound_ns())
        assert fault.every_ns == pytest.approx((12 + 16) * bound_ns(), abs=1)
        assert fault.at_ns is not None
        assert 0 < fault.at_ns < 16 * bound_ns()


@pytest.mark.parametrize(("hosts", "sources"), [(4, ("h0", "h1", "h2", "h3")), (6, ("h4", "h5"))])
def test_congestion_comes_from_hosts_that_are_no_rank_s_if_there_are(hosts: int, sources: tuple[str, ...]) -> None:
    (flows,) = planned({"events": 0.5}, hosts).spec.traffic
    assert (flows.kind, flows.sources, flows.targets) == ("flows", sources, ("h0", "h1", "h2", "h3"))
    assert flows.sizes == f"{round(2 * bound_ns() * RATE / 8e9)}B"
    assert flows.every_ns == pytest.approx(len(sources) * bound_ns() / 0.5, abs=1)


def test_it_is_the_same_for_every_transport_and_algorithm() -> None:
    of_roce = planned({"by": "stalls"}).spec
    of_tcp = planned(
        {"by": "stalls"}, transport={"kind": "tcp"}, workload={"size": "64KiB", "algorithm": "binomial"}
    ).spec
    assert of_roce.faults == of_tcp.faults


def test_it_comes_after_the_spec_s_own() -> None:
    kill = {"kind": "kill", "worker": 1, "at": "1s"}
    assert [fault.kind for fault in planned({"by": "stalls"}, faults=[kill]).spec.faults] == ["kill", "stall"]


@pytest.mark.parametrize("severity", [0, None])
def test_nothing_is_added_without_a_severity(severity: float | None) -> None:
    spec = planned({"severity": severity}).spec
    assert (spec.faults, spec.traffic) == ((), ())
