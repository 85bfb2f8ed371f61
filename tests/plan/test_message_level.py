"""The plan of a run without packets predicts what the plan with packets does."""

from typing import Any

import pytest

from testbed.plan.serial import from_json, to_json
from tests.plan.specs import planned

LINKS = [{"rate": "10Gbps", "delay": "2us"}, {"select": "host", "rate": "5Gbps", "delay": "1us"}]


@pytest.mark.parametrize("network", [{"kind": "star", "hosts": 8}, {"kind": "fat-tree", "k": 4}], ids=str)
@pytest.mark.parametrize(
    "algorithm",
    [
        *["ring", "halving-doubling", "recursive-doubling", "binomial", "parameter-server", "double-tree", "tar"],
        {"kind": "tar", "incast": 3},
        {"kind": "tar-2d", "groups": 7},
    ],
)
def test_round_trip_and_bound(network: dict[str, Any], algorithm: Any) -> None:
    keys: dict[str, Any] = {
        "engine": "simulation",
        "topology": network,
        "links": LINKS,
        "workers": {"count": 7},
        "workload": {"size": "300kB", "algorithm": algorithm, "gradients": "none"},
    }
    packets, messages = planned(**keys), planned(**keys, fidelity="message")
    assert messages.prediction.base_rtt_ns == packets.prediction.base_rtt_ns
    assert messages.prediction.bound_ns == pytest.approx(packets.prediction.bound_ns, abs=1)
    assert messages.placement == packets.placement
    assert (messages.switches, messages.alternates) == ({}, ())


def test_as_json_and_back() -> None:
    plan = planned(
        engine="simulation", fidelity="message", workers={"count": 4}, workload={"size": "1MiB", "gradients": "none"}
    )
    assert from_json(to_json(plan)) == plan
