"""`testbed run` with switches that add up: exact sums, every packet accounted for, and what keeps a slot waiting."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli import runs
from tests.cli.runs import Run

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]
LINKS = [{"rate": "200Mbps", "delay": "50us", "queue": "256KiB"}]
SUMS: dict[str, Any] = {
    "time_dilation": 10,
    "switches": {"kind": "native"},
    "links": LINKS,
    "transport": {"kind": "aggregation"},
    "workload": {"size": "64KiB", "iterations": 3},
    "limits": {"wall": "100s", "stall": "2s"},
}
LEAF_SPINE = {"kind": "leaf-spine", "spines": 2, "leaves": 2, "hosts": 3}


def measured(run: Run) -> dict[str, Any]:
    """Wait for a run that must succeed; its result."""
    result = runs.measured(run)
    assert set(runs.reasons(result)) <= {"start-skew", "late-departures", "rtt-excess", "rate"}, "a busy machine's"
    return result


@pytest.mark.parametrize("framing", ["udp", "roce"])
def test_a_star_sums_integers(framing: str, tmp_path: Path) -> None:
    """64 KiB are 64 packets of 256 values a worker and iteration; three workers send each."""
    transport = {"framing": framing}
    with Run(tmp_path, **runs.merged(SUMS, {"transport": transport, "workload": {"dtype": "int32"}})) as run:
        result = measured(run)
    assert (result["algorithm"], result["transport"], result["wrong"]) == ("in-network", "aggregation", 0)
    assert result["busbw_factor"]["ring"] == pytest.approx(4 / 3)
    assert result["busbw_bps"]["in_network"] is not None
    packets = result["packets"]
    first_sent = packets["sent"] - packets["retransmitted"]
    assert first_sent == 3 * 3 * 64
    if not packets["retransmitted"]:
        assert (packets["received"], packets["duplicated"], packets["dropped_program"]) == (576, 2 * 192, 2 * 192)
        around = 46 if framing == "udp" else 62  # Ethernet with FCS, IPv4, UDP; header; RoCE's BTH and ICRC
        assert result["bytes_on_wire"] == 576 * (1024 + around + 16)
    completed = {
        row["name"]: int(row["packets"])
        for row in run.table("switches.csv")
        if row["kind"] == "slot" and row["name"].endswith(" completed")
    }
    assert sum(completed.values()) == 4 * 64, "the warm-up's too"
    assert all(re.fullmatch(r"job\[\d+\] completed", name) for name in completed)


def test_a_tree_sums_floats_under_loss(tmp_path: Path) -> None:
    changes = {
        "topology": {**LEAF_SPINE, "hosts": 3},
        "workers": {"count": 6},
        "links": [{**LINKS[0], "loss": "1%"}],
        "transport": {"timeout": "5ms"},
    }
    with Run(tmp_path, **runs.merged(SUMS, changes)) as run:
        result = measured(run)
    assert (result["wrong"], result["missing_bytes"]) == (0, 0)
    assert 0 < result["nmse"] < 1e-12
    packets = result["packets"]
    assert packets["dropped_loss"] > 0
    assert packets["retransmitted"] > 0
    sums = {row["switch"] for row in run.table("switches.csv") if row["kind"] == "slot"}
    assert sums == {"leaf0", "leaf1", "spine0"}


def test_a_slot_that_waits_names_whom_for(tmp_path: Path) -> None:
    changes = {
        "topology": LEAF_SPINE,
        "workers": {"count": 6},
        "workload": {"iterations": 100},
        "faults": [{"kind": "link-down", "select": "h4-leaf1", "at": "1ms"}],
        "limits": {"stall": "200ms"},
    }
    with Run(tmp_path, **runs.merged(SUMS, changes)) as run:
        assert run.end() == 1
    failure = run.result["failure"]
    assert re.search(r"at leaf1 slot \d+ \(chunk \d+\).* of job lack the contribution of rank 4 on h4", failure)
    assert re.search(r"at spine0 slot \d+ .* lack the contribution of switch leaf1", failure)


def test_a_swapped_program_goes_on_adding_up(tmp_path: Path) -> None:
    """Under loss too: who lacks a result asks the new program for it."""
    fault = {"kind": "swap-program", "select": "s0", "at": "5ms", "program": "aggregate", "registers": "keep"}
    changes = {
        "links": [{**LINKS[0], "loss": "1%"}],
        "workload": {"dtype": "int32", "size": "256KiB"},
        "faults": [fault],
    }
    with Run(tmp_path, **runs.merged(SUMS, changes)) as run:
        result = measured(run)
    assert result["wrong"] == 0
    (swap,) = result["swaps"]
    assert {"sums", "exponents", "arrivals", "chunks"} <= set(swap["kept"])


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (
            {"kind": "kill", "worker": 4},
            r"rank 4 on h4 was killed \(a fault of the spec\), and sums need its contribution",
        ),
        (
            {"kind": "link-down", "select": "h4-leaf1"},
            r"h4-leaf1 was cut for good \(a fault of the spec\), and sums go by it",
        ),
    ],
    ids=["kill", "link-down"],
)
def test_sums_that_can_never_be_end_the_run_soon(fault: dict[str, Any], why: str, tmp_path: Path) -> None:
    """`limits.stall` is model time, at this dilation 5 minutes."""
    changes = {
        "topology": LEAF_SPINE,
        "workers": {"count": 6},
        "workload": {"iterations": 1000},
        "faults": [{**fault, "at": "5ms"}],
        "limits": {"stall": "30s"},
    }
    with Run(tmp_path, **runs.merged(SUMS, changes)) as run:
        run.until_measuring()
        run.until(lambda: run.events("fault"), "the fault")
        struck = time.monotonic()
        assert run.end() == 1
    assert time.monotonic() - struck < 10, "five, and the network is taken down"
    failure = run.result["failure"]
    assert re.search(why, failure)
    assert re.search(r"at leaf1 slot \d+ \(chunk \d+\).* of job lack the contribution of rank 4 on h4", failure)


def test_the_experiment_in_short(tmp_path: Path) -> None:
    """Eight ranks and 256 KiB: the ring takes at least 7/4 of the time, and its hosts send so many times the bytes."""
    spec = yaml.safe_load((Path(__file__).parents[2] / "experiments" / "aggregation.yaml").read_text())
    spec["sweep"] = {"transport.kind": ["roce", "aggregation"]}
    spec["workload"] |= {"size": "256KiB", "iterations": 3}
    spec["expect"] = [
        {
            "metric": "cct_ns.mean",
            "of": {"transport.kind": "aggregation"},
            "to": {"transport.kind": "roce"},
            "at_most": 0.7,
        }
    ]
    with Run(tmp_path, **{**dict.fromkeys(runs.SMALL), **spec}) as run:
        assert run.end() in (0, 4), run.stderr
    ring, sums = (runs.result_in(run.directory / f"{number:03d}-repeat0") for number in (0, 1))
    assert (ring["transport"], sums["transport"]) == ("roce", "aggregation")
    assert [ring["wrong"], sums["wrong"], runs.balance(ring), runs.balance(sums)] == [0, 0, 0, 0]
    assert sums["cct_ns"]["mean"] < 0.7 * ring["cct_ns"]["mean"]
    # Besides the chunks there are the exponents of floats, in packets of 62 bytes with FCS.
    assert 1.5 < ring["bytes_on_wire"] / sums["bytes_on_wire"] < 1.75


def test_jobs_share_switches(tmp_path: Path) -> None:
    """Two jobs' sums have slots of their own where they meet; a ring goes over the same switches."""

    def job(transport: str, **workload: Any) -> dict[str, Any]:
        return {
            "workers": {"count": 2, "placement": "spread"},
            "transport": {"kind": transport},
            "workload": {"size": "32KiB", "iterations": 3, "warmup": 1, **workload},
        }

    changes = {
        **dict.fromkeys(("workers", "workload", "transport")),
        "topology": LEAF_SPINE,
        "jobs": {"a": job("aggregation", dtype="int32"), "b": job("aggregation"), "c": job("roce")},
    }
    with Run(tmp_path, **{**SUMS, **changes}) as run:
        assert run.end() in (0, 4), run.stderr
    result = run.result
    assert {name: (job["wrong"], runs.balance(job)) for name, job in result["jobs"].items()} == dict.fromkeys(
        "abc", (0, 0)
    )
    assert [job["algorithm"] for job in result["jobs"].values()] == ["in-network", "in-network", "ring"]
    sums = {(row["switch"], row["name"][0]) for row in run.table("switches.csv") if row["kind"] == "slot"}
    assert sums == {("spine0", "a"), ("spine1", "b")}, "the second job has the other spine"


@pytest.mark.parametrize("framing", ["udp", "roce"])
def test_what_links_damage_is_not_added_up(framing: str, tmp_path: Path) -> None:
    """Switches refuse contributions, by their UDP checksum or ICRC; results are thrown away by kernels, or by ranks."""
    changes = {
        "links": [{**LINKS[0], "corrupt": "1%"}],
        "transport": {"framing": framing},
        "workload": {"dtype": "int32", "size": "128KiB"},
    }
    with Run(tmp_path, **runs.merged(SUMS, changes)) as run:
        result = measured(run)
    assert (result["wrong"], runs.balance(result)) == (0, 0)
    assert result["packets"]["dropped_corrupt"] > 0
    refused = [row for row in run.table("switches.csv") if (row["kind"], row["name"]) == ("refused", "job: damaged")]
    assert sum(int(row["packets"]) for row in refused) > 0
