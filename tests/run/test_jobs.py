"""Two jobs in one network: they share what lies between them, and every packet is told to the one that it is of."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli import runs
from tests.cli.runs import Run, balance

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]
NO_JOB: dict[str, Any] = {"workers": None, "workload": None}
LINKS: list[dict[str, str]] = [{"rate": "1Gbps", "delay": "50us", "queue": "4MiB"}]
DILATION = 20
ITERATIONS = 3
CHUNK_BYTES, PAYLOAD_BYTES, HEADER_BYTES = 64 << 10, 1024, 82  # RoCE: 58 of headers, and 24 of FCS, preamble and gap
# A ring of four whose neighbours are apart: in each of its 6 steps 2 chunks cross the dumbbell's middle each way.
ALONE_NS = 6 * 2 * CHUNK_BYTES * (PAYLOAD_BYTES + HEADER_BYTES) // PAYLOAD_BYTES * 8


def dumbbell(tmp_path: Path, *, jobs: dict[str, Any], **changes: Any) -> Run:
    keys: dict[str, Any] = {
        **NO_JOB,
        "topology": {"kind": "dumbbell", "hosts": None, "left": 4, "right": 4},
        "links": LINKS,
        "limits": {"wall": "100s", "stall": "5s"},
        "time_dilation": DILATION,
        "jobs": jobs,
    }
    return Run(tmp_path, **(keys | changes))


def across(*hosts: str, iterations: int = ITERATIONS, **keys: Any) -> dict[str, Any]:
    """A job whose ring goes to and fro."""
    workload = {"size": f"{4 * CHUNK_BYTES}B", "dtype": "int32", "iterations": iterations, "warmup": 1}
    return {"workers": {"count": len(hosts), "placement": list(hosts)}, "workload": workload, **keys}


def measured(run: Run) -> dict[str, Any]:
    """Wait for a run that must succeed; its result, in which all that jobs have adds up."""
    result = runs.measured(run)
    assert set(runs.reasons(result)) <= {"start-skew", "late-departures", "rtt-excess", "rate", "undilated"}
    assert result["cct_ns"]["n"] == 0, "there is none of several jobs"
    for name, job in result["jobs"].items():
        assert (job["wrong"] or 0, job["missing_bytes"], balance(job)) == (0, 0, 0), name
        assert job["verdict"]["value"] in ("valid", "suspect", "invalid")
    assert result["packets"]["sent"] > 0
    for name, count in result["packets"].items():
        assert count == sum(job["packets"][name] for job in result["jobs"].values()), name
    assert result["ranks"] == sum(job["ranks"] for job in result["jobs"].values())
    return result


def test_two_rings_share_the_link_that_both_cross(tmp_path: Path) -> None:
    jobs = {"a": across("h0", "h4", "h1", "h5"), "b": across("h2", "h6", "h3", "h7", iterations=ITERATIONS + 1)}
    with dumbbell(tmp_path, jobs=jobs, switches={"kind": "native"}) as run:
        result = measured(run)
    rows = [row for row in run.table("iterations.csv") if row["warmup"] == "0"]
    last_ns = max(int(row["end_ns"]) for row in rows)
    assert last_ns >= (2 * ITERATIONS + 1) * ALONE_NS, "the middle carries one after the other"
    for name, job in result["jobs"].items():
        assert job["cct_ns"]["n"] == job["iterations"] == jobs[name]["workload"]["iterations"]
        assert job["cct_ns"]["p50"] > 1.5 * ALONE_NS, "half of the link's rate is left to each, but for the pauses"
        assert job["bound_ns"] < 1.1 * ALONE_NS, "the bound is that of a job alone"
        assert {row["rank"] for row in rows if row["job"] == name} == {"0", "1", "2", "3"}
    middle = {name: count for name, count in run.links("job_packets").items() if name in ("s0>s1", "s1>s0")}
    assert min(middle.values()) >= (2 * ITERATIONS + 1) * 6 * 2 * CHUNK_BYTES // PAYLOAD_BYTES
    assert "job a" in run.stdout
    assert "job b" in run.stdout


@pytest.mark.parametrize("switches", [{"kind": "native"}, {"kind": "ovs"}], ids=["native", "ovs"])
def test_what_is_lost_is_told_to_the_job_whose_it_was(switches: dict[str, str], tmp_path: Path) -> None:
    jobs = {
        "roce": across("h0", "h4", iterations=2),
        "tcp": across("h1", "h5", iterations=2, transport={"kind": "tcp"}),
        "near": across("h2", "h3", iterations=2, start="2ms"),
    }
    links = [*LINKS, {"select": "core", "loss": "1%"}]
    with dumbbell(tmp_path, jobs=jobs, switches=switches, links=links) as run:
        result = measured(run)
    lost = {name: job["packets"]["dropped_loss"] for name, job in result["jobs"].items()}
    assert lost["near"] == 0, "it does not cross the link that loses"
    assert min(lost["roce"], lost["tcp"]) > 0
    assert sum(lost.values()) == sum(run.links("job_dropped_loss").values())
    starts = {row["start_ns"] for row in run.table("iterations.csv") if row["job"] == "near" and row["warmup"] == "0"}
    assert min(map(int, starts)) >= 2_000_000


def test_a_rank_of_a_job_is_killed_and_the_other_job_does_not_notice(tmp_path: Path) -> None:
    program = {"kind": "command", "command": ["sleep", "1"]}
    jobs = {"a": across("h0", "h4"), "b": {"workers": {"count": 2, "placement": ["h1", "h5"]}, "workload": program}}
    with dumbbell(tmp_path, jobs=jobs, faults=[{"kind": "kill", "worker": "b/1", "at": "1ms"}]) as run:
        result = measured(run)
    assert [event["where"] for event in run.events("fault")] == [["rank b/1"]]
    assert result["jobs"]["a"]["cct_ns"]["n"] == ITERATIONS
    assert {row["rank"] for row in run.table("iterations.csv") if row["job"] == "b"} == {"0"}


def test_jobs_that_the_network_sums_up_beside_one_that_sums_for_itself(tmp_path: Path) -> None:
    def summed(count: int, **workload: Any) -> dict[str, Any]:
        size = {"size": "16KiB", "iterations": 2, "warmup": 1, **workload}
        return {"workers": {"count": count}, "transport": {"kind": "aggregation"}, "workload": size}

    jobs = {"four": summed(4, dtype="int32"), "two": summed(2), "ring": {**summed(2), "transport": {"kind": "roce"}}}
    switches, star = {"kind": "native", "program": "aggregate"}, {"kind": "star", "hosts": 8}
    with dumbbell(tmp_path, jobs=jobs, switches=switches, topology=star) as run:
        result = measured(run)
    sums = {name: job["packets"]["duplicated"] for name, job in result["jobs"].items()}
    assert sums["ring"] == 0
    assert min(sums["four"], sums["two"]) > 0, "results are copies"
    assert {name: job["algorithm"] for name, job in result["jobs"].items()} == {
        "four": "in-network",
        "two": "in-network",
        "ring": "ring",
    }
