"""From counters before and after the measured part to rows and totals, in model units; what does not balance shows."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from testbed.fabric.counters import SwitchCounters
from testbed.fabric.links import LinkCounters
from testbed.fabric.model import interface
from testbed.plan.model import JobPlan, Plan
from testbed.results.samples import IterationRow, LinkRow, PacketTotals, SwitchRow
from testbed.run.channel import Message
from testbed.topology.graph import Graph

_FCS_BYTES = 4
_JOB = "job_"
# Of what a native switch counts: packets that its program made, or a controller put in; and those that the program took
# out of the network, for good or for a controller.
PROGRAM_COPIES = ("duplicated", "injected")
PROGRAM_DROPS = ("dropped_program", "dropped_assert", "dropped_port", "dropped_passes", "dropped_punt", "punted")


@dataclass(frozen=True, slots=True)
class JobCounters:
    """What there was of one job's packets at an instant."""

    links: Mapping[int, LinkCounters]
    programs: tuple[SwitchCounters, ...]


@dataclass(frozen=True, slots=True)
class JobTally:
    """What was counted of one job."""

    packets: PacketTotals
    bytes_on_wire: int
    payload_bytes: int
    counters: Mapping[str, int] = field(default_factory=dict)  # of the ranks, but for what is in the others


@dataclass(slots=True)
class Tally:
    """Everything counted over the measured part of a run."""

    links: tuple[LinkRow, ...] = ()
    switches: tuple[SwitchRow, ...] = ()
    jobs: dict[str, JobTally] = field(default_factory=dict)
    unmodelled_drops: dict[str, int] = field(default_factory=dict)


def peak(so_far: LinkCounters | None, now: LinkCounters) -> LinkCounters:
    """The later counters, with the highest queue and lateness of both, and the last rate that could be measured."""
    if so_far is None:
        return now
    return replace(
        now,
        max_queue_bytes=max(so_far.max_queue_bytes, now.max_queue_bytes),
        measured_rate_bps=now.measured_rate_bps or so_far.measured_rate_bps,
        late_p50_ns=_most(so_far.late_p50_ns, now.late_p50_ns),
        late_p99_ns=_most(so_far.late_p99_ns, now.late_p99_ns),
    )


def link_rows(
    plan: Plan,
    before: Mapping[int, LinkCounters],
    after: Mapping[int, LinkCounters],
    peaks: Mapping[int, LinkCounters],
) -> tuple[LinkRow, ...]:
    """One row a directed link: what it did between two readings, and the peaks of its gauges in between."""
    return tuple(
        _link_row(plan, index, before.get(index, LinkCounters()), after[index], peak(peaks.get(index), after[index]))
        for index in sorted(after)
    )


def _link_row(plan: Plan, index: int, before: LinkCounters, after: LinkCounters, peaks: LinkCounters) -> LinkRow:
    link, dilation = plan.graph.links[index], plan.dilation

    def rise(name: str) -> int:
        return int(getattr(after, name) - getattr(before, name))

    return LinkRow(
        link=link.name,
        driver=plan.drivers[link.cable],
        rate_bps=link.parameters.rate_bps,
        delay_ns=link.parameters.delay_ns,
        queue_bytes=link.parameters.queue_bytes,
        **{name: rise(name) for name in _RISING},
        max_queue_bytes=peaks.max_queue_bytes,
        busy_ns=rise("busy_ns") // dilation,
        measured_rate_bps=None if peaks.measured_rate_bps is None else peaks.measured_rate_bps * dilation,
        late_p50_ns=None if peaks.late_p50_ns is None else peaks.late_p50_ns // dilation,
        late_p99_ns=None if peaks.late_p99_ns is None else peaks.late_p99_ns // dilation,
        paused_ns=rise("paused_ns") // dilation,
    )


def _most(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)


# Of what ranks count: what packet totals, rows or the verdict have.
_TOLD_ELSEWHERE = (
    *("sent_packets", "received_packets", "sent_bytes", "received_bytes", "frame_bytes", "retransmitted_packets"),
    *("timeouts", "corrupt_packets", "malformed_packets", "unsent_packets", "strangers"),
)
_RISING = (
    "packets",
    "bytes",
    "job_packets",
    "job_bytes",
    "dropped_queue",
    "dropped_loss",
    "dropped_down",
    "corrupted",
    "duplicated",
    "ecn_marked",
    "job_dropped_queue",
    "job_dropped_loss",
    "job_dropped_down",
    "job_corrupted",
    "job_duplicated",
    "job_ecn_marked",
    "pfc_sent",
    "job_strayed",
    "job_shortened",
)


def job_tally(
    plan: Plan,
    job: JobPlan,
    before: JobCounters,
    after: JobCounters,
    peaks: Mapping[int, LinkCounters],
    ranks: Mapping[str, int],
    rows: Iterable[IterationRow],
    *,
    at_hosts: bool,
    in_flight: int,
    unreachable: int = 0,
) -> JobTally:
    """What was counted of a job between two readings; `rows` are its iterations', the rest as in `packet_totals`."""
    links = link_rows(plan, before.links, after.links, peaks)
    packets = packet_totals(
        plan,
        job.hosts,
        links,
        ranks,
        at_hosts=at_hosts,
        in_flight=in_flight,
        unreachable=unreachable,
        programs=program_counts(before.programs, after.programs),
    )
    return JobTally(
        packets,
        bytes_on_wire=frames_from_hosts(plan, links, ranks, at_hosts=at_hosts),
        payload_bytes=sum(row.received_bytes for row in rows if not row.warmup),
        counters={name: count for name, count in ranks.items() if name not in _TOLD_ELSEWHERE},
    )


