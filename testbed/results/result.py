"""Samples and plan into `result.json`: what the collective took, what it moved, and whether to believe it.

What counts. Warm-up never does. A measured iteration counts if it has a row of every rank (those that a `kill` of the
spec took excepted); the others are listed in `incomplete_iterations` and left out of every statistic of time. An
iteration that the verdict suspects (`valid` is false in `iterations.csv`) counts: it is for the verdict to say how many
there are, and leaving out the late ones would flatter. Wrong elements and missing bytes are summed over all measured
rows, so that none is ever hidden.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from testbed.plan.model import JobPlan, Plan
from testbed.plan.predict import algorithm_of, buffers, layers
from testbed.results import model, statistics
from testbed.results.samples import Evidence, IterationRow, JobEvidence, JobSamples, LinkRow, Samples, Status, SwitchRow
from testbed.results.stress import environment_entry, traffic_entry
from testbed.results.verdict import JobCase, Verdict, judge
from testbed.spec.model import Spec
from testbed.transport.aggregation import rounds

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Timing:
    """One measured iteration that counts."""

    iteration: int
    cct_ns: int  # first start to last end over ranks
    exposed_ns: int  # last start to last end
    nmse: float | None


def make_result(
    spec: Spec,
    samples: Samples,
    *,
    run_id: str,
    plan: Plan | None = None,
    repeat: int = 0,
    point: Mapping[str, Any] | None = None,
    simulation: model.Simulation | None = None,
) -> model.Result:
    """The result of one run, whatever became of it.

    `plan` is None where the run failed before there was one; `point` holds the swept keys with this run's values.
    """
    counted = samples.status == "ok"
    by_name = {job.name: job for job in samples.jobs}
    planned = {job.name: job for job in plan.jobs} if plan else {}
    parts = {
        name: _job(
            spec,
            name,
            by_name.get(name) or JobSamples(name, JobEvidence(0)),
            planned.get(name),
            samples.switches,
            counted=counted,
        )
        for name in spec.all_jobs
    }
    jobs = {name: job for name, (job, _) in parts.items()}
    verdict = judge([case for _, case in parts.values()], samples.evidence, finished=counted)
    alone = jobs.pop("", None)
    if alone is not None:
        keys = {key: getattr(alone, key) for key in model.JobResult.model_fields.keys() - {"verdict", "start_ns"}}
    else:
        keys = _together([*jobs.values()])
    return model.Result(
        **keys,
        name=spec.name,
        run_id=run_id,
        status=samples.status,
        failure=samples.failure,
        engine=spec.engine,
        time_dilation=plan.dilation if plan else None,
        verdict=_verdict_entry(verdict),
        wall_s=samples.wall_s,
        setup_s=samples.setup_s,
        teardown_s=samples.teardown_s,
        simulation=simulation,
        seed=spec.seed,
        repeat=repeat,
        point=dict(point or {}),
        background=_background(samples.links, plan) if plan else None,
        pfc=_pauses(samples.links) if plan else None,
        traffic=traffic_entry(plan.spec, samples.flows, distribution) if plan and counted else None,
        environment=environment_entry(plan) if plan else None,
        rtt=tuple(model.RttEntry(**asdict(probe)) for job in samples.jobs for probe in job.evidence.rtt),
        rates=tuple(model.RateEntry(**asdict(probe)) for job in samples.jobs for probe in job.evidence.rates),
        swaps=tuple(model.SwapEntry(**asdict(swap)) for swap in samples.swaps),
        notes=samples.evidence.notes,
        jobs=jobs,
    )


def _job(
    spec: Spec,
    name: str,
    samples: JobSamples,
    plan: JobPlan | None,
    switches: Iterable[SwitchRow],
    *,
    counted: bool,
) -> tuple[model.JobResult, JobCase]:
    """One job's result, and what it is judged by."""
    job, packets = spec.all_jobs[name], spec.fidelity == "packet"
    workload = job.workload if job.workload and job.workload.kind == "collective" else None
    ranks = len(plan.placement) if plan else job.workers.count if job.workers else None
    measured = [row for row in samples.iterations if not row.warmup]
    times, left_out = timings(measured, _required_ranks(spec, name, measured, ranks))
    size = workload.size_bytes if workload else None
    if workload and size is None and plan:  # gradients with a size of their own
        size = sum(elements * element_bytes for elements, element_bytes in layers(workload))
    algorithm = algorithm_of(workload, job.transport) if workload else None
    algbw = algorithm_bandwidth_bps(size, [t.cct_ns for t in times])
    factor = bus_factors(workload.collective, algorithm, ranks) if workload and ranks else model.BusFactor()
    case = JobCase(
        samples.evidence,
        samples.packets,
        measured=len(times),
        asked=workload.iterations if workload else 0,
        wrong=sum(row.wrong or 0 for row in measured),
        name=name,
    )
    cct, bound_ns = distribution([t.cct_ns for t in times]), plan.prediction.bound_ns or None if plan else None
    result = model.JobResult(
        verdict=_verdict_entry(judge([case], Evidence(), finished=counted)),
        ranks=ranks,
        collective=workload.collective if workload else None,
        algorithm=algorithm,
        transport=job.transport.kind if workload else None,
        size_bytes=size,
        iterations=workload.iterations if workload else len(times),
        cct_ns=cct,
        exposed_ns=model.Exposed(p50=distribution([t.exposed_ns for t in times]).p50),
        bound_ns=bound_ns,
        algbw_bps=algbw,
        busbw_bps=model.BusBandwidth(ring=_scaled(algbw, factor.ring), in_network=_scaled(algbw, factor.in_network)),
        busbw_factor=factor,
        wrong=case.wrong if workload and any(row.wrong is not None for row in measured) else None,
        nmse=_mean([t.nmse for t in times]) if workload else None,
        missing_bytes=sum(row.missing_bytes for row in measured) if measured else None,
        packets=model.Packets(**asdict(samples.packets)) if counted and packets else None,
        bytes_on_wire=samples.bytes_on_wire if counted and packets else None,
        payload_bytes=samples.payload_bytes if counted else None,
        dtype=workload.dtype if workload else None,
        root=workload.root if workload and workload.collective == "broadcast" else None,
        timeouts=_timeouts(measured),
        incomplete_iterations=left_out,
        bound_ratio=cct.mean / bound_ns if cct.mean and bound_ns else None,
        missing_share=_missing_share(measured),
        training=model.Training(**samples.training),
        counters=dict(sorted(samples.counters.items())),
        summed_in_network=_summed_in_network(plan, switches) if plan and counted else None,
        start_ns=job.start_ns,
    )
    return result, case


