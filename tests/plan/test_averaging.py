"""Units that average: what they divide by in a cascade, and trees in which there is no mean of means."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from testbed.dataplane.programs import SumFacts, facts_of, path_of
from testbed.plan.aggregation import AggregationError, averaging, tree_of
from testbed.plan.model import Address, Aggregation
from testbed.plan.serial import from_json, to_json
from testbed.transport.aggregation.passage import packets
from tests.plan.specs import planned, star
from tests.plan.test_aggregation import graph

UNIT = SumFacts(children=32, slots=2048, passes_on=True, protocol="optical")


def tree(topology: Mapping[str, Any], *hosts: str, root: str | None = None) -> Aggregation:
    net = graph(topology)
    workers = {host: Address(f"10.0.0.{i}", f"02:00:00:00:00:{i:02x}") for i, host in enumerate(hosts or net.hosts)}
    programs = dict.fromkeys(net.switches, "aggregate_optical")
    return tree_of(net, workers, root, programs, {"aggregate_optical": UNIT}.get, protocol="optical")


@pytest.mark.parametrize("workers", [1, 2, 4, 8, 16, 32])
def test_one_unit_divides_by_its_inputs(workers: int) -> None:
    (unit,) = averaging(tree({"kind": "star", "hosts": workers}), 2).switches.values()
    assert unit.shift is not None
    assert 1 << unit.shift == workers


@pytest.mark.parametrize(("fraction", "leaf", "root"), [(0, 2, 2), (1, 1, 3), (2, 0, 4), (5, 0, 4)])
def test_four_units_below_one_leave_the_fraction_to_it(fraction: int, leaf: int, root: int) -> None:
    """16 workers: with two bits of fraction units below pass their sums on, as mean and remainder."""
    found = averaging(tree({"kind": "leaf-spine", "spines": 1, "leaves": 4, "hosts": 4}), fraction)
    assert [found.switches[name].shift for name in ("leaf0", "leaf3", "spine0")] == [leaf, leaf, root]


def test_three_inputs_are_no_power_of_two() -> None:
    with pytest.raises(
        AggregationError, match="3 contributions meet at s0, and a unit that averages has 1, 2, 4"
    ) as it:
        averaging(tree({"kind": "star", "hosts": 3}), 2)
    assert it.value.key == ("workers", "count")


def test_inputs_that_stand_for_unlike_many_workers_have_no_mean() -> None:
    topology = {"kind": "leaf-spine", "spines": 1, "leaves": 2, "hosts": 4}
    with pytest.raises(
        AggregationError, match="spine0 do not stand for as many workers each: leaf0 for 4, leaf1 for 2"
    ):
        averaging(tree(topology, "h0", "h1", "h2", "h3", "h4", "h5"), 2)


def test_the_shipped_program_is_known() -> None:
    assert facts_of(path_of("aggregate_optical")).sums == UNIT


def test_a_spec_of_it_is_planned() -> None:
    """1 MiB are 1024 chunks of 256 values, in blocks of at least 64; 8 packets of exponents first and one a block."""
    transport = {"kind": "aggregation", "protocol": "optical", "block": 64}
    made = planned(**star(4, switches={"kind": "native"}, transport=transport, workload={"size": "1MiB"}))
    assert made.switching.native["s0"].program == "aggregate_optical"
    (job,) = made.jobs
    assert job.aggregation is not None
    assert job.aggregation.switches["s0"].shift == 2
    assert packets(1 << 18, 256, 64) == (1024, 8 + 15)
    assert job.prediction.packets_per_iteration == 2 * 4 * (1024 + 8 + 15)
    assert from_json(json.loads(json.dumps(to_json(made)))) == made
