"""Several jobs in a plan: hosts of their own, draws of their own, loads that add up."""

import json
from typing import Any

import pytest

from testbed.plan.outline import run_s
from testbed.plan.placement import PlacementError
from testbed.plan.serial import from_json, to_json
from testbed.stress.draws import stall_ns, timeline
from tests.plan.specs import STOCK, planned, star


def workers(count: int, placement: Any = "packed") -> dict[str, Any]:
    return {"workers": {"count": count, "placement": placement}, "workload": {"size": "256KiB", "algorithm": "ring"}}


def placed(**jobs: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    return {job.name: job.placement for job in planned(jobs=jobs).jobs}


def test_a_job_takes_the_hosts_that_those_before_it_left() -> None:
    assert placed(a=workers(3), b=workers(2), c=workers(4, "spread")) == {
        "a": ("h0", "h1", "h2"),
        "b": ("h3", "h4"),
        "c": ("h5", "h6", "h8", "h10"),  # e0_0 and e0_1 are full
    }


def test_hosts_that_a_job_names_are_its_own_whatever_the_order() -> None:
    assert placed(a=workers(3), b=workers(2, ["h1", "h15"]))["a"] == ("h0", "h2", "h3")
    drawn = placed(a=workers(12, "random"), b=workers(4, ["h0", "h5", "h10", "h15"]))["a"]
    assert set(drawn) == {f"h{i}" for i in range(16)} - {"h0", "h5", "h10", "h15"}


def test_jobs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(PlacementError, match="5 workers, but 4 hosts are left"):
        placed(a=workers(12), b=workers(5))
    with pytest.raises(PlacementError, match="'h3' has a rank already"):
        placed(a=workers(2, ["h3", "h4"]), b=workers(2, ["h9", "h3"]))


def test_ranks_are_numbered_through_and_called_by_their_job() -> None:
    made = planned(jobs={"a": workers(3), "b": workers(2)})
    assert [job.numbers for job in made.jobs] == [range(3), range(3, 5)]
    assert [made.called(number) for number in range(5)] == [
        *("rank a/0", "rank a/1", "rank a/2", "rank b/0", "rank b/1"),
    ]
    assert made.placement == ("h0", "h1", "h2", "h3", "h4")
    assert planned(**star(2)).called(1) == "rank 1"


def test_loads_add_up_and_each_bound_is_that_of_the_job_alone() -> None:
    both = planned(jobs={"a": workers(4), "b": workers(8)})
    alone = [planned(**workers(4)), planned(**workers(8, [f"h{i}" for i in range(4, 12)]))]
    assert [job.prediction for job in both.jobs] == [each.prediction for each in alone]
    sums = [sum(getattr(each.prediction, name) for each in alone) for name in (
        "packets_per_iteration", "packet_hops_per_iteration", "packet_hops_per_s",
    )]  # fmt: skip
    assert sums == [
        both.prediction.packets_per_iteration,
        both.prediction.packet_hops_per_iteration,
        both.prediction.packet_hops_per_s,
    ]
    assert both.prediction.bound_ns == max(each.prediction.bound_ns for each in alone)
    assert both.dilation >= max(each.dilation for each in alone)


def test_the_time_it_takes_is_that_of_the_job_that_ends_last() -> None:
    early, late = workers(2), workers(2) | {"start": "300ms"}
    late["workload"] = late["workload"] | {"iterations": 1, "warmup": 0}
    made = planned(jobs={"early": early, "late": late}, time_dilation=1)
    assert run_s(made) == pytest.approx(0.3 + made.jobs[1].prediction.bound_ns / 1e9)


def test_each_job_draws_for_itself() -> None:
    jobs = {"a": workers(2), "b": workers(2)}
    first, again = (planned(jobs=jobs, seed=7).jobs for _ in range(2))
    assert [job.seed for job in first] == [job.seed for job in again]
    assert len({first[0].seed, first[1].seed, 7}) == 3
    assert planned(**star(2), seed=7).jobs[0].seed == 7
    fault = planned(
        jobs=jobs, faults=[{"kind": "stall", "worker": "a/all", "probability": "50%", "for": "1ms"}]
    ).spec.faults

    def stalls(name: str, seed: int) -> list[int]:
        return [stall_ns(fault, seed, job=name, rank=0, iteration=i, step=None, uncongested_ns=0) for i in range(40)]

    assert set(stalls("a", first[0].seed)) == {0, 1_000_000}
    assert set(stalls("b", first[1].seed)) == {0}, "it is no fault of b's"


def test_a_kill_names_ranks_of_jobs() -> None:
    kills = [{"kind": "kill", "worker": ["b/1", "a/all"], "at": "1ms"}, {"kind": "kill", "worker": "all", "at": "2ms"}]
    made = planned(jobs={"a": workers(2), "b": workers(3)}, faults=kills)
    assert [fault.workers for fault in timeline(made)] == [(0, 1, 3), (0, 1, 2, 3, 4)]


def test_the_fabric_carries_all_cables_as_it_tells_the_jobs_apart() -> None:
    assert set(planned(STOCK, time_dilation=1, **workers(2)).drivers) == {"tc"}
    assert set(planned(STOCK, time_dilation=1, jobs={"a": workers(2)}).drivers) == {"tc"}
    assert set(planned(STOCK, time_dilation=1, jobs={"a": workers(2), "b": workers(2)}).drivers) == {"netcore"}


def test_there_and_back() -> None:
    made = planned(
        jobs={"a": workers(2), "b": workers(3, "random") | {"start": "1500ns", "transport": {"kind": "tcp"}}}
    )
    data = json.loads(json.dumps(to_json(made)))
    assert from_json(data) == made
    assert [(job["name"], job["placement"]) for job in data["jobs"]] == [
        (job.name, list(job.placement)) for job in made.jobs
    ]