def packet_totals(
    plan: Plan,
    placement: Container[str],
    links: Iterable[LinkRow],
    ranks: Mapping[str, int],
    *,
    at_hosts: bool,
    in_flight: int,
    unreachable: int,
    programs: Mapping[str, int],
) -> PacketTotals:
    """A job's wire packets, whose ranks are on the hosts `placement`; `links` tell of them.

    ranks: how much each counter of the ranks rose, summed. at_hosts: the hosts' own links count instead, what entered
    the network and what was handed over. unreachable: dropped by switches that have no way left, on purpose.
    programs: what native switches' programs did to the job's packets (`program_counts`).
    """
    links = list(links)
    sent, received = ranks.get("sent_packets", 0), ranks.get("received_packets", 0)
    # Malformed ones are what switches trimmed too short to be read; from anywhere else none comes.
    corrupt = ranks.get("corrupt_packets", 0) + ranks.get("malformed_packets", 0)
    astray = sum(strayed(plan, placement, links).values()) if programs else 0
    if at_hosts:
        sent, received = _entered(plan, links), _handed_over(plan, links) - astray
        corrupt = 0  # that is thrown away after it was handed over
    trimmed = min(corrupt, sum(row.job_shortened for row in links))
    return PacketTotals(
        sent=sent,
        received=received,
        duplicated=sum(row.job_duplicated for row in links) + sum(programs.get(name, 0) for name in PROGRAM_COPIES),
        dropped_queue=sum(row.job_dropped_queue for row in links),
        dropped_loss=sum(row.job_dropped_loss + row.job_dropped_down for row in links) + unreachable,
        dropped_corrupt=corrupt - trimmed,
        in_flight=in_flight,
        retransmitted=ranks.get("retransmitted_packets", 0),
        ecn_marked=sum(row.job_ecn_marked for row in links),
        dropped_program=sum(programs.get(name, 0) for name in PROGRAM_DROPS),
        dropped_strayed=astray,
        dropped_trimmed=trimmed,
        trimmed=programs.get("trimmed", 0),
    )


def strayed(plan: Plan, placement: Container[str], links: Iterable[LinkRow]) -> Counter[str]:
    """Host -> the job's packets that came to it in vain: not addressed to it, or none of its ranks runs there."""
    found: Counter[str] = Counter()
    for row in links:
        host = row.link.split(">")[1]
        if host in plan.graph.hosts:
            found[host] += row.job_strayed if host in placement else row.job_packets
    return found


def program_counts(before: Iterable[SwitchCounters], after: Iterable[SwitchCounters]) -> dict[str, int]:
    """What native switches did to the job's packets between two readings, summed, named as by `Fabric`."""
    total: Counter[str] = Counter()
    for counters, sign in ((before, -1), (after, 1)):
        for switch in counters:
            total.update(
                {
                    name.removeprefix(_JOB): sign * count
                    for name, count in switch.packets.items()
                    if name.startswith(_JOB)
                }
            )
    return dict(total)


def native_rows(switches: Iterable[SwitchCounters], links: Mapping[int, LinkCounters], graph: Graph) -> list[SwitchRow]:
    """The rows of native switches: what came in by each port, what each route and each program did and counted."""
    rows = []
    for switch in switches:
        for link in graph.links_from(switch.name):
            inward, outward = links[link.index ^ 1], links[link.index]
            dropped = outward.dropped_queue + outward.dropped_loss + outward.dropped_down
            name = interface(switch.name, link.source_port)
            rows.append(SwitchRow(switch.name, "port", name, inward.packets, inward.bytes, dropped))
        for prefix, route in switch.routes.items():
            rows.append(SwitchRow(switch.name, "flow", prefix, route.packets, route.bytes, route.dropped))
        for name, count in switch.packets.items():
            if not name.startswith(_JOB):
                dropped = count if name.startswith("dropped_") else 0
                rows.append(SwitchRow(switch.name, "program", name, count, 0, dropped))
        rows += [SwitchRow(switch.name, *counted, dropped=0) for counted in switch.counted]
    return rows


def in_order(rows: Iterable[SwitchRow]) -> tuple[SwitchRow, ...]:
    """As `switches.csv` has them."""
    return tuple(sorted(rows, key=lambda row: (row.switch, row.kind, row.name)))


def frames_from_hosts(plan: Plan, links: Iterable[LinkRow], ranks: Mapping[str, int], *, at_hosts: bool) -> int:
    """Bytes of the job's frames, FCS included, that left hosts."""
    if not at_hosts:
        return ranks.get("frame_bytes", 0)
    hosts = set(plan.graph.hosts)
    return sum(row.job_bytes + _FCS_BYTES * row.job_packets for row in links if row.link.split(">")[0] in hosts)


def risen(before: Mapping[int, Message], after: Mapping[int, Message]) -> dict[str, int]:
    """How much each counter rose, summed over the ranks that were there at the end."""
    total: dict[str, int] = {}
    for rank, counters in after.items():
        for name, value in counters["counters"].items():
            earlier = before.get(rank, {}).get("counters", {}).get(name, 0)
            total[name] = total.get(name, 0) + value - earlier
    return total


def _entered(plan: Plan, links: Iterable[LinkRow]) -> int:
    hosts = set(plan.graph.hosts)
    return sum(
        row.job_packets + row.job_dropped_queue + row.job_dropped_loss + row.job_dropped_down - row.job_duplicated
        for row in links
        if row.link.split(">")[0] in hosts
    )


def _handed_over(plan: Plan, links: Iterable[LinkRow]) -> int:
    hosts = set(plan.graph.hosts)
    return sum(row.job_packets for row in links if row.link.split(">")[1] in hosts)
