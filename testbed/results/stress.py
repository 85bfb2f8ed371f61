"""What background flows and an environment came to, for `result.json`."""

from collections.abc import Callable, Sequence
from typing import Any

from testbed.plan.environment import baseline_job, load_of
from testbed.plan.model import Plan
from testbed.plan.predict import algorithm_of
from testbed.results import model, statistics
from testbed.results.samples import FlowRow
from testbed.spec.model import Spec, TrafficSpec
from testbed.stress.arrivals import mean_bytes

Distribute = Callable[[Sequence[int]], model.Distribution]


def traffic_entry(spec: Spec, flows: Sequence[FlowRow], distribute: Distribute) -> model.TrafficEntry | None:
    """Of all flows and of each entry; None where the spec has no `flows`."""
    entries = {number: entry for number, entry in enumerate(spec.traffic) if entry.kind == "flows"}
    if not entries:
        return None
    parts = [
        _entry(number, entry, [row for row in flows if row.entry == number], distribute)
        for number, entry in entries.items()
    ]
    return model.TrafficEntry(**_times(flows, distribute), entries=tuple(parts))


def environment_entry(plan: Plan) -> model.EnvironmentEntry | None:
    """What the plan's environment is; None where it has none."""
    environment = plan.spec.environment
    if environment is None:
        return None
    job = baseline_job(plan.spec)
    assert job.workload is not None
    return model.EnvironmentEntry(
        tail_ratio=environment.tail_ratio,
        by=environment.by,
        events=environment.events,
        severity=environment.severity,
        reached=environment.reached,
        load=load_of(environment, len(plan.placement)),
        algorithm=algorithm_of(job.workload, job.transport),
        transport=job.transport.kind,
    )


def _entry(number: int, entry: TrafficSpec, flows: Sequence[FlowRow], distribute: Distribute) -> model.FlowsEntry:
    return model.FlowsEntry(
        **_times(flows, distribute),
        entry=number,
        sizes=entry.sizes or "",
        scale=entry.scale,
        load=entry.load,
        mean_bytes=mean_bytes(entry),
    )


def _times(flows: Sequence[FlowRow], distribute: Distribute) -> dict[str, Any]:
    """The keys of `FlowTimes`."""
    done = [(row.fct_ns, row.alone_ns) for row in flows if row.fct_ns is not None]
    slow = sorted(fct / alone for fct, alone in done)
    return {
        "begun": len(flows),
        "completed": len(done),
        "bytes": sum(row.size_bytes for row in flows),
        "fct_ns": distribute([fct for fct, _ in done]),
        "slowdown": model.Slowdown(
            mean=statistics.mean(slow), p50=statistics.nearest_rank(slow, 50), p99=statistics.nearest_rank(slow, 99)
        )
        if slow
        else model.Slowdown(),
    }