def _summed_in_network(job: JobPlan, switches: Iterable[SwitchRow]) -> float | None:
    """Of a job with a server, the share of its chunks, rounds of exponents among them, that its switch added up."""
    tree, workload = job.aggregation, job.spec.workload
    if tree is None or tree.server is None or workload is None or workload.kind != "collective":
        return None
    counter = f"{job.name or 'job'}: completed"  # as `testbed.fabric.sums` names it
    whole = sum(row.packets for row in switches if row.kind == "sums" and row.name == counter)
    floats = workload.dtype != "int32"
    each = [rounds(elements, tree.values, tree.slots, floats=floats) for elements, _ in buffers(workload)]
    return whole / sum(map(sum, each)) / (workload.warmup + workload.iterations)


def _together(jobs: Sequence[model.JobResult]) -> dict[str, Any]:
    """The keys that jobs have together: sums where all have a value; of what is each one's own, nothing.

    Wrong and missing are summed over those that tell, as a command does not.
    """

    def of(key: str) -> int | None:
        values = [getattr(job, key) for job in jobs]
        known = [value for value in values if value is not None]
        return sum(known) if known and (len(known) == len(values) or key in ("wrong", "missing_bytes")) else None

    counts = [job.packets for job in jobs if job.packets]
    packets = {key: sum(getattr(each, key) for each in counts) for key in model.Packets.model_fields}
    own = ("collective", "algorithm", "transport", "size_bytes", "iterations", "bound_ns", "algbw_bps", "nmse")
    summed = ("ranks", "wrong", "missing_bytes", "bytes_on_wire", "payload_bytes", "timeouts")
    return {
        **dict.fromkeys(own),
        "cct_ns": model.Distribution(),
        "exposed_ns": model.Exposed(),
        "busbw_bps": model.BusBandwidth(),
        "busbw_factor": model.BusFactor(),
        "packets": model.Packets(**packets) if len(counts) == len(jobs) else None,
        **{key: of(key) for key in summed},
    }


def unfinished(status: Status, failure: str) -> Samples:
    """Samples of a run that has none (yet). Its result, written first, is what a run leaves that is killed outright."""
    return Samples(status, failure, (), (), (), Evidence(), 0.0, 0.0, 0.0)


