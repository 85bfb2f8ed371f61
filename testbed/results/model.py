"""`result.json` as data: every key of the contract, in its order, then what was added since.

Keys may be added, so unknown ones are kept when an older Testbed reads a newer result; `schema` says what they mean.
All `_ns` are model time. The JSON Schema beside this module (`result.schema.json`) is generated from it by
`python -m testbed.results.model`.
"""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from testbed.results.samples import Status

SCHEMA_FILE = Path(__file__).with_name("result.schema.json")


class Part(BaseModel):
    """A mapping of the result."""

    model_config = ConfigDict(
        frozen=True, extra="allow", populate_by_name=True, json_schema_serialization_defaults_required=True
    )


class ReasonEntry(Part):
    """Why a run is not valid: `value` against `limit`, the place, the iterations; `text` says it in words."""

    code: str
    level: Literal["suspect", "invalid"]
    value: float
    limit: float
    where: str
    iterations: tuple[int, ...]
    text: str


class VerdictEntry(Part):
    value: Literal["valid", "suspect", "invalid"]
    reasons: tuple[ReasonEntry, ...] = ()
    suspect_iterations: tuple[int, ...] = ()


Bounds = tuple[int, int]


class Intervals(Part):
    """95 % intervals: Student's t for the mean, order statistics for percentiles; null where samples are too few."""

    mean: Bounds | None = None
    p50: Bounds | None = None
    p95: Bounds | None = None
    p99: Bounds | None = None


class Distribution(Part):
    """Over the `n` measured iterations that count; all null where there are none. Percentiles are nearest-rank."""

    n: int = 0
    min: int | None = None
    mean: int | None = None
    stdev: int | None = None
    p50: int | None = None
    p95: int | None = None
    p99: int | None = None
    max: int | None = None
    ci95: Intervals = Intervals()


class Exposed(Part):
    p50: int | None = None


class BusBandwidth(Part):
    ring: int | None = None
    in_network: int | None = None


class BusFactor(Part):
    ring: float | None = None
    in_network: float | None = None


class Packets(Part):
    """Wire packets of a job, or of all jobs, at hosts: sent + duplicated = received + drops + in_flight.

    Each packet is in one of these. dropped_program: what switch programs took out of the network. dropped_strayed: what
    came to a host that no rank runs on or that it is not addressed to, such as a copy for a monitor; with Open vSwitch,
    which does not count the copies that it makes, such are in no count. dropped_trimmed: what switches cut and its
    receiver then could not use; dropped_corrupt is without those. Counts of events beside that: ecn_marked, trimmed.
    """

    sent: int
    received: int
    duplicated: int
    dropped_queue: int
    dropped_loss: int
    dropped_corrupt: int
    in_flight: int
    retransmitted: int
    ecn_marked: int
    dropped_program: int = 0
    dropped_strayed: int = 0
    dropped_trimmed: int = 0
    trimmed: int = 0


class Background(Part):
    """Wire packets of the background traffic: those that reached a host, and those dropped on any link."""

    received: int
    dropped_queue: int
    dropped_loss: int


class Slowdown(Part):
    """Flow completion times over what each flow would take alone on the idle network."""

    mean: float | None = None
    p50: float | None = None
    p99: float | None = None


class FlowTimes(Part):
    """Background flows: how many began and how many were at their targets before the run ended, and how long it took.

    fct_ns, slowdown: of those that were. scale: of their sizes, where the times between flows are scaled with them.
    """

    begun: int
    completed: int
    bytes: int = Field(description="of those that began")
    fct_ns: Distribution
    slowdown: Slowdown


class FlowsEntry(FlowTimes):
    """The same of one entry of the spec's `traffic`. load: null where flows come one `every` time."""

    entry: int
    sizes: str
    scale: float
    load: float | None
    mean_bytes: float = Field(description="of the sizes as scaled, before any was drawn")


class TrafficEntry(FlowTimes):
    """All flows of the spec's traffic, and of each of its entries."""

    entries: tuple[FlowsEntry, ...]


class EnvironmentEntry(Part):
    """The stress that gives a baseline its tail: what was asked for, and what was found (`testbed.plan.environment`).

    reached: the baseline's p99 / p50 in the search, null where the spec gave the severity. load: what the environment
    takes on average of a rank's link (congestion, slow-host) or time (stalls), as a share.
    """

    tail_ratio: float
    by: str
    events: float
    severity: float | None
    reached: float | None
    load: float | None
    algorithm: str = Field(description="of the baseline")
    transport: str = Field(description="of the baseline")


class Training(Part):
    """How well the model does after the last measured iteration, on samples held out; the mean over ranks."""

    accuracy: float | None = None
    loss: float | None = None


class Pauses(Part):
    """Priority flow control on all links: pause and resume frames, and how long priorities were held, all together."""

    frames: int
    paused_ns: int


