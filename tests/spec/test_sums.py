"""`transport: aggregation` in a spec: each mistake by name, before anything runs."""

import json
from pathlib import Path

import pytest

from testbed.dataplane.programs import document_of, path_of
from testbed.spec.errors import SpecErrors
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


def swapped(switch: str, program: str, *more: str) -> list[str]:
    fault = (
        f"{{kind: swap-program, select: {switch}, at: 1ms, program: {program}{''.join(f', {key}' for key in more)}}}"
    )
    return [f"faults=[{fault}]"]


TREE = "aggregate_tree"
SWAPS = [  # protocol and program of the switches, the exchange, at which key it is told, in the message, suggestion
    ("slots", swapped("spine1", "l3_ecmp"), "program", "l3_ecmp does not add up, and spine1 adds up", TREE),
    ("slots", swapped("all", "spray"), "program", "and leaf0 adds up for the job; at 2 other switches", TREE),
    ("slots", swapped("leaf1", "aggregate", "registers: keep"), "program", "adds up for the job below spine1", TREE),
    (
        "slots",
        swapped("spine1", "aggregate_besteffort", "registers: keep"),
        "program",
        "adds up by protocol besteffort, and spine1 adds up for the job by slots",
        TREE,
    ),
    ("slots", swapped("spine1", "aggregate_tree"), "registers", "may leave the job waiting for ever", "keep"),
    ("slots", swapped("spine1", "aggregate", "registers: reset"), "registers", "may leave the job waiting", "keep"),
    ("besteffort", swapped("spine1", "l3_ecmp"), "program", "l3_ecmp does not add up", "aggregate_besteffort"),
    ("optical", swapped("leaf0", "aggregate_tree"), "program", "by protocol slots, and", "aggregate_optical"),
]
PROTOCOLS = {
    "slots": [],
    "besteffort": ["transport.protocol=besteffort", "switches.program=aggregate_besteffort", "workers.count=4"],
    "optical": OPTICAL,
}


@pytest.mark.parametrize(("protocol", "fault", "key", "message", "suggestion"), SWAPS)
def test_an_exchange_after_which_nothing_adds_up(
    protocol: str, fault: list[str], key: str, message: str, suggestion: str, tmp_path: Path
) -> None:
    (error,) = mistakes(tmp_path, RIGHT, *PROTOCOLS[protocol], *fault)
    assert (error.key, error.suggestion) == (f"faults.0.{key}", suggestion)
    assert message in error.message


@pytest.mark.parametrize(
    ("protocol", "fault"),
    [
        ("slots", swapped("spine0", "l3_ecmp")),  # which is no switch of the tree
        ("slots", swapped("spine1", "aggregate", "registers: keep")),
        ("slots", swapped("all", "aggregate_tree", "registers: keep")),
        ("besteffort", swapped("spine1", "aggregate_besteffort")),
        ("optical", swapped("all", "aggregate_optical")),
    ],
)
def test_an_exchange_that_sums_survive(protocol: str, fault: list[str], tmp_path: Path) -> None:
    assert mistakes(tmp_path, RIGHT, *PROTOCOLS[protocol], *fault) == ()


def test_an_exchange_is_told_with_its_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "swap.yaml"
    path.write_text(RIGHT + "faults:\n  - {kind: swap-program, select: spine1, at: 1ms, program: l3_ecmp}\n")
    with pytest.raises(SpecErrors, match=r"swap\.yaml:10:60: faults\.0\.program: l3_ecmp does not add up"):
        read_spec(path)


def test_a_program_whose_registers_are_others_cannot_keep_the_sums(tmp_path: Path) -> None:
    document = document_of(path_of("aggregate"))
    for register in document["register_arrays"]:
        register["size"] *= 2
    (tmp_path / "larger.json").write_text(json.dumps(document))
    (error,) = mistakes(tmp_path, RIGHT, *swapped("spine1", f"{tmp_path}/larger.json", "registers: keep"))
    assert error.key == "faults.0.program"
    assert "larger cannot keep sums and exponents and arrivals and chunks as aggregate_tree has them" in error.message
