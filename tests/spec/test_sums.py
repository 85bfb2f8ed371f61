"""`transport: aggregation` in a spec: each mistake by name, before anything runs."""

from pathlib import Path

import pytest

from testbed.spec.reader import read_spec

from .examples import mistakes

RIGHT = """\
name: sums
topology: {kind: leaf-spine, spines: 2, leaves: 2, hosts: 4}
links:
  - {name: all, rate: 1Gbps, mtu: 1500}
switches: {kind: native, program: aggregate_tree}
workers: {count: 8}
transport: {kind: aggregation, values: 256, slots: 512, root: spine1}
workload: {size: 1MiB, collective: allreduce, algorithm: in-network}
"""
CASES = [  # what is set, at which key it is told, in the message, suggestion
    (["switches.kind=ovs"], "switches.kind", "is ovs, and only native switches add up", "native"),
    (["workload.collective=broadcast"], "workload.collective", "it does allreduce alone", "allreduce"),
    (["workload.algorithm=ring"], "workload.algorithm", "ring exchanges messages", "in-network"),
    (["workload.algorithm=innetwork"], "workload.algorithm", "no algorithm is called 'innetwork'", "in-network"),
    (["workload.root=1"], "workload.root", "in-network has no root rank", ""),
    (["transport.root=spine7"], "transport.root", "'spine7' is not there", "spine1"),
    (["transport.root=h0"], "transport.root", "'h0' is a host", ""),
    (["transport.slots=4096"], "transport.slots", "is 4096, and the pool of leaf0 has 2048 slots", "2048"),
    (["transport.values=100"], "transport.values", "100 is not one of 32, 64", "96"),
    (
        ["links.all.mtu=600"],
        "transport.values",
        "a packet of 1068 bytes, and the link h0>leaf0 has an mtu of 600",
        "128",
    ),
    (["switches.program=l3_ecmp"], "transport.root", "spine1 runs l3_ecmp, which does not add up", ""),
    (
        ["topology.hosts=20", "workers.count=40", "switches.program=aggregate"],
        "workers.count",
        "40 contributions meet",
        "32",
    ),
    (["transport.congestion=dcqcn"], "transport.congestion", "is clocked by its slots", ""),
]
OPTICAL = ["transport.protocol=optical", "switches.program=aggregate_optical"]
OPTICAL_CASES = [  # likewise, of units that average
    (["transport.bits=12"], "transport.bits", "12 is not one of 8, 16", "8"),
    (["transport.fraction=9"], "transport.fraction", "9 is out of range: from 0 to 5", ""),
    (["transport.values=512"], "transport.values", "512 is not one of 32, 64", "256"),
    (["workload.dtype=int32"], "workload.dtype", "is int32, and means of words are rounded", "float32"),
    (["workers.count=6"], "workers.placement", "do not stand for as many workers each: leaf0 for 4, leaf1 for 2", ""),
    (["workers.count=3"], "workers.count", "3 contributions meet at leaf0, and a unit that averages has 1, 2, 4", ""),
    (
        ["switches.program=aggregate_tree"],
        "transport.root",
        "runs aggregate_tree, which does not add up by protocol optical: aggregate_optical does",
        "",
    ),
    (["transport.protocol=slots"], "transport.root", "runs aggregate_optical, which does not add up by protocol", ""),
]


def test_it_is_right(tmp_path: Path) -> None:
    assert mistakes(tmp_path, RIGHT) == ()


@pytest.mark.parametrize(("settings", "key", "message", "suggestion"), CASES)
def test_a_mistake(settings: list[str], key: str, message: str, suggestion: str, tmp_path: Path) -> None:
    (error,) = mistakes(tmp_path, RIGHT, *settings)
    assert (error.key, error.suggestion) == (key, suggestion)
    assert message in error.message


def test_units_that_average_are_right(tmp_path: Path) -> None:
    assert mistakes(tmp_path, RIGHT, *OPTICAL) == ()


@pytest.mark.parametrize(("settings", "key", "message", "suggestion"), OPTICAL_CASES)
def test_a_mistake_with_units_that_average(
    settings: list[str], key: str, message: str, suggestion: str, tmp_path: Path
) -> None:
    (error,) = mistakes(tmp_path, RIGHT, *OPTICAL, *settings)
    assert (error.key, error.suggestion) == (key, suggestion)
    assert message in error.message


def test_in_network_needs_the_network(tmp_path: Path) -> None:
    (error,) = mistakes(tmp_path, RIGHT, "transport.kind=roce")
    assert error.key == "workload.algorithm"
    assert "goes with transport: aggregation, and this is roce" in error.message


def test_switches_may_be_left_to_auto_and_their_program_unnamed(tmp_path: Path) -> None:
    path = tmp_path / "auto.yaml"
    path.write_text(RIGHT.replace("{kind: native, program: aggregate_tree}", "{kind: auto}"))
    assert read_spec(path).switches.kind == "auto"
