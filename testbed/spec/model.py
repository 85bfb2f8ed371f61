"""The spec after reading: frozen, in plain units (nanoseconds, bytes, bits per second, probabilities as fractions).

Field names carry the unit; the YAML key is the field's alias, without it. Reading, positions and suggestions live in
`testbed.spec.reader`; the checks that need the graph (unknown hosts, more workers than hosts) in `testbed.spec.checks`.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict

from testbed.units import (
    parse_bytes,
    parse_duration,
    parse_fine_duration,
    parse_fraction,
    parse_instant,
    parse_mtu,
    parse_rate,
)

Nanoseconds = Annotated[int, BeforeValidator(parse_duration)]
Picoseconds = Annotated[int, BeforeValidator(parse_fine_duration)]
Instant = Annotated[int, BeforeValidator(parse_instant)]  # nanoseconds; zero: the first measured iteration's release
Bytes = Annotated[int, BeforeValidator(parse_bytes)]
Mtu = Annotated[int, BeforeValidator(parse_mtu)]
BitsPerSecond = Annotated[int, BeforeValidator(parse_rate)]
Fraction = Annotated[float, BeforeValidator(parse_fraction)]
Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Truth = Annotated[bool, Strict()]

MOST_DILATION = 1_000_000
MOST_JOBS = 16  # that a fabric tells apart: `testbed.netcore.JOBS`


class Section(BaseModel):
    """A mapping of the spec: unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


class TopologySpec(Section):
    """`kind` names a builder of `testbed.topology`; the other keys are its parameters (checked by the builder)."""

    model_config = ConfigDict(extra="allow")
    kind: str

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class EcnSpec(Section):
    min_bytes: Bytes = Field(alias="min")
    max_bytes: Bytes = Field(alias="max")
    probability: Fraction = 1.0


class LossSpec(Section):
    kind: Literal["bernoulli", "gilbert-elliott"] = "bernoulli"
    mean: Fraction
    burst: Number = 1.0  # packets


def _loss(value: object) -> object:
    return {"mean": value} if isinstance(value, str | int | float) else value


Loss = Annotated[LossSpec, BeforeValidator(_loss)]  # `loss: 0.5%` is Bernoulli's


class LinkSpec(Section):
    """One entry of `links`: what it selects and the keys it sets (None: not set here)."""

    name: str | None = None
    select: str | tuple[str, ...] = "all"
    rate_bps: BitsPerSecond | None = Field(default=None, alias="rate")
    delay_ns: Nanoseconds | None = Field(default=None, alias="delay")
    jitter_ns: Nanoseconds | None = Field(default=None, alias="jitter")
    reorder: Truth | None = None
    queue_bytes: Bytes | None = Field(default=None, alias="queue")
    mtu_bytes: Mtu | None = Field(default=None, alias="mtu")
    ecn: EcnSpec | None = None
    loss: Loss | None = None
    duplicate: Fraction | None = None
    corrupt: Fraction | None = None


PRIORITIES = 8


class BufferSpec(Section):
    """A switch's shared buffer with dynamic thresholds; see `testbed.plan.model.Buffer`."""

    shared_bytes: Bytes = Field(alias="shared")
    alpha: Number = 1.0
    headroom_bytes: Bytes = Field(default=0, alias="headroom")


class PfcSpec(Section):
    """Priority flow control: which priorities (one, or a list), and when to pause and to resume."""

    priorities: Whole | tuple[Whole, ...] = tuple(range(PRIORITIES))
    xoff_bytes: Bytes = Field(alias="xoff")
    xon_bytes: Bytes = Field(alias="xon")


class SchedulerSpec(Section):
    """Weighted: eight weights by priority, or a mapping from some priorities to theirs (the others have 1)."""

    weighted: tuple[Whole, ...] | dict[str, Whole]


class SwitchKeys(Section):
    """What a native switch may be told (None: not set here)."""

    program: str | None = None
    entries: str | None = None
    scheduler: Literal["strict"] | SchedulerSpec | None = None
    buffer: BufferSpec | None = None
    pfc: PfcSpec | None = None
    trim_bytes: Bytes | None = Field(default=None, alias="trim")


class SwitchSelection(Section):
    """Switches by name, wildcard or tier; see `testbed.topology.select`."""

    select: str | tuple[str, ...]


class OverrideSpec(SwitchKeys, SwitchSelection):
    """What the selected switches are told instead."""


class SwitchesKind(Section):
    """Which switches there are."""

    kind: Literal["auto", "ovs", "native", "bmv2"] = "ovs"
    controller: str | None = None  # None: `ecmp`; with kind native none
    datapath: Literal["auto", "kernel", "user"] = "auto"  # Open vSwitch's


class SwitchesSpec(SwitchKeys, SwitchesKind):
    """Which switches there are and, of native ones, what they are told."""

    overrides: tuple[OverrideSpec, ...] = ()


class RoutingSpec(Section):
    kind: Literal["ecmp", "spray", "single"] = "ecmp"


