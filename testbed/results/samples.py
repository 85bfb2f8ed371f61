"""What an engine hands over: raw samples in model time, from which results, verdict, table and report are made.

Zero of every `_ns` instant is the release of the first measured iteration; warm-up is negative.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from operator import add
from typing import Literal

Status = Literal["ok", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class IterationRow:
    """One iteration of one rank: the columns of `iterations.csv`, in order."""

    iteration: int  # warm-up iterations count from 0 too, with warmup = True; measured ones start again from 0
    rank: int
    warmup: bool
    valid: bool  # not suspect (`testbed.results.verdict.suspicious`); the same for all ranks of an iteration
    start_ns: int
    end_ns: int
    received_bytes: int
    missing_bytes: int
    wrong: int | None  # None: without numbers there are none to check
    nmse: float | None
    retransmitted: int
    timeouts: int | None  # None: the kernel does not tell
    cpu_ns: int  # real time
    job: str = ""  # a column only where the spec has `jobs`


@dataclass(frozen=True, slots=True)
class GapRow:
    """Bytes that a rank did not get in a measured iteration: the columns of `missing.csv`, in order."""

    iteration: int
    rank: int
    step: int
    source: int  # the rank that they were to come from; -1: the network, which sums up
    first_byte: int  # in what the ranks reduce: all layers end to end, as a codec has them
    end_byte: int  # the one after the last
    job: str = ""  # a column only where the spec has `jobs`


@dataclass(frozen=True, slots=True)
class LinkRow:
    """One directed link over the measured part of the run: the columns of `links.csv`, in order. Job packets apart."""

    link: str  # "source>target"
    driver: str
    rate_bps: int
    delay_ns: int
    queue_bytes: int
    packets: int  # delivered
    bytes: int
    job_packets: int
    job_bytes: int
    dropped_queue: int
    dropped_loss: int
    dropped_down: int
    corrupted: int
    duplicated: int
    ecn_marked: int
    job_dropped_queue: int
    job_dropped_loss: int
    job_dropped_down: int
    job_corrupted: int
    job_duplicated: int
    job_ecn_marked: int
    max_queue_bytes: int
    busy_ns: int  # serialising
    measured_rate_bps: int | None  # of back-to-back departures; None where there were too few
    late_p50_ns: int | None  # departure later than modelled
    late_p99_ns: int | None
    paused_ns: int = 0  # how long PFC kept a priority from being served, all priorities together
    pfc_sent: int = 0  # pause and resume frames
    job_strayed: int = 0  # delivered to a host that they are not addressed to
    job_shortened: int = 0  # delivered to their host, but trimmed by a switch


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """A counter of a switch at the end: the columns of `switches.csv`, in order."""

    switch: str
    # "port", "flow"; of a native switch "program", "entry", "counter", "unread" (too many elements), and of what it
    # adds up "slot", "refused"
    kind: str
    name: str  # interface, the entry's prefix, what became of packets, TABLE:LINE, NAME[INDEX], NAME[0..LAST]
    packets: int
    bytes: int
    dropped: int


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A background flow: the columns of `flows.csv`, in order."""

    entry: int  # of `traffic`
    source: str
    target: str
    number: int  # among those of its source
    start_ns: int
    size_bytes: int
    fct_ns: int | None  # until all was at the target; None: it was not when the run ended
    alone_ns: int  # what it would take on the idle network


@dataclass(frozen=True, slots=True)
class PacketTotals:
    """Wire packets of a job, or of all jobs, counted at hosts and links. They must balance (see `balance`)."""

    sent: int = 0
    received: int = 0
    duplicated: int = 0
    dropped_queue: int = 0
    dropped_loss: int = 0
    dropped_corrupt: int = 0
    in_flight: int = 0
    retransmitted: int = 0
    ecn_marked: int = 0
    dropped_program: int = 0
    dropped_strayed: int = 0
    dropped_trimmed: int = 0
    trimmed: int = 0

    @property
    def balance(self) -> int:
        """sent + duplicated - received - drops - in_flight; 0 if every packet is accounted for."""
        drops = self.dropped_queue + self.dropped_loss + self.dropped_corrupt + self.dropped_program
        drops += self.dropped_strayed + self.dropped_trimmed
        return self.sent + self.duplicated - self.received - drops - self.in_flight

    def __add__(self, other: "PacketTotals") -> "PacketTotals":
        return PacketTotals(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class RateProbe:
    """A message of some packets timed over an idle path at the start of a run."""

    source: str
    target: str
    packets: int
    measured_bps: int
    expected_bps: int


@dataclass(frozen=True, slots=True)
class RttProbe:
    """Round trips on the idle network."""

    source: str
    target: str
    measured_ns: int  # median
    modelled_ns: int


@dataclass(frozen=True, slots=True)
class IterationEvidence:
    """What tells whether one measured iteration can be trusted."""

    iteration: int
    cct_ns: int
    late_p99_ns: int | None  # departures later than asked, p99 over hosts and links
    start_skew_ns: int
    where: str = ""  # of the worst lateness


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """What the verdict on a job's times is judged on."""

    base_rtt_ns: int
    iterations: tuple[IterationEvidence, ...] = ()
    rtt: tuple[RttProbe, ...] = ()  # between its ranks' hosts
    rates: tuple[RateProbe, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the verdict on the run as a whole is judged on."""

    unmodelled_drops: dict[str, int] = field(default_factory=dict)  # where -> packets (socket buffers, tap rings, ...)
    shaping_mismatches: tuple[str, ...] = ()  # read-back differs from what was asked
    lost: tuple[str, ...] = ()  # controller or switch that died while traffic went on
    undilated: tuple[str, ...] = ()  # what could not be slowed down
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SwapSample:
    """A program that took another's place at a switch while packets moved.

    blackout_ns: for how long the switch took no packet in. kept, reset: the registers of the new program that hold what
    the old one's did, and those that began anew.
    """

    at_ns: int  # as asked
    switch: str
    program: str
    blackout_ns: int
    kept: tuple[str, ...]
    reset: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobSamples:
    """One job's raw material. `name` is empty where the spec has no `jobs`.

    counters: what endpoints counted in the measured part, summed over ranks, beside what `packets` holds. training:
    what the model does after the last measured iteration, the mean over ranks; empty where nothing is learnt.
    """

    name: str
    evidence: JobEvidence
    iterations: tuple[IterationRow, ...] = ()
    packets: PacketTotals = PacketTotals()
    bytes_on_wire: int = 0  # frames with FCS leaving hosts
    payload_bytes: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    training: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Samples:
    """One run's raw material. `failure` says why `status` is not ok."""

    status: Status
    failure: str
    jobs: tuple[JobSamples, ...]
    links: tuple[LinkRow, ...]
    switches: tuple[SwitchRow, ...]
    evidence: Evidence
    wall_s: float
    setup_s: float
    teardown_s: float
    swaps: tuple[SwapSample, ...] = ()
    flows: tuple[FlowRow, ...] = ()
