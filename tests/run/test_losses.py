"""Losses made by hand, as the reason of a failed run tells them."""

import re
from pathlib import Path

from testbed.dataplane.forwarding import DROP_REASONS, Traffic
from testbed.fabric.counters import Counted, Pause, SwitchCounters
from testbed.resources import shared_folder
from testbed.results.samples import LinkRow, SwitchRow
from testbed.run.losses import describe_losses, describe_pauses
from tests.plan.specs import planned, star
from tests.results.synthetic import BASE_RTT_NS, a_link, a_plan, a_spec

PLAN = a_plan(a_spec(), dilation=10)
DROPS = "SwitchIngress.routing.drops"


def described(
    *links: LinkRow,
    flows: tuple[SwitchRow, ...] = (),
    before: tuple[SwitchCounters, ...] = (),
    after: tuple[SwitchCounters, ...] = (),
    **elsewhere: int,
) -> str:
    return describe_losses(PLAN, links, flows, before, after, elsewhere)


def native(*counted: Counted, **packets: int) -> SwitchCounters:
    return SwitchCounters("s0", packets, {}, counted)


def test_a_program_s_drops_are_told_with_their_reasons() -> None:
    before = native(Counted("counter", f"{DROPS}[0]", 9, 0), job_dropped_program=5)
    after = native(
        Counted("counter", f"{DROPS}[0]", 9, 0),
        Counted("counter", f"{DROPS}[2]", 2, 0),
        Counted("counter", f"{DROPS}[3]", 410, 0),
        Counted("counter", "SwitchEgress.marked[3]", 7, 0),
        job_dropped_program=417,
        dropped_program=999,
    )
    told = "job packets lost: 412 by switch s0's program (DROP_NO_ROUTE, DROP_TTL)"
    assert described(before=(before,), after=(after,)) == told


def test_what_is_in_sums_is_not_lost() -> None:
    plan = planned(
        **star(2, switches={"kind": "native"}, transport={"kind": "aggregation"}, workload={"size": "64KiB"}),
    )
    before = native(Counted("refused", "job: worker", 1, 0), job_dropped_program=100)
    after = native(
        Counted("refused", "job: worker", 4, 0), Counted("slot", "job[0] completed", 9, 0), job_dropped_program=9
    )
    told = "job packets lost: 3 refused by switch s0 (job: worker)"
    assert describe_losses(plan, (), (), (before,), (after,), {}) == told
    assert describe_losses(plan, (), (), (after,), (after,), {}) == ""


def test_hosts_that_a_program_cannot_reach_are_named() -> None:
    before = SwitchCounters("s0", {}, {"10.0.0.1/32": Traffic(9, 900, 2), "10.0.0.2/32": Traffic(3, 300, 3)})
    routes = {"10.0.0.1/32": Traffic(9, 900, 2), "10.0.0.2/32": Traffic(8, 800, 8), "miss": Traffic(1, 0, 1)}
    after = SwitchCounters("s0", {"job_dropped_program": 6}, routes)
    assert described(before=(before,), after=(after,)) == "job packets lost: 6 by switch s0's program (no way to h1)"


def test_the_names_of_the_reasons_are_those_of_the_shipped_programs() -> None:
    text = Path(shared_folder("p4"), "include", "routing.p4").read_text()
    found = re.findall(r"const bit<32> (DROP_\w+) = (\d+);", text)
    assert {int(number): name for name, number in found} == dict(enumerate((*DROP_REASONS, "DROP_REASONS")))


def test_the_largest_losses_come_first_and_the_rest_is_counted() -> None:
    flows = (SwitchRow("s1", "flow", "10.0.0.2/32", 9, 900, 60), SwitchRow("s1", "flow", "miss", 0, 0, 5))
    links = (
        a_link("s0>h1", job_dropped_queue=30, job_dropped_loss=1000),
        a_link("s0>h0", job_dropped_down=3),
    )
    told = described(*links, flows=flows, after=(native(job_dropped_port=4),))
    assert told == (
        "job packets lost: 60 by switch s1 for h1, to which it knows no way, 30 in the queue of s0>h1, "
        "5 by switch s1 without a matching flow and 2 smaller ones"
    )


def test_what_was_lost_at_a_host_is_told() -> None:
    assert described(**{"h1: UDP receive buffer full": 1234}) == ("packets lost: 1,234 at h1: UDP receive buffer full")


def test_packets_that_are_not_the_job_s_are_told_where_it_lost_none() -> None:
    told = described(a_link("s0>h1", dropped_queue=3), before=(native(),), after=(native(dropped_program=8),))
    assert told == "packets lost: 8 by switch s0's program, 3 in the queue of s0>h1"
    assert (
        described(a_link("s0>h1", dropped_queue=30, job_dropped_queue=1)) == "job packets lost: 1 in the queue of s0>h1"
    )


def test_nothing_lost_is_nothing_to_tell() -> None:
    assert (
        described(a_link("s0>h1"), before=(native(job_dropped_program=3),), after=(native(job_dropped_program=3),))
        == ""
    )


def test_lasting_pauses_are_told_the_oldest_first_in_model_time() -> None:
    rtt_ns = BASE_RTT_NS * 10
    pauses = [Pause(0, 0, rtt_ns, 500), Pause(1, 3, 250_000_000, 1500), Pause(2, 0, 20_000_000_000, 98_304)]
    assert describe_pauses(PLAN, pauses) == (
        "paused by PFC: priority 0 of h1>s0 for 2 s with 98,304 B waiting, "
        "priority 3 of s0>h0 for 0.025 s with 1,500 B waiting"
    )
    assert describe_pauses(PLAN, pauses[:1]) == ""
