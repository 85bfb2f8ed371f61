"""What is odd about a plan though nothing is wrong with it: `testbed plan` tells it, and nothing is refused for it."""

from collections.abc import Iterator, Mapping
from pathlib import PurePath

from testbed.dataplane.programs import Facts
from testbed.plan.failures import failing_sets
from testbed.plan.model import Plan
from testbed.plan.network import longest_queue_bytes
from testbed.plan.timing import BITS_NS
from testbed.spec.model import TransportSpec
from testbed.transport import find
from testbed.units import format_bytes
from testbed.wire.ethernet import ETHERNET_BYTES, UDP_HEADERS_BYTES, WIRE_BYTES

_PAUSE_BYTES = 60 + WIRE_BYTES  # a pause frame is of the least size (IEEE 802.3, clause 31B)


def notes(plan: Plan, programs: Mapping[str, Facts]) -> list[str]:
    """One line each; `programs`: what the plan's switch programs do."""
    parts = _of_programs(plan, programs), _of_queues(plan), _of_pauses(plan, programs), _of_sums(plan)
    return list(dict.fromkeys(note for part in parts for note in part))


def _of_programs(plan: Plan, programs: Mapping[str, Facts]) -> Iterator[str]:
    routing = plan.spec.routing.kind
    for switch in plan.switching.native.values():
        name, facts = PurePath(switch.program).name, programs[switch.program]
        if routing == "spray" and facts.hashes:
            yield f"{name} spreads flows by a hash, though routing is spray"
        if routing == "ecmp" and not facts.hashes:
            yield f"{name} has no salted hash (table `salts`): how it spreads flows is its own affair"
        if switch.scheduler != "strict" and not facts.sets_priority:
            yield f"{name} gives packets no priority: all are in one queue, and the weights do nothing"


def _of_queues(plan: Plan) -> Iterator[str]:
    switches = plan.switching.native.values()
    if any(switch.buffer for switch in switches) and any(link.queue_bytes is not None for link in plan.spec.links):
        yield "where a switch has a buffer, it takes the place of its links' queue"
    for kept in sorted({switch.trim_bytes for switch in switches} - {0}):
        blind = dict.fromkeys(job.spec.transport.kind for job in plan.jobs if not _reads_cut(job.spec.transport, kept))
        if blind:
            yield (
                f"a packet cut to {format_bytes(kept)} fails {' and '.join(blind)}'s check on arrival: it counts as "
                "corrupt, and the transport has to send it again"
            )


def _reads_cut(transport: TransportSpec, kept: int) -> bool:
    """Whether what is left of a packet is read: not if an ICRC covers all of it, while a cut leaves no UDP checksum."""
    framing = find(transport.kind).framing
    return framing.checksum == "udp" and kept >= UDP_HEADERS_BYTES + framing.data_bytes


def _of_pauses(plan: Plan, programs: Mapping[str, Facts]) -> Iterator[str]:
    late, short = {}, {}
    for name, switch in plan.switching.native.items():
        if switch.pfc is None:
            continue
        held = max(longest_queue_bytes(link, plan.switching) for link in plan.graph.links_from(name))
        if switch.pfc.xoff_bytes > held:
            late[name] = held
        # A program that gives none leaves all packets in priority 0.
        priorities = len(switch.pfc.priorities) if programs[switch.program].sets_priority else 1
        needed = priorities * _after_pause_bytes(plan, name)
        if needed > (switch.buffer.headroom_bytes if switch.buffer else 0):
            short[name] = needed
    if late:
        held, name = min((held, name) for name, held in late.items())
        yield (
            f"at {len(late)} switches an xoff is more than a queue comes to (at {name} {format_bytes(held)}): it is "
            "not reached by what waits in one queue"
        )
    if short:
        needed, name = max((needed, name) for name, needed in short.items())
        yield (
            f"{len(short)} switches may drop in spite of their pauses, for a headroom is less than what still arrives "
            f"after them (at {name} up to {format_bytes(needed)} a port, in all paused priorities)"
        )


def _of_sums(plan: Plan) -> Iterator[str]:
    trees = [job.aggregation for job in plan.jobs if job.aggregation]
    out = {(link.source, link.source_port): link for link in plan.graph.links}
    cut = {cable for cables in failing_sets(plan.graph, plan.spec.faults) for cable in cables}
    for tree in trees:
        for name, port in tree.ways.items():
            if out[name, port].cable in cut:
                yield f"sums go by {out[name, port].name}, which a fault cuts: their way does not change, and they wait"


def _after_pause_bytes(plan: Plan, name: str) -> int:
    """The most that arrives of one priority at a port of a switch after its pause is due.

    That is while the frame before it and the pause itself are sent, over both delays, and the frame that is under way.
    """
    most = 0
    for out in plan.graph.links_from(name):
        back, there = out.parameters, plan.graph.reverse(out).parameters
        ahead_bytes = back.mtu_bytes + ETHERNET_BYTES + WIRE_BYTES + _PAUSE_BYTES
        until_ns = ahead_bytes * BITS_NS // back.rate_bps + back.delay_ns + there.delay_ns
        most = max(most, until_ns * there.rate_bps // BITS_NS + there.mtu_bytes + ETHERNET_BYTES + WIRE_BYTES)
    return most
