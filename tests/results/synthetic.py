"""Samples made by hand: two ranks, iterations of known length, counts that balance."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from testbed.plan.model import Address, JobPlan, Plan, Prediction, Switching
from testbed.results.model import Result
from testbed.results.result import make_result
from testbed.results.rundir import RunDirectory
from testbed.results.samples import Evidence, IterationRow, JobEvidence, JobSamples, LinkRow, PacketTotals, Samples
from testbed.spec.model import Spec
from testbed.topology.graph import GraphBuilder, LinkParameters

RANKS = 2
BASE_RTT_NS = 100_000
BALANCED = PacketTotals(sent=1000, received=985, duplicated=5, dropped_queue=12, dropped_loss=6, in_flight=2)


def a_spec(**changes: Any) -> Spec:
    keys = {
        "name": "tour",
        "topology": {"kind": "star", "hosts": RANKS},
        "workers": {"count": RANKS},
        "transport": {"kind": "roce"},
        "workload": {"algorithm": "ring", "size": "1MiB", "iterations": 4, "warmup": 1},
    }
    return Spec.model_validate(keys | changes)


def a_plan(spec: Spec, *, bound_ns: int = 800_000, dilation: int = 10) -> Plan:
    builder = GraphBuilder("star", LinkParameters(rate_bps=10**9))
    switch = builder.switch("s0")
    jobs = spec.all_jobs
    hosts = tuple(builder.host(f"h{i}") for i in range(RANKS * len(jobs)))
    for host in hosts:
        builder.cable(host, switch)
    prediction = Prediction(BASE_RTT_NS, bound_ns, 1000, 2000, 1e6)
    return Plan(
        spec=spec,
        graph=builder.graph(),
        addresses={h: Address(f"10.0.0.{i + 1}", f"02:00:00:00:00:{i:02x}") for i, h in enumerate(hosts)},
        switches={},
        alternates=(),
        jobs=tuple(
            JobPlan(name, job, spec.seed, RANKS * i, hosts[RANKS * i : RANKS * (i + 1)], prediction)
            for i, (name, job) in enumerate(jobs.items())
        ),
        switching=Switching("ovs", "ecmp", {}),
        datapath="user",
        drivers=("netcore",) * len(hosts),
        dilation=dilation,
        prediction=prediction,
    )


def a_row(iteration: int, rank: int, start_ns: int, end_ns: int, **changes: Any) -> IterationRow:
    values = {
        "warmup": False,
        "valid": True,
        "received_bytes": 1 << 20,
        "missing_bytes": 0,
        "wrong": 0,
        "nmse": 0.0,
        "retransmitted": 0,
        "timeouts": 0,
        "cpu_ns": 1000,
    }
    return IterationRow(iteration=iteration, rank=rank, start_ns=start_ns, end_ns=end_ns, **(values | changes))


def iterations(cct_ns: Sequence[int], *, skew_ns: int = 0, job: str = "") -> tuple[IterationRow, ...]:
    """Rank 0 starts first, rank 1 `skew_ns` later and ends last: an iteration takes `cct_ns` and exposes less."""
    rows, now = [a_row(0, rank, -2_000_000, -1_000_000, warmup=True, job=job) for rank in range(RANKS)], 0
    for number, cct in enumerate(cct_ns):
        rows.append(a_row(number, 0, now, now + cct - 10, job=job))
        rows.append(a_row(number, 1, now + skew_ns, now + cct, job=job))
        now += 2 * cct
    return tuple(rows)


def a_link(name: str, **changes: Any) -> LinkRow:
    values: dict[str, Any] = dict.fromkeys(LinkRow.__dataclass_fields__, 0)
    values |= {"driver": "netcore", "rate_bps": 10**9, "queue_bytes": 262_144, "measured_rate_bps": None}
    return LinkRow(**(values | {"link": name, "late_p50_ns": None, "late_p99_ns": None} | changes))


def a_job(name: str = "", cct_ns: Sequence[int] = (1_000_000,), **changes: Any) -> JobSamples:
    values = {
        "evidence": JobEvidence(BASE_RTT_NS),
        "iterations": iterations(cct_ns, skew_ns=1000, job=name),
        "packets": BALANCED,
        "bytes_on_wire": 4_400_000,
        "payload_bytes": 4_194_304,
    }
    return JobSamples(name, **(values | changes))


def a_samples(cct_ns: Sequence[int] = (1_000_000, 1_200_000, 1_100_000, 1_300_000), **changes: Any) -> Samples:
    of_job = {key: changes.pop(key) for key in ("iterations", "packets", "counters", "training") if key in changes}
    if "times" in changes:
        of_job["evidence"] = changes.pop("times")
    values = {
        "status": "ok",
        "failure": "",
        "jobs": (a_job("", cct_ns, **of_job),),
        "links": (a_link("h0>s0", packets=500, job_packets=400), a_link("s0>h1", packets=450, job_packets=400)),
        "switches": (),
        "evidence": Evidence(),
        "wall_s": 3.5,
        "setup_s": 2.0,
        "teardown_s": 0.5,
    }
    return Samples(**(values | changes))


def write_run(path: Path, cct_ns: Sequence[int] = (1_000_000, 1_200_000, 1_100_000, 1_300_000), **changes: Any) -> Path:
    """A run directory as a run leaves it; `changes` as for `a_result`."""
    with RunDirectory.create("tour", path, "abc123", now=datetime(2026, 11, 30)) as run:
        of_result = {"repeat", "point", "run_id", "spec"}
        samples = a_samples(cct_ns, **{key: value for key, value in changes.items() if key not in of_result})
        run.write_spec("name: tour\n")
        run.write_environment({"kernel": "6.1 <slim>"})
        for job in samples.jobs:
            run.add_iterations(job.iterations)
        run.write_links(samples.links)
        run.write_result(a_result(cct_ns, **changes))
    return path


def a_result(cct_ns: Sequence[int] = (1_000_000, 1_200_000, 1_100_000, 1_300_000), **changes: Any) -> Result:
    """`changes` are of the samples (`times`: a job's evidence); `repeat`, `point`, `run_id`, `spec` of the result."""
    spec = changes.pop("spec", None) or a_spec()
    facts = {key: changes.pop(key) for key in ("repeat", "point") if key in changes}
    run_id = changes.pop("run_id", "abc123")
    return make_result(spec, a_samples(cct_ns, **changes), plan=a_plan(spec), run_id=run_id, **facts)
