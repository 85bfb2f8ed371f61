"""Several jobs in a spec: each has its own part, and what is wrong in it or between them is told by name."""

from pathlib import Path

import pytest

from testbed.netcore import JOBS as TOLD_APART
from testbed.spec.model import MOST_JOBS, WorkersSpec
from testbed.spec.reader import read_experiment, read_spec

from .examples import JOBS, mistakes

WORK = "workers: {count: 2}, workload: {size: 1KiB}"

CASES = [  # what is changed, to what (§: the place that is told), the key, the message, the suggestion
    ("beside workers", "jobs:", "§workers: {count: 2}\njobs:", "workers", "own: jobs.train.workers", ""),
    ("beside transport", "jobs:", "§transport: {kind: tcp}\njobs:", "transport", "does not go with `jobs`", ""),
    ("beside workload", "jobs:", "§workload: {size: 1KiB}\njobs:", "workload", "own: jobs.train.workload", ""),
    ("a name", "  bulk:", "  §a.b:", "jobs.a.b", "no name for a job", "a-b"),
    ("no ranks", "    workers: {count: 2}\n", "", "jobs.bulk.workers", "a workload needs ranks", ""),
    ("no work", "    workload: {size: 64KiB, iterations: 5}\n", "", "jobs.bulk.workload", "the job's ranks run", ""),
    ("an unknown key", "start: 2ms", "§begin: 2ms", "jobs.bulk.begin", "known here are workers", ""),
    ("a misspelt key", "start: 2ms", "§stat: 2ms", "jobs.bulk.stat", "unknown key", "start"),
    ("a wrong kind", "{kind: roce, mtu", "{kind: §roco, mtu", "jobs.bulk.transport.kind", "no transport", "roce"),
    ("a constant", "mtu: 1024", "§mtuu: 1024", "jobs.bulk.transport.mtuu", "is not a parameter of roce", "mtu"),
    ("a value", "mtu: 1024", "mtu: §1000", "jobs.bulk.transport.mtu", "1000", "1024"),
    ("not built yet", "size: 64KiB, iterations: 5", "kind: §training", "jobs.bulk.workload.kind", "yet", ""),
    ("a size", "size: 64KiB", "size: §3B", "jobs.bulk.workload.size", "whole number of float32", "4B"),
    ("a missing unit", "start: 2ms", "start: §2", "jobs.bulk.start", "", ""),
    ("a host twice", "h1, h5]", "h1, §h0]", "jobs.train.workers.placement.3", "has rank train/0", ""),
    ("an unknown host", "h1, h5]", "h1, §h9]", "jobs.train.workers.placement.3", "is no host of this network", ""),
    ("too many", "count: 2}", "count: §5}", "jobs.bulk.workers.count", "on the 4 hosts that are left", "4"),
    ("no rank", "worker: train/3", "worker: §train/4", "faults.0.worker", "no worker 4 of job train", "train/3"),
    ("no job", "worker: train/3", "worker: §trian/3", "faults.0.worker", "no job is called 'trian'", "train/3"),
    ("a rank of no job", "worker: train/3", "worker: §3", "faults.0.worker", "jobs have ranks of their own", "train/3"),
    ("no such form", "worker: train/3", "worker: §train", "faults.0.worker", "is no rank of a job", ""),
    ("in a list", "[bulk/all, train/0]", "[bulk/all, §train/7]", "faults.1.worker.1", "ranks are 0 to 3", ""),
    ("a metric", "jobs.bulk.wrong", "§jobs.bulk.wrang", "expect.1.metric", "result.json has no", "jobs.bulk.wrong"),
    ("of no job", "jobs.bulk.wrong", "§jobs.bull.wrong", "expect.1.metric", "jobs.train.cct", "jobs.bulk.wrong"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "key", "message", "suggestion"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_mistake_is_told_where_it_is(
    tmp_path: Path, before: str, after: str, key: str, message: str, suggestion: str
) -> None:
    assert before in JOBS
    text = JOBS.replace(before, after, 1)
    (found,) = [error for error in mistakes(tmp_path, text.replace("§", "")) if error.key == key]
    if "§" in text:
        ahead = text[: text.index("§")].split("\n")
        assert (found.line, found.column) == (len(ahead), len(ahead[-1]) + 1)
    assert message in found.message
    assert found.suggestion == suggestion


def test_hosts_that_two_jobs_name_are_refused_by_name(tmp_path: Path) -> None:
    text = JOBS.replace("workers: {count: 2}", "workers: {count: 2, placement: [h2, h4]}")
    (found,) = mistakes(tmp_path, text)
    assert found.key == "jobs.bulk.workers.placement.1"
    assert "'h4' already has rank train/1" in found.message


def test_one_job_must_start_at_zero(tmp_path: Path) -> None:
    jobs = f"  a: {{{WORK}, start: 2ms}}\n  b: {{{WORK}, start: 1ms}}\n"
    (found,) = mistakes(tmp_path, f"name: x\ntopology: {{kind: star, hosts: 4}}\njobs:\n{jobs}")
    assert (found.line, found.key, found.suggestion) == (5, "jobs.b.start", "0s")


def test_no_jobs_and_too_many_are_refused(tmp_path: Path) -> None:
    (none,) = mistakes(tmp_path, "name: x\ntopology: {kind: star, hosts: 4}\njobs: {}\n")
    assert (none.key, none.line) == ("jobs", 3)
    many = "".join(f"  j{number}: {{{WORK}}}\n" for number in range(MOST_JOBS + 1))
    (told,) = mistakes(tmp_path, f"name: x\ntopology: {{kind: star, hosts: 64}}\njobs:\n{many}")
    assert "at most 16 apart" in told.message
    assert MOST_JOBS == TOLD_APART


def test_each_job_is_read_with_its_defaults_and_swept(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(JOBS)
    experiment = read_experiment(path)
    spec = experiment.points[0].spec
    assert list(spec.all_jobs) == ["train", "bulk"]
    assert spec.all_jobs["bulk"].workers == WorkersSpec(count=2)
    assert (spec.all_jobs["bulk"].start_ns, spec.all_jobs["train"].start_ns) == (2_000_000, 0)
    kinds = {tuple(point.values.items()): point.spec.all_jobs for point in experiment.points}
    assert len(kinds) == 4
    for values, jobs in kinds.items():
        assert jobs["bulk"].transport.kind == dict(values)["jobs.bulk.transport.kind"]
        assert jobs["train"].transport.kind == "roce"
        leftovers = jobs["bulk"].transport.parameters
        assert ("mtu" in leftovers) == (jobs["bulk"].transport.kind == "roce")


def test_a_job_is_changed_and_taken_out_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(JOBS[: JOBS.index("faults:")])
    spec = read_spec(path, ["jobs.train.workload.iterations=7", "jobs.bulk="])
    assert list(spec.all_jobs) == ["train"]
    assert spec.all_jobs["train"].workload is not None
    assert spec.all_jobs["train"].workload.iterations == 7


def test_without_jobs_there_is_one_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("name: x\ntopology: {kind: star, hosts: 4}\nworkers: {count: 4}\nworkload: {size: 1KiB}\n")
    spec = read_spec(path)
    (job,) = spec.all_jobs.values()
    assert (list(spec.all_jobs), job.workers, job.workload) == ([""], spec.workers, spec.workload)


def test_files_of_a_job_are_found_beside_the_spec(tmp_path: Path) -> None:
    (tmp_path / "go.py").write_text("")
    path = tmp_path / "spec.yaml"
    path.write_text(
        "name: x\ntopology: {kind: star, hosts: 4}\njobs:\n"
        "  a: {workers: {count: 2}, workload: {kind: command, command: [python3, go.py]}}\n"
    )
    workload = read_spec(path).all_jobs["a"].workload
    assert workload is not None
    assert workload.command == ("python3", str(tmp_path / "go.py"))


def test_faults_strike_by_job_and_rank(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(JOBS)
    slow, kill, everyone = read_experiment(path).points[0].spec.faults
    ranks = [("train", rank) for rank in range(4)] + [("bulk", rank) for rank in range(2)]
    assert [each for each in ranks if slow.strikes(*each)] == [("train", 3)]
    assert [each for each in ranks if kill.strikes(*each)] == [("train", 0), ("bulk", 0), ("bulk", 1)]
    assert all(everyone.strikes(*each) for each in ranks)
