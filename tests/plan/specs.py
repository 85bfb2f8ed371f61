"""Specs, plans and machines for the tests of the plan."""

from dataclasses import replace
from typing import Any

from testbed.plan import DEFAULT_CAPABILITIES, Plan, plan
from testbed.plan.network import endpoint_path, rank_paths
from testbed.plan.paths import RankPaths
from testbed.spec.model import Spec
from testbed.transport.endpoint import Path

STOCK = replace(
    DEFAULT_CAPABILITIES,
    datapath="kernel",
    netem=True,
    packet_hops_per_s=1e6,
    path_excess_ns=120_000,
    switch_ns=0,
)


def spec(**keys: Any) -> Spec:
    return Spec.model_validate({"name": "t", "topology": {"kind": "fat-tree", "k": 4}, **keys})


def planned(machine: Any = DEFAULT_CAPABILITIES, **keys: Any) -> Plan:
    return plan(spec(**keys), machine)


def path_of(made: Plan) -> Path:
    """The path that the only job's transport may know of."""
    return endpoint_path(made, made.jobs[0])


def ranks_of(made: Plan) -> RankPaths:
    """The paths between the only job's ranks."""
    return rank_paths(made, made.jobs[0])


def star(ranks: int, **keys: Any) -> dict[str, Any]:
    """A star of equal links of 1 Gb/s and 1 us, ranks on all hosts."""
    return {
        "topology": {"kind": "star", "hosts": ranks},
        "links": [{"rate": "1Gbps", "delay": "1us"}],
        "workers": {"count": ranks},
        **keys,
    }
