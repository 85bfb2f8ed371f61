"""Where packets went that did not arrive, in words: for the reason of a run that failed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from testbed.dataplane.forwarding import DROP_REASONS, DROPS
from testbed.fabric.counters import Pause, SwitchCounters
from testbed.plan.model import Plan
from testbed.results.samples import LinkRow, SwitchRow
from testbed.routing.model import MISS

_NAMED = 3
_NS = 1e9
_HOST_PREFIX = "/32"
_BY_SWITCHES = {  # how they count it -> what it is
    "dropped_assert": "by switch {0}, whose program failed an assert",
    "dropped_port": "by switch {0}, whose program sent them to a port that it has not",
    "dropped_passes": "by switch {0}, whose program had them come round without end",
    "dropped_punt": "by switch {0}, as its controller did not fetch them in time",
    "punted": "by switch {0} to its controller",
}


def describe_losses(
    plan: Plan,
    links: Iterable[LinkRow],
    flows: Iterable[SwitchRow],
    before: Iterable[SwitchCounters],
    after: Iterable[SwitchCounters],
    elsewhere: Mapping[str, int],
) -> str:
    """The largest losses of the job's packets, else of any (probes are not the job's), or nothing if there are none.

    What the spec has links lose is expected. flows: by how much the drops of Open vSwitch's flows rose. before, after:
    the counters of native switches. elsewhere: place -> packets lost outside all queues.
    """
    links, flows, before, after = list(links), list(flows), list(before), list(after)
    for prefix in ("job_", ""):
        found = [*_in_network(links, prefix), *_by_programs(plan, before, after, prefix)]
        found += [(row.dropped, f"by switch {row.switch} {_for(plan, row.name)}") for row in flows]
        if any(count > 0 for count, _ in found):
            break
    found += [(count, f"at {where}") for where, count in elsewhere.items()]
    largest = sorted((loss for loss in found if loss[0] > 0), key=lambda loss: -loss[0])
    if not largest:
        return ""
    more = f" and {len(largest) - _NAMED} smaller ones" if len(largest) > _NAMED else ""
    whose = "job packets" if prefix else "packets"
    return f"{whose} lost: " + ", ".join(f"{count:,} {where}" for count, where in largest[:_NAMED]) + more


def describe_pauses(plan: Plan, pauses: Iterable[Pause]) -> str:
    """What PFC keeps from being sent, and for how long in model time; of what is older than a round trip."""
    old_ns = plan.prediction.base_rtt_ns * plan.dilation
    old = sorted((pause for pause in pauses if pause.for_ns > old_ns), key=lambda pause: -pause.for_ns)
    if not old:
        return ""
    more = f" and {len(old) - _NAMED} more" if len(old) > _NAMED else ""
    return "paused by PFC: " + ", ".join(_pause(plan, pause) for pause in old[:_NAMED]) + more


def _pause(plan: Plan, pause: Pause) -> str:
    link = plan.graph.links[pause.link].name
    since = f"for {pause.for_ns / plan.dilation / _NS:.3g} s"
    return f"priority {pause.priority} of {link} {since} with {pause.waiting_bytes:,} B waiting"


def _in_network(links: Iterable[LinkRow], prefix: str) -> Iterator[tuple[int, str]]:
    for row in links:
        yield getattr(row, f"{prefix}dropped_queue"), f"in the queue of {row.link}"
        yield getattr(row, f"{prefix}dropped_down"), f"on {row.link}, which was down"


def _by_programs(
    plan: Plan, before: Iterable[SwitchCounters], after: Iterable[SwitchCounters], prefix: str
) -> Iterator[tuple[int, str]]:
    earlier = {switch.name: switch for switch in before}
    adding = {name for job in plan.jobs if job.aggregation for name in job.aggregation.switches}
    for switch in after:
        was = earlier.get(switch.name)

        def rose(name: str, now: SwitchCounters = switch, was: SwitchCounters | None = was) -> int:
            return now.packets.get(prefix + name, 0) - (was.packets.get(prefix + name, 0) if was else 0)

        if switch.name in adding:  # most of what its program takes is in sums
            yield from _refused(was, switch)
        else:
            yield rose("dropped_program"), f"by switch {switch.name}'s program{_reasons(plan, was, switch)}"
        for name, what in _BY_SWITCHES.items():
            yield rose(name), what.format(switch.name)


def _refused(before: SwitchCounters | None, after: SwitchCounters) -> Iterator[tuple[int, str]]:
    """Of contributions to sums, by job and reason."""
    earlier = {each.name: each.packets for each in before.counted if each.kind == "refused"} if before else {}
    for each in after.counted:
        if each.kind == "refused":
            yield each.packets - earlier.get(each.name, 0), f"refused by switch {after.name} ({each.name})"


def _reasons(plan: Plan, before: SwitchCounters | None, after: SwitchCounters) -> str:
    """By the counter of `p4/include/routing.p4`, which counts all packets, the most frequent first; and by routes."""
    counts: Counter[str] = Counter()
    for switch, sign in ((before, -1), (after, 1)):
        for each in switch.counted if switch else ():
            array, _, index = each.name.rpartition("[")
            if each.kind == "counter" and array.rpartition(".")[2] == DROPS:
                reason = int(index.rstrip("]"))
                counts[DROP_REASONS[reason] if reason < len(DROP_REASONS) else each.name] += sign * each.packets
    named = [name for name, count in counts.most_common() if count > 0]
    lost = [
        _named(plan, prefix)
        for prefix, route in after.routes.items()
        if prefix != MISS
        and route.dropped > (before.routes[prefix].dropped if before and prefix in before.routes else 0)
    ]
    told = [", ".join(named), f"no way to {', '.join(lost)}" if lost else ""]
    return f" ({'; '.join(filter(None, told))})" if any(told) else ""


def _for(plan: Plan, prefix: str) -> str:
    """What packets of an entry without a port were for."""
    if prefix == MISS:
        return "without a matching flow"
    return f"for {_named(plan, prefix)}, to which it knows no way"


def _named(plan: Plan, prefix: str) -> str:
    """A host by its address, or else the prefix."""
    hosts = {address.ip: host for host, address in plan.addresses.items()}
    return hosts.get(prefix.removesuffix(_HOST_PREFIX), prefix)
