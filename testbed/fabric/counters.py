"""What a fabric counts. Times are those of its clock: real time in emulation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from testbed.dataplane.forwarding import Traffic


@dataclass(frozen=True, slots=True)
class Counts:
    """Wire packets since the start. entered + duplicated = packets + dropped_* + in_flight.

    At a native switch's port also + what the program's egress took (dropped, or recirculated); a trimmed packet is one
    of `packets`. Both are told of by the switch's counters.
    strayed, shortened: of those delivered to a host, what is not addressed to it, and what is but was trimmed.
    """

    entered: int
    packets: int  # delivered
    bytes: int  # delivered, without FCS
    dropped_queue: int
    dropped_loss: int
    dropped_down: int
    corrupted: int
    duplicated: int
    ecn_marked: int  # by this link
    strayed: int
    shortened: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """One directed link. Highest queue, rate and lateness are since the last `mark`; all else since the start."""

    index: int
    all: Counts
    job: Counts
    max_queue_bytes: int
    busy_ns: int  # serialising
    measured_bps: int | None  # of packets really leaving back to back; None: too few
    late_p50_ns: int | None  # how much later than computed a packet was written; None: none was
    late_p99_ns: int | None
    malformed: int  # frames of the source's kernel that could not be read
    write_errors: int  # packets that the target's kernel did not take
    pool_exhausted: int  # copies that were not made for lack of memory
    ring_dropped: int  # frames dropped before the fabric read them: the source TAP's tx_dropped
    paused_ns: int = 0  # by PFC, all priorities together
    pfc_sent: int = 0  # pause and resume frames


class Pause(NamedTuple):
    """A priority of a link that PFC keeps from being served now."""

    link: int
    priority: int
    for_ns: int  # until now without a break, in real time
    waiting_bytes: int


class Counted(NamedTuple):
    """What one counter of a program holds."""

    kind: str  # "entry", "counter", "slot", "sums", "refused", or "unread": a counter with too many elements
    name: str
    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SwitchCounters:
    """A switch that runs a program, since the start: counts as `Fabric.switch_counters` names them; routes by prefix.

    counted: of entries beside the routes (`TABLE:LINE` of their file), of the program's counters (`NAME[INDEX]`;
    `NAME[0..LAST]`: too long to be read), of sums by slot of a job (`JOB[SLOT] WHAT`) or of a whole job (`JOB: WHAT`),
    and what was refused of it.
    """

    name: str
    packets: Mapping[str, int]
    routes: Mapping[str, Traffic]
    counted: tuple[Counted, ...] = ()


@dataclass(frozen=True, slots=True)
class Swapped:
    """A program that took over at a switch, which in the meantime, the blackout, took no packet in (real time).

    kept, reset: the registers of the new program that hold what the old one's did, and those that begin anew.
    """

    switch: str
    blackout_ns: int
    kept: tuple[str, ...]
    reset: tuple[str, ...]


def total(counters: Sequence[LinkCounters]) -> Counts:
    """The sum of all links' counts."""
    return Counts(**{name: sum(getattr(link.all, name) for link in counters) for name in Counts.__dataclass_fields__})
