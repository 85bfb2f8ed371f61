"""Jobs that switches add up for: whether every worker's packets come to the tree."""

import pytest

from testbed.errors import RunFailed
from testbed.fabric.sums import check_ways
from testbed.plan.model import Entry, Plan
from tests.plan.specs import planned


def plan() -> Plan:
    return planned(
        topology={"kind": "leaf-spine", "spines": 2, "leaves": 2, "hosts": 2},
        switches={"kind": "native"},
        workers={"count": 3},
        transport={"kind": "aggregation"},
        workload={"size": "64KiB"},
    )


def test_the_plans_own_routes_lead_there() -> None:
    made = plan()
    check_ways(made, {name: switch.entries for name, switch in made.switches.items()})


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ((), "rank 2 on h2 is outside the tree of sums: leaf1 has no route to 10.255.0.1"),
        ((Entry("10.0.0.0/8", "ecmp", (3, 4)),), "leaf1 has no route to 10.255.0.1"),
        ((Entry("10.0.0.0/8", "single", (3,)), Entry("10.255.0.1/32", "single", (4,))), "leaf1 sends by port 4"),
    ],
)
def test_a_worker_outside_the_tree_is_named(wrong: tuple[Entry, ...], told: str) -> None:
    """h2 is alone at leaf1, which has to pass its contributions on to spine0."""
    made = plan()
    entries = {name: switch.entries for name, switch in made.switches.items()} | {"leaf1": wrong}
    with pytest.raises(RunFailed, match=told.replace(".", r"\.")):
        check_ways(made, entries)