def timings(measured: Iterable[IterationRow], required: frozenset[int]) -> tuple[tuple[Timing, ...], tuple[int, ...]]:
    """The iterations that count and the numbers of those that do not (see above), in order."""
    rows: dict[int, list[IterationRow]] = {}
    for row in measured:
        rows.setdefault(row.iteration, []).append(row)
    counted, left_out = [], []
    for iteration, parts in sorted(rows.items()):
        if required <= {p.rank for p in parts}:
            end = max(p.end_ns for p in parts)
            first, last = min(p.start_ns for p in parts), max(p.start_ns for p in parts)
            counted.append(Timing(iteration, end - first, end - last, _mean([p.nmse for p in parts])))
        else:
            left_out.append(iteration)
    return tuple(counted), tuple(left_out)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.mean(known) if known else None


def distribution(samples: Sequence[int]) -> model.Distribution:
    if not samples:
        return model.Distribution()
    ordered = sorted(samples)
    interval, spread = statistics.mean_interval(ordered), statistics.stdev(ordered)
    percentiles = {f"p{p}": statistics.nearest_rank(ordered, p) for p in PERCENTILES}
    bounds = {f"p{p}": statistics.percentile_interval(ordered, p) for p in PERCENTILES}
    return model.Distribution(
        n=len(ordered),
        min=ordered[0],
        mean=round(statistics.mean(ordered)),
        stdev=None if spread is None else round(spread),
        max=ordered[-1],
        ci95=model.Intervals(mean=interval and (round(interval[0]), round(interval[1])), **bounds),
        **percentiles,
    )


def algorithm_bandwidth_bps(size_bytes: int | None, cct_ns: Sequence[int]) -> int | None:
    """8 size / mean CCT (nccl-tests, doc/PERFORMANCE.md)."""
    if not size_bytes or not cct_ns or not any(cct_ns):
        return None
    return round(8e9 * size_bytes / statistics.mean(cct_ns))


def bus_factors(collective: str, algorithm: str | None, ranks: int) -> model.BusFactor:
    """busbw / algbw (nccl-tests, doc/PERFORMANCE.md, summary); `in_network` only where the network reduces."""
    ring = {
        "allreduce": 2 * (ranks - 1) / ranks,
        "reduce-scatter": (ranks - 1) / ranks,
        "all-gather": (ranks - 1) / ranks,
        "all-to-all": (ranks - 1) / ranks,
        "broadcast": 1.0,
    }[collective]
    in_network = (ranks - 1) / (ranks + 1) if (collective, algorithm) == ("allreduce", "in-network") else None
    return model.BusFactor(ring=ring, in_network=in_network)


def _scaled(bps: int | None, factor: float | None) -> int | None:
    return None if bps is None or factor is None else round(bps * factor)


def _required_ranks(spec: Spec, job: str, measured: Sequence[IterationRow], ranks: int | None) -> frozenset[int]:
    everyone = range(ranks) if ranks else {row.rank for row in measured}
    kills = [fault for fault in spec.faults if fault.kind == "kill"]
    return frozenset(rank for rank in everyone if not any(fault.strikes(job, rank) for fault in kills))


def _timeouts(rows: Sequence[IterationRow]) -> int | None:
    """Of all rows; None without any, or where one does not know."""
    known = [row.timeouts for row in rows if row.timeouts is not None]
    return sum(known) if rows and len(known) == len(rows) else None


def _missing_share(rows: Iterable[IterationRow]) -> float | None:
    """Of the bytes that were to be received; None where there were none."""
    totals = [(row.missing_bytes, row.missing_bytes + row.received_bytes) for row in rows]
    missing, total = (sum(each) for each in zip(*totals, strict=True)) if totals else (0, 0)
    return missing / total if total else None


def _pauses(links: Iterable[LinkRow]) -> model.Pauses:
    rows = list(links)
    return model.Pauses(frames=sum(row.pfc_sent for row in rows), paused_ns=sum(row.paused_ns for row in rows))


def _background(links: Iterable[LinkRow], plan: Plan) -> model.Background:
    hosts, rows = set(plan.graph.hosts), list(links)
    return model.Background(
        received=sum(r.packets - r.job_packets for r in rows if r.link.partition(">")[2] in hosts),
        dropped_queue=sum(r.dropped_queue - r.job_dropped_queue for r in rows),
        dropped_loss=sum(r.dropped_loss - r.job_dropped_loss + r.dropped_down - r.job_dropped_down for r in rows),
    )


def _verdict_entry(verdict: Verdict) -> model.VerdictEntry:
    reasons = tuple(
        model.ReasonEntry(
            code=r.code,
            level=r.level,
            value=r.value,
            limit=r.limit,
            where=r.where,
            iterations=r.iterations,
            text=str(r),
        )
        for r in verdict.reasons
    )
    return model.VerdictEntry(value=verdict.value, reasons=reasons, suspect_iterations=verdict.suspect_iterations)
