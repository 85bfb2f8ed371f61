"""Results of several jobs in one network: what each has, what they have together, and how they are read and shown."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from testbed.results import model
from testbed.results.comparison import compare
from testbed.results.expect import judge_expectations
from testbed.results.reading import RunRecord, read_run
from testbed.results.report import make_report
from testbed.results.result import make_result, unfinished
from testbed.results.samples import IterationEvidence, JobEvidence, PacketTotals
from testbed.results.sweepcsv import write_sweep_csv
from testbed.results.table import result_table
from testbed.spec.model import ExpectSpec, Spec

from .synthetic import BALANCED, BASE_RTT_NS, a_job, a_plan, a_result, a_samples, a_spec, write_run

A_NS, B_NS = (1_000_000, 1_200_000, 1_100_000, 1_300_000), (400_000, 600_000)


def two(**changes: Any) -> Spec:
    workload = {"algorithm": "ring", "size": "1MiB", "warmup": 1}
    jobs = {
        "a": {"workers": {"count": 2}, "workload": workload | {"iterations": len(A_NS)}},
        "b": {
            "workers": {"count": 2},
            "transport": {"kind": "tcp"},
            "workload": workload | {"iterations": len(B_NS), "dtype": "int32"},
            "start": "2ms",
        },
    }
    keys = a_spec().model_dump(mode="json", include={"name"}) | {"topology": {"kind": "star", "hosts": 4}}
    return Spec.model_validate({**keys, "jobs": jobs, **changes})


def result(**changes: Any) -> model.Result:
    """`a` and `b` of the same counts; changes of `a_job` by job."""
    jobs = tuple(a_job(name, ns, **changes.get(name, {})) for name, ns in (("a", A_NS), ("b", B_NS)))
    spec = two()
    return make_result(spec, a_samples(jobs=jobs), plan=a_plan(spec), run_id="x")


def written(path: Path, scale: int = 1, **facts: Any) -> RunRecord:
    """A run directory with both jobs, `b` slowed down."""
    spec = two()
    jobs = (a_job("a", A_NS), a_job("b", [ns * scale for ns in B_NS]))
    write_run(path, jobs=jobs)
    (path / "result.json").write_text(
        make_result(spec, a_samples(jobs=jobs), plan=a_plan(spec), run_id="x", **facts).to_json()
    )
    return read_run(path)


def test_each_job_has_the_keys_of_a_run_of_its_own() -> None:
    data = result().to_data()
    alone = a_result(A_NS).to_data()
    assert set(alone) - set(data["jobs"]["a"]) == {
        *("schema", "name", "run_id", "status", "engine", "time_dilation", "wall_s", "setup_s", "teardown_s"),
        *("simulation", "failure", "seed", "repeat", "point", "background", "rtt", "rates", "swaps", "notes"),
        *("pfc", "traffic", "environment"),
    }
    common = set(alone) & set(data["jobs"]["a"])
    assert {key: data["jobs"]["a"][key] for key in common} == {key: alone[key] for key in common}
    b = data["jobs"]["b"]
    assert (b["transport"], b["dtype"], b["cct_ns"]["mean"], b["start_ns"]) == ("tcp", "int32", 500_000, 2_000_000)
    jsonschema.Draft202012Validator(json.loads(model.SCHEMA_FILE.read_text())).validate(data)


def test_jobs_have_sums_together_and_no_times() -> None:
    data = result().to_data()
    assert data["ranks"] == 4
    assert data["packets"]["sent"] == 2 * BALANCED.sent
    assert data["payload_bytes"] == 2 * 4_194_304
    assert (data["wrong"], data["missing_bytes"]) == (0, 0)
    assert data["cct_ns"]["n"] == 0
    assert {data[key] for key in ("transport", "collective", "size_bytes", "bound_ns", "algbw_bps")} == {None}


def test_a_run_of_one_job_has_the_keys_that_it_always_had_in_their_order() -> None:
    assert list(a_result().to_data()) == [
        *("schema", "name", "run_id", "status", "engine", "time_dilation", "verdict", "ranks", "collective"),
        *("algorithm", "transport", "size_bytes", "iterations", "cct_ns", "exposed_ns", "bound_ns", "algbw_bps"),
        *("busbw_bps", "busbw_factor", "wrong", "nmse", "missing_bytes", "packets", "bytes_on_wire", "payload_bytes"),
        *("wall_s", "setup_s", "teardown_s", "simulation", "failure", "seed", "repeat", "point", "dtype", "root"),
        *("timeouts", "incomplete_iterations", "bound_ratio", "summed_in_network", "missing_share", "training"),
        *("counters", "background", "pfc", "traffic", "environment", "rtt", "rates", "swaps", "notes"),
    ]


def test_the_verdict_names_the_job_that_it_is_about() -> None:
    late = JobEvidence(BASE_RTT_NS, iterations=(IterationEvidence(0, 1_000_000, 90_000, 0, "s0>h3"),))
    judged = result(b={"evidence": late, "packets": PacketTotals(sent=10, received=9)})
    assert judged.verdict.value == judged.jobs["b"].verdict.value == "invalid"
    assert judged.jobs["a"].verdict.value == "valid"
    assert {reason.code: reason.where for reason in judged.verdict.reasons} == {
        "late-departures": "s0>h3 (job b)",
        "packet-balance": "job b",
    }
    assert any(reason.text.startswith("job b: +1 packets are unaccounted for") for reason in judged.verdict.reasons)
    assert judged.jobs["b"].verdict.suspect_iterations == (0,)


def test_a_kill_excuses_the_ranks_of_its_job_alone() -> None:
    spec = two(faults=[{"kind": "kill", "worker": "b/1", "at": "1ms"}])
    jobs = [a_job(name, ns) for name, ns in (("a", A_NS), ("b", B_NS))]
    without = [a_job(job.name, iterations=tuple(r for r in job.iterations if r.rank == 0)) for job in jobs]
    killed = make_result(spec, a_samples(jobs=tuple(without)), plan=a_plan(spec), run_id="x")
    assert {name: job.cct_ns.n for name, job in killed.jobs.items()} == {"a": 0, "b": len(B_NS)}
    assert killed.jobs["a"].incomplete_iterations == (0, 1, 2, 3)


def test_a_run_that_failed_at_once_has_its_jobs_all_the_same() -> None:
    failed = make_result(two(), unfinished("failed", "ovsdb did not start"), run_id="x")
    assert {name: (job.ranks, job.cct_ns.n) for name, job in failed.jobs.items()} == {"a": (2, 0), "b": (2, 0)}
    assert failed.packets is None


def test_rows_tell_their_job_and_are_read_back_by_it(tmp_path: Path) -> None:
    record = written(tmp_path / "run")
    assert (tmp_path / "run" / "iterations.csv").read_text().splitlines()[0].endswith(",cpu_ns,job")
    assert set(record.by_job) == {"a", "b"}
    assert [t.cct_ns for t in record.by_job["b"].timings] == list(B_NS)
    alone = read_run(write_run(tmp_path / "alone"))
    assert list(alone.by_job) == [""]
    assert (tmp_path / "alone" / "iterations.csv").read_text().splitlines()[0].endswith(",cpu_ns")


def test_jobs_are_compared_by_their_own_metrics(tmp_path: Path) -> None:
    records = [written(tmp_path / "x"), written(tmp_path / "y", scale=3)]
    (table,) = compare([(record.path, [record]) for record in records]).tables
    lines = {line.metric: line for line in table.lines}
    ratios = {name: lines[name].ratios[0] for name in ("jobs.a.cct_ns.mean", "jobs.b.cct_ns.mean")}
    assert {name: ratio and ratio.value for name, ratio in ratios.items()} == {
        "jobs.a.cct_ns.mean": pytest.approx(1),
        "jobs.b.cct_ns.mean": pytest.approx(3),
    }
    assert "packets.sent" in lines
    assert "cct_ns.mean" not in lines


def test_expectations_of_a_job(tmp_path: Path) -> None:
    records = [
        written(tmp_path / str(scale), scale=scale, point={"jobs.b.start": start}, repeat=repeat)
        for scale, start, repeat in ((1, "0ms", 0), (2, "1ms", 0))
    ]
    of, to = {"jobs.b.start": "1ms"}, {"jobs.b.start": "0ms"}
    judged = judge_expectations(
        [
            ExpectSpec(metric="jobs.b.cct_ns.mean", of=of, to=to, at_least=1.9),
            ExpectSpec(metric="jobs.a.wrong", equals=0),
            ExpectSpec(metric="jobs.a.packets.sent", at_most=1),
        ],
        records,
    )
    assert [each.outcome for each in judged][1:3] == ["holds", "holds"]
    assert judged[0].finding.startswith("it is 2")
    assert judged[-1].outcome == "refuted"


def test_sweep_csv_has_columns_by_job_and_none_where_a_point_lacks_it(tmp_path: Path) -> None:
    records = [written(tmp_path / "000-repeat0"), read_run(write_run(tmp_path / "001-repeat0"))]
    write_sweep_csv(tmp_path / "sweep.csv", records)
    both, alone = csv.DictReader(io.StringIO((tmp_path / "sweep.csv").read_text()))
    assert (both["jobs.b.cct_ns.mean"], both["cct_ns.mean"], both["packets.sent"]) == ("500000", "", "2000")
    assert (alone["jobs.b.cct_ns.mean"], alone["cct_ns.mean"]) == ("", "1150000")
    assert "jobs.b.wall_s" not in both


def test_the_terminal_and_the_report_tell_of_each_job(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    console.print(result_table([result()]))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert (
        text.index("job a") < text.index("1,150.0") < text.index("job b") < text.index("500.0") < text.index("all jobs")
    )
    assert "all jobs: 2,000 sent" in text
    page = make_report([written(tmp_path / "run")]).page
    assert page.index("Job a") < page.index("Job b") < page.index("Packets of job a")
    table = make_report([written(tmp_path / "x"), written(tmp_path / "y")]).page
    assert '<th class="left">job</th>' in table
