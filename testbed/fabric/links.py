"""What directed links did, whoever carries them: one form for all drivers and engines."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from testbed.fabric.counters import LinkCounters as FabricCounters
from testbed.topology.graph import Graph


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """What one directed link did since it was configured, in real time; `None` where the driver cannot know.

    Job packets are apart where the driver sees them apart (netcore); tc counts all packets as the job's.
    """

    packets: int = 0  # delivered
    bytes: int = 0
    job_packets: int = 0
    job_bytes: int = 0
    dropped_queue: int = 0
    dropped_loss: int = 0
    dropped_down: int = 0
    corrupted: int = 0
    duplicated: int = 0
    ecn_marked: int = 0
    job_dropped_queue: int = 0
    job_dropped_loss: int = 0
    job_dropped_down: int = 0
    job_corrupted: int = 0
    job_duplicated: int = 0
    job_ecn_marked: int = 0
    job_strayed: int = 0  # delivered to a host that they are not addressed to
    job_shortened: int = 0  # delivered to their host, but trimmed
    in_flight: int = 0  # packets queued or on the wire
    job_in_flight: int = 0
    max_queue_bytes: int = 0
    busy_ns: int = 0
    measured_rate_bps: int | None = None
    late_p50_ns: int | None = None
    late_p99_ns: int | None = None
    paused_ns: int = 0  # by PFC
    pfc_sent: int = 0


def unmodelled_drops(graph: Graph, counters: Iterable[FabricCounters]) -> Mapping[str, int]:
    """Packets lost at the fabric's edges, where no link of the plan loses any."""
    return {
        f"{graph.links[each.index].name}: {what}": count
        for each in counters
        for what, count in (
            ("not read in time by the fabric", each.ring_dropped),
            ("unreadable for the fabric", each.malformed),
            ("not taken by the kernel", each.write_errors),
            ("no memory for a copy", each.pool_exhausted),
        )
        if count
    }


def flat(counters: FabricCounters) -> LinkCounters:
    """What a fabric counted of one link."""
    everything, job = counters.all, counters.job
    return LinkCounters(
        packets=everything.packets,
        bytes=everything.bytes,
        job_packets=job.packets,
        job_bytes=job.bytes,
        dropped_queue=everything.dropped_queue,
        dropped_loss=everything.dropped_loss,
        dropped_down=everything.dropped_down,
        corrupted=everything.corrupted,
        duplicated=everything.duplicated,
        ecn_marked=everything.ecn_marked,
        job_dropped_queue=job.dropped_queue,
        job_dropped_loss=job.dropped_loss,
        job_dropped_down=job.dropped_down,
        job_corrupted=job.corrupted,
        job_duplicated=job.duplicated,
        job_ecn_marked=job.ecn_marked,
        job_strayed=job.strayed,
        job_shortened=job.shortened,
        in_flight=everything.in_flight,
        job_in_flight=job.in_flight,
        max_queue_bytes=counters.max_queue_bytes,
        busy_ns=counters.busy_ns,
        measured_rate_bps=counters.measured_bps,
        late_p50_ns=counters.late_p50_ns,
        late_p99_ns=counters.late_p99_ns,
        paused_ns=counters.paused_ns,
        pfc_sent=counters.pfc_sent,
    )