class WorkersSpec(Section):
    count: Whole = Field(ge=1)
    placement: Literal["packed", "spread", "random"] | tuple[str, ...] = "packed"


class TransportSpec(Section):
    """`kind` names a transport; the other keys are its constants (checked against its table in `testbed.transport`)."""

    model_config = ConfigDict(extra="allow")
    kind: str = "roce"
    congestion: str | dict[str, Any] = "none"
    scale: Literal["auto", "none"] = "auto"

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


COLLECTIVE_KEYS = ("collective", "algorithm", "codec", "size", "dtype", "gradients", "root", "compute")


class WorkloadSpec(Section):
    """A collective, or with kind `command` one's own program, which has none of `COLLECTIVE_KEYS`.

    algorithm, codec: a name, or a mapping with `kind` and parameters (checked against their tables in
    `testbed.collective` and `testbed.codec`).
    """

    kind: Literal["collective", "command"] = "collective"
    collective: Literal["allreduce", "reduce-scatter", "all-gather", "broadcast", "all-to-all"] = "allreduce"
    algorithm: str | dict[str, Any] | None = None  # None: the collective's first
    codec: str | dict[str, Any] = "none"
    size_bytes: Bytes | None = Field(default=None, alias="size")
    dtype: Literal["float32", "float16", "int32"] = "float32"
    gradients: str = "random"
    root: Whole = 0
    compute_ns: Nanoseconds = Field(default=0, alias="compute")
    iterations: Whole = Field(default=20, ge=1)
    warmup: Whole = Field(default=3, ge=0)
    command: str | tuple[str, ...] | None = None

    @property
    def algorithm_name(self) -> str | None:
        """What `algorithm` names."""
        return str(self.algorithm.get("kind")) if isinstance(self.algorithm, dict) else self.algorithm

    @property
    def algorithm_parameters(self) -> dict[str, Any]:
        """What `algorithm` is told besides."""
        given = self.algorithm if isinstance(self.algorithm, dict) else {}
        return {key: value for key, value in given.items() if key != "kind"}

    @property
    def coded_by(self) -> str | dict[str, Any] | None:
        """`codec`, unless gradients move as they are."""
        name = self.codec.get("kind") if isinstance(self.codec, dict) else self.codec
        return None if name == "none" else self.codec

    @property
    def numeric(self) -> bool:
        """The bytes that move are numbers which are added up and checked; without, only their count matters."""
        return self.gradients != "none"


EVERYBODY = "all"  # all hosts


class TrafficSpec(Section):
    """Background traffic: constant (from, to, rate), incast (from several, to one, size, every) or flows over TCP.

    Flows come as a Poisson process from each source, at a `load` or one `every` time on average; which keys go with
    which kind is in `testbed.spec.traffic_checks`.
    """

    kind: Literal["constant", "incast", "flows"]
    source: str | tuple[str, ...] = Field(default=EVERYBODY, alias="from")
    target: str | tuple[str, ...] = Field(default=EVERYBODY, alias="to")
    rate_bps: BitsPerSecond | None = Field(default=None, alias="rate")
    size_bytes: Bytes | None = Field(default=None, alias="size")
    every_ns: Nanoseconds | None = Field(default=None, alias="every")
    packet_bytes: Bytes = Field(default=1024, alias="packet")
    sizes: str | None = None  # a distribution of `testbed.stress.sizes`, a file of one, or a size
    scale: Number = 1.0  # of sizes; at a load the time between flows grows with them
    load: Fraction | None = None
    of: str | tuple[str, ...] | None = None  # the links that `load` is a share of; None: each source's own
    start_ns: Instant = Field(default=0, alias="start")
    stop_ns: Instant | None = Field(default=None, alias="stop")

    @property
    def sources(self) -> tuple[str, ...]:
        """What `from` names, one by one."""
        return (self.source,) if isinstance(self.source, str) else self.source

    @property
    def targets(self) -> tuple[str, ...]:
        """What `to` names, one by one."""
        return (self.target,) if isinstance(self.target, str) else self.target


class JobSpec(Section):
    """One of several jobs: ranks on hosts of their own, what they run, over what, and when it begins.

    start: when the job's first measured iteration is released; zero is one instant for all jobs.
    """

    workers: WorkersSpec | None = None
    transport: TransportSpec = TransportSpec()
    workload: WorkloadSpec | None = None
    start_ns: Nanoseconds = Field(default=0, alias="start")


Worker = Whole | str  # a rank, `JOB/RANK`, `JOB/all` or `all`