class Simulation(Part):
    """What a simulation did. At message level an event is an instant at which messages left or came, however many."""

    events: int
    hops: int
    virtual_ns: int
    fidelity: Literal["packet", "message"] = "packet"


class RttEntry(Part):
    source: str
    target: str
    measured_ns: int
    modelled_ns: int


class RateEntry(Part):
    source: str
    target: str
    packets: int
    measured_bps: int
    expected_bps: int


class SwapEntry(Part):
    """A program that took another's place at a switch; in `blackout_ns` that took no packet in."""

    at_ns: int
    switch: str
    program: str
    blackout_ns: int
    kept: tuple[str, ...] = Field(description="registers that hold what the old program's did")
    reset: tuple[str, ...] = Field(description="registers that began anew")


class RunKeys(Part):
    """What run it is, and how it ended."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: str
    run_id: str
    status: Status
    engine: str
    time_dilation: int | None


class Judged(Part):
    verdict: VerdictEntry


class Measured(Part):
    """What ran, how long it took, and what it moved."""

    ranks: int | None
    collective: str | None
    algorithm: str | None
    transport: str | None
    size_bytes: int | None
    iterations: int | None
    cct_ns: Distribution
    exposed_ns: Exposed
    bound_ns: int | None
    algbw_bps: int | None
    busbw_bps: BusBandwidth
    busbw_factor: BusFactor
    wrong: int | None
    nmse: float | None
    missing_bytes: int | None
    packets: Packets | None = Field(
        description="null where nothing was counted: the run did not end as planned, or had no packets"
    )
    bytes_on_wire: int | None
    payload_bytes: int | None


class Spent(Part):
    """Real time, and what a simulation did in it."""

    wall_s: float
    setup_s: float
    teardown_s: float
    simulation: Simulation | None = None


class Origin(Part):
    """Why it failed, and which run of its experiment it is."""

    failure: str = ""
    seed: int = 0
    repeat: int = 0
    point: dict[str, Any] = Field(default_factory=dict, description="the swept keys and this run's values")


class Details(Part):
    dtype: str | None = None
    root: int | None = None
    timeouts: int | None = None
    incomplete_iterations: tuple[int, ...] = Field(default=(), description="not of every rank: in no statistic of time")
    bound_ratio: float | None = Field(default=None, description="mean CCT over bound_ns")
    summed_in_network: float | None = Field(
        default=None, description="share of chunks that a best-effort job's switch added up whole, warm-up included"
    )
    missing_share: float | None = Field(default=None, description="missing bytes over all that were to be received")
    training: Training = Training()
    counters: dict[str, int] = Field(
        default_factory=dict, description="what endpoints counted by their own names, summed over ranks"
    )


class JobResult(Details, Measured, Judged):
    """One of several jobs; `start_ns`: when its first measured iteration was released."""

    start_ns: int


class Result(Details, Origin, Spent, Measured, Judged, RunKeys):  # keys come in the order of the bases, last first
    """One run. `status` says whether it ended as planned, `failure` why not, `verdict` whether to believe it.

    With several jobs the keys of each are in `jobs`, and here are only sums over all of them: ranks, wrong,
    missing_bytes, packets, bytes_on_wire, payload_bytes, timeouts; the other keys of a job are null or empty.
    """

    background: Background | None = None
    pfc: Pauses | None = None
    traffic: TrafficEntry | None = Field(
        default=None, description="null without `flows` in the spec's traffic, and where the run did not end as planned"
    )
    environment: EnvironmentEntry | None = None
    rtt: tuple[RttEntry, ...] = ()
    rates: tuple[RateEntry, ...] = ()
    swaps: tuple[SwapEntry, ...] = ()
    notes: tuple[str, ...] = ()
    jobs: dict[str, JobResult] = Field(default_factory=dict, description="where the spec has `jobs`; else left out")

    def to_data(self) -> dict[str, Any]:
        """As plain data, with the contract's keys."""
        data = self.model_dump(mode="json", by_alias=True)
        if not self.jobs:
            del data["jobs"]
        return data

    def to_json(self) -> str:
        return json.dumps(self.to_data(), indent=1) + "\n"

    def by_job(self) -> "dict[str, Result]":
        """Each job's result as if it had been alone, by name; without `jobs` itself, by no name."""
        if not self.jobs:
            return {"": self}
        keys = JobResult.model_fields.keys() & Result.model_fields.keys()
        return {
            name: self.model_copy(update={key: getattr(job, key) for key in keys} | {"jobs": {}})
            for name, job in self.jobs.items()
        }


def schema_text() -> str:
    """The JSON Schema of `result.json`; keys that this version writes are all required, but for `jobs`."""
    schema = Result.model_json_schema(by_alias=True, mode="serialization")
    schema["required"].remove("jobs")
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=1) + "\n"


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text())
