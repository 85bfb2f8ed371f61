"""The spec after reading: frozen, in plain units (nanoseconds, bytes, bits per second, probabilities as fractions).

Field names carry the unit; the YAML key is the field's alias, without it. Reading, positions and suggestions live in
`testbed.spec.reader`; the checks that need the graph (unknown hosts, more workers than hosts) in `testbed.spec.checks`.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from testbed.units import parse_bytes, parse_duration, parse_fraction, parse_rate

Nanoseconds = Annotated[int, BeforeValidator(parse_duration)]
Bytes = Annotated[int, BeforeValidator(parse_bytes)]
BitsPerSecond = Annotated[int, BeforeValidator(parse_rate)]
Fraction = Annotated[float, BeforeValidator(parse_fraction)]


class Section(BaseModel):
    """A mapping of the spec: unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, validate_default=True)


class TopologySpec(Section):
    """`kind` names a builder of `testbed.topology`; the other keys are its parameters (checked by the builder)."""

    model_config = ConfigDict(frozen=True, extra="allow")
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
    burst: float = 1.0


class LinkSpec(Section):
    """One entry of `links`: what it selects and the keys it sets (None: not set here)."""

    name: str | None = None
    select: str | tuple[str, ...] = "all"
    rate_bps: BitsPerSecond | None = Field(None, alias="rate")
    delay_ns: Nanoseconds | None = Field(None, alias="delay")
    jitter_ns: Nanoseconds | None = Field(None, alias="jitter")
    reorder: bool | None = None
    queue_bytes: Bytes | None = Field(None, alias="queue")
    mtu_bytes: Bytes | None = Field(None, alias="mtu")
    ecn: EcnSpec | None = None
    loss: LossSpec | None = None
    duplicate: Fraction | None = None
    corrupt: Fraction | None = None


class SwitchesSpec(Section):
    kind: Literal["auto", "ovs", "native", "bmv2"] = "ovs"
    controller: str = "ecmp"
    datapath: Literal["auto", "kernel", "user"] = "auto"


class RoutingSpec(Section):
    kind: Literal["ecmp", "spray", "single"] = "ecmp"


class WorkersSpec(Section):
    count: int = Field(ge=1)
    placement: Literal["packed", "spread", "random"] | tuple[str, ...] = "packed"


class TransportSpec(Section):
    """`kind` names a transport; the other keys are its constants (checked against its table in `testbed.transport`)."""

    model_config = ConfigDict(frozen=True, extra="allow")
    kind: str = "roce"
    congestion: str | dict[str, Any] = "none"
    scale: Literal["auto", "none"] = "auto"

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class WorkloadSpec(Section):
    kind: Literal["collective", "command"] = "collective"
    collective: Literal["allreduce", "reduce-scatter", "all-gather", "broadcast", "all-to-all"] = "allreduce"
    algorithm: str | None = None  # None: the collective's first
    size_bytes: Bytes | None = Field(None, alias="size")
    dtype: Literal["float32", "float16", "int32"] = "float32"
    gradients: str = "random"
    root: int = 0
    compute_ns: Nanoseconds = Field(0, alias="compute")
    iterations: int = Field(20, ge=1)
    warmup: int = Field(3, ge=0)
    command: str | tuple[str, ...] | None = None


class TrafficSpec(Section):
    """Background traffic: constant (from, to, rate) or incast (from several, to one, size, every)."""

    kind: Literal["constant", "incast"]
    source: str | tuple[str, ...] = Field(alias="from")
    target: str = Field(alias="to")
    rate_bps: BitsPerSecond | None = Field(None, alias="rate")
    size_bytes: Bytes | None = Field(None, alias="size")
    every_ns: Nanoseconds | None = Field(None, alias="every")
    packet_bytes: Bytes = Field(1024, alias="packet")
    start_ns: Nanoseconds = Field(0, alias="start")
    stop_ns: Nanoseconds | None = Field(None, alias="stop")


class FaultSpec(Section):
    """A fault; which keys go with which kind is checked in `testbed.spec.checks`."""

    kind: Literal["stall", "slow", "kill", "link-down", "link-set"]
    worker: int | tuple[int, ...] | Literal["all"] | None = None
    select: str | tuple[str, ...] | None = None
    at_ns: Nanoseconds | None = Field(None, alias="at")
    for_ns: Nanoseconds | None = Field(None, alias="for")
    probability: Fraction | None = None
    factor: float | None = None
    of: Literal["iteration", "step"] | None = None
    rate_bps: BitsPerSecond | None = Field(None, alias="rate")
    delay_ns: Nanoseconds | None = Field(None, alias="delay")
    jitter_ns: Nanoseconds | None = Field(None, alias="jitter")
    queue_bytes: Bytes | None = Field(None, alias="queue")
    ecn: EcnSpec | None = None
    loss: LossSpec | None = None
    duplicate: Fraction | None = None
    corrupt: Fraction | None = None


class CaptureSpec(Section):
    select: tuple[str, ...]
    snap_bytes: Bytes = Field(65_535, alias="snap")


class LimitsSpec(Section):
    wall_ns: Nanoseconds = Field(600_000_000_000, alias="wall")
    stall_ns: Nanoseconds = Field(30_000_000_000, alias="stall")


class ExpectSpec(Section):
    """`metric` (a path into result.json) of one point, or its ratio to another's, within bounds."""

    metric: str
    of: dict[str, Any] = Field(default_factory=dict)
    to: dict[str, Any] | None = None
    at_most: float | None = None
    at_least: float | None = None
    equals: float | str | None = None


class Spec(Section):
    """One experiment. With `sweep`, a family of them; see `testbed.spec.sweep`."""

    name: str
    engine: Literal["emulation", "simulation"] = "emulation"
    seed: int = 1
    time_dilation: int | Literal["auto"] = "auto"
    topology: TopologySpec
    links: tuple[LinkSpec, ...] = ()
    switches: SwitchesSpec = SwitchesSpec()
    routing: RoutingSpec = RoutingSpec()
    workers: WorkersSpec | None = None
    transport: TransportSpec = TransportSpec()
    workload: WorkloadSpec | None = None
    traffic: tuple[TrafficSpec, ...] = ()
    faults: tuple[FaultSpec, ...] = ()
    capture: CaptureSpec | None = None
    limits: LimitsSpec = LimitsSpec()
    repeat: int = Field(1, ge=1)
    sweep: dict[str, Any] | tuple[dict[str, Any], ...] | None = None
    expect: tuple[ExpectSpec, ...] = ()
