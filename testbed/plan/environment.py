"""An environment as ordinary faults and traffic: how hard they strike is one number, found by `run.environment`.

OptiReduce (NSDI 2025) is judged in clouds whose AllReduce has a p99 of 1.5 and 3 times its median, which it makes with
background collectives of Gloo's on two of the nodes, tuned until the ratio is there (its public benchmark's recipe).
What makes such tails differs from place to place, so there are three mechanisms here, all our reading of it. Each
strikes a fixed number of times (`events`) and is made harder (`severity`) until the baseline has the ratio, because a
tail grows steadily with how long rare events last, and not with how many there are: beyond one an iteration they are
the median. Both are in units of T0, the alpha-beta bound of one iteration of the baseline, so that they are the same
for every transport and algorithm that is held against it.

- stalls: each rank stalls before each step with probability events / (ranks * the baseline's steps), for severity * T0:
  retransmission timeouts and pauses of virtual machines.
- slow-host: the links of one rank's host, drawn from the seed, are 1 + severity times slower in windows of 4 *
  tail_ratio * T0, which come so often that `events` of the baseline's iterations are slow.
- congestion: TCP flows of severity * T0 at line rate go to ranks' hosts, one each T0 / events on average, from the
  hosts that are no rank's where there are any, else from ranks' own.

They strike in warm-up as well, where transports measure what to expect; flows and windows begin anew at zero, so that
those of the measured part are the same whatever warm-up took.
"""

from collections.abc import Sequence

from testbed.collective import DEFAULTS, algorithms_for
from testbed.plan.model import Switching
from testbed.plan.paths import RankPaths
from testbed.plan.predict import layers, predict, schedule_of
from testbed.spec.model import EnvironmentSpec, FaultSpec, JobSpec, Spec, TrafficSpec, WorkloadSpec
from testbed.streams import derive, share
from testbed.topology.graph import Graph
from testbed.units import Quantity

_RING = "ring"
_SLOW_WAYS = 2  # of a slow host's cable, each a fault of its own
_SLOW_ITERATIONS = 4  # of the baseline, in a window of a slow host
_NS = 10**9


def baseline_job(spec: Spec) -> JobSpec:
    """The job whose tail is measured: the spec's own with another algorithm and transport, and without values."""
    assert spec.environment is not None
    assert spec.workload is not None
    baseline, work = spec.environment.baseline, spec.workload
    usual = _RING if _RING in algorithms_for(work.collective) else DEFAULTS[work.collective]
    keys = {
        "collective": work.collective,
        "algorithm": baseline.algorithm or usual,
        "size": Quantity(sum(elements * element_bytes for elements, element_bytes in layers(work))),
        "dtype": work.dtype,
        "gradients": "none",
        "root": work.root,
        "compute": Quantity(work.compute_ns),
        "iterations": spec.environment.iterations,
    }
    return JobSpec(workers=spec.workers, transport=baseline.transport, workload=WorkloadSpec.model_validate(keys))


def with_environment(spec: Spec, ranks: RankPaths, switching: Switching) -> Spec:
    """`spec` with what its environment adds to faults and traffic; as it is where that is nothing, or not known yet.

    ranks: of the only job.
    """
    environment = spec.environment
    if environment is None or not environment.severity:
        return spec
    job = baseline_job(spec)
    unit_ns = predict(job, ranks, switching).bound_ns
    if environment.by == "congestion":
        return spec.model_copy(update={"traffic": (*spec.traffic, _flows(environment, ranks, unit_ns))})
    if environment.by == "slow-host":
        faults = _slow_host(environment, ranks, unit_ns, spec.seed)
    else:
        schedule = schedule_of(job)
        assert schedule is not None
        faults = (_stalls(environment, len(ranks.placement) * schedule.steps, unit_ns),)
    return spec.model_copy(update={"faults": (*spec.faults, *faults)})


def struck_in_warmup(spec: Spec) -> tuple[tuple[FaultSpec, ...], frozenset[int]]:
    """Of a planned spec the timed faults, and the entries of traffic, that its environment has added, and that go by a
    clock: other faults and traffic begin at zero."""
    environment = spec.environment
    if environment is None or not environment.severity or environment.by == "stalls":
        return (), frozenset()
    if environment.by == "congestion":
        return (), frozenset({len(spec.traffic) - 1})
    return spec.faults[-_SLOW_WAYS:], frozenset()


def load_of(environment: EnvironmentSpec, ranks: int) -> float | None:
    """What an environment takes on average of a rank's link or time, as a share; None: it is not known yet."""
    severity = environment.severity
    if severity is None:
        return None
    if environment.by == "slow-host":
        slow = _SLOW_ITERATIONS * environment.tail_ratio
        return slow / (slow + _fast_iterations(environment)) * severity / (1 + severity) / ranks
    return environment.events * severity / ranks


def _stalls(environment: EnvironmentSpec, turns: int, unit_ns: int) -> FaultSpec:
    return FaultSpec.model_validate(
        {
            "kind": "stall",
            "worker": "all",
            "probability": min(1.0, environment.events / turns),
            "for": _whole((environment.severity or 0) * unit_ns),
            "of": "step",
        }
    )


def _slow_host(environment: EnvironmentSpec, ranks: RankPaths, unit_ns: int, seed: int) -> Sequence[FaultSpec]:
    graph = ranks.graph
    host = ranks.placement[derive(seed, "environment", "slow host") % len(ranks.placement)]
    up = graph.links_from(host)[0]
    window_ns = _SLOW_ITERATIONS * environment.tail_ratio * unit_ns
    period_ns = window_ns + _fast_iterations(environment) * unit_ns
    first_ns = share(seed, "environment", "first window") * (period_ns - window_ns)
    return [
        FaultSpec.model_validate(
            {
                "kind": "link-set",
                "select": link.name,
                "at": _whole(first_ns),
                "for": _whole(window_ns),
                "every": _whole(period_ns),
                "rate": _whole(link.parameters.rate_bps / (1 + (environment.severity or 0))),
            }
        )
        for link in (up, graph.reverse(up))
    ]


def _fast_iterations(environment: EnvironmentSpec) -> float:
    """Of the baseline, between two windows of a slow host."""
    return _SLOW_ITERATIONS * (1 - environment.events) / environment.events


def _flows(environment: EnvironmentSpec, ranks: RankPaths, unit_ns: int) -> TrafficSpec:
    graph, placement = ranks.graph, tuple(dict.fromkeys(ranks.placement))
    others = tuple(host for host in graph.hosts if host not in set(placement))
    sources = others or placement
    rate_bps = min(_towards(graph, host) for host in placement)
    size = _whole((environment.severity or 0) * unit_ns * rate_bps / (8 * _NS))
    return TrafficSpec.model_validate(
        {
            "kind": "flows",
            "from": sources,
            "to": placement,
            "sizes": f"{size}B",
            "every": _whole(len(sources) * unit_ns / environment.events),
        }
    )


def _towards(graph: Graph, host: str) -> int:
    return graph.reverse(graph.links_from(host)[0]).parameters.rate_bps


def _whole(value: float) -> Quantity:
    return Quantity(max(1, round(value)))