class FaultSpec(Section):
    """A fault; which keys go with which kind is in `testbed.spec.network_checks`."""

    kind: Literal["stall", "slow", "kill", "link-down", "link-set", "swap-program", "tail-drop"]
    worker: Worker | tuple[Worker, ...] | None = None
    select: str | tuple[str, ...] | None = None
    at_ns: Instant | None = Field(default=None, alias="at")
    for_ns: Nanoseconds | None = Field(default=None, alias="for")
    every_ns: Nanoseconds | None = Field(default=None, alias="every")  # a link-set that comes again and again
    probability: Fraction | None = None
    factor: Number | None = None
    distribution: Literal["lognormal", "pareto"] | None = None  # of a stall, whose `for` or `factor` is its median
    tail_ratio: Number | None = None  # p99 / p50 of that
    share: Fraction | None = None  # of a message's bytes, that a tail-drop takes
    of: Literal["iteration", "step"] | None = None
    rate_bps: BitsPerSecond | None = Field(default=None, alias="rate")
    delay_ns: Nanoseconds | None = Field(default=None, alias="delay")
    jitter_ns: Nanoseconds | None = Field(default=None, alias="jitter")
    reorder: Truth | None = None
    queue_bytes: Bytes | None = Field(default=None, alias="queue")
    ecn: EcnSpec | None = None
    loss: Loss | None = None
    duplicate: Fraction | None = None
    corrupt: Fraction | None = None
    program: str | None = None
    entries: str | None = None
    registers: Literal["keep", "reset"] | None = None

    @property
    def workers(self) -> tuple[int | str, ...]:
        """What `worker` names, one by one."""
        if self.worker is None:
            return ()
        return self.worker if isinstance(self.worker, tuple) else (self.worker,)

    def strikes(self, job: str, rank: int) -> bool:
        """Whether it befalls a rank of a job (of no name, where the spec has no `jobs`)."""
        names = {"all", f"{job}/{rank}", f"{job}/all"} if job else {"all", rank}
        return not names.isdisjoint(self.workers)


class BaselineSpec(Section):
    """What an environment's tail is measured on, in place of the spec's own algorithm and transport."""

    algorithm: str | None = None  # None: a ring, where the collective has one
    transport: TransportSpec = TransportSpec(kind="tcp")


class EnvironmentSpec(Section):
    """Stress that makes a baseline's p99 CCT `tail_ratio` times its median: `testbed.plan.environment`.

    severity: how hard an event strikes; None: to be found by simulation (`testbed.run.environment`). reached: the ratio
    that was found with it.
    """

    tail_ratio: Number
    by: Literal["congestion", "stalls", "slow-host"] = "congestion"
    events: Number = 0.2  # in an iteration of the baseline, if nothing slows it down
    baseline: BaselineSpec = BaselineSpec()
    iterations: Whole = Field(default=200, ge=100)
    tolerance: Fraction = 0.05
    limit_ns: Nanoseconds = Field(default=600_000_000_000, alias="limit")  # of real time
    severity: Number | None = None
    reached: Number | None = None


class CaptureSpec(Section):
    select: str | tuple[str, ...]
    snap_bytes: Bytes = Field(default=65_535, alias="snap")


class LimitsSpec(Section):
    wall_ns: Nanoseconds = Field(default=600_000_000_000, alias="wall")
    stall_ns: Nanoseconds = Field(default=30_000_000_000, alias="stall")


class HostSpec(Section):
    """What a host's CPU takes in simulation, of which it has one, for each packet that it sends or takes in."""

    per_packet_ns: Nanoseconds = Field(default=0, alias="per_packet")
    per_byte_ps: Picoseconds = Field(default=0, alias="per_byte")  # of its frame


class ExpectSpec(Section):
    """`metric` (a path into result.json) of one point, or its ratio to another's, within bounds."""

    metric: str
    of: dict[str, Any] = Field(default_factory=dict)
    to: dict[str, Any] | None = None
    at_most: Number | None = None
    at_least: Number | None = None
    equals: Number | str | None = None


class Spec(Section):
    """One experiment. With `sweep`, a family of them; see `testbed.spec.sweep`."""

    name: str
    engine: Literal["emulation", "simulation"] = "emulation"
    fidelity: Literal["packet", "message"] = "packet"
    seed: Whole = 1
    time_dilation: Whole | Literal["auto"] = "auto"
    topology: TopologySpec
    links: tuple[LinkSpec, ...] = ()
    switches: SwitchesSpec = SwitchesSpec()
    routing: RoutingSpec = RoutingSpec()
    workers: WorkersSpec | None = None
    transport: TransportSpec = TransportSpec()
    workload: WorkloadSpec | None = None
    jobs: dict[str, JobSpec] | None = None
    traffic: tuple[TrafficSpec, ...] = ()
    faults: tuple[FaultSpec, ...] = ()
    environment: EnvironmentSpec | None = None
    host: HostSpec | None = None
    capture: CaptureSpec | None = None
    limits: LimitsSpec = LimitsSpec()
    repeat: Whole = Field(default=1, ge=1)
    sweep: dict[str, Any] | tuple[dict[str, Any], ...] | None = None
    expect: tuple[ExpectSpec, ...] = ()

    @property
    def all_jobs(self) -> dict[str, JobSpec]:
        """The jobs by name, in order. Without `jobs` there is one with no name, and perhaps without ranks or work."""
        alone = JobSpec(workers=self.workers, transport=self.transport, workload=self.workload)
        return self.jobs or {"": alone}
